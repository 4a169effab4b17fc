"""The service in this process: every answer, every reason, every bound."""

import asyncio
import base64
import json
import logging
import random
import threading
import time

import httpx
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.local import Protocol
from sottovoce.local.collector.answers import Discretion, PlainFormatter, Reason
from sottovoce.local.collector.counts import Pace
from sottovoce.local.collector.intake import MAX_BATCH, Limits, RateLimit
from sottovoce.local.collector.service import make_app
from sottovoce.local.collector.tokens import TokenKey
from sottovoce.local.collector.writer import GroupWriter
from support.collector import PROTOCOL, entry, new_token, octets, report
from support.fuzz import strange_request
from support.in_process import InProcessClient

OTHER = Protocol(epsilon=1.0, n_features=4)
REFUSED = {reason: {"status": "refused", "reason": reason.value} for reason in Reason}
ACCEPTED = {"status": "accepted"}


@pytest.fixture
def client(store):
    with InProcessClient(make_app(PROTOCOL, store)) as opened:
        yield opened


def send(client, token, body, **headers):
    return client.post("/reports", content=body, headers={**octets(token), **headers})


def refusals(client, store):
    """The counts on the disk, which come within about a second of a service that runs."""
    deadline = time.monotonic() + 10
    while not (counts := store.refusals()) and time.monotonic() < deadline:
        client.get("/health")
        time.sleep(0.05)
    return counts


# ------------------------------------------------------------------ good reports


def test_protocol_is_the_exact_text(client):
    answer = client.get("/protocol")
    assert answer.text == PROTOCOL.to_json()
    assert Protocol.from_json(answer.text).id == PROTOCOL.id


def test_one_report_as_bytes_and_as_json(client, store):
    tokens = [new_token(), new_token()]
    first = report(tokens[0], index=PROTOCOL.K - 1)  # the largest that is good
    answers = [send(client, tokens[0], first), client.post("/reports", json=entry(tokens[1]))]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, ACCEPTED)] * 2
    assert b"".join(store.reports()) in {first + report(tokens[1]), report(tokens[1]) + first}


def test_the_same_report_again_counts_once_and_another_is_refused(client, store):
    token = new_token()
    for _ in range(3):
        assert send(client, token, report(token)).json() == ACCEPTED
    second = send(client, token, report(token, index=8))
    assert (second.status_code, second.json()) == (409, REFUSED[Reason.TOKEN_USED])
    assert send(client, token, report(token)).json() == ACCEPTED
    assert b"".join(store.reports()) == report(token)
    assert refusals(client, store) == {"token-used": 1}


def test_a_batch_is_answered_one_by_one(client, store):
    tokens = [new_token() for _ in range(3)]
    foreign = base64.b64encode(report(tokens[2], protocol=OTHER)).decode()
    answer = client.post("/reports", json=[
        entry(tokens[0]), entry(tokens[1]), entry(tokens[0], index=9), entry(tokens[1]), 17, {"token": tokens[2]},
        {"token": tokens[2], "report": foreign}, {"token": tokens[2], "report": "not base64!"},
    ])  # fmt: skip
    assert answer.status_code == 200
    assert answer.json()["results"] == [
        ACCEPTED, ACCEPTED, REFUSED[Reason.TOKEN_USED], ACCEPTED, REFUSED[Reason.NOT_A_FORM],
        REFUSED[Reason.NOT_A_FORM], REFUSED[Reason.FOREIGN], REFUSED[Reason.MALFORMED],
    ]  # fmt: skip
    assert store.count() == 2
    assert client.post("/reports", json=[]).json() == {"results": []}


# ------------------------------------------------------------------ refused ones


