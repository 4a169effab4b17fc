"""The coordinator's side of a joint training: it carries the plan, the cards, and what was opened."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.exceptions import PartyError
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import PublicFacts
from sottovoce.vertical.protocols.secure.agreed_plan import AgreedPlan
from sottovoce.vertical.protocols.secure.messages import (
    AskConnected,
    Card,
    Connect,
    Connected,
    Invite,
    Join,
    KeepJoint,
    Opened,
    StepJointly,
    TakeOpened,
)
from sottovoce.vertical.wire import Done, Message

__all__ = ["Joined", "conduct", "engine_in_words", "meet", "rests_on", "view_of_engine"]

_NO_LABELS: Final = np.zeros(0)


@dataclass(frozen=True)
class Joined:
    """What a joint training gave.

    Attributes
    ----------
    weights : dict
        Coefficients and intercept by party.
    chosen : dict
        Public numbers that the training chose, for the receipt.
    n_rounds : int
        Steps that opened something.
    """

    weights: Mapping[str, tuple[Vector, float]]
    chosen: Mapping[str, object]
    n_rounds: int


def meet(parties: Parties, plan: AgreedPlan, patience: float) -> None:
    """Invite all parties, and let their engines meet and test the session; no data are shared."""
    cards = parties.exchange(_to_all(plan, Invite(plan.text())), Card)
    listed = json.dumps([cards[name].card for name in plan.ranks])
    parties.exchange(_to_all(plan, Connect(listed)), Done)
    _wait(parties, plan, AskConnected(), Connected, patience)


def conduct(parties: Parties, plan: AgreedPlan, y: Vector, model: str, patience: float) -> Joined:
    """Begin, take what is opened, and let the parties, who have met, keep their parts under the name ``model``.

    Parameters
    ----------
    parties : Parties
    plan : AgreedPlan
    y : ndarray of shape (n_samples,)
        The label holder's.
    model : str
    patience : float
        Seconds that one step may take at all parties together.
    """
    try:
        return _train(parties, plan, y, model, patience)
    except PartyError as error:
        raise PartyError(
            f"{str(error).rstrip('.')}. The joint training had begun by then: epsilon = {plan.epsilon:g} of every "
            "person's rows at all parties is spent and stays charged, whatever was opened. It cannot be resumed; a "
            "new fit is charged again."
        ) from error


def _train(parties: Parties, plan: AgreedPlan, y: Vector, model: str, patience: float) -> Joined:
    starts: dict[str, Message] = {name: Join(y if name == plan.label_holder else _NO_LABELS) for name in plan.ranks}
    parties.exchange(starts, Done)
    fitting = plan.fitting()
    points, step = _followed(fitting.moments, _opened(parties, plan, 0, patience)), 0
    while points is not None:
        step += 1
        parties.exchange(_to_all(plan, StepJointly(step)), Done)
        points = _followed(fitting.step, _opened(parties, plan, step, patience))
    weights = dict(fitting.weights)
    parties.exchange({block.name: KeepJoint(model) for block in plan.blocks}, Done)
    return Joined(weights, dict(fitting.chosen), 1 + step)


def _followed(rule: Callable[[Vector], Any], opened: Vector) -> Any:
    """Return what follows from opened numbers, which may be anything if all parties say the same."""
    try:
        return rule(opened)
    except (ValueError, IndexError, ArithmeticError, np.linalg.LinAlgError):
        raise PartyError(
            f"all parties say that {len(opened):,} numbers were opened, which are no sums of this plan: bring them "
            "to the same version."
        ) from None


def _to_all(plan: AgreedPlan, request: Message) -> dict[str, Message]:
    return dict.fromkeys(plan.ranks, request)


def _opened(parties: Parties, plan: AgreedPlan, step: int, patience: float) -> Vector:
    """Return what a step opened, which is the same at all parties."""
    replies = _wait(parties, plan, TakeOpened(step), Opened, patience)
    first, *others = plan.ranks
    values: Vector = replies[first].values
    differing = [
        name
        for name in others
        if replies[name].step != replies[first].step or not np.array_equal(replies[name].values, values)
    ]
    if differing:
        raise PartyError(
            f"parties {first!r} and {', '.join(map(repr, differing))} say that step {step} opened different "
            "numbers: one of them does not follow the protocol, or runs another version."
        )
    return values


def _wait(parties: Parties, plan: AgreedPlan, question: Message, answer: Any, patience: float) -> dict[str, Any]:
    """Ask all computing parties until each is ready."""
    deadline = time.monotonic() + patience
    replies: dict[str, Any] = {}
    due: Sequence[str] = plan.ranks
    while due:
        came: Mapping[str, Any] = parties.exchange(dict.fromkeys(due, question), answer)
        replies.update({name: reply for name, reply in came.items() if reply.ready})
        due = [name for name in plan.ranks if name not in replies]
        if due and time.monotonic() > deadline:
            raise PartyError(
                f"party {due[0]!r} was not ready after {patience:g} seconds; raise "
                "mechanism_options['patience'], or look at what runs there."
            )
    return replies


# ---------------------------------------------------------------------- words for receipts


def engine_in_words(plan: AgreedPlan, facts: PublicFacts) -> str:
    """Return what computes, with versions, for the receipt."""
    if plan.engine == "in-process":
        return "in clear, in one process: a trial"
    return f"{plan.protocol}, engine {engine_version(plan, facts)}"


def engine_version(plan: AgreedPlan, facts: PublicFacts) -> str:
    """Return the engine's packages with their versions, the same at all parties."""
    return next((each[plan.engine] for each in facts.engines.values() if plan.engine in each), plan.engine)


def rests_on(plan: AgreedPlan, facts: PublicFacts) -> tuple[str, ...]:
    """Return what the secrecy of the shares rests on, for the receipt."""
    if plan.engine == "in-process":
        return ()
    honest = "both parties" if len(plan.ranks) == 2 else "an honest majority of the computing parties"
    return (
        f"computational and semi-honest: it rests on the protocol {plan.protocol} of {engine_version(plan, facts)}, on "
        f"{honest} following it, and on the cards by which they know each other",
    )


def view_of_engine(plan: AgreedPlan) -> str:
    """Return what the engine does not hide, for the receipt."""
    if plan.engine == "in-process":
        return "parties share one process: nothing is hidden from whoever runs it"
    if len(plan.ranks) == 2:
        return "a computing party that does not follow the protocol may see the other's columns and the labels"
    return (
        "two colluding computing parties that put their shares together see all columns of everybody, and the "
        "labels, without noise"
    )
