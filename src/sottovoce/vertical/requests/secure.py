"""Joint training inside secure computation: a plan, cards, a meeting, a start, what was opened.

A party derives everything from the plan's text and trusts nobody's word for more. The order of the requests is fixed,
and each has its place once: an invitation, a meeting, a start, which is charged as a whole before anything of the data
is shared, the end. From the start on nobody orders anything: the party goes through the steps of the plan. What a
coordinator gets that sends anything else, in any order, is at most what the start was charged for.
"""

import hashlib
import json
from dataclasses import fields
from typing import Any, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.seat import Seat
from sottovoce.vertical.protocol import Answered, PartyFacts, RefusalError, Request, opened, refuse
from sottovoce.vertical.secure.agreed_plan import AgreedPlan, Block
from sottovoce.vertical.secure.column_plan import ColumnPlan
from sottovoce.vertical.secure.joint_plan import JointPlan
from sottovoce.vertical.secure.worker import JointWorker
from sottovoce.vertical.wire import Done, Message, Payload

MOST_JOINT: Final = 2  # joint trainings of one party at a time; each is a process with shares of all tables
_WAIT: Final = 2.0  # seconds that a question waits for its answer; the party answers nobody else meanwhile
_PATIENCE: Final = 600.0  # seconds, of a party that computes in its own process
_KINDS: Final[tuple[type[AgreedPlan], ...]] = (JointPlan, ColumnPlan)


def plan_from_text(text: str) -> AgreedPlan:
    """Read a plan of any kind; the text must be exactly that of a plan: there is one way to write each.

    Raises `ParameterError` if it is not, or the plan is none that can be run.
    """
    try:
        data = json.loads(text)
        kind = next(kind for kind in _KINDS if data.keys() == {field.name for field in fields(kind)})
        given: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
        plan = kind(**given | {"blocks": tuple(Block(**each) for each in data["blocks"])})
    except ParameterError:
        raise
    except (ValueError, RecursionError, AttributeError, StopIteration, TypeError):
        raise ParameterError("the text is not a plan of a joint training.") from None
    if plan.text() != text:
        raise ParameterError("the text is a plan, but not in its canonical form.")
    return plan


class Invite(Request, code=92, opens=True):
    """Propose a joint training: the whole plan, as canonical JSON. Nothing is charged or shared yet.

    The answer is what the party tells its partners before any of them shares data, signed: its card
    (`sottovoce.vertical.engines`).
    """

    plan: str

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        if isinstance(worker, JointWorker):
            raise RefusalError("this session has a joint training already; another one needs a session of its own")
        plan = plan_from_text(self.plan)
        _check_own(facts, plan)
        usable = facts.engines
        if plan.engine not in usable:
            listed = ", ".join(map(repr, usable)) or "none"
            raise RefusalError(
                f"it does not compute with the engine {plan.engine!r}; its owner allows, and it has, {listed}: see "
                "Party(..., computing=...) and pip install 'sottovoce[secure]'"
            )
        desk = yield None
        if not facts.is_helper:
            refuse(desk.shortage(plan.event))  # said before anybody meets
        n_open = sum(isinstance(each, JointWorker) and each.is_open for each in desk.workers())
        if n_open >= MOST_JOINT:
            raise RefusalError(
                f"it takes part in {n_open} joint trainings, and in at most {MOST_JOINT} at a time: wait until one ends"
            )
        try:
            seat = Seat.take(facts.computing, facts.name, desk.session, plan.engine, plan.digest, plan.programs_digest)
        except EngineError as error:
            raise RefusalError(str(error)) from None
        patience = _PATIENCE if facts.computing is None else facts.computing.timeout
        desk.worker = JointWorker(plan, facts.name, seat, patience)
        return Payload(octets=seat.card.encode())


