"""What a collector tells the person who runs it: the same few numbers at every door, seldom, and behind a key."""

import asyncio
import base64
import itertools
import re
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from sottovoce.exceptions import ParameterError
from sottovoce.local.collector import counts as counts_module
from sottovoce.local.collector.counts import BOUNDS, Counts, Pace
from sottovoce.local.collector.server import bind
from sottovoce.local.collector.service import make_app, make_apps
from sottovoce.local.collector.storage import Row
from sottovoce.local.collector.tokens import TokenKey, token_hash
from support.collector import PROTOCOL, entry, new_token, report
from support.in_process import InProcessClient

KEY = bytes(range(32))
BEARER = {"Authorization": f"Bearer {KEY.hex()}"}


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


class Both:
    """Devices at one door, the operator at the other, and a clock that moves only when it is told to."""

    def __init__(self, store, **options):
        public, operator = make_apps(PROTOCOL, store, operator_key=KEY, **options)
        self.devices, self.operator = InProcessClient(public), InProcessClient(operator, starts=False)

    def __enter__(self):
        self.devices.__enter__()
        self.operator.__enter__()
        return self

    def __exit__(self, *_):
        self.operator.__exit__()
        self.devices.__exit__()

    def send(self, count):
        answer = self.devices.post("/reports", json=[entry(new_token()) for _ in range(count)])
        assert answer.status_code == 200

    def doors(self):
        """The number of stored reports, as each door tells it."""
        page = self.operator.get("/", headers=BEARER).text
        numbers = samples(self.operator.get("/metrics", headers=BEARER).text)
        return (
            self.devices.get("/stats").json()["accepted"],
            int(re.search(r'id="stored">([\d,]+)', page)[1].replace(",", "")),
            int(numbers["sottovoce_collector_reports_stored", ()]),
        )


def samples(text):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


# ------------------------------------------------------------------ how exactly, how often


@given(st.integers(0, 10**9), st.integers(1, 1000))
def test_counts_are_rounded_down(count, step):
    told = Pace(step=step).rounded(count)
    assert told % step == 0
    assert count - step < told <= count


@given(st.floats(0, 4e9), st.floats(0.1, 1e5), st.floats(0, 1e4))
def test_moments_are_common_to_all_collectors(now, seconds, pause):
    pace = Pace(seconds=seconds)
    moment = pace.next_moment(now, not_before=now + pause)
    assert moment > now - 1e-6
    assert moment >= now + pause - 1e-5
    assert moment / seconds == pytest.approx(round(moment / seconds))
    assert moment <= now + pause + seconds + 1e-5


@pytest.mark.parametrize(("name", "value"), [("seconds", 0.0), ("seconds", float("nan")), ("step", 0), ("step", 1.5)])
def test_the_pace_is_checked(name, value):
    with pytest.raises(ParameterError, match=name):
        Pace(**{name: value})


@pytest.mark.parametrize(
    ("set_back", "last"),
    [(0.0, 1_000_260.0), (50.0, 1_000_260.0), (3600.0, 996_660.0), (86_400.0, 913_860.0)],
)
def test_a_picture_is_taken_at_every_moment_and_at_no_other(store, monkeypatch, set_back, last):
    slept = []

    class Clock:
        now = 1_000_003.0

        @classmethod
        def time(cls):
            return cls.now

        @classmethod
        def monotonic(cls):
            return cls.now

    async def sleep(seconds):
        slept.append(Clock.now + seconds)
        if len(slept) == 4:
            raise asyncio.CancelledError
        Clock.now += seconds

    counts = Counts(store, dict, Pace(seconds=60), paths=[], timed="/")
    taken = []

    async def take():
        taken.append(Clock.now)
        Clock.now += 4.0 if len(taken) == 2 else 0.0  # to count takes long once: the next moment is left out
        Clock.now -= set_back if len(taken) == 3 else 0.0

    monkeypatch.setattr(counts_module, "time", Clock)
    monkeypatch.setattr(counts_module.asyncio, "sleep", sleep)
    monkeypatch.setattr(counts, "take", take)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(counts.keep_taking())
    assert slept == [1_000_020.0, 1_000_080.0, 1_000_200.0, last]
    assert taken == slept[:3]


