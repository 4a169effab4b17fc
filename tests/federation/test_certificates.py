"""Who may connect: sites with certificates of the federation's authority, each as itself; real processes on loopback.

A refusal is logged at the site that refuses, and the owner of a site that is refused is told.
"""

import shutil
import socket
import ssl
import subprocess
import sys
from contextlib import contextmanager

import pytest

from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.processes import why_not_connected
from sottovoce.vertical.flare.provisioning import provision
from support.ports import free_ports
from support.waiting import until

pytest.importorskip("nvflare", reason="a federation needs the extra [vertical]")
pytestmark = pytest.mark.federation

PROGRAM = (  # who attacks does not look at its own certificates before
    "import sys; from sottovoce.vertical.flare.kit import Kit; from sottovoce.vertical.flare.processes import run_site;"
    "Kit._check_certificates = lambda kit: None;"
    "sys.exit(run_site(Kit.open(sys.argv[1]), say=lambda line: print(line, flush=True)))"
)
FEDERATION = """
name = "trial"
[coordinator]
name = "insurer"
host = "localhost"
port = {port}
[[party]]
name = "north"
[[party]]
name = "bank"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_kits(tmp_path_factory.mktemp("federations"))


def make_kits(folder):
    """Make the kits of one federation, and of another with the same names at the same place."""
    (port,) = free_ports(1)
    (folder / "federation.toml").write_text(FEDERATION.format(port=port), encoding="utf-8")
    for name in ("ours", "theirs"):
        provision(folder / "federation.toml", folder / name)
    return folder


@contextmanager
def running(kit, wait=""):
    """Run a site, and wait until it has said something."""
    out = said(kit)
    with out.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, kit], stdin=subprocess.DEVNULL, stdout=file)
        try:
            wait_for(out, wait, process)
            yield process
        finally:
            process.terminate()
            process.wait(30)


def said(kit):
    return kit.with_name(f"{kit.name}.out")


def wait_for(path, text, process=None):
    def said():
        assert process is None or process.poll() is None, f"it ended:\n{path.read_text()}"
        return path.exists() and text in path.read_text()

    until(said, what=f"{text!r} in {path}")


def changed(folder, kit, by, certificate, name):
    """Return a copy of a site's kit with another certificate."""
    copy = shutil.copytree(folder / kit, folder / name)
    for ending in (".crt", ".key"):
        shutil.copyfile(folder / by / f"startup/{certificate}{ending}", next(copy.glob(f"startup/*{ending}")))
    return copy


@pytest.fixture(scope="module")
def coordinator(folder):
    with running(folder / "ours" / "insurer", "listening on localhost"):
        yield folder / "ours" / "insurer"


def test_a_party_of_the_federation_is_let_in(folder, coordinator):
    kit = folder / "ours" / "north"
    with running(kit, f"connected to insurer at localhost, port {Kit.open(kit).federation.port}"):
        assert why_not_connected(Kit.open(kit)) == ""


def test_a_party_with_a_foreign_certificate(folder, coordinator):
    """It trusts the coordinator by a copied authority, so that only the coordinator can refuse."""
    kit = shutil.copytree(folder / "theirs" / "north", folder / "foreign")
    shutil.copyfile(coordinator / "startup" / "rootCA.pem", kit / "startup" / "rootCA.pem")
    with running(kit, "not connected yet: insurer at localhost"):
        assert "refuses this site's certificate" in said(kit).read_text()
        wait_for(coordinator / "state" / "log.txt", "CERTIFICATE_VERIFY_FAILED")
        assert "connected to insurer" not in said(kit).read_text()
        assert "SSL north" not in (coordinator / "state" / "log.txt").read_text().rpartition("VERIFY_FAILED")[2]


def test_nobody_without_a_certificate(coordinator):
    kit = Kit.open(coordinator)
    context = ssl.create_default_context(cafile=coordinator / "startup" / "rootCA.pem")
    plain = socket.create_connection(("localhost", kit.federation.port), timeout=60)
    with context.wrap_socket(plain, server_hostname="localhost") as line:
        assert no_answer(line)
    wait_for(coordinator / "state" / "log.txt", "PEER_DID_NOT_RETURN_A_CERTIFICATE")


def test_nobody_in_plain_text(coordinator):
    kit = Kit.open(coordinator)
    with socket.create_connection(("localhost", kit.federation.port), timeout=60) as plain:
        assert no_answer(plain)
    wait_for(coordinator / "state" / "log.txt", "HTTP_REQUEST")


def no_answer(line):
    try:
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return line.recv(100) == b""
    except OSError:
        return True


def test_a_silent_connection_keeps_nobody_out(folder, coordinator):
    kit = Kit.open(coordinator)
    with socket.create_connection(("localhost", kit.federation.port)):
        assert why_not_connected(Kit.open(folder / "ours" / "bank")) == ""


def test_a_party_is_not_let_in_as_another(folder, coordinator):
    kit = changed(folder, "ours/north", "ours/bank", "client", "bank-as-north")
    with running(kit, "started"):
        wait_for(coordinator / "state" / "log.txt", "authenticated as 'bank' but claimed endpoint 'north'")
        assert "connected to insurer" not in said(kit).read_text()


def test_a_party_refuses_what_is_not_its_coordinator(tmp_path):
    """Another authority's coordinator, and a party of the federation in the coordinator's place."""
    folder = make_kits(tmp_path)
    bank = shutil.copytree(folder / "ours" / "bank", folder / "bank")
    with running(bank, "not connected yet: nobody answers"):
        with running(folder / "theirs" / "insurer", "listening on localhost"):
            wait_for(said(bank), "the authority of federation trial has not signed")
            assert "Successfully registered" not in (bank / "state" / "log.txt").read_text()
        posing = changed(folder, "ours/insurer", "ours/north", "client", "north-as-insurer")
        with running(posing, "listening on localhost"):
            wait_for(bank / "state" / "log.txt", "authenticated as 'north' but claimed endpoint 'server'")
            wait_for(said(bank), "shows the certificate of 'north', not the coordinator's")
            assert "connected to insurer" not in said(bank).read_text()
