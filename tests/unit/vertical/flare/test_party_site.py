"""The gate between a run and a party: who is answered, how much, and what is written down; attacks on it."""

import stat
import threading

import numpy as np
import pytest

from sottovoce.exceptions import StorageError
from sottovoce.vertical.flare.hardening import gate as gate_module
from sottovoce.vertical.flare.hardening.envelope import _parts
from sottovoce.vertical.flare.hardening.gate import Door
from sottovoce.vertical.flare.processes import Seldom
from sottovoce.vertical.flare.register import Register
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocol import RefusalError
from sottovoce.vertical.requests.general import Close, Describe, Description, Score, ShowColumns
from sottovoce.vertical.requests.local_models import ReleasedLabelsPlan, TrainOnLabels
from sottovoce.vertical.wire import Done, Frame, Payload, Refused, new_session
from support.party import Line, decode
from support.register import entries
from support.site import Coordinator, make_ledger, make_site, people

FRAME = Frame(bytes(16), Describe().encode()).encode()
DATA = '[data]\ntable = "people.csv"\nschema = "people.toml"\nid = "person"\n'


class Open:
    """A door at which a run has begun, with the coordinator's side of a channel."""

    name = "north"

    def __init__(self, folder, more="", *, purpose="train", run="job1", **facts):
        self.kit = make_site(folder, site=DATA + more, **facts)
        self.door = Door(self.kit)
        self.coordinator = Coordinator(self.door, run, purpose=purpose)

    def handle(self, raw):
        return self.coordinator.handle(raw)

    def reason(self, raw):
        reply = decode(self.handle(raw))
        assert isinstance(reply, Refused)
        return reply.reason

    def reason_unsigned(self, raw, caller="server"):
        """Return why something without an envelope is refused."""
        return decode(_parts(self.door.answer(raw, caller))[2]).reason

    @property
    def entries(self):
        return entries(self.kit.state / "register.db")


@pytest.fixture
def site(tmp_path):
    return Open(tmp_path)


def test_the_coordinator_is_answered_as_the_party_answers(site):
    line = Line(site)
    reply = line.ask(Describe())
    assert isinstance(reply, Description)
    assert (reply.n_rows, reply.n_features) == (40, 2)
    assert isinstance(line.ask(Close()), Done)
    first, second = site.entries
    assert (first.run, first.coordinator, first.kind, first.outcome) == (
        "job1", "insurer", "Describe", "answered"
    )  # fmt: skip
    assert second.kind == "Close"


@pytest.mark.parametrize(
    ("raw", "caller"),
    [
        (FRAME, "bank"),
        (FRAME, None),
        (FRAME, "x" * 100_000),
        ("text", "server"),
        (None, ""),
        (bytearray(b"x"), "server"),
    ],
)
def test_what_is_in_no_envelope_is_refused_and_written_down_whoever_calls(site, raw, caller):
    said = site.reason_unsigned(raw, caller)
    assert said.startswith("it answers the coordinator alone: ")
    assert ("a request is bytes; this is " in said) == (not isinstance(raw, bytes))
    (entry,) = site.entries
    assert (entry.outcome, entry.bytes_in) == ("turned away", len(raw) if isinstance(raw, (bytes, bytearray)) else 0)
    assert len(entry.caller) <= 100


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"SVF3" + bytes(10), "a request has at least 20 bytes"),
        (Frame(bytes(16), b"").encode(), "a message has at least 14 bytes"),
        (Frame(bytes(16), Done().encode()).encode(), "no message has kind 4 here"),
        (b"SVF2" + bytes(24) + Describe().encode(), "not a request of this version"),
        (Frame(bytes(16), ShowColumns().encode()).encode(), "'exact'"),  # its owner did not list it
    ],
)
def test_bytes_that_are_no_request_are_refused_and_written_down(site, raw, reason):
    assert reason in site.reason(raw)
    (entry,) = site.entries
    assert entry.outcome == "refused"
    assert reason in entry.reason


