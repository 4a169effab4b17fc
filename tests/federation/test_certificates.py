"""Who may connect: sites with certificates of the federation's authority, each as itself; real processes on loopback.

A refusal is logged at the site that refuses, and the owner of a site that is refused is told.
"""

import shutil
import socket
import ssl
from contextlib import contextmanager

import pytest

pytest.importorskip("nvflare", reason="a federation needs the extra [vertical]")

from support.federation import running_federation, until
from support.small_federation import open_sites

UNCHECKED = ["-m", "support.changed_site", "honest"]


@pytest.fixture(scope="module")
def federations():
    """Two federations of the same names at the same place, each with an authority of its own."""
    with (
        running_federation(open_sites(), start=False) as ours,
        running_federation(open_sites(), start=False, port=ours.port) as theirs,
    ):
        yield ours, theirs


@contextmanager
def running(federation, name, *, key=None, root=None):
    """Run a site, with the key of another kit, or another authority to trust."""
    kit = federation.kit(name)
    kept = shutil.copytree(kit / "startup", kit.with_name(f"{name}.kept"))
    for ending in (".crt", ".key") if key is not None else ():
        shutil.copyfile(next(key.glob(f"startup/*{ending}")), next(kit.glob(f"startup/*{ending}")))
    if root is not None:
        shutil.copyfile(root / "startup" / "rootCA.pem", kit / "startup" / "rootCA.pem")
    federation.start(name, program=UNCHECKED, wait=name == "lab")
    try:
        yield
    finally:
        federation.stop(name)
        shutil.rmtree(kit / "startup")
        kept.rename(kit / "startup")


def wait_for(said, text):
    until(lambda: text in said(), what=f"{text!r} in {said()[-2000:]}")


def test_nobody_is_let_in_with_another_certificate_or_none(federations):
    ours, theirs = federations
    with running(ours, "lab"):
        startup = theirs.kit("north") / "startup"
        for shown, wrapped, logged in (
            (False, True, "PEER_DID_NOT_RETURN_A_CERTIFICATE"), (False, False, "HTTP_REQUEST"),
            (True, True, "CERTIFICATE_VERIFY_FAILED"),
        ):  # fmt: skip
            context = ssl.create_default_context(cafile=ours.coordinator / "startup" / "rootCA.pem")
            if shown:
                context.load_cert_chain(startup / "client.crt", startup / "client.key")
            plain = socket.create_connection(("localhost", ours.port), timeout=60)
            with context.wrap_socket(plain, server_hostname="localhost") if wrapped else plain as line:
                try:
                    line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    assert line.recv(100) == b""
                except OSError:
                    pass
            wait_for(lambda: ours.log("lab"), logged)
        with running(ours, "north", key=ours.kit("bank")):
            wait_for(lambda: ours.log("lab"), "authenticated as 'bank' but claimed endpoint 'north'")
        assert "connected to lab" not in ours.output("north")
        ours.start("north", wait=False)  # as itself
        wait_for(lambda: ours.output("north"), "connected to lab")


def test_a_party_refuses_what_is_not_its_coordinator(federations):
    """Another authority's coordinator, and a party of the federation in the coordinator's place."""
    ours, theirs = federations
    with running(ours, "bank"):
        wait_for(lambda: ours.output("bank"), "not connected yet: nobody answers")
        with running(theirs, "lab"):
            wait_for(lambda: ours.output("bank"), "the authority of federation trial has not signed")
        with running(ours, "lab", key=ours.kit("north")):
            wait_for(lambda: ours.log("bank"), "authenticated as 'north' but claimed endpoint 'server'")
            wait_for(lambda: ours.output("bank"), "shows the certificate of 'north', not the coordinator's")
        assert "connected to lab" not in ours.output("bank")
