"""No sequence of requests to a party and to its scoring run tells more than was charged.

All sequences of at most five requests, out of the letters below: every kind of request that there is, in one of two
sessions of a training run, or in a later scoring run of the same owner, which has the models that were kept.
Each is sent to the same party with each of two neighbouring tables. What carries noise is answered alike on both
(`support.coupled_parties`), so that every other answer must be alike too, and what noise hid must have been charged.

A request in one session changes nothing of another one but through what they share: kept models, and whose rows the
table has. So what follows a request is looked up where the session and what is shared are as they were before; that
this is so, `test_sessions_meet_in_nothing_else` tries on sequences that are sent as they are.
"""

import json
from typing import NamedTuple

import numpy as np
import pytest

from sottovoce.papers import frank_wolfe
from sottovoce.papers.frank_wolfe.published import PublishedBallStart, PublishedBallStep
from sottovoce.privacy.events import GaussianEvent
from sottovoce.vertical.mechanisms import ANSWERS, ANSWERS_TO
from sottovoce.vertical.requests.alignment import AlignTo, Intersect, announce
from sottovoce.vertical.requests.frank_wolfe import TrainOnBall
from sottovoce.vertical.requests.general import Afford, Close, Describe, KeepWeights, Score, ShowColumns
from sottovoce.vertical.requests.local_models import TrainOnLabels
from sottovoce.vertical.requests.secure import Connect, Invite, Join, Poll
from sottovoce.vertical.secure.agreed_plan import Block
from sottovoce.vertical.secure.joint_plan import JointPlan
from support.coupled_parties import Common, Pair, Session, coupled_noise
from support.noisy_rounds import ROUNDS, RoundsKeep, RoundsStep

INF = float("inf")
TABLES = [np.array([row, [0.25, 0.5], [-0.5, 0.125]]) for row in ([0.75, 0.25], [-0.25, -0.75])]
ZERO, ONE = np.zeros(3), np.array([1.0, 0.0, 0.0])
LABELS = np.array([1.0, -1.0, 1.0])
ALL, SOME = ["p0", "p1", "p2"], ["p0", "p2"]
PLAN = JointPlan(
    n_samples=3,
    blocks=(Block(name="clinic", n_features=2, bound=1.0), Block(name="bank", n_features=1, bound=1.0)),
    label_holder="bank", loss="squared", label_bounds=(-1.0, 1.0), alpha=0.1, epsilon=0.1, delta=1e-6,
    engine="in-process", n_passes=0,
)  # fmt: skip
BALL = {"loss": "squared", "labels": LABELS, "vertex": 1.0, "clip": 1.0, "selection": 0.1, "intercept": 0}

TRAINING = [
    Describe(),
    Afford('{"kind": "gaussian", "noise_multiplier": 9.0}'),
    Close(),
    Intersect(b"points"),
    AlignTo(announce(ALL)),
    AlignTo(announce(SOME)),
    ShowColumns(),
    KeepWeights("m", [0.0, 1.0, 0.0]),
    TrainOnLabels(LABELS, "squared", 0.1, 0.0, 0.1, 0.1, "m"),
    TrainOnLabels(LABELS, "logistic", 0.1, 0.0, 1e-20, 0.1, "m"),
    *(RoundsStep(shift, mu) for shift in (ZERO, ONE) for mu in (0.1, 1e-6)),
    RoundsKeep("m", ONE),
    TrainOnBall(**BALL, n_steps=2, unit=1.0, model="m"),
    TrainOnBall(**{**BALL, "labels": 1e150 * ONE}, n_steps=1, unit=1.0, model="m"),
    Invite(PLAN.text()),
    Connect(json.dumps(["card", "card"])),
    Join([]),
    Poll(),
    Poll("m"),
    PublishedBallStart("squared", LABELS, 1.0, 1.0, 9.0, 1, 2, 0, 4, 0),
    PublishedBallStep(0, np.zeros(4)),
    Score("m"),
]
SCORING = [
    Describe(),
    AlignTo(announce(["p0"])),
    TrainOnLabels(LABELS, "squared", 0.1, 0.0, 0.1, 0.1, "m"),
    KeepWeights("m", [1.0, 0.0, 0.0]),
    Score("m"),
]
STUDIED = (frank_wolfe.PROTOCOL, ROUNDS)
STEP, KEEP = RoundsStep(ONE, 0.1), RoundsKeep("m", ONE)
# what a run of one kind asks, and what may come between: sequences of five go that far, those over all kinds three
RUNS = {
    "rounds": [STEP, KEEP, Close(),
               TrainOnLabels(LABELS, "squared", 0.1, 0.0, 0.1, 0.1, "m")],
    "ball": [AlignTo(announce(SOME)), TrainOnBall(**BALL, n_steps=2, unit=1.0, model="m"), KEEP,
             KeepWeights("m", [0.0, 1.0, 0.0]), Close()],
    "joint": [AlignTo(announce(ALL)), STEP, Invite(PLAN.text()), Connect(json.dumps(["card", "card"])), Join([]),
              Poll(), Poll("m"), Close()],
}  # fmt: skip
FEWER = list({repr(message): message for run in RUNS.values() for message in run}.values())


class State(NamedTuple):
    """What a run has reached: its two sessions, and what they share."""

    sessions: tuple[Session, Session]
    common: Common

    @property
    def key(self):
        """The same for two states of which one has the sessions the other way round."""
        return tuple(sorted(self.sessions)), self.common


def reached(pair):
    return State((pair.session(0), pair.session(1)), pair.common())


