"""Who speaks in a run: whatever is changed of an envelope, neither end takes it, and nothing is charged.

One request that costs budget and one answer are changed field by field, byte by byte, cut, sent again, sent in every
order, and signed by everybody else who has a key. After all of it the honest request is answered and charged once.
"""

import datetime
import itertools
import shutil
import tracemalloc
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sottovoce.exceptions import PartyError
from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.identity import CARD, Identity
from sottovoce.vertical.engines.seat import read_canonical
from sottovoce.vertical.flare.hardening.envelope import ANSWER, REQUEST, Envelope, Signed, _parts, head_of, seal
from sottovoce.vertical.flare.hardening.gate import Door
from sottovoce.vertical.mechanisms import ANSWERS_TO
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.requests.general import Describe
from sottovoce.vertical.requests.local_models import TrainOnLabels
from sottovoce.vertical.wire import Done, Frame, Refused, new_session
from support.authority import Authority
from support.party import decode
from support.register import entries
from support.site import Coordinator, authority, make_ledger, make_site

SITE = """\
[data]
table = "people.csv"
schema = "people.toml"
[budget]
ledger = "sqlite:///ledger.db"
dataset = "people"
"""
DAY = datetime.timedelta(days=1)


class Run:
    """A door with an account, its coordinator, and what each sends."""

    def __init__(self, folder):
        self.folder, self.ledger = folder, make_ledger(folder)
        self.kit = make_site(folder, site=SITE)
        self.door = Door(self.kit)
        self.coordinator = Coordinator(self.door)
        self.session = new_session()
        self.ask(Describe())

    def frame(self, message):
        return Frame(self.session, message.encode()).encode()

    def ask(self, message):
        return decode(self.coordinator.handle(self.frame(message)))

    def training(self):
        return self.frame(TrainOnLabels(np.resize([1.0, -1.0], 40), "logistic", 0.1, 0.0, 0.1, 0.05, "m"))

    def sealed(self, content):
        """Return a request of the coordinator in its envelope; each has a number of its own."""
        end = self.coordinator.end
        end._number += 1
        return end._seal(REQUEST, end._number, content, ledger=end._known)

    def identity(self, name, *, by=None, **more):
        """Return the identity of somebody; of the same authority unless ``by`` another one."""
        folder = self.folder / f"somebody{len(list(self.folder.iterdir()))}"
        return Identity((by or authority()).identity(folder, name, **more))

    @property
    def charges(self):
        return len(list(self.ledger.history("people")))

    def others(self):
        """Return everybody else who has a key: who they are, and a way to sign as them."""
        root = Authority("trial")  # another one of the same name
        yield "another party", self.identity("bank")
        yield "another authority", self.identity("insurer", by=root)
        yield "another authority's party", self.identity("north", by=root)
        yield "expired", self.identity("insurer", begins=-2 * DAY, ends=-DAY)
        yield "not yet valid", self.identity("insurer", begins=DAY, ends=2 * DAY)
        yield "expired party", self.identity("north", begins=-2 * DAY, ends=-DAY)


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def opened(raw):
    """Return the head and the content of an envelope, whoever signed it."""
    head, _, content = _parts(raw)
    envelope = read_canonical(Envelope, head.decode())
    assert envelope is not None
    return envelope, content


def unsigned_changes(raw):
    """Yield an envelope with one field changed and its signature as it was, for all fields and several values."""
    envelope, content = opened(raw)
    signature = _parts(raw)[1]
    for field in fields(envelope):
        value = getattr(envelope, field.name)
        texts = () if field.type is int else ("", "x", "\ud800", f"{value}x", value.upper())
        for other in texts or (0, 1, 2, value + 1, 10**9, -1):
            if other != value:
                fake = seal(_Keeps(signature), replace(envelope, **{field.name: other}), content)
                yield f"{field.name} = {str(other)[:20]!r}", fake


class _Keeps:
    """Puts a signature that is there already under anything."""

    def __init__(self, signature):
        self._signature = signature.hex()

    def sign(self, content, what):
        return self._signature


def damaged(raw):
    """Yield an envelope with one bit of each byte changed; cut at every place; with something behind it."""
    for at, bit in enumerate(np.random.default_rng(len(raw)).integers(8, size=len(raw)).tolist()):
        yield f"bit {bit} of byte {at}", raw[:at] + bytes([raw[at] ^ (1 << bit)]) + raw[at + 1 :]
    for length in range(len(raw)):
        yield f"cut to {length}", raw[:length]
    yield "longer", raw + b"x"
    yield "doubled", raw + raw


