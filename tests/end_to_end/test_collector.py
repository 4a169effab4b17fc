"""The collector as a real process, on SQLite and on a real PostgreSQL server: good use, misuse, crashes and its log."""

import base64
import contextlib
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from sottovoce.local.collector.storage import ReportStore
from support.collector import PROTOCOL, entry, new_token, octets, report, running_collector
from support.fuzz import strange_request
from support.waiting import until


@pytest.fixture
def database(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'reports.db'}"
    return request.getfixturevalue("postgres_url")


def stored(database):
    with ReportStore(database, PROTOCOL) as store:
        text = b"".join(store.reports())
    return {text[at : at + 22] for at in range(0, len(text), 22)}


class Senders:
    """Threads that send new reports without end and remember what was acknowledged."""

    def __init__(self, url, count=4):
        self.acknowledged, self.sent = set(), set()
        self._url = url
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, number):
        with httpx.Client(base_url=self._url, timeout=10) as client:
            while not self._stopping.is_set():
                tokens = [new_token() for _ in range(1 + 10 * (number % 2))]
                self.sent.update(map(report, tokens))
                try:
                    answer = client.post("/reports", json=[entry(token) for token in tokens])
                except httpx.HTTPError:
                    return
                if answer.status_code == 200:
                    results = answer.json()["results"]
                    good = [
                        token for token, result in zip(tokens, results, strict=True) if result["status"] == "accepted"
                    ]
                    self.acknowledged.update(map(report, good))

    def wait(self, count=11):
        """Return when so many reports are acknowledged, however slow the machine is."""
        until(lambda: len(self.acknowledged) >= count)

    def stop(self):
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)


# each database is used and stopped, and killed, among the fast tests or the slow ones
def of_databases(fast):
    names = [pytest.param(one, marks=[pytest.mark.slow] * (one != fast)) for one in ("sqlite", "postgresql")]
    return pytest.mark.parametrize("database", names, indirect=True)


@of_databases("postgresql")
def test_use_and_stop(tmp_path, database):
    tokens = [new_token() for _ in range(4)]
    with running_collector(tmp_path, database) as collector:
        with httpx.Client(base_url=collector.url) as client:
            assert client.get("/ready").json() == {"status": "ready"}
            assert client.get("/protocol").text == PROTOCOL.to_json()
            assert client.post("/reports", content=report(tokens[0]), headers=octets(tokens[0])).status_code == 200
            assert client.post("/reports", json=entry(tokens[0], index=3)).status_code == 409
            batch = client.post("/reports", json=[entry(token) for token in tokens])
            assert batch.json() == {"results": [{"status": "accepted"}] * 4}
            assert client.get("/health").headers.get("server") is None
        senders = Senders(collector.url)
        senders.wait()
        assert collector.stop() == 0
        senders.stop()
        assert collector.process.stdout.read() == "stopped; all that was acknowledged is stored\n"
    assert len(senders.acknowledged) > 10
    kept = stored(database)
    assert senders.acknowledged | {report(token) for token in tokens} <= kept
    assert kept <= senders.sent | {report(token) for token in tokens}
    with ReportStore(database, PROTOCOL) as store:
        assert store.refusals() == {"token-used": 1}  # written on the way out


@of_databases("sqlite")
def test_no_acknowledged_report_is_lost_when_the_collector_is_killed(tmp_path, database):
    rng = random.Random(3)
    acknowledged, sent = set(), set()
    token = new_token()
    for second in (False, True):
        with running_collector(tmp_path, database) as collector:
            assert httpx.post(f"{collector.url}/reports", json=entry(token)).status_code == 200
            if second:
                assert httpx.post(f"{collector.url}/reports", json=entry(token, index=3)).status_code == 409
            senders = Senders(collector.url)
            senders.wait()
            time.sleep(0.4 * rng.random())
            collector.kill()
            senders.stop()
        assert len(senders.acknowledged) > 10
        acknowledged |= senders.acknowledged | {report(token)}
        sent |= senders.sent | {report(token)}
        kept = stored(database)
        assert acknowledged <= kept
        assert kept <= sent


@pytest.mark.slow
def test_no_acknowledged_report_is_lost_when_postgresql_is_killed(tmp_path, postgres_server, postgres_url):
    """The collector answers 503 until the server is back, and then goes on by itself."""
    with running_collector(tmp_path, postgres_url) as collector:
        senders = Senders(collector.url, count=2)
        senders.wait()
        postgres_server.kill()
        with httpx.Client(base_url=collector.url, timeout=20) as client:
            token = new_token()
            answer = client.post("/reports", json=entry(token))
            assert (answer.status_code, answer.json()["reason"]) == (503, "unavailable")
            assert client.get("/ready").status_code == 503
            assert client.get("/health").status_code == 200
            senders.stop()
            postgres_server.start()
            assert client.post("/reports", json=entry(token)).json() == {"status": "accepted"}
            assert client.get("/ready").status_code == 200
        assert collector.stop() == 0
        log = collector.log.read_text()
    assert senders.acknowledged
    assert senders.acknowledged | {report(token)} <= stored(postgres_url)
    assert "reports could not be written: OperationalError" in log


