"""A party against a coordinator that sends any bytes at any time, many at once.

Every case here was open once: a refusal that answered a question about the rows, noise that vanished with a clip, more
choices than were charged. What is promised: docs/privacy/parties.md.
"""

import importlib.util
import json
import logging
import math
import threading

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError, PartyError
from sottovoce.privacy.events import (
    GaussianEvent,
    NothingReleased,
    RepeatedEvent,
    compose,
)
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.vertical import InProcessParties, Party, VerticalLasso, VerticalLogisticRegression
from sottovoce.vertical.mechanisms import ANSWERS, ANSWERS_TO, PRIVATE
from sottovoce.vertical.party.party import MOST_OPEN
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.requests import alignment as alignment_party
from sottovoce.vertical.requests.alignment import (
    AlignTo,
    Intersect,
    PsiClient,
    announce,
)
from sottovoce.vertical.requests.frank_wolfe import TrainOnBall
from sottovoce.vertical.requests.general import Afford, Close, Describe, Description, Score, ShowColumns
from sottovoce.vertical.requests.local_models import TrainOnLabels
from sottovoce.vertical.requests.secure import Connect, Invite
from sottovoce.vertical.secure.agreed_plan import Block
from sottovoce.vertical.secure.joint_plan import JointPlan
from sottovoce.vertical.wire import Done, Frame, Payload, Refused, new_session
from support.one_training import cost, order
from support.party import Line, decode, request

INF = math.inf
BUDGET = (0.1, 1e-6)
SECRET = np.random.default_rng(69).uniform(0.0, 1.0, (200, 1))


def ball(n, n_steps=1):
    return TrainOnBall("squared", -np.ones(n), 1.0, 1.0, n_steps, 0.05, 0, 1.0, "m")


# --- many at once, and again ------------------------------------------------------------------------------------------