def signed_changes(run, raw, signer):
    """Yield an envelope that its sender itself signed for something else, and those that others sign in its name."""
    envelope, content = opened(raw)
    kind = {REQUEST: ANSWER, ANSWER: REQUEST}[envelope.kind]
    for field, other in (
        ("kind", kind), ("sender", envelope.receiver), ("sender", "bank"), ("receiver", envelope.sender),
        ("receiver", "bank"), ("run", "job0"), ("run", ""), ("here", "0" * 32), ("there", "0" * 32), ("there", ""),
        ("content", "0" * 64), ("number", -1),
    ):  # fmt: skip
        yield f"{field} is {other!r}", seal(signer, replace(envelope, **{field: other}), content)
    yield "other content", seal(signer, envelope, content + b"x")
    for who, identity in run.others():
        for sender in (envelope.sender, "bank"):
            for certificate in (envelope.certificate, identity.certificate):
                fake = replace(envelope, sender=sender, certificate=certificate)
                yield f"signed by {who} as {sender!r}", seal(identity, fake, content)


def all_changes(run, raw, signer):
    yield from unsigned_changes(raw)
    yield from damaged(raw)
    yield from signed_changes(run, raw, signer)


def test_whatever_is_changed_of_a_request_the_party_refuses_and_charges_nothing(run):
    """The party answers a refusal in an envelope of its own, counts it, and writes it down; then it goes on.

    What the coordinator has signed for a run before is its own: it came late.
    """
    honest = run.sealed(run.training())
    n = late = 0
    for what, raw in all_changes(run, honest, run.coordinator.end._identity):
        n += 1
        is_late = what.startswith("run is ")
        late += is_late
        envelope, answer = opened(run.door.answer(raw, "server"))
        assert isinstance(decode(answer), Refused), what
        counted = 0 if is_late else n - late
        assert (envelope.number, envelope.ledger, envelope.strangers) == (0, "", counted), what
    assert n > 2000
    assert run.charges == 0
    assert sum(entry.times for entry in register(run) if entry.outcome == "turned away") == n
    assert not isinstance(decode(opened(run.door.answer(honest, "server"))[1]), Refused)
    assert run.charges == 1
    with pytest.raises(
        PartyError, match=f"turned away {n - late:,} of the requests that came to it in the name of 'insurer'"
    ):
        run.ask(Describe())


def test_a_field_of_lists_in_lists_is_no_field_however_deep_they_are(run):
    """At one depth there is room to read them, and none to write them again."""
    head = _parts(run.sealed(b""))[0].decode()
    for depth in range(500, 1000):
        assert read_canonical(Envelope, head.replace(f'"{REQUEST}"', "[" * depth + "]" * depth)) is None, depth


def test_nothing_is_copied_of_a_head_that_is_too_long():
    """Its length is what somebody says."""
    raw = b"SVE1" + b"\xff" * 6 + bytes(50_000_000)
    tracemalloc.start()
    assert head_of(raw) is None
    assert _parts(raw)[0] == b""
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_a_party_says_nothing_long_by_how_many_it_turned_away(run):
    run.door._run.end.strangers = 10**4000
    with pytest.raises(PartyError, match="turned away 1,000,000,000 of") as caught:
        run.ask(Describe())
    assert len(str(caught.value)) < 500


def test_what_is_signed_as_one_thing_is_signed_as_nothing_else(run):
    bank = run.identity("bank")
    for what, other in itertools.permutations((CARD, REQUEST, ANSWER), 2):
        bank.check("bank", bank.certificate, None, b"x", bank.sign(b"x", what), what)
        with pytest.raises(EngineError, match="was not signed with its key"):
            bank.check("bank", bank.certificate, None, b"x", bank.sign(b"x", what), other)


def register(run):
    return entries(run.kit.state / "register.db")


def test_whatever_is_changed_of_an_answer_the_coordinator_refuses(run):
    """It names the party, keeps what it knows of the party's ledger, and takes the honest answer afterwards."""
    party, end, told = run.door._run.end, run.coordinator.end, []
    end._told = told.append
    sent = run.sealed(run.frame(Describe()))
    envelope, content = opened(run.door.answer(sent, "server"))
    n = 0
    for what, change in ((what, change) for what, change in _answers(run, seal(party._identity, envelope, content))):
        n += 1
        number, known = end._number, end._known

        def carry(_, change=change):
            return change

        end._number -= 1  # it sends the same request, byte for byte but for its signature
        with pytest.raises(PartyError, match="'north'") as caught:
            end._asked(opened(sent)[1], carry)
        assert "is not taken: " in str(caught.value), what
        assert (end._number, end._known) == (number, known)
    assert n > 2000
    assert not told
    end._number -= 1
    assert end._asked(opened(sent)[1], lambda raw: seal(party._identity, envelope, content)) == content