def test_no_door_tells_more_than_the_others(store):
    with Both(store, pace=Pace(seconds=1e6)) as both:
        assert both.doors() == (0, 0, 0)
        both.send(25)
        assert both.doors() == (0, 0, 0)  # not before the next moment
    with Both(store, pace=Pace(seconds=1e6)) as both:
        assert both.doors() == (20, 20, 20)
    with Both(store, pace=Pace(seconds=1e6, step=1)) as both:
        assert both.doors() == (25, 25, 25)


def test_nothing_that_is_told_moves_with_one_report(store):
    """Between two moments all answers keep every digit, but for what the clock alone moves."""
    with Both(store, pace=Pace(seconds=1e6), token_key=TokenKey(bytes(32), PROTOCOL.id), expected=100) as both:
        before = [both.operator.get(path, headers=BEARER).text for path in ("/", "/metrics")]
        both.devices.post("/reports", json=entry(TokenKey(bytes(32), PROTOCOL.id).issue()))
        both.devices.post("/reports", json=entry(new_token()))
        assert [both.operator.get(path, headers=BEARER).text for path in ("/", "/metrics")] == before


# ------------------------------------------------------------------ the numbers


def test_requests_are_counted_by_kind(store):
    with Both(store, pace=Pace(seconds=0.05, step=1), expected=200) as both:
        both.send(3)
        both.devices.post("/reports", json=[1])
        both.devices.get("/reports")
        both.devices.get("/nobody/knows?token=a-secret-token-of-a-person")
        for _ in range(100):
            found = samples(both.operator.get("/metrics", headers=BEARER).text)
            refused = ("sottovoce_collector_reports_refused_total", (("reason", "not-a-form"),))
            if {
                refused,
                ("sottovoce_collector_requests_total", (("path", "other"), ("status", "404"))),
            } <= found.keys():
                break
            both.devices.get("/health")
        page, text = (both.operator.get(path, headers=BEARER).text for path in ("/", "/metrics"))
    assert re.search(r"Of the requests with reports half within [\d.]+ s, 99 % within [\d.]+ s\.", page)
    name = "sottovoce_collector_requests_total"
    assert found[name, (("path", "/reports"), ("status", "200"))] == 2
    assert found[name, (("path", "/reports"), ("status", "405"))] == 1
    assert found[name, (("path", "other"), ("status", "404"))] == 1
    assert found["sottovoce_collector_reports_stored", ()] == 3
    assert found["sottovoce_collector_reports_expected", ()] == 200
    assert found["sottovoce_collector_ready", ()] == 1
    assert found["sottovoce_collector_disk_free_bytes", ()] % 1e8 == 0
    assert found["sottovoce_collector_report_seconds_bucket", (("le", "+Inf"),)] == 3
    assert "secret" not in text
    assert "nobody" not in text


def test_no_number_of_the_process_is_told(store):
    with Both(store) as both:
        answer = both.operator.get("/metrics", headers=BEARER)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert {name for name, _ in samples(answer.text)} == {
        f"sottovoce_collector_{name}"
        for name in (
            "info", "start_time_seconds", "ready", "disk_free_bytes", "counted_at_seconds", "reports_stored",
            "report_seconds_bucket",
        )
    }  # fmt: skip


def test_every_count_is_told_rounded_down(store):
    """Of requests and of times too: exact ones are a list of arrival times, as the reports are."""
    counts = Counts(store, lambda: {"busy": 13}, Pace(), paths=["/reports"], timed="/reports")
    store.insert([Row(token_hash(token), report(token)) for token in (new_token() for _ in range(13))])
    for status in (200,) * 13 + (503,):
        counts.count("/reports", status, 0.001)
    asyncio.run(counts.take())
    picture = counts.picture
    assert (picture.stored, picture.refused, picture.requests) == (10, {"busy": 10}, {("/reports", 200): 10})
    assert set(picture.within) == {10}