def bad_reports():
    token = new_token()
    good = report(token)
    yield "short", token, good[:-1], Reason.MALFORMED
    yield "long", token, good + b"\0", Reason.MALFORMED
    yield "empty", token, b"", Reason.MALFORMED
    yield "magic", token, b"LDP2" + good[4:], Reason.MALFORMED
    yield "foreign", token, report(token, protocol=OTHER), Reason.FOREIGN
    yield "index", token, report(token, index=PROTOCOL.K), Reason.BAD_INDEX
    yield "seed", token, good[:12] + bytes([good[12] ^ 1]) + good[13:], Reason.WRONG_SEED
    yield "seed of another token", token, report(new_token()), Reason.WRONG_SEED
    yield "token", "short", good, Reason.BAD_TOKEN


@pytest.mark.parametrize(("token", "body", "reason"), [pytest.param(*rest, id=name) for name, *rest in bad_reports()])
def test_bad_reports_are_refused_and_counted(client, store, token, body, reason):
    answer = send(client, token, body)
    assert (answer.status_code, answer.json()) == (reason.status, REFUSED[reason])
    assert store.count() == 0
    assert refusals(client, store) == {reason.value: 1}
    again = client.post("/reports", json=[{"token": token, "report": base64.b64encode(body).decode()}])
    assert again.json() == {"results": [REFUSED[reason]]}


def test_bodies_that_are_no_form(client):
    for body in (
        b"", b"{", b"null", b"17", b'"text"', b"{}", b'{"token": 1}', b"[" * 100_000, b"\xff\xfe",
        b'{"token": "%s"}' % (b"a" * 16), b"1" * 5000, b"NaN",
        json.dumps(entry("a" * 16) | {"more": 1}).encode(), json.dumps(entry("a" * 16) | {"report": None}).encode(),
    ):  # fmt: skip
        answer = client.post("/reports", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()) == (400, REFUSED[Reason.NOT_A_FORM]), body[:40]


def test_a_report_has_one_text_in_base64(client):
    good = entry(new_token())["report"]
    noisy = [good[:place] + noise + good[place:] for noise in "\n *=" for place in (0, 8, 32)]
    for text in (*noisy, "é" * 32, "\ud800" * 32, "A" * 31, "AA==AA=="):
        body = json.dumps({"token": new_token(), "report": text})
        answer = client.post("/reports", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()) == (400, REFUSED[Reason.MALFORMED])


def test_other_media_types(client):
    for kind in (None, "", "text/plain", "multipart/form-data; boundary=x", "application/jsonx"):
        answer = client.post("/reports", content=b"{}", headers={} if kind is None else {"Content-Type": kind})
        assert (answer.status_code, answer.json()) == (415, REFUSED[Reason.MEDIA_TYPE])


def test_the_token_header_must_be_there_once(client):
    token = new_token()
    kind = ("Content-Type", "application/octet-stream")
    for headers in ([kind], [kind, ("Sottovoce-Token", token), ("Sottovoce-Token", token)]):
        assert client.post("/reports", content=report(token), headers=headers).json() == REFUSED[Reason.BAD_TOKEN]
    assert client.post(f"/reports?token={token}", content=report(token), headers=[kind]).status_code == 400


def test_with_a_key_only_issued_tokens_count(store):
    key = TokenKey(bytes(32), PROTOCOL.id)
    with InProcessClient(make_app(PROTOCOL, store, token_key=key)) as client:
        for token, status in ((key.issue(), 200), (new_token(), 403), (TokenKey(bytes(32), OTHER.id).issue(), 403)):
            assert send(client, token, report(token)).status_code == status
    assert store.count() == 1
    assert store.refusals() == {"unknown-token": 2}


# ------------------------------------------------------------------ bounds


def test_too_many_reports_in_one_request(store):
    with InProcessClient(make_app(PROTOCOL, store, limits=Limits(max_batch=2))) as client:
        assert client.post("/reports", json=[entry(new_token()) for _ in range(2)]).status_code == 200
        answer = client.post("/reports", json=[entry(new_token()) for _ in range(3)])
        assert (answer.status_code, answer.json()) == (413, REFUSED[Reason.TOO_MANY])
    assert store.count() == 2