def _check_own(facts: PartyFacts, plan: AgreedPlan) -> None:
    """Refuse a plan that says of this party what is not so."""
    if facts.name not in plan.ranks:
        raise RefusalError(f"the plan is for {', '.join(map(repr, plan.ranks))}, and this is {facts.name!r}")
    if facts.is_helper or facts.name in plan.helpers:
        if not (facts.is_helper and facts.name in plan.helpers):
            raise RefusalError("the plan takes a party with a table for a helper, or a helper for one with a table")
        return
    (block,) = (block for block in plan.blocks if block.name == facts.name)
    true = {"n_samples": facts.n_rows, **plan.declared(facts)}
    said = {"n_samples": plan.n_samples, **{name: getattr(block, name) for name in true if name != "n_samples"}}
    if said != true:
        raise RefusalError(f"the plan says {said!r} of this party, and what it declared is {true!r}")


def _joint(worker: Any, request: Message, *states: str) -> JointWorker:
    """Return the joint training of the session, if it is in one of these states; it may end at any time."""
    joint = opened(JointWorker, worker, request)
    if not joint.is_open:
        raise RefusalError(joint.reason)
    if joint.state not in states:
        raise RefusalError(f"{type(request).__name__} came out of its turn: the joint training is {joint.state}")
    return joint


class Connect(Request, code=97, once=True):
    """Meet the partners: the cards of all, as JSON, in the order of the plan. Nothing is charged or shared yet.

    The party checks the cards, connects in the background, and tests that the session computes what it should.
    """

    cards: str

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Done]:
        _joint(worker, self, "invited")
        try:
            cards = json.loads(self.cards)
        except (ValueError, RecursionError):
            cards = None
        if not isinstance(cards, list) or not all(isinstance(card, str) for card in cards):
            raise RefusalError("Connect.cards is not a list of cards")
        yield None
        joint = _joint(worker, self, "invited")
        try:
            joint.connect(cards)
        except EngineError as error:  # an invitation is good for one set of cards
            joint.end(str(error))
            raise RefusalError(str(error)) from None
        return Done()


class Join(Request, code=94, once=True):
    """Begin: the whole training is charged, then the party goes through all its steps with the partners by itself.

    ``labels`` is for the label holder alone and empty for the others.
    """

    labels: Vector

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Done]:
        joint = _joint(worker, self, "connected")
        _check_own(facts, joint.plan)
        holds_labels = facts.name == joint.plan.label_holder
        if holds_labels:
            facts.one_a_row(self, "labels")
        elif len(self.labels):
            raise RefusalError("Join.labels is for the label holder alone")
        facts.check_room("")  # whatever `Poll` calls it
        desk = yield None if facts.is_helper else joint.plan.event
        joint = _joint(worker, self, "connected")
        labels = self.labels.copy() if holds_labels else None
        joint.begin(None if facts.is_helper else desk.table, labels, desk.noise())
        return Done()


class Poll(Request, code=107):
    """Ask how far the party is with what it does in the background, the meeting or the training.

    The answer is how many steps have been done, and 1 where nothing is under way any more, else 0; once the training is
    done, which every partner has seen, also the noisy numbers that all parties saw, of all steps in their order, in the
    unit of the plan. With a ``model`` the party keeps its part of it in place of that. It compares ``opened``, unless
    that is empty, with the SHA-256 of what itself has seen. Its engine stays until the session is closed: partners may
    wait.
    """

    model: str = ""
    opened: bytes = b""

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        states = (*(() if self.model else ("connecting", "connected")), "computing", "opened", "kept")
        joint = _joint(worker, self, *states)
        if self.model and facts.is_helper:
            raise RefusalError("a helper has no part of a model")
        desk = yield None
        joint = _joint(worker, self, *states)
        is_done = joint.wait(_WAIT)
        if not joint.is_open:
            raise RefusalError(joint.reason)
        values = np.concatenate(joint.opened) if is_done and joint.opened else np.zeros(0)
        if self.model and is_done:
            if self.opened and self.opened != hashlib.sha256(values.tobytes()).digest():
                raise RefusalError(
                    "its training opened other numbers than it is told of: one of the parties does not follow the "
                    "protocol, or runs another version"
                )
            desk.keep(self.model, *joint.weights, released=True)
            joint.state, values = "kept", np.zeros(0)
        return Payload(np.append([len(joint.opened), is_done], values))