def make_pair(path=()):
    answers = {name for name, answer in ANSWERS.items() if answer.is_covered}
    pair = Pair(TABLES, {*answers, *(each.name for each in STUDIED)}, STUDIED)
    for slot, message in path:
        pair.ask(slot, message, known=True)
    return pair


class Explorer:
    """Sends every letter from every state that can be reached, once for each state that matters to the letter.

    Attributes
    ----------
    faults : list of str
        Sequences that tell more than was charged, and how.
    answered : set of type
        Kinds of request that were not refused somewhere.
    n_sent : int
    """

    def __init__(self, letters):
        self.training = letters
        self.faults, self.answered, self.n_sent = [], set(), 0
        self._known = {}  # what each letter leads to, by the state of its session and by what sessions share
        self._scored = set()  # what was kept when the scoring run was asked

    def n_sequences(self, depth):
        return sum((2 * len(self.training) + len(SCORING)) ** length for length in range(1, depth + 1))

    def explore(self, depth):
        """Send every letter wherever fewer than ``depth`` requests lead to."""
        start = reached(make_pair())
        seen, states = {start.key}, {start: ()}
        for level in range(1, depth + 1):
            following = {}
            for state, path in states.items():
                self._score(path, state.common)
                for slot in (0, 1) if state.sessions[0] != state.sessions[1] else (0,):
                    after = self._after(path, slot, state)
                    for message, (session, common) in zip(self.training, after, strict=level < depth):
                        if level == depth:
                            break
                        other = state.sessions[1 - slot]
                        if common.people != state.common.people and other.holds_training:
                            other = Session.ended()
                        new = State((session, other) if slot == 0 else (other, session), common)
                        if new.key not in seen:
                            seen.add(new.key)
                            following[new] = (*path, (slot, message))
            states = following
        return self

    def _after(self, path, slot, state):
        """Return session and common state after each letter; it is sent unless that is known."""
        here = state.sessions[slot], state.common
        if here not in self._known:
            after, pair = [], make_pair(path)
            for message in self.training:
                self._note(pair.ask(slot, message), (*path, (slot, message)))
                after.append((pair.session(slot), pair.common()))
                if after[-1] != here:
                    pair.close()
                    pair = make_pair(path)
            pair.close()
            self._known[here] = after
        return self._known[here]

    def _score(self, path, common):
        """Ask the scoring run that follows."""
        if common.kept not in self._scored:
            self._scored.add(common.kept)
            pair = make_pair(path)
            for message in SCORING:
                self._note(pair.score(message), (*path, ("scoring", message)))
            pair.close()

    def _note(self, told, path):
        self.n_sent += 1
        if not told.refused:
            self.answered.add(type(path[-1][1]))
        if told.fault:
            self.faults.append(f"{told.fault}: " + ", ".join(f"{slot} {message!r}" for slot, message in path))


def test_every_request_is_among_the_letters():
    studied = {request for each in STUDIED for request in each.requests}
    assert {type(message) for message in TRAINING} == set(ANSWERS_TO) | studied


# what a party with a budget never answers, and what comes only after more than five requests, or never, here
NEVER = {ShowColumns, KeepWeights, Intersect}  # the last: three rows are too few


@pytest.mark.parametrize(
    ("letters", "depth", "unanswered"),
    [
        pytest.param(TRAINING, 3, NEVER, id="all, three"),
        *(pytest.param(run, 5, None, id=f"{name}, five") for name, run in RUNS.items()),
        pytest.param(TRAINING, 5, NEVER, id="all, five", marks=pytest.mark.slow),
    ],
)
def test_no_sequence_tells_more_than_was_charged(letters, depth, unanswered):
    with coupled_noise():
        explorer = Explorer(letters).explore(depth)
    print(f"{explorer.n_sequences(depth):.3g} sequences, by {explorer.n_sent:,} requests")
    assert explorer.faults == []
    if unanswered is not None:
        assert {type(message) for message in (*letters, *SCORING)} - explorer.answered == unanswered


def test_sessions_meet_in_nothing_else():
    """In sequences that are sent as they are: a request leaves the other session alone, and what follows is known."""
    known, again = {}, 0
    rng = np.random.default_rng(7)
    with coupled_noise():
        for _ in range(150):
            pair = make_pair()
            state = reached(pair)
            for number in rng.integers(len(FEWER), size=5):
                slot = int(rng.integers(2))
                told = pair.ask(slot, FEWER[number])
                assert not told.fault
                new, other = reached(pair), state.sessions[1 - slot]
                moved = new.common.people != state.common.people and other.holds_training
                assert new.sessions[1 - slot] == (Session.ended() if moved else other)
                key, after = (state.sessions[slot], state.common, number), (new.sessions[slot], new.common, told)
                again += key in known
                assert known.setdefault(key, after) == after
                state = new
            pair.close()
    assert again > 300


# ------------------------------------------------------------------ what it sees

IN_ROUNDS = [STEP, KEEP]


def faults(depth):
    with coupled_noise():
        return Explorer(IN_ROUNDS).explore(depth).faults


def test_a_kept_part_that_passes_for_released_is_found(monkeypatch):
    """With it all rows of a site were once had for nothing: an exact sum, kept, and scored."""
    assert faults(5) == []
    monkeypatch.setattr(RoundsKeep, "released", True)
    found = faults(5)
    assert found
    assert all(fault.startswith("Score is answered otherwise on the other table") for fault in found)


def test_a_charge_that_is_forgotten_or_too_small_is_found(monkeypatch):
    monkeypatch.setattr(RoundsStep, "event", None)
    assert any("was not charged" in fault for fault in faults(3))
    monkeypatch.setattr(RoundsStep, "event", property(lambda self: GaussianEvent(100.0 / self.mu)))
    assert any("inputs moved by" in fault for fault in faults(4))