def test_a_full_batch_with_the_longest_tokens_fits(client, store):
    tokens = [new_token().ljust(128, "~") for _ in range(1_000)]
    results = client.post("/reports", json=[entry(token) for token in tokens]).json()["results"]
    assert results == [ACCEPTED] * 1_000
    assert store.count() == 1_000


def test_large_bodies_are_not_read(store):
    read = 0

    def endless():
        nonlocal read
        for _ in range(100_000):
            read += 1
            yield b"x" * 1_000

    with InProcessClient(make_app(PROTOCOL, store, limits=Limits(max_body=500))) as client:
        for kind in ("application/json", "application/octet-stream"):
            headers = {"Content-Type": kind}
            for content in (endless(), b"x" * 501, b"x" * 2_000_000):
                answer = client.post("/reports", content=content, headers=headers)
                assert (answer.status_code, answer.json()) == (413, REFUSED[Reason.TOO_LARGE])
                assert answer.headers["connection"] == "close"
            assert client.post("/reports", content=b"x" * 500, headers=headers).status_code == 400
    assert 2 * 1_000 < read < 2 * 1_100  # a megabyte each is heard out, for the answer to arrive


def test_slow_bodies_are_given_up(store):
    app = make_app(PROTOCOL, store, limits=Limits(read_seconds=0.05))
    answer = []

    async def receive():
        await asyncio.sleep(5)

    async def main():
        scope = {
            "type": "http", "method": "POST", "path": "/reports", "raw_path": b"/reports", "query_string": b"",
            "headers": [(b"content-type", b"application/json")], "http_version": "1.1", "scheme": "http",
            "server": ("h", 1), "client": None, "root_path": "",
        }  # fmt: skip

        async def send(message):
            answer.append(message)

        await app(scope, receive, send)

    asyncio.run(main())
    assert answer[0]["status"] == 408
    assert json.loads(answer[1]["body"]) == REFUSED[Reason.TOO_SLOW]


def test_rate():
    now = 0.0
    limit = RateLimit(10.0, clock=lambda: now)
    assert limit.admit(20)
    assert not limit.admit(1)
    now = 0.1
    assert limit.admit(1)
    assert not limit.admit(1)
    now = 1_000.0
    assert limit.admit(500)  # one request is never too large for ever
    assert not limit.admit(1)
    now += 49.9
    assert limit.admit(19)
    assert not limit.admit(1)
    assert all(RateLimit(None).admit(10**9) for _ in range(3))


def test_too_fast(store):
    with InProcessClient(make_app(PROTOCOL, store, limits=Limits(max_rate=0.001))) as client:
        assert client.post("/reports", json=entry(new_token())).status_code == 200
        answer = client.post("/reports", json=entry(new_token()))
        assert (answer.status_code, answer.json()) == (429, REFUSED[Reason.TOO_FAST])
        assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_batch", 0), ("max_body", 1.5), ("max_rate", 0.0), ("max_rate", float("nan")), ("read_seconds", -1)],
)
def test_limits_are_checked(name, value):
    with pytest.raises(ParameterError, match=name):
        Limits(**{name: value})


# ------------------------------------------------------------------ the writer


class SlowStore:
    """Keeps rows in memory, in groups, and only when it is let."""

    def __init__(self):
        self.groups = []
        self.refused = {}
        self.broken = False
        self.gate = threading.Event()

    def insert(self, rows):
        self.gate.wait(10)
        if self.broken:
            raise OSError("the disk is full, and here is a secret")
        self.groups.append(list(rows))
        return [None] * len(rows)

    def add_refusals(self, counts):
        if self.broken:
            raise OSError("the disk is full, and here is a secret")
        for reason, count in counts.items():
            self.refused[reason] = self.refused.get(reason, 0) + count