def test_times_are_sorted_into_buckets(store):
    counts = Counts(store, dict, Pace(step=1), paths=["/reports"], timed="/reports")
    for seconds in (0.001, BOUNDS[0], 0.3, 99.0):
        counts.count("/reports", 200, seconds)
    counts.count("/other", 200, 0.001)
    asyncio.run(counts.take())
    seen = counts.picture
    assert seen.within == (2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4)
    assert seen.requests == {("/reports", 200): 4, ("other", 200): 1}


def test_a_database_that_fails_is_told(store, monkeypatch):
    monkeypatch.setattr(store, "count", lambda: 1 / 0)
    monkeypatch.setattr(store, "ping", lambda: 1 / 0)
    with Both(store) as both:
        page, numbers = (both.operator.get(path, headers=BEARER) for path in ("/", "/metrics"))
    assert "Reports cannot be stored now" in page.text
    assert "There are no numbers" in page.text
    assert samples(numbers.text)["sottovoce_collector_ready", ()] == 0
    assert "reports_stored" not in numbers.text


# ------------------------------------------------------------------ the key


def test_nothing_is_told_without_the_key(store):
    with Both(store) as both:
        for path, headers in itertools.product(("/", "/metrics", "/style.css", "/nothing"), (
            {}, {"Authorization": ""}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {KEY.hex()[:-1]}"},
            {"Authorization": f"Digest {KEY.hex()}"}, {"Authorization": "Basic ####"}, {"Cookie": f"key={KEY.hex()}"},
            basic(KEY.hex(), ""), basic("me", KEY.hex().upper()), {"Authorization": b"Bearer \xff\xfe"},
            [("Authorization", BEARER["Authorization"]), ("Authorization", BEARER["Authorization"])],
        )):  # fmt: skip
            answer = both.operator.get(f"{path}?key={KEY.hex()}", headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"][:6]) == (401, "Basic "), (path, headers)
            assert PROTOCOL.id.hex() not in answer.text


def test_the_key_opens_as_password_and_as_bearer_token(store):
    with Both(store) as both:
        for headers, path in itertools.product(
            (BEARER, basic("", KEY.hex()), basic("me", KEY.hex())), ("/", "/metrics", "/style.css")
        ):
            answer = both.operator.get(path, headers=headers)
            assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
            assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert both.operator.post("/", headers=BEARER).status_code == 405


def test_devices_have_no_way_to_it(store):
    with Both(store) as both:
        for path in ("/metrics", "/style.css", "/"):
            assert both.devices.get(path, headers=BEARER).status_code == 404
    with InProcessClient(make_app(PROTOCOL, store)) as devices:
        assert devices.get("/metrics", headers=BEARER).status_code == 404


# ------------------------------------------------------------------ the page


def test_the_page_says_what_is_wrong(store):
    with Both(store) as both:
        text = both.operator.get("/", headers=BEARER).text
        assert "Any token is accepted" in text
        assert "rounded down to a multiple of 10, new every 300 s. They are not a list of arrival times." in text
    with Both(store, token_key=TokenKey(bytes(32), PROTOCOL.id), expected=50, pace=Pace(1e6, 1)) as both:
        text = both.operator.get("/", headers=BEARER).text
    assert "Any token" not in text
    assert "exact, new every 1e+06 s. This is nearly a list of arrival times." in text
    assert "0 % of the 50 reports that are planned for." in text
    assert "<script" not in text
    assert not re.findall(r'(?:src|href)="(?!/|data:,)', text)


# --- the listening socket ---------------------------------------------------------------------------------------------


def test_accepted_connections_do_not_hold_small_answers_back():
    """asyncio turns the delay (Nagle's algorithm) off, but for sockets of a named protocol only."""
    with bind("127.0.0.1", 0) as listener:
        held_back = []

        async def answer(reader, writer):
            accepted = writer.get_extra_info("socket")
            held_back.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0)
            writer.close()
            await writer.wait_closed()

        async def talk():
            async with await asyncio.start_server(answer, sock=listener):
                reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
                await reader.read()
                writer.close()
                await writer.wait_closed()

        asyncio.run(talk())
    assert held_back == [False]


def test_a_port_that_is_taken_is_told():
    with bind("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(ParameterError, match=rf"^host .*, port {port}: .*\. Choose another"):
            bind("127.0.0.1", port)
