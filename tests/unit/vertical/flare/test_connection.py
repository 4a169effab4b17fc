"""What a party's owner is told while it is not connected; a listener of this process plays the coordinator."""

import shutil
import socket
import ssl
import threading
from contextlib import contextmanager

import pytest

from sottovoce.vertical.flare import processes
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.processes import why_not_connected


@pytest.fixture(autouse=True)
def short_times(monkeypatch):
    monkeypatch.setattr(processes, "_CONNECT_SECONDS", 1.0)
    monkeypatch.setattr(processes, "_REFUSAL_SECONDS", 0.2)


@contextmanager
def listening(bank, certificate=None, trusted=None):
    """Accept one connection, by TLS if there is a certificate, and keep it until the block ends."""
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trusted / "startup" / "rootCA.pem")
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    over = threading.Event()

    def accept():
        try:
            plain, _ = listener.accept()
        except OSError:
            return
        with plain:
            if context is None:
                plain.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
            try:
                with context.wrap_socket(plain, server_side=True):
                    over.wait(10)
            except OSError:
                pass

    with socket.create_server(("localhost", bank.federation.port)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture
def bank(kits):
    return Kit.open(kits / "bank")


@pytest.mark.parametrize(
    ("shown", "trusted", "said"),
    [
        ("trial/insurer/startup/server.crt", "trial/insurer", ""),
        ("other/insurer/startup/server.crt", "other/insurer", "authority of federation trial has not signed"),
        ("trial/bank/startup/client.crt", "trial/bank", "shows the certificate of 'bank', not the coordinator's"),
        ("trial/insurer/startup/server.crt", "other/insurer", "refuses this site's certificate"),
        (None, None, "does not speak TLS"),
    ],
    ids=["the coordinator", "another authority", "a party in its place", "a coordinator that refuses", "no TLS"],
)
def test_who_answers(folder, bank, shown, trusted, said):
    with listening(bank, shown and folder / shown, trusted and folder / trusted):
        told = why_not_connected(bank)
        assert said in told and bool(said) == bool(told)


def test_nobody_answers(bank, tmp_path):
    assert "nobody answers at localhost, port" in why_not_connected(bank)
    kit = shutil.copytree(bank.folder, tmp_path / "bank")
    text = (kit / "federation.toml").read_text().replace('"localhost"', '"insurer.invalid"')
    (kit / "federation.toml").write_text(text)
    assert "the host 'insurer.invalid' is not known here" in why_not_connected(Kit.open(kit))
