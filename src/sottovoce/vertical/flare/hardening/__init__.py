"""What closes FLARE at a site: each door, and the attack that it stops. Tried with the versions that pyproject names.

* Messages beside those of a run, of whoever is in the network, or sent on for somebody (`closed.close_cell`): objects
  rebuilt, other roots to connect to, a party that speaks for the coordinator.
* Settings that FLARE would look for below the folder it is started in (`closed.use_our_settings`): drivers loaded.
* Handshakes that fail (`closed.tell_refused_connections`): an attack that nobody is told of.
* Whatever the coordinator's key has not signed for this run and process (`gate`, `envelope`): a forged, repeated or
  diverted request.

FLARE carries bytes between cells and nothing else. No server, client, job or command of it runs.
"""