def test_the_log_tells_nothing_about_anybody(tmp_path, postgres_server, postgres_url):
    """Neither that of the collector nor, with its usual settings, that of PostgreSQL, whatever is sent."""
    tokens = [new_token() for _ in range(8)]
    with running_collector(tmp_path, postgres_url) as collector:
        rng = random.Random(5)
        with httpx.Client(base_url=collector.url) as client:
            for token in tokens:
                for index in (1, 2):
                    client.post(f"/reports?token={token}", content=report(token, index), headers=octets(token))
                client.post("/reports", json=[entry(token, 3), {"token": token}])
                client.get(f"/{token}")
            for _ in range(50):
                body, headers = strange_request(rng)
                assert client.post("/reports", content=body, headers=headers).status_code < 500
        send_raw(collector.url, f"POST /{tokens[0]} HTTP/9.9\r\n\r\n".encode())
        send_raw(collector.url, b"\x16\x03\x01" + tokens[0].encode())
        assert collector.stop() == 0
        log, output = collector.log.read_text(), collector.process.stdout.read()
    assert "any token is accepted" in log
    assert "tester" not in log  # nor the address of the database
    for text in (log + output, postgres_server.log()):
        for token in tokens:
            raw = report(token, 1)
            for form in (token, raw.hex(), raw[12:20].hex(), base64.b64encode(raw).decode(), repr(raw)[2:-1]):
                assert form not in text
    assert "127.0.0.1:" not in log + output
    assert len(log.splitlines()) == 1
    assert output == "stopped; all that was acknowledged is stored\n"


def address(url):
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def send_raw(url, content, seconds=10):
    """Send bytes and return what comes back until the connection is closed or nothing comes."""
    with socket.create_connection(address(url), timeout=seconds) as connection:
        connection.sendall(content)
        parts = []
        with contextlib.suppress(TimeoutError, ConnectionError):
            while part := connection.recv(65_536):
                parts.append(part)
        return b"".join(parts)


ORIGIN = "https://survey.example"
POST_JSON = b"POST /reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One collector for the tests that need nothing of their own."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "form").mkdir()
    (folder / "form" / "index.html").write_text("<p>a form")
    options = ["--static", str(folder / "form"), "--allow-origin", ORIGIN, "--read-seconds", "1.5"]
    with running_collector(folder, str(folder / "reports.db"), *options, "--max-connections", "8") as collector:
        yield collector


def test_endless_bodies_are_cut_off(shared):
    sent = 0
    with socket.create_connection(address(shared.url), timeout=20) as connection:
        connection.sendall(POST_JSON + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        with contextlib.suppress(ConnectionError):
            while sent < 100_000_000:
                connection.sendall(chunk)
                sent += len(chunk)
    assert sent < 20_000_000


def test_connections_that_never_ask_are_closed(shared):
    """A drop now and then does not keep one open; four wait beside one another, one for its second answer."""

    def lasts(head):
        start = time.monotonic()
        with socket.create_connection(address(shared.url), timeout=0.3) as open_, contextlib.suppress(ConnectionError):
            open_.sendall(head)
            while time.monotonic() - start < 20:
                open_.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    if open_.recv(100) == b"":
                        break
        return time.monotonic() - start

    with ThreadPoolExecutor(4) as pool:
        heads = [b"G", POST_JSON + b"X-More: 1\r\nX", b"GET /health HTTP/1.1\r\n"]
        heads.append(heads[-1] + b"Host: x\r\n\r\nG")
        assert all(1.4 < seconds < 10 for seconds in pool.map(lasts, heads))


def test_more_connections_than_allowed(shared):
    idle = [socket.create_connection(address(shared.url)) for _ in range(8)]
    until(lambda: httpx.get(f"{shared.url}/health").status_code == 503)
    for connection in idle:
        connection.close()
    until(lambda: httpx.get(f"{shared.url}/health").status_code == 200)


def test_a_survey_page(shared):
    assert httpx.get(f"{shared.url}/").text == "<p>a form"
    answer = httpx.get(f"{shared.url}/protocol", headers={"Origin": ORIGIN})
    assert answer.headers["access-control-allow-origin"] == ORIGIN
