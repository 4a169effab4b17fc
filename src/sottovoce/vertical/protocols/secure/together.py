"""What plans whose sums or choices are computed jointly have in common: how they are conducted, and what receipts say.

First among the bases of a plan. The plan that the parties agree on, word for word, is its `joint`.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.exceptions import PartyError
from sottovoce.privacy.events import Event
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import PublicFacts, SumOfScores, VerticalSolution
from sottovoce.vertical.engines.site import IN_PROCESS
from sottovoce.vertical.protocols.secure import messages
from sottovoce.vertical.protocols.secure.agreed_plan import AgreedPlan, Conclusion
from sottovoce.vertical.wire import Done

_NO_LABELS: Final = np.zeros(0)


class TrainedTogether(ABC):
    """Invite, test the session, compute, keep; every party is charged with the event of the whole."""

    uses_helpers = True

    facts: PublicFacts
    patience: float

    @property
    @abstractmethod
    def joint(self) -> AgreedPlan: ...

    @property
    @abstractmethod
    def row_bounds(self) -> tuple[str, ...]:
        """What each party declares of its rows, for the receipt."""

    @property
    @abstractmethod
    def view(self) -> str:
        """Whom the noise holds against, for the receipt."""

    @property
    def event(self) -> Event:
        return self.joint.event

    def meet(self, parties: Parties) -> None:
        meet(parties, self.joint, self.patience)

    def trained(self, parties: Parties, y: Vector, model: str, scorer: SumOfScores) -> VerticalSolution:
        """Begin, take what is opened, and keep the model; the parties have met."""
        fitting = conduct(parties, self.joint, y, model, self.patience)
        return VerticalSolution(
            scorer=scorer,
            event=self.event,
            party_events=dict.fromkeys(self.facts.names, self.event),
            n_rounds=1 + self.joint.n_steps,
            chosen=dict(fitting.chosen),
            weights=fitting.weights,
        )

    @property
    def unit(self) -> str:
        return "one person: their rows at all parties are replaced together, the label included"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Facts taken as public, and what the secrecy of the shares rests on."""
        plan = self.joint
        if plan.engine == IN_PROCESS:
            return (*self.row_bounds, self.view)
        honest = "both parties" if len(plan.ranks) == 2 else "an honest majority of the computing parties"
        return (
            *self.row_bounds,
            self.view,
            f"computational and semi-honest: it rests on the protocol {plan.protocol} of {self._engine_version}, on "
            f"{honest} following it, and on the cards by which they know each other",
        )

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the statement leaves open: what the engine does not hide, before all."""
        if self.joint.engine == IN_PROCESS:
            seen = "parties share one process: nothing is hidden from whoever runs it"
        elif len(self.joint.ranks) == 2:
            seen = "a computing party that does not follow the protocol may see the other's columns and the labels"
        else:
            seen = (
                "two colluding computing parties that put their shares together see all columns of everybody, and the "
                "labels, without noise"
            )
        return (seen,)

    @property
    def computed_by(self) -> str:
        """What computes, with versions, for the receipt."""
        if self.joint.engine == IN_PROCESS:
            return "in clear, in one process: a trial"
        return f"{self.joint.protocol}, engine {self._engine_version}"

    @property
    def _engine_version(self) -> str:
        """The engine's packages with their versions, the same at all parties."""
        engine = self.joint.engine
        return next((each[engine] for each in self.facts.engines.values() if engine in each), engine)

    def details(self) -> dict[str, object]:
        return {**self.joint.details(), "digest of the joint plan": self.joint.digest}


def meet(parties: Parties, plan: AgreedPlan, patience: float) -> None:
    """Invite all parties, and let their engines meet and test the session; no data are shared."""
    _tell(parties, "sites are invited")
    try:
        cards = parties.exchange(dict.fromkeys(plan.ranks, messages.Invite(plan.text())), messages.Card)
        listed = json.dumps([cards[name].card for name in plan.ranks])
        _tell(parties, "the sites' engines meet")
        parties.exchange(dict.fromkeys(plan.ranks, messages.Connect(listed)), Done)
        _wait(parties, plan, patience)
    finally:
        parties.tell("")


def conduct(parties: Parties, plan: AgreedPlan, y: Vector, model: str, patience: float) -> Conclusion:
    """Begin, take what was opened, and let the parties, who have met, keep their parts under the name ``model``.

    ``y``, of shape (n_samples,): the label holder's.
    ``patience``: seconds that one step may take at all parties together.

    Returns
    -------
    Conclusion
        The model.
    """
    try:
        return _train(parties, plan, y, model, patience)
    except PartyError as error:
        raise PartyError(
            f"{str(error).rstrip('.')}. The joint training had begun by then: epsilon = {plan.epsilon:g} of every "
            "person's rows at all parties is spent and stays charged, whatever was opened. It cannot be resumed; a "
            "new fit is charged again."
        ) from error
    finally:
        parties.tell("")


def _train(parties: Parties, plan: AgreedPlan, y: Vector, model: str, patience: float) -> Conclusion:
    starts = {name: messages.Join(y if name == plan.label_holder else _NO_LABELS) for name in plan.ranks}
    _tell(parties, plan.first_step)
    parties.exchange(starts, Done)
    fitting = _concluded(plan, _wait(parties, plan, patience))
    _tell(parties, "the model is kept")
    parties.exchange({block.name: messages.KeepJoint(model) for block in plan.blocks}, Done)
    return fitting


def _concluded(plan: AgreedPlan, replies: Mapping[str, messages.Opened]) -> Conclusion:
    """Return the model of what was opened, which is the same at all parties, and may be anything if they all say so."""
    first, *others = plan.ranks
    values: Vector = replies[first].values
    differing = [name for name in others if not np.array_equal(replies[name].values, values)]
    if differing:
        raise PartyError(
            f"parties {first!r} and {', '.join(map(repr, differing))} say that the training opened different "
            "numbers: one of them does not follow the protocol, or runs another version."
        )
    fitting = plan.fitting()
    ends = np.cumsum([plan.n_opened(step) for step in range(plan.n_steps + 1)])
    try:
        if len(values) != ends[-1]:
            raise ValueError
        for opened in np.split(values, ends[:-1]):
            fitting.take(opened)
    except (ValueError, IndexError, ArithmeticError, np.linalg.LinAlgError):
        raise PartyError(
            f"all parties say that {len(values):,} numbers were opened, which are no sums of this plan: bring them "
            "to the same version."
        ) from None
    return fitting


def _wait(parties: Parties, plan: AgreedPlan, patience: float) -> dict[str, messages.Opened]:
    """Ask all computing parties until each is ready; in so many seconds all of them do a step more."""
    reached, deadline = 0, time.monotonic() + patience
    replies: dict[str, messages.Opened] = {}
    due: Sequence[str] = plan.ranks
    while due:
        replies |= parties.exchange(dict.fromkeys(due, messages.Poll()), messages.Opened)
        due = [name for name in plan.ranks if not replies[name].ready]
        done = min(plan.n_steps, *(reply.n_steps for reply in replies.values()))
        if done > reached:
            reached, deadline = done, time.monotonic() + patience
            _tell(parties, f"pass {done} of {plan.n_steps}")
        elif due and time.monotonic() > deadline:
            raise PartyError(
                f"party {due[0]!r} was not ready after {patience:g} seconds; raise "
                "mechanism_options['patience'], or look at what runs there."
            )
    return replies


def _tell(parties: Parties, what: str) -> None:
    parties.tell(f"joint computation: {what}")
