"""The slow link of tests and measurements: what goes in comes out, not earlier than its latency and rate allow."""

import socket
import threading
import time

from support.slow_link import SlowLink


def _echo(server):
    connection, _ = server.accept()
    with connection:
        while piece := connection.recv(1 << 16):
            connection.sendall(piece)


def test_bytes_come_back_whole_and_late():
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_echo, args=(server,))
        thread.start()
        target = f"127.0.0.1:{server.getsockname()[1]}"
        with SlowLink(target, latency=0.02, rate=1e6) as link:
            host, port = link.address.split(":")
            with socket.create_connection((host, int(port)), timeout=10) as mine:
                begin = time.monotonic()
                mine.sendall(b"a")
                assert mine.recv(10) == b"a"
                assert time.monotonic() - begin >= 0.04
                content = bytes(range(256)) * 800  # 0.2 s at that rate
                begin = time.monotonic()
                mine.sendall(content)
                mine.shutdown(socket.SHUT_WR)
                found = b""
                while piece := mine.recv(1 << 16):
                    found += piece
                assert found == content
                assert time.monotonic() - begin >= 0.24
            thread.join(10)
            assert link.carried == 2 * (len(content) + 1)
    assert not thread.is_alive()