def _answers(run, raw):
    yield from all_changes(run, raw, run.door._run.end._identity)
    earlier = opened(raw)[0]
    yield (
        "the answer to another request",
        seal(run.door._run.end._identity, replace(earlier, request="0" * 64), opened(raw)[1]),
    )
    yield "no envelope", Done().encode()
    yield "nothing", b""


def test_requests_are_taken_once_and_in_their_order(run):
    """All sequences of three envelopes out of three: taken are those that are newer than all before."""
    for order in itertools.product(range(3), repeat=3):
        raws = [run.sealed(run.frame(Describe())) for _ in range(3)]
        last = -1
        for i in order:
            envelope, _ = opened(run.door.answer(raws[i], "server"))
            assert (envelope.number > 0) == (i > last), order
            last = max(last, i)


def test_no_kind_of_message_is_answered_without_an_envelope(run, monkeypatch):
    monkeypatch.setattr(Party, "handle", lambda self, raw: pytest.fail("it reached the party"))
    assert len(ANSWERS_TO) == 14  # all that there are
    for kind in ANSWERS_TO:
        body = b"SVM3" + kind.code.to_bytes(2, "little") + bytes(40)
        raw = Frame(new_session(), body).encode()
        _, answer = opened(run.door.answer(raw, "server"))
        assert "it answers the coordinator alone: it is not in an envelope" in decode(answer).reason, kind


def test_a_run_takes_no_answer_without_an_envelope(tmp_path):
    """All that goes to a party and comes from it goes through what `execute` hands on."""
    kit = make_site(tmp_path, name="insurer")
    carried = Signed(kit, "job1", "train", lambda name, raw, seconds: Done().encode())
    with pytest.raises(PartyError, match="answer of party 'bank' is not taken: it is not in an envelope of 'bank'"):
        carried("bank", b"request", 1.0)


@pytest.mark.parametrize("asked", [0, 4], ids=["begun and not asked", "asked"])
def test_what_was_said_to_a_process_is_nothing_to_the_next_one(run, asked):
    """All requests of a run again, its beginning too: in the next run, and at a process that began since."""
    heard, door = [], run.door
    run.coordinator = Coordinator(
        SimpleNamespace(answer=lambda *sent: heard.append(sent[0]) or door.answer(*sent)), "job2"
    )
    run.coordinator.handle(None)
    run.session = new_session()
    for _ in range(asked - 1):
        run.ask(Describe())
    if asked:
        run.coordinator.handle(run.training())
    assert (len(heard), run.charges) == (1 + asked, int(asked > 0))
    other = Coordinator(door, "job3")
    for again in (door, Door(run.kit)):
        door.close()
        other.door, other.end.run, run.session = again, f"job of {id(again)}", new_session()
        other.end._there = ""
        assert not isinstance(decode(other.handle(run.frame(Describe()))), Refused)
        for raw in heard:
            envelope, answer = opened(again.answer(raw, "server"))
            assert envelope.number == 0
            assert isinstance(decode(answer), Refused)
        assert not isinstance(decode(other.handle(run.frame(Describe()))), Refused), "its run goes on"
        again.close()
    assert run.charges == int(asked > 0)


def test_two_processes_of_one_party_in_one_run_are_an_error_at_both(run, tmp_path):
    """A request that the copy gets is refused there; an answer of it is refused here."""
    other = make_site(tmp_path / "copy", site=SITE.partition("[budget]")[0])
    shutil.copytree(run.kit.identity, other.identity, dirs_exist_ok=True)
    copy = Door(other)
    Coordinator(copy).handle(run.frame(Describe()))
    run.coordinator.door = copy
    assert "other processes than these: a kit is in use twice" in run.ask(Describe()).reason
    assert "a kit is in use twice" in entries(other.state / "register.db")[-1].reason

    def both(raw):
        envelope, content = opened(run.door.answer(raw, "server"))
        return seal(copy._run.end._identity, replace(envelope, here=copy._run.end._here), content)

    with pytest.raises(
        PartyError, match=r"it is signed for other processes than at the beginning of this run. Is a kit"
    ):
        run.coordinator.end.ask(run.frame(Describe()), 1.0, both)


def test_two_coordinators_in_one_run_are_an_error_at_both(run):
    other = Coordinator(run.door)
    reply = decode(other.handle(run.frame(Describe())))
    assert "other processes than these" in reply.reason
    with pytest.raises(PartyError, match="turned away 1 of the requests"):
        run.ask(Describe())


def test_an_identity_of_another_site_is_refused_by_the_other_end(tmp_path):
    """Keys that were brought to the wrong kit."""
    kit = make_site(tmp_path)
    for path in kit.identity.iterdir():
        path.unlink()
    authority().identity(Path(kit.identity), "bank")
    with pytest.raises(PartyError, match="the certificate of 'north' is another one's"):
        Coordinator(Door(kit)).handle(b"")