def test_what_waits_shares_a_transaction():
    store = SlowStore()

    async def main():
        writer = GroupWriter(store, max_group=5, max_waiting=20)
        writer.start()
        tasks = [asyncio.create_task(writer.write([n])) for n in range(12)]
        await asyncio.sleep(0.1)
        store.gate.set()
        assert await asyncio.gather(*tasks) == [[None]] * 12
        await writer.close()

    asyncio.run(main())
    assert [row for group in store.groups for row in group] == list(range(12))
    assert len(store.groups) <= 5
    assert max(map(len, store.groups)) == 5


def test_too_much_waiting_is_refused_and_the_rest_is_written_at_the_end():
    store = SlowStore()

    async def main():
        writer = GroupWriter(store, max_group=5, max_waiting=10)
        writer.start()
        first = asyncio.create_task(writer.write([0]))
        await asyncio.sleep(0.1)  # taken by the thread, which now waits at the gate
        tasks = [asyncio.create_task(writer.write([n] * 5)) for n in (1, 2)]
        await asyncio.sleep(0)
        assert await writer.write([3]) is Reason.BUSY
        closing = asyncio.create_task(writer.close())
        await asyncio.sleep(0.1)
        store.gate.set()
        await closing
        await asyncio.gather(first, *tasks)
        assert not writer.is_alive
        assert await writer.write([4]) is Reason.BUSY

    asyncio.run(main())
    assert sum(map(len, store.groups)) == 11


def test_what_cannot_be_written_is_not_acknowledged(caplog):
    store = SlowStore()
    store.gate.set()
    store.broken = True

    async def main():
        writer = GroupWriter(store)
        writer.start()
        writer.count_refused("busy")
        assert await writer.write([1]) is Reason.UNAVAILABLE
        store.broken = False
        assert await writer.write([2]) == [None]
        await writer.close()

    asyncio.run(main())
    assert store.groups == [[2]]
    assert store.refused == {"busy": 1}  # kept until they could be written
    assert "reports could not be written: OSError" in caplog.text
    assert "secret" not in caplog.text


def test_a_database_that_fails_is_answered_with_503(client, store, monkeypatch):
    monkeypatch.setattr(store, "insert", lambda rows: 1 / 0)
    answer = client.post("/reports", json=entry(new_token()))
    assert (answer.status_code, answer.json()) == (503, REFUSED[Reason.UNAVAILABLE])
    assert answer.headers["retry-after"] == "1"
    assert client.get("/ready").json() == {"status": "ready"}
    monkeypatch.setattr(store, "ping", lambda: 1 / 0)
    assert client.get("/ready").status_code == 503
    assert client.get("/health").json() == {"status": "ok"}
    monkeypatch.setattr(store, "count", lambda: 1 / 0)
    with InProcessClient(make_app(PROTOCOL, store)) as another:
        assert another.get("/stats").status_code == 503


# ------------------------------------------------------------------ the rest


def test_exact_counts(store):
    with InProcessClient(make_app(PROTOCOL, store, pace=Pace(seconds=0.05, step=1))) as client:
        client.post("/reports", json=[entry(new_token()), entry(new_token()), 1])
        expected = {"protocol": PROTOCOL.id.hex(), "accepted": 2, "refused": {"not-a-form": 1}}
        deadline = time.monotonic() + 10
        while client.get("/stats").json() != expected and time.monotonic() < deadline:
            time.sleep(0.1)
        assert client.get("/stats").json() == expected


def test_pages_of_chosen_origins_may_post(store):
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,sottovoce-token"}
    with InProcessClient(make_app(PROTOCOL, store, allow_origins=["https://survey.example"])) as client:
        good = client.options("/reports", headers={"Origin": "https://survey.example", **ask})
        assert (good.status_code, good.headers["access-control-allow-origin"]) == (200, "https://survey.example")
        bad = client.options("/reports", headers={"Origin": "https://other.example", **ask})
        assert "access-control-allow-origin" not in bad.headers
        answer = client.post("/reports", json=entry(new_token()), headers={"Origin": "https://survey.example"})
        assert answer.headers["access-control-allow-origin"] == "https://survey.example"
    with InProcessClient(make_app(PROTOCOL, store)) as client:
        assert client.options("/reports", headers={"Origin": "https://survey.example", **ask}).status_code == 405