def test_a_request_that_is_larger_than_the_cap_never_reaches_the_party(tmp_path, monkeypatch):
    site = Open(tmp_path, "[caps]\nbytes = 1000\n")
    monkeypatch.setattr(Party, "handle", lambda self, raw: pytest.fail("it was decoded"))
    assert "1,000 bytes in all" in site.reason(bytes(1_000_000))


@pytest.mark.parametrize("broken", [ValueError("row 17 has 3.5"), MemoryError(), SystemExit(3.5)])
def test_what_fails_there_is_one_sentence_and_its_values_are_nowhere(site, monkeypatch, caplog, broken):
    def fail(self, raw):
        raise broken

    monkeypatch.setattr(Party, "handle", fail)
    assert site.reason(Frame(new_session(), b"").encode()) == "it failed there; the party's own log says more"
    assert "3.5" not in caplog.text
    assert type(broken).__name__ in caplog.text


def test_nothing_raises_even_where_the_register_is_gone(site):
    site.door._register.close()
    assert site.reason(Frame(new_session(), Describe().encode()).encode()).startswith("it failed there")
    assert site.reason_unsigned(b"").startswith("it failed there")


# ------------------------------------------------------------------ a run as a whole


def test_another_purpose_is_refused(tmp_path):
    site = Open(tmp_path, purpose="sell")
    assert "a run is to train or to score" in site.reason(FRAME)
    assert site.entries[0].outcome == "turned away"
    assert "named no people to be scored" in Open(tmp_path / "score", purpose="score").reason(FRAME)


def asked_at(door, run, *, purpose="train", request=Describe):
    """Return what a door answers to a request of a run, which it begins, and the coordinator's side of it."""
    coordinator = Coordinator(door, run, purpose=purpose)
    return decode(coordinator.handle(Frame(new_session(), request().encode()).encode())), coordinator


def test_one_run_at_a_time(tmp_path):
    """The one that begins ends the one before: of the coordinator, who has one, that was killed."""
    door = Door(make_site(tmp_path, site=DATA))
    first, before = asked_at(door, "job1")
    assert isinstance(first, Description)
    assert isinstance(asked_at(door, "job2")[0], Description)
    late = decode(before.handle(FRAME))
    assert "its process began again since this run began" in late.reason
    refused, _ = asked_at(door, "job3", purpose="sell")
    assert "a run is to train or to score; this one is to 'sell'" in refused.reason


def test_what_is_computed_is_waited_for_and_nothing_else_begins(tmp_path, monkeypatch):
    """A request that is sent again, as its line was cut, waits for its answer, however long that takes."""
    monkeypatch.setattr(gate_module, "_BUSY_SECONDS", 0.05)
    door = Door(make_site(tmp_path, site=DATA))
    asked, again = Frame(new_session(), Describe().encode()).encode(), []
    _, coordinator = asked_at(door, "job1")
    waiting = threading.Thread(target=lambda: again.append(decode(coordinator.handle(asked))))
    with door._lock:
        waiting.start()
        assert "it still computes what it was asked before" in asked_at(door, "job2")[0].reason
        waiting.join(0.2)
        assert not again
    waiting.join(10.0)
    assert isinstance(again[0], Description)
    assert isinstance(asked_at(door, "job3")[0], Description)


def test_a_run_ends_when_the_coordinator_says_so_or_is_away(tmp_path):
    kit = make_site(tmp_path, site=DATA)
    door = Door(kit)
    for end in (lambda coordinator: coordinator.handle(b""), lambda coordinator: door.close()):
        _, coordinator = asked_at(door, new_session().hex())
        party = door._run.party
        end(coordinator)
        assert door._run.party is None
        with pytest.raises(StorageError, match="the journal is closed"):
            party._journal.check_open()
    assert "it answers the coordinator alone" in decode(_parts(door.answer(FRAME, "server"))[2]).reason


def test_a_table_that_cannot_be_read_is_quoted_nowhere(tmp_path, caplog):
    table = people()
    table["age"] = table["age"].astype(object)
    table.loc[3, "age"] = "secret"
    site = Open(tmp_path, table=table)
    assert site.reason(FRAME) == "its site could not be opened; the party's own log says why"
    assert "TableError" in caplog.text
    assert f"sottovoce vertical party {tmp_path} --check" in caplog.text  # which quotes the cell to its owner
    assert "secret" not in caplog.text + str(site.entries)
    site.door.close()
    assert Open(tmp_path, "[cap]\n", run="job2").reason(FRAME).startswith("its site could not be opened")
    assert "unknown section [cap]" in caplog.text


