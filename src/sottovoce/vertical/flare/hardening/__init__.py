"""What closes FLARE at a site: each door, and the attack that it stops. Tried with the versions that pyproject names.

* Requests beside those of a run (`guard.guard`): files printed, a site restarted, a logger of one's choice, which is
  code; from whoever is no coordinator, or for a job that is a path (`guard.why_refused`): the folder ``state`` deleted.
* A job that is set up otherwise, or ships files (`guard.why_not_deployed`), and settings that FLARE finds anywhere
  below a kit (`guard.read_settings_of_the_kit_alone`): drivers loaded from a run.
* Diagnostics of FLARE's network (`guard.refuse_diagnostics`): variables and threads read, another root to connect to.
* Handshakes that fail, and a second process of a kit (`guard.tell_refused_connections`, `notice_second_processes`,
  `tell_second_process`): an attack, or a copied kit, that nobody is told of.
* A run's process that outlives its site (`guard.end_with_parent`): it answers on, and nobody stops it.
* FLARE's own rights, job classes and connections (`closed`, written anew at each start): code in a job, a shell, others
  on the machine.
* Whatever the coordinator's key has not signed for this run and process (`gate`, `envelope`): a forged, repeated or
  diverted request.

Beside these, `waits` cuts short how long FLARE sleeps before it looks again; it closes and opens nothing.

Nothing else imports what FLARE calls private, but for the carrier, `sottovoce.vertical.flare.coordinator`.
"""