def test_static_files(store, tmp_path):
    folder = tmp_path / "form"
    folder.mkdir()
    (folder / "index.html").write_text("<p>a form")
    (tmp_path / "secret").write_text("secret")
    with InProcessClient(make_app(PROTOCOL, store, static=folder)) as client:
        assert client.get("/").text == "<p>a form"
        assert client.get("/protocol").text == PROTOCOL.to_json()
        for path in ("/../secret", "/%2e%2e/secret", "/..%2fsecret"):
            assert "secret" not in client.get(path).text
    with pytest.raises(ParameterError, match="no such folder"):
        make_app(PROTOCOL, store, static=tmp_path / "missing")


def test_other_paths_and_other_methods_are_told_in_json(client):
    for method, path, status, detail in (
        ("GET", "/nothing", 404, "Not Found"),
        ("PUT", "/reports", 405, "Method Not Allowed"),
        ("GET", "/reports", 405, "Method Not Allowed"),
        ("POST", "/protocol", 405, "Method Not Allowed"),
        ("POST", "/stats", 405, "Method Not Allowed"),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, answer.json()) == (status, {"detail": detail})
    assert client.request("HEAD", "/health").status_code == 405
    assert (
        client.get("/docs").status_code == client.get("/redoc").status_code == 404
    )  # they load scripts from elsewhere
    assert client.get("/protocol/", follow_redirects=False).headers["location"].endswith("/protocol")


def test_what_links_are_checked_with_is_public_and_the_same_for_all(store, client):
    assert client.get("/invitations").json() == {"required": False}
    key = TokenKey(bytes(32), PROTOCOL.id)
    with InProcessClient(make_app(PROTOCOL, store, token_key=key)) as client:
        answers = [client.get("/invitations", headers=sent) for sent in ({}, {"Sottovoce-Token": key.issue()})]
        assert [answer.json() for answer in answers] == [{"required": True, "mark": key.mark.hex()}] * 2
        assert client.get("/stats").json()["refused"] == {}


def test_the_description_lists_every_path_and_every_reason(client):
    described = client.get("/openapi.json").json()
    methods = {path: list(answers) for path, answers in described["paths"].items()}
    gets = {path: ["get"] for path in ("/protocol", "/invitations", "/health", "/ready", "/stats")}
    assert methods == {**gets, "/reports": ["post"]}
    for path, (method,) in methods.items():
        assert client.request(method, path).status_code == (415 if method == "post" else 200)
    post = described["paths"]["/reports"]["post"]
    for reason in Reason:
        answer = post["responses"][str(reason.status)]["content"]["application/json"]
        assert answer["examples"][reason] == {"value": REFUSED[reason]}
    forms = post["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    assert [form.get("maxItems") for form in forms] == [None, MAX_BATCH]


def test_unexpected_errors_are_told_without_their_message(caplog):
    async def broken(scope, receive, send):
        raise ValueError("a secret token")

    async def ask():
        transport = httpx.ASGITransport(Discretion(broken))
        async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
            return await client.get("/")

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()) == (500, {"status": "error"})
    assert "secret" not in caplog.text
    assert "ValueError at " in caplog.text
    try:
        raise ValueError("a secret token")
    except ValueError as error:
        record = logging.LogRecord("x", 40, "f", 1, "failed", (), (type(error), error, error.__traceback__))
    assert "secret" not in PlainFormatter().format(record)


def test_five_hundred_strange_bodies(client, store):
    """None is answered with 500, and every answer is a closed reason."""
    rng = random.Random(7)
    known = [ACCEPTED, *REFUSED.values()]
    for _ in range(500):
        body, headers = strange_request(rng)
        answer = client.post("/reports", content=body, headers=headers)
        assert answer.status_code in {200, 400, 403, 408, 409, 413, 415, 422}, (body, headers)
        content = answer.json()
        assert content in known or all(result in known for result in content["results"])
    assert store.count() > 0