def together(count, task):
    answers, gate = [None] * count, threading.Barrier(count)

    def one(place):
        gate.wait()
        answers[place] = task(place)

    threads = [threading.Thread(target=one, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def slow_draws(monkeypatch, mechanism, method):
    """Make a draw long enough for every other thread to come in between."""
    original, drawn = getattr(mechanism, method), []

    def slow(self, *given):
        drawn.append(threading.get_ident())
        threading.Event().wait(0.01)
        return original(self, *given)

    monkeypatch.setattr(mechanism, method, slow)
    return drawn


def test_32_trainings_at_once_are_charged_one_by_one(monkeypatch):
    """Each in a session of its own: as many releases as the budget has room for, none for a charge of another."""
    drawn = slow_draws(monkeypatch, GridGaussian, "release")
    party = Party(SECRET, name="clinic", data_norm=1.0, budget=(1.0, 1e-6))
    replies = together(32, lambda _: Line(party).ask(order(200, 0.05)))
    sent = [reply for reply in replies if isinstance(reply, Payload)]
    assert 1 < len(sent) < 32
    assert len(drawn) == len(sent)
    assert party.spent == compose(*[cost(0.05)] * len(sent))
    assert all("this would bring what was spent" in reply.reason for reply in replies if isinstance(reply, Refused))


def test_a_request_that_comes_many_times_at_once_is_answered_once(monkeypatch):
    drawn = slow_draws(monkeypatch, GridGaussian, "release")
    party = Party(SECRET, name="clinic", data_norm=1.0, budget=(1.0, 1e-6))
    raw = Line(party).frame(order(200, 0.05))
    assert len(set(together(8, lambda _: party.handle(raw)))) == len(drawn) == 1
    assert party.spent == cost(0.05)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_comes_between_a_charged_request_that_comes_again_is_answered_as_before(seed):
    """In its session, until another one is charged there; questions, refusals, other sessions change nothing."""
    draw, names = np.random.default_rng(seed), [new_session(), new_session()]
    party, last, spent = Party(SECRET, name="clinic", data_norm=1.0, budget=(1.0, 1e-6)), {}, []
    for _ in range(30):
        name = names[draw.integers(2)]
        if draw.random() < 0.5:
            raw = Frame(name, (Describe() if draw.random() < 0.5 else order(200, 100.0)).encode()).encode()
            party.handle(raw)
        mu = float(draw.choice([0.005, 0.01]))
        raw = Frame(name, order(200, mu).encode()).encode()
        answer, model = party.handle(raw), party.parts["m"].coef.tobytes()
        assert isinstance(decode(answer), Payload)
        if last.get(name, (None,))[0] == raw:
            assert (raw, answer, model) == last[name]
        else:
            spent.append(cost(mu))
        last[name] = raw, answer, model
        assert party.spent == compose(*spent)
    assert 5 < len(spent) < 30


def test_the_seed_of_one_session_makes_the_noise_of_no_other_repeatable():
    def trained(seeded):
        party = Party(SECRET, name="clinic", data_norm=1.0, budget=(1.0, 1e-6))
        first, other = Line(party), Line(party)
        with party.seeded(0, session=first.name):
            assert isinstance((first if seeded else other).ask(order(200, 0.1)), Payload)
        return [part.coef.tolist() for part in party.parts.values()]

    assert trained(True) == trained(True) != []
    assert trained(False) != trained(False)


def test_a_refused_request_changes_nothing():
    party = Party(SECRET, name="clinic", data_norm=1.0, budget=(1.0, 1e-6))
    line = Line(party)
    raw = line.frame(order(200, 100.0))
    assert isinstance(decode(party.handle(raw)), Refused)
    assert party.handle(raw) == party.handle(raw)
    assert isinstance(line.ask(Describe()), Description)
    assert len(request(Party(SECRET, name="clinic"), Score("m" * 60_000)).reason) == 1000


def test_an_old_version_is_refused_in_words():
    party = Party(SECRET, name="clinic")
    old = b"SVM1" + Describe().encode()[4:]
    for raw in (old, Describe().encode(), b"", b"SVF2" + b"\0" * 24 + Describe().encode(), b"SVF3" + b"\0" * 10):
        assert isinstance(decode(party.handle(raw)), Refused)
    assert "not a request of this version: it starts with b'SVM1', not b'SVF3'" in decode(party.handle(old)).reason


def test_sessions_that_are_too_many_end():
    """The one that was idle for longest, those without a training first; questions hold none."""
    party = Party(SECRET, name="clinic", data_norm=1.0)
    training = Line(party)
    training.ask(Invite(JOINT.text()))
    for _ in range(MOST_OPEN + 3):
        Line(party).ask(order(200, 0.01))
        Line(party).ask(Describe())
    assert len(party._sessions) == MOST_OPEN
    assert "is not a list of cards" in training.ask(Connect("[1]")).reason  # it is there


# --- what an owner allows ---------------------------------------------------------------------------------------------

JOINT = JointPlan(
    n_samples=200,
    blocks=(Block(name="clinic", n_features=1, bound=1.0), Block(name="bank", n_features=1, bound=1.0)),
    label_holder="clinic", loss="logistic", alpha=0.1, epsilon=0.1, delta=1e-6, engine="in-process",
)  # fmt: skip
EACH = {
    "alignment": AlignTo(announce(["17", "4"])),
    "local-models": TrainOnLabels(np.ones(200), "squared", 0.0, 0.0, 0.1, 0.05, "m"),
    "frank-wolfe": ball(200),
    "secure": Invite(JOINT.text()),
    "exact": ShowColumns(),
    "score": Score("m"),
}


@pytest.mark.parametrize("allowed", [*sorted(ANSWERS), None])
def test_a_party_answers_what_its_owner_allows(allowed):
    answers = set() if allowed is None else {allowed}
    for name, message in EACH.items():
        party = Party(SECRET, range(200), name="clinic", data_norm=1.0, data_bound=1.0, answers=answers)
        party.adopt("m", Part(np.ones(1), 0.0))
        line = Line(party)
        reply = line.ask(message)
        if name == allowed:
            assert not isinstance(reply, Refused), reply.reason
        else:
            assert "its owner" in reply.reason or "its owner allow" in reply.reason
        assert isinstance(line.ask(Describe()), Description)


@pytest.mark.parametrize("ask", [order(200, 0.1), ball(200)], ids=lambda ask: type(ask).__name__)
def test_one_model_too_many_is_refused_before_it_is_charged(ask):
    party = Party(SECRET, name="clinic", data_norm=1.0, data_bound=1.0, budget=BUDGET)
    party.adopt("other", Part(np.ones(1), 0.0))
    party.most_models = 1
    assert request(party, ask).reason == "it keeps 1 models of this run, and no more"
    assert party.spent == compose()


def test_every_request_has_a_name_or_is_public():
    assert set(ANSWERS) == set(EACH)
    assert {answer.name for names in ANSWERS_TO.values() for answer in names} == set(ANSWERS)
    public = {"Describe", "Afford", "Close"}
    assert {kind.__name__ for kind, names in ANSWERS_TO.items() if not names} == public


def test_defaults_and_wrong_names():
    assert Party(SECRET, name="clinic").answers == set(ANSWERS)
    assert Party(SECRET, name="clinic", budget=BUDGET).answers == PRIVATE | {
        name for name, answer in ANSWERS.items() if answer.public
    }
    assert Party(SECRET, name="clinic", answers={"score"}).take([1, 0]).answers == {"score"}
    with pytest.raises(ParameterError, match=r"answers must be a set of names .*; got 'scores' among them"):
        Party(SECRET, name="clinic", answers={"scores"})
    with pytest.raises(ParameterError, match=r"answers must be a set of names .*; got 'score'"):
        Party(SECRET, name="clinic", answers="score")
    for name in ("score", "exact"):
        with pytest.raises(ParameterError, match=f"answers has '{name}', which has no noise"):
            Party(SECRET, name="clinic", budget=BUDGET, answers={name})


def test_no_mechanism_leaves_an_exact_part_under_a_budget():
    """What a party with a budget answers follows from its noise; a part that was made without any is never scored."""
    y = np.where(SECRET[:, 0] > 0.5, 1.0, -1.0)
    bounds = {"data_norm": 2.0, "data_bound": 1.0}
    models = [
        VerticalLogisticRegression(epsilon=2.0, delta=1e-5, classes=[-1, 1], mechanism=mechanism)
        for mechanism in ("local-models", "secure")
    ] + [
        VerticalLasso(epsilon=2.0, delta=1e-5, radius=1.0, label_bounds=(-1, 1), aggregation=aggregation)
        for aggregation in ("local", "secure")
    ]
    for model in models:
        clinic = Party(SECRET, name="clinic", budget=(9.0, 1e-3), **bounds)
        model.fit([Party(SECRET, name="bank", y=y, **bounds), clinic])
        assert clinic.parts and not any(part.exact for part in clinic.parts.values())


# --- every number of every request ------------------------------------------------------------------------------------

EXTREMES = [0.0, 1e-320, 1e-200, 1e-100, 1e-51, 1e-50, 1e-20, 1e-6, 1.0, 1e6, 1e20, 1e50, 1e51, 1e100, 1e200, 1e307]
N = 12


def scripts(draw):
    """Yield requests of every private mechanism with numbers that ``draw`` gives."""
    labels = np.resize([1.0, -1.0], N)
    yield [TrainOnLabels(labels, "logistic", draw(0.1), 0.0, draw(0.1), draw(0.5), "m")]
    yield [TrainOnLabels(0.7 * labels, "squared", 0.0, draw(1.0), draw(0.1), draw(0.5), "m")]
    yield [TrainOnBall("squared", labels * draw(1.0), draw(1.0), draw(1.0), 2, draw(0.5), 1, draw(1.0), "m")]


def transcript(table, script, shown):
    """Answer a script with the released values of the first run in the place of every draw."""
    party = Party(table, name="clinic", data_norm=1.0, data_bound=1.0)
    line, place, moves, allowed = Line(party), iter(shown), [], []
    release, select = GridGaussian.release, ExponentialMechanism.select

    def gaussian(self, ticks, noise):
        value, exact = next(place, (None, None))
        if value is None:
            value, exact = release(self, ticks, noise)[0], ticks
            shown.append((value, exact))
        moved = (ticks - exact).astype(float)
        moves.append(float(np.linalg.norm(moved)) * self.tick / self.noise_std)
        allowed.append(1.0 / self.noise_multiplier)
        return value, self.event

    def choice(self, scores, noise):
        value, exact = next(place, (None, None))
        if value is None:
            value, exact = select(self, scores, noise)[0], scores
            shown.append((value, exact))
        moved = (scores - exact).astype(float)
        moves.append(float(moved.max() - moved.min()) / self.score_range)
        allowed.append(1.0)
        return value, self.event

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GridGaussian, "release", gaussian)
        patch.setattr(ExponentialMechanism, "select", choice)
        replies = [line.ask(message) for message in script]
    for move, most in zip(moves, allowed, strict=True):
        assert move <= most * (1.0 + 1e-9), script[0]
    return [reply.reason if isinstance(reply, Refused) else type(reply).__name__ for reply in replies], moves, party


@pytest.mark.parametrize("seed", range(25))
def test_any_public_number_is_refused_alike_or_protected(seed, caplog):
    """Two neighbours, the same requests and released values: the same refusals, and no move beyond what is stated."""
    caplog.set_level(logging.CRITICAL)
    draws = np.random.default_rng(seed)

    def draw(usual):
        return float(draws.choice(EXTREMES)) if draws.random() < 0.35 else usual

    rows = np.abs(draws.normal(size=(N, 3)))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    other = rows.copy()
    other[-1] = 0.0 if seed % 2 else -rows[-1][::-1]
    accepted = 0
    for script in scripts(draw):
        shown = []
        first, _, party = transcript(rows, script, shown)
        again, moves, neighbour = transcript(other, script, shown)
        assert first == again
        assert not any("it failed there" in answer for answer in first), (first, script)
        assert party.spent == neighbour.spent
        accepted += bool(moves)
    assert accepted or seed


def test_affording_says_what_depends_on_charges_alone():
    party = Party(SECRET, name="clinic", data_norm=1.0, budget=(1.0, 1e-6))
    event = json.dumps(GaussianEvent(5.0).to_dict())
    for text in ("{}", "[1]", "nothing", '{"kind": "gaussian"}', "[" * 5000, '{"kind": "repeated", "count": -1}'):
        assert isinstance(request(party, Afford(text)), Refused)
    often = RepeatedEvent(GaussianEvent(5.0), 2**60)
    for absurd in (often, RepeatedEvent(often, 2)):
        refused = request(party, Afford(json.dumps(absurd.to_dict())))
        assert "cannot be accounted for: more than 2**53" in refused.reason
    assert isinstance(request(party, Afford(event)), Done)
    request(party, order(200, 0.2))
    assert "this would bring what was spent to epsilon=" in request(party, Afford(event)).reason


def test_a_training_that_fails_leaves_nothing_behind():
    """One party breaks down in the middle; the others forget the session all the same, and a new one begins."""

    class Broken(Party):
        def handle(self, raw):
            if isinstance(decode(Frame.read(raw).body), ShowColumns):
                raise RuntimeError("the machine stopped")
            return super().handle(raw)

    good, bad = Party(SECRET, name="good"), Broken(SECRET, name="bad")
    parties = InProcessParties([bad, good])
    with pytest.raises(PartyError, match=r"party 'bad' failed \(RuntimeError\)"), parties.session() as session:
        session.exchange(ShowColumns(), Payload)
    assert len(good._sessions) == 0
    with pytest.raises(PartyError):
        parties.exchange(ShowColumns(), Payload)
    assert isinstance(parties.ask("good", Describe(), Description), Description)


def test_a_farewell_that_is_not_answered_hides_no_error():
    class Silent(Party):
        def handle(self, raw):
            if isinstance(decode(Frame.read(raw).body), Close):
                raise RuntimeError
            return super().handle(raw)

    parties = InProcessParties([Silent(SECRET, name="clinic", data_norm=1.0)])
    with pytest.raises(ZeroDivisionError), parties.session() as session:
        session.exchange(Invite(JOINT.text()), Payload)
        _ = 1 / 0


# --- alignment --------------------------------------------------------------------------------------------------------

with_psi = pytest.mark.skipif(
    importlib.util.find_spec("private_set_intersection") is None, reason="openmined-psi (extra [vertical]) is missing"
)


def aligned_party(**options):
    return Party(SECRET, range(200), name="clinic", data_norm=1.0, **options)


def test_a_wrong_announcement_tells_nothing_but_that_it_is_wrong():
    """Whether one person is not there or all of them, where it stands, and how many: the same bytes."""
    party = aligned_party(budget=BUDGET)
    wrong = [["0", "x"], ["x"], ["x", "y"], sorted([*map(str, range(200)), "x"]), ["", "0"], ["0" * 100_000]]
    replies = {Line(party).ask(AlignTo(announce(people))).encode() for people in wrong}
    assert replies == {Refused("the announcement holds people whom it lacks. Run the alignment again").encode()}
    for raw, fault in ((b'["2","1"]', "not sorted"), (b"[1]", "not a list"), (b"[]", "at least 1 people; these are 0")):
        assert fault in Line(party).ask(AlignTo(raw)).reason
    assert (party.alignment, party.n_rows, party.spent) == (None, 200, NothingReleased())


def test_repeated_and_missing_identifiers_are_those_of_nobody():
    party = Party(SECRET[:5], ["a", "a", "b", None, ""], name="clinic")
    for people in (["a"], [""], ["a", "b"]):
        assert "people whom it lacks" in Line(party).ask(AlignTo(announce(people))).reason
    assert isinstance(Line(party).ask(AlignTo(announce(["b"]))), Done)


def test_a_budget_is_one_for_all_alignments():
    """Aligned to all people and then to all but one, a party is charged twice; what differs is covered by both."""
    party = aligned_party(budget=(1.0, 1e-6))
    people = sorted(map(str, range(200)))
    for chosen in (people, people[1:]):
        assert isinstance(request(party, AlignTo(announce(chosen))), Done)
        assert isinstance(request(party, order(len(chosen), 0.1)), Payload)
    assert party.n_rows == 199
    assert party.spent == compose(cost(0.1), cost(0.1))


def test_a_party_without_identifiers_or_leave_is_not_aligned():
    messages = (Intersect(b""), AlignTo(b"[]"))
    for message in messages:
        assert "it was given no identifiers" in Line(Party(SECRET, name="clinic")).ask(message).reason
        asked = Line(aligned_party(answers={"score"})).ask(message)
        assert "its owner allows 'score'" in asked.reason


@with_psi
def test_a_key_answers_once(monkeypatch):
    party = aligned_party(budget=BUDGET)
    line, client = Line(party), PsiClient(["17", "x"])
    told = [line.ask(Intersect(client.request())) for _ in range(2)]
    cuts = [int(each.numbers[0]) for each in told]
    setups, answers = ([each.octets[place(cut)] for each, cut in zip(told, cuts, strict=True)]
                       for place in (slice, lambda cut: slice(cut, None)))  # fmt: skip
    assert setups[0] != setups[1]  # a new key each
    assert client.intersect(setups[1], answers[1]).tolist() == [0]
    assert client.intersect(setups[0], answers[1]).tolist() == []
    assert "the request message cannot be read" in line.ask(Intersect(b"\xff" * 9)).reason
    assert "129 points with the decoys; these are 0" in line.ask(Intersect(b"\x0a\x02\x02\xff")).reason
    monkeypatch.setattr(alignment_party, "MOST_ASKED", 1)
    assert "at most 1 people at once" in line.ask(Intersect(client.request())).reason
    assert party.spent == NothingReleased()
