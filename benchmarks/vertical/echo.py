"""A plain gRPC echo with mutual TLS: the floor that rounds over a federation are compared with.

Each party is a process of its own (this module, with a folder and a port). As in a federation nobody connects to it: it
opens one stream to the coordinator, requests come down that stream, and it sends back what it gets. The coordinator
sends to all parties at the same time, and waits for all. No engine, no checks, no numbers: bytes there and the same
bytes back.
"""

import datetime
import os
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.driver import ROOT

NAME, METHOD = "echo", "Echo"
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
SECONDS = 60.0  # that an answer may take


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


def _start_server(folder: Path, handler: Any) -> tuple[Any, int]:
    import grpc

    authority, certificate, key = _read(folder)
    server = grpc.server(futures.ThreadPoolExecutor(8), options=OPTIONS)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(NAME, {METHOD: handler})])
    credentials = grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
    port = server.add_secure_port("localhost:0", credentials)
    server.start()
    return server, port


def _open_channel(folder: Path, port: int) -> Any:
    import grpc

    authority, certificate, key = _read(folder)
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    return grpc.secure_channel(f"localhost:{port}", credentials, options=OPTIONS)


# ------------------------------------------------------------------ the party's end


def connect(folder: Path, port: int) -> None:
    """Open a stream to the coordinator, and send back what comes down until standard input ends."""
    answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    with _open_channel(folder, port) as channel, futures.ThreadPoolExecutor(1) as pool:
        requests = channel.stream_stream(f"/{NAME}/{METHOD}")(iter(answers.get, None))

        def answer() -> None:
            for raw in requests:
                answers.put(raw)

        pool.submit(answer)
        sys.stdin.read()
        answers.put(None)
        requests.cancel()


# ------------------------------------------------------------------ the coordinator's end

Round = Callable[[bytes], None]


@contextmanager
def echoing(n_parties: int) -> Iterator[Round]:
    """Run so many parties, and yield what sends bytes to all of them at the same time and waits for all answers."""
    import grpc

    connected: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()

    def stream(answers: Iterator[bytes], context: Any) -> Iterator[bytes]:
        down: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        connected.put((down, answers))
        yield from iter(down.get, None)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_certificates(folder)
        server, port = _start_server(folder, grpc.stream_stream_rpc_method_handler(stream))
        stack.callback(lambda: server.stop(0).wait())
        for _ in range(n_parties):
            _start_party(stack, folder, port)
        streams = [connected.get(timeout=SECONDS) for _ in range(n_parties)]
        stack.callback(lambda: [down.put(None) for down, _ in streams])

        def one_round(raw: bytes) -> None:
            for down, _ in streams:
                down.put(raw)
            for _, answers in streams:
                assert len(next(answers)) == len(raw)

        yield one_round


def _start_party(stack: ExitStack, folder: Path, port: int) -> None:
    command = [sys.executable, "-m", __name__, str(folder), str(port)]
    process = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE))
    assert process.stdin is not None
    stack.callback(process.stdin.close)


def seconds(one_round: Round, n_bytes: int, n_rounds: int) -> list[float]:
    """Return the seconds of each of some rounds, after five that warm up."""
    raw, found = os.urandom(n_bytes), []
    for _ in range(n_rounds + 5):
        tick = time.perf_counter()
        one_round(raw)
        found.append(time.perf_counter() - tick)
    return found[5:]


if __name__ == "__main__":
    connect(Path(sys.argv[1]), int(sys.argv[2]))