def test_whoever_is_refused_again_and_again_does_not_fill_the_log(tmp_path, caplog):
    """Of each place in the code so many lines an hour are taken, then how many there were; others are not held back."""
    site, seldom = Open(tmp_path, "[caps]\nrounds = 1\n"), Seldom()
    for _ in range(1000):
        site.reason_unsigned(b"x" * 50_000, "y" * 50_000)
    for _ in range(2):
        site.reason(Frame(new_session(), ShowColumns().encode()).encode())
    *lines, last, beyond = filter(seldom.filter, caplog.records)
    assert len(lines) == 20
    assert "refused in run job1: ShowColumns" in last.getMessage()
    assert "refused in run job1: its owner allows this coordinator 1 requests" in beyond.getMessage()
    lines[0].created += 3600
    assert seldom.filter(lines[0])
    assert lines[0].getMessage().startswith("(980 more like this one before it) refused in run")


@pytest.mark.parametrize("broken", [SystemExit(3), RuntimeError("row 17"), RefusalError("no")])
def test_whatever_a_handler_ends_with_there_is_a_reply_and_one_charge(tmp_path, monkeypatch, broken, caplog):
    """A library that ends the process ends a thread of a line alone: the coordinator would wait."""
    site = Open(tmp_path, '[budget]\nledger = "sqlite:///ledger.db"\ndataset = "people"\n')
    book = make_ledger(tmp_path)
    line = Line(site)

    def fail(*_, depth=99, **__):
        if depth % 2:
            return fail(depth=depth - 1)
        if depth:
            return fail(depth=depth - 1)
        raise broken

    monkeypatch.setattr(ReleasedLabelsPlan, "solve", fail)
    raw = line.frame(TRAIN)
    first = site.handle(raw)
    if isinstance(broken, RefusalError):
        assert decode(first).reason == "no"
    else:
        assert any("raise broken" in record.getMessage()[:5000] for record in caplog.records)  # all that a log takes
        assert decode(first).reason == "it failed there; the party's own log says more"
    assert site.handle(raw) == first
    assert isinstance(line.ask(Describe()), Description)
    assert len(book.history("people")) == 1
    Line(site).ask(TRAIN)  # another attempt is another charge
    assert [each.state for each in book.history("people")] == ["committed"] * 2


# ------------------------------------------------------------------ parts of models


TRAIN = TrainOnLabels(np.resize([1.0, -1.0], 40), "logistic", 0.1, 0.0, 0.1, 0.05, "m1")


def test_parts_are_on_disk_before_anybody_is_told_that_they_are_kept(tmp_path, monkeypatch):
    people(8).to_csv(tmp_path / "new.csv", index=False)
    site = Open(tmp_path, '[scoring]\ntable = "new.csv"\n')
    path, answered, seen = site.kit.state / "models" / "m1.json", Register.answered, []
    monkeypatch.setattr(Register, "answered", lambda self, *given: (seen.append(path.exists()), answered(self, *given)))
    assert isinstance(Line(site).ask(TRAIN), Payload)
    assert seen == [True]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    reply = Line(Coordinator(site.door, "job2", purpose="score")).ask(Score("m1"))
    assert isinstance(reply, Payload)
    assert len(reply.numbers) == 8


def test_a_part_that_cannot_be_kept_is_not_said_to_be(site):
    """It is answered when there is room again."""
    Line(site).ask(Describe())
    party = site.door._run.party
    raw, keep = Line(site).frame(TRAIN), party.on_keeping

    def full(*_):
        raise OSError(28, "No space left on device")

    party.on_keeping = full
    assert site.reason(raw).startswith("it failed there")
    party.on_keeping = keep
    assert isinstance(decode(site.handle(raw)), Payload)
    assert (site.kit.state / "models" / "m1.json").exists()
