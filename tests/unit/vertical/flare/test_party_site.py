"""The gate between a run and a party: who is answered, how much, and what is written down; attacks on it."""

import logging
import stat

import numpy as np
import pytest

from sottovoce.vertical.flare.hardening.envelope import _parts
from sottovoce.vertical.flare.hardening.gate import Gate
from sottovoce.vertical.flare.register import Register
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocols.exact.messages import ShowColumns
from sottovoce.vertical.protocols.general.messages import Close, Describe, Description
from sottovoce.vertical.protocols.local_models.messages import TrainOnLabels
from sottovoce.vertical.protocols.scoring.messages import Score
from sottovoce.vertical.wire import Done, Frame, Payload, Refused, new_session
from support.party import Line, decode
from support.register import entries
from support.site import Coordinator, make_site, people

FRAME = Frame(bytes(16), 1, Describe().encode()).encode()
DATA = '[data]\ntable = "people.csv"\nschema = "people.toml"\nid = "person"\n'


class Open:
    """A gate that is open, with the party's side of a channel."""

    name = "north"

    def __init__(self, folder, more="", *, purpose="train", **facts):
        self.kit = make_site(folder, site=DATA + more, **facts)
        self.gate = Gate(purpose)
        self.gate.open(self.kit, run="job1", wait=0.0)
        self.coordinator = Coordinator(self.gate)

    def handle(self, raw):
        return self.coordinator.handle(raw)

    def reason(self, raw):
        reply = decode(self.handle(raw))
        assert isinstance(reply, Refused)
        return reply.reason

    def reason_unsigned(self, raw, caller="server"):
        """Return why something without an envelope is refused."""
        return decode(_parts(self.gate.answer(raw, caller=caller))[2]).reason

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
    assert (first.run, first.coordinator, first.kind, first.step, first.outcome) == (
        "job1", "insurer", "Describe", 1, "answered"
    )  # fmt: skip
    assert first.session == line.name.hex()
    assert (second.kind, second.step) == ("Close", 2)


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
        (b"", "not a request of this version"),
        (b"SVF2" + bytes(10), "a request has at least 28 bytes"),
        (Frame(bytes(16), 1, b"").encode(), "a message has at least 14 bytes"),
        (Frame(bytes(16), 1, Done().encode()).encode(), "no message has kind 4 here"),
        (Frame(bytes(16), 2**64 - 1, Describe().encode()).encode(), "was never begun here"),
        (Frame(bytes(16), 1, ShowColumns().encode()).encode(), "'exact'"),  # its owner did not list it
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


@pytest.mark.parametrize("broken", [ValueError("row 17 has 3.5"), MemoryError()])
def test_what_fails_there_is_one_sentence_and_its_values_are_nowhere(site, monkeypatch, caplog, broken):
    def fail(self, raw):
        raise broken

    monkeypatch.setattr(Party, "handle", fail)
    assert site.reason(Frame(new_session(), 1, b"").encode()) == "it failed there; the party's own log says more"
    assert "3.5" not in caplog.text
    assert type(broken).__name__ in caplog.text


def test_nothing_raises_even_where_the_register_is_gone(site):
    site.gate._register.close()
    assert site.reason(Frame(new_session(), 1, Describe().encode()).encode()).startswith("it failed there")
    assert site.reason_unsigned(b"").startswith("it failed there")


# ------------------------------------------------------------------ a job as a whole


@pytest.mark.parametrize("purpose", ["sell", None, ["train"]])
def test_another_purpose_is_refused(tmp_path, purpose):
    site = Open(tmp_path, purpose=purpose)
    assert "a job is to train or to score" in site.reason(b"")
    assert site.entries[0].outcome == "turned away"
    assert "named no people to be scored" in Open(tmp_path / "score", purpose="score").reason(b"")


def test_one_run_at_a_time(tmp_path):
    first = Open(tmp_path)
    second = Gate()
    second.open(first.kit, run="job2", wait=0.0)
    assert "another run is under way there" in decode(Coordinator(second, "job2").handle(b"")).reason
    first.gate.close()
    third = Gate()
    third.open(first.kit, run="job3", wait=0.0)
    assert isinstance(Line(Coordinator(third, "job3")).ask(Describe()), Description)
    assert "the run has ended there" in first.reason(b"")


def test_a_table_that_cannot_be_read_is_quoted_nowhere(tmp_path, caplog):
    table = people()
    table["age"] = table["age"].astype(object)
    table.loc[3, "age"] = "secret"
    site = Open(tmp_path, table=table)
    assert site.reason(b"") == "its site could not be opened; the party's own log says why"
    assert "TableError" in caplog.text
    assert f"sottovoce vertical party {tmp_path} --check" in caplog.text  # which quotes the cell to its owner
    assert "secret" not in caplog.text + str(site.entries)
    site.gate.close()
    assert Open(tmp_path, "[cap]\n").reason(b"").startswith("its site could not be opened")
    assert "unknown section [cap]" in caplog.text


def test_nothing_is_answered_before_the_run_and_the_log_is_not_filled(tmp_path, caplog):
    gate = Gate()
    for _ in range(100):
        assert "has not begun" in decode(gate.answer(b"", caller="server")).reason
    assert sum(record.levelno == logging.WARNING for record in caplog.records) == 21


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
    site.gate.close()
    scoring = Gate("score")
    scoring.open(site.kit, run="job2", wait=0.0)
    reply = Line(Coordinator(scoring, "job2")).ask(Score("m1"))
    assert isinstance(reply, Payload)
    assert len(reply.numbers) == 8


def test_a_part_that_cannot_be_kept_is_not_said_to_be(site):
    """And the step is not used up: it is answered when there is room again."""
    party = site.gate._party
    raw, keep = Line(site).frame(TRAIN), party.on_keeping

    def full(*_):
        raise OSError(28, "No space left on device")

    party.on_keeping = full
    assert site.reason(raw).startswith("it failed there")
    party.on_keeping = keep
    assert isinstance(decode(site.handle(raw)), Payload)
    assert (site.kit.state / "models" / "m1.json").exists()


def test_the_component_publishes_one_method_and_takes_a_purpose_alone():
    app = pytest.importorskip("nvflare.collab.api.app", reason="needs nvflare: the extra [vertical]")
    from sottovoce.vertical.flare.hardening.closed import job_text
    from sottovoce.vertical.flare.party import PartySite

    assert f'"{PartySite.__module__}.{PartySite.__qualname__}"' in job_text("client", purpose="train")
    interface = app.ClientApp(PartySite(purpose="train")).get_collab_interface()
    assert {method for methods in interface.values() for method in methods} == {"answer"}
    with pytest.raises(TypeError):
        PartySite(purpose="train", table="/etc/passwd")
