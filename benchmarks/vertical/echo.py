"""A plain gRPC echo with mutual TLS: the floor that rounds over a federation are compared with.

    python -m benchmarks.vertical.echo FOLDER        # one server; prints its port, ends when its standard input does

Each party is a server in a process of its own, which sends back what it gets. The coordinator keeps one channel to each and asks all of them at
the same time. No engine, no checks, no numbers: bytes there and the same bytes back.
"""

import datetime
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.common import ROOT

METHOD = "/echo/Echo"
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def make_certificates(folder: Path) -> None:
    """Write an authority's certificate and one, with its key, that both ends use."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    now = datetime.datetime.now(datetime.UTC)
    keys = [rsa.generate_private_key(65537, 2048) for _ in range(2)]  # what FLARE takes too
    authority, name = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in ("ca", "localhost"))
    for file, key, subject, is_authority in (("ca", keys[0], authority, True), ("site", keys[1], name, False)):
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .sign(keys[0], hashes.SHA256())
        )
        (folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    key_text = keys[1].private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "site.key").write_bytes(key_text)


def _read(folder: Path) -> tuple[bytes, bytes, bytes]:
    authority, certificate, key = ((folder / file).read_bytes() for file in ("ca.crt", "site.crt", "site.key"))
    return authority, certificate, key


def serve(folder: Path) -> None:
    """Serve until standard input ends."""
    import grpc

    authority, certificate, key = _read(folder)
    server = grpc.server(futures.ThreadPoolExecutor(2), options=OPTIONS)
    handler = grpc.unary_unary_rpc_method_handler(lambda raw, context: raw)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("echo", {"Echo": handler})])
    port = server.add_secure_port(
        "localhost:0", grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
    )
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(0)


@contextmanager
def echoing(n_parties: int, folder: Path) -> Iterator["Echo"]:
    """Run so many servers, each in a process of its own, and yield what asks them."""
    make_certificates(folder)
    with ExitStack() as stack:
        ports = []
        for _ in range(n_parties):
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", __name__, str(folder)],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )  # fmt: skip
            )
            stack.callback(process.stdin.close)  # type: ignore[union-attr]
            ports.append(int(process.stdout.readline()))  # type: ignore[union-attr]
        yield stack.enter_context(Echo(ports, folder))


class Echo:
    """The coordinator's end: one channel to each server."""

    def __init__(self, ports: list[int], folder: Path) -> None:
        import grpc

        credentials = grpc.ssl_channel_credentials(*(_read(folder)[place] for place in (0, 2, 1)))
        self._channels = [grpc.secure_channel(f"localhost:{port}", credentials, options=OPTIONS) for port in ports]
        self._calls = [channel.unary_unary(METHOD) for channel in self._channels]

    def __enter__(self) -> "Echo":
        return self

    def __exit__(self, *_: object) -> None:
        for channel in self._channels:
            channel.close()

    def round(self, raw: bytes) -> None:
        """Send bytes to all servers at the same time, and wait for all of them."""
        for future in [call.future(raw) for call in self._calls]:
            assert len(future.result(timeout=60)) == len(raw)

    def seconds(self, n_bytes: int, n_rounds: int) -> list[float]:
        """Return the seconds of each of some rounds, after three that warm up."""
        raw, found = os.urandom(n_bytes), []
        for _ in range(n_rounds + 3):
            tick = time.perf_counter()
            self.round(raw)
            found.append(time.perf_counter() - tick)
        return found[3:]


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
