"""The party's side of a joint training: it derives everything from the plan's text and trusts nobody's word for more.

The order of the requests is fixed, and each has its place once: an invitation, a meeting, a start, which is charged as
a whole before anything of the data is shared, the end. From the start on nobody orders anything: the party goes through
the steps of the plan. What a coordinator gets that sends anything else, in any order, is at most what the start was
charged for.
"""

import json
from typing import ClassVar, Final, TypeVar

import numpy as np

from sottovoce.privacy.events import Event
from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.seat import Seat
from sottovoce.vertical.protocol import Desk, Handler, PartyFacts, RefusalError, Training
from sottovoce.vertical.protocols.secure import messages
from sottovoce.vertical.protocols.secure.agreed_plan import AgreedPlan, read_text
from sottovoce.vertical.protocols.secure.column_plan import ColumnPlan
from sottovoce.vertical.protocols.secure.joint_plan import JointPlan
from sottovoce.vertical.protocols.secure.worker import JointWorker
from sottovoce.vertical.wire import Done, Message

__all__ = ["HANDLERS", "MOST_JOINT", "plan_from_text"]

MOST_JOINT: Final = 2  # joint trainings of one party at a time; each is a process with shares of all tables
Request = TypeVar("Request", bound=Message)

_WAIT: Final = 2.0  # seconds that a question waits for its answer; the party answers nobody else meanwhile
_PATIENCE: Final = 600.0  # seconds, of a party that computes in its own process


_KINDS: Final[tuple[type[AgreedPlan], ...]] = (JointPlan, ColumnPlan)


def plan_from_text(text: str) -> AgreedPlan:
    """Read a plan of any kind; the text must be exactly that of a plan.

    Raises
    ------
    ParameterError
        If it is not, or the plan is none that can be run.
    """
    data = read_text(text)
    kind = next((kind for kind in _KINDS if kind.has_fields(data)), JointPlan)
    return kind.from_text(text)


class InviteHandler(Handler[messages.Invite]):
    """The plan, checked against what is true of this party; a place where partners can reach it."""

    request = messages.Invite
    ends_with_process = True

    def plan(self, facts: PartyFacts, training: Training, request: messages.Invite) -> None:
        if isinstance(training.worker, JointWorker):
            raise RefusalError("this session has a joint training already; another one needs a session of its own")
        plan = self._plan = plan_from_text(request.plan)
        _check_own(facts, plan)
        usable = facts.engines
        if plan.engine not in usable:
            listed = ", ".join(map(repr, usable)) or "none"
            raise RefusalError(
                f"it does not compute with the engine {plan.engine!r}; its owner allows, and it has, {listed}: see "
                "Party(..., computing=...) and pip install 'sottovoce[secure]'"
            )

    def run(self, desk: Desk, request: messages.Invite) -> messages.Card:
        plan, facts = self._plan, desk.facts
        shortage = "" if facts.is_helper else desk.shortage(plan.event)
        if shortage:  # said before anybody meets
            raise RefusalError(shortage)
        n_open = sum(isinstance(worker, JointWorker) and worker.is_open for worker in desk.workers())
        if n_open >= MOST_JOINT:
            raise RefusalError(
                f"it takes part in {n_open} joint trainings, and in at most {MOST_JOINT} at a time: wait until one ends"
            )
        try:
            seat = Seat.take(facts.computing, facts.name, desk.session, plan.engine, plan.digest, plan.programs_digest)
        except EngineError as error:
            raise RefusalError(str(error)) from None
        patience = _PATIENCE if facts.computing is None else facts.computing.timeout
        desk.training = Training(worker=JointWorker(plan, facts.name, seat, patience))
        return messages.Card(seat.card)


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


class _OfWorker(Handler[Request]):
    """A request to the joint training of the session, which is in one of the ``states``; it may end at any time."""

    states: ClassVar[tuple[str, ...]]
    ends_with_process = True

    def plan(self, facts: PartyFacts, training: Training, request: Request) -> Event | None:
        """Refuse a request out of its turn; all is charged with the start."""
        self._worker(training, request)
        return None

    def _worker(self, training: Training, request: Message) -> JointWorker:
        worker = training.open(JointWorker, request)
        if not worker.is_open:
            raise RefusalError(worker.reason)
        if worker.state not in self.states:
            raise RefusalError(f"{type(request).__name__} came out of its turn: the joint training is {worker.state}")
        return worker


class ConnectHandler(_OfWorker[messages.Connect]):
    """The partners: checked by their cards, then met in the background."""

    request, states = messages.Connect, ("invited",)

    def plan(self, facts: PartyFacts, training: Training, request: messages.Connect) -> None:
        super().plan(facts, training, request)
        try:
            cards = json.loads(request.cards)
        except (ValueError, RecursionError):
            cards = None
        if not isinstance(cards, list) or not all(isinstance(card, str) for card in cards):
            raise RefusalError("Connect.cards is not a list of cards")
        self._cards: list[str] = cards

    def run(self, desk: Desk, request: messages.Connect) -> Done:
        worker = self._worker(desk.training, request)
        try:
            worker.connect(self._cards)
        except EngineError as error:  # an invitation is good for one set of cards
            worker.end(str(error))
            raise RefusalError(str(error)) from None
        return Done()


class JoinHandler(_OfWorker[messages.Join]):
    """The start, which costs what the whole training does."""

    request, states = messages.Join, ("connected",)

    def plan(self, facts: PartyFacts, training: Training, request: messages.Join) -> Event | None:
        worker = self._worker(training, request)
        _check_own(facts, worker.plan)
        if facts.name == worker.plan.label_holder:
            facts.one_a_row(request, "labels")
        elif len(request.labels):
            raise RefusalError("Join.labels is for the label holder alone")
        return None if facts.is_helper else worker.plan.event

    def run(self, desk: Desk, request: messages.Join) -> Done:
        worker = self._worker(desk.training, request)
        facts = desk.facts
        labels = request.labels.copy() if facts.name == worker.plan.label_holder else None
        worker.begin(None if facts.is_helper else desk.table, labels, desk.noise())
        return Done()


class PollHandler(_OfWorker[messages.Poll]):
    """How far it is; what was opened, once the training is done, which every partner has seen."""

    request, states = messages.Poll, ("connecting", "connected", "computing", "opened")
    changes = False

    def run(self, desk: Desk, request: messages.Poll) -> messages.Opened:
        worker = self._worker(desk.training, request)
        is_done = worker.wait(_WAIT)
        if not worker.is_open:
            raise RefusalError(worker.reason)
        values = np.concatenate(worker.opened) if is_done and worker.opened else np.zeros(0)
        return messages.Opened(len(worker.opened), int(is_done), values)


class KeepJointHandler(_OfWorker[messages.KeepJoint]):
    """The end: the party keeps what follows from the opened sums, and nobody's word for it."""

    request, states = messages.KeepJoint, ("opened",)

    def plan(self, facts: PartyFacts, training: Training, request: messages.KeepJoint) -> None:
        super().plan(facts, training, request)
        if facts.is_helper:
            raise RefusalError("a helper has no part of a model")

    def run(self, desk: Desk, request: messages.KeepJoint) -> Done:
        worker = self._worker(desk.training, request)
        desk.keep(request.model, *worker.weights, released=True)
        worker.end("the joint training has ended, and its model is kept")
        return Done()


HANDLERS: Final = (
    InviteHandler,
    ConnectHandler,
    PollHandler,
    JoinHandler,
    KeepJointHandler,
)
"""What a party answers whose owner allows joint trainings."""
