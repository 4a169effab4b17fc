r"""``"secure"``: the parties compute noisy sums over all their columns, and nothing else is opened.

Everybody sees what one table with central privacy would have released: the second moments with noise, and for
classifiers some sums of moves with noise (`sottovoce.vertical.secure.joint_plan`). Rows, labels, margins and
scores stay with their parties, and what the computing parties exchange are random shares. The coordinator carries the
plan, the cards by which the parties know each other, and what was opened; the parties' engines talk to each other
directly.

Proof: ``docs/privacy/vertical_secure.md``.
"""

import hashlib
import json
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._shown import quoted
from sottovoce._validation import number
from sottovoce.exceptions import PartyError
from sottovoce.losses import SmoothedHinge
from sottovoce.privacy.events import Event
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.exact import own_model_name, train_alone
from sottovoce.vertical.coordinator.frank_wolfe import SCORED_THROUGH, BallPlan, check_entry_bounds
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import (
    SCORED,
    SumOfScores,
    Term,
    VerticalPlan,
    VerticalSolution,
    Words,
    require_row_bounds,
    said,
)
from sottovoce.vertical.engines import IN_PROCESS
from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.requests import secure as messages
from sottovoce.vertical.secure.agreed_plan import AgreedPlan, Conclusion
from sottovoce.vertical.secure.column_plan import ColumnPlan
from sottovoce.vertical.secure.joint_plan import JointPlan
from sottovoce.vertical.wire import Done, Message, Payload

_NO_LABELS: Final = np.zeros(0)


@dataclass(frozen=True, kw_only=True)
class TrainedTogether(VerticalPlan):
    """Invite, test the session, compute, keep; every party is charged with the event of the whole.

    The plan that the parties agree on, word for word, is its `joint`. Raises `ParameterError` if it is none: a party
    gave no bound, they are too few or too many for the engine, or a parameter is out of range.
    """

    name: ClassVar[str] = "secure"
    uses_helpers: ClassVar[bool] = True

    engine: str = IN_PROCESS  # {"spu", "shamir", "in-process"}
    patience: float = 3600.0  # seconds that one step may take at all parties together

    def __post_init__(self) -> None:
        number("mechanism_options['patience']", self.patience, above=0.0)
        self.check_bounds()
        _ = self.joint  # refuses what cannot be planned before anything is spent

    @abstractmethod
    def check_bounds(self) -> None: ...

    @property
    @abstractmethod
    def joint(self) -> AgreedPlan: ...

    @property
    def scorer(self) -> SumOfScores:
        return SumOfScores({name: Term() for name in self.facts.names})

    @property
    def event(self) -> Event:
        return self.joint.event

    def meet(self, parties: Parties) -> None:
        """Invite all parties, and let their engines meet and test the session; no data are shared."""
        plan = self.joint
        _tell(parties, "sites are invited")
        try:
            cards = parties.exchange(dict.fromkeys(plan.ranks, messages.Invite(plan.text())), Payload)
            listed = json.dumps([said(name, cards[name]) for name in plan.ranks])
            _tell(parties, "the sites' engines meet")
            parties.exchange(dict.fromkeys(plan.ranks, messages.Connect(listed)), Done)
            _wait(parties, plan, self.patience, dict.fromkeys(plan.ranks, messages.Poll()))
        finally:
            parties.tell("")

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        """Begin, take what is opened, and keep the model; the parties have met."""
        plan = self.joint
        parties.run.begin_once()
        starts = {name: messages.Join(y if name == plan.label_holder else _NO_LABELS) for name in plan.ranks}
        try:
            _tell(parties, plan.first_step)
            parties.exchange(starts, Done)
            # one party tells what was opened, and the others compare
            asked = {plan.label_holder: messages.Poll()}
            values = _wait(parties, plan, self.patience, asked)[plan.label_holder].numbers[2:]
            fitting = _concluded(plan, values)
            _tell(parties, "the model is kept")
            keep = messages.Poll(model, hashlib.sha256(values.tobytes()).digest())
            _wait(parties, plan, self.patience, {block.name: keep for block in plan.blocks})
        except PartyError as error:
            raise PartyError(
                f"{str(error).rstrip('.')}. The joint training had begun by then: epsilon = {plan.epsilon:g} of every "
                "person's rows at all parties is spent and stays charged, whatever was opened. It cannot be resumed; a "
                "new fit is charged again."
            ) from error
        finally:
            parties.tell("")
        return VerticalSolution(
            scorer=self.scorer,
            event=self.event,
            n_rounds=1 + plan.n_steps,
            chosen=dict(fitting.chosen),
            weights=fitting.weights,
        )

    @property
    def unit(self) -> str:
        return "one person: their rows at all parties are replaced together, the label included"

    def said(self, *, bounds: tuple[str, ...], of_holder: str, not_covered: tuple[str, ...], **more: Any) -> Words:
        """Return what receipts say of all joint trainings, and of this one; ``bounds``: what each party declared."""
        plan = self.joint
        honest = "both parties" if len(plan.ranks) == 2 else "an honest majority of the computing parties"
        rests: tuple[str, ...] = (
            f"computational and semi-honest: it rests on the protocol {plan.protocol} of {self._engine_version}, on "
            f"{honest} following it, and on the cards by which they know each other",
        )
        if plan.engine == IN_PROCESS:
            seen, rests = "parties share one process: nothing is hidden from whoever runs it", ()
        elif len(plan.ranks) == 2:
            seen = "a computing party that does not follow the protocol may see the other's columns and the labels"
        else:
            seen = (
                "two colluding computing parties that put their shares together see all columns of everybody, and the "
                "labels, without noise"
            )
        return Words(
            assumptions=(*bounds, plan.view, *rests),
            not_covered=(seen, *not_covered),
            of_holder=of_holder,
            details={**plan.details(), "digest of the joint plan": plan.digest},
            **more,
        )

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


def _concluded(plan: AgreedPlan, values: Vector) -> Conclusion:
    """Return the model of what was opened."""
    fitting = plan.fitting()
    ends = np.cumsum([plan.n_opened(step) for step in range(plan.n_steps + 1)])
    try:
        if len(values) != ends[-1]:
            raise ValueError
        for opened in np.split(values, ends[:-1]):
            fitting.take(opened)
    except (ValueError, IndexError, ArithmeticError, np.linalg.LinAlgError, EngineError):
        raise PartyError(
            f"party {plan.label_holder!r} says that {len(values):,} numbers were opened, which are no sums of this "
            "plan: bring all to the same version."
        ) from None
    return fitting


def _wait(parties: Parties, plan: AgreedPlan, patience: float, asked: Mapping[str, Message]) -> dict[str, Payload]:
    """Ask computing parties until each is ready; in so many seconds all of them do a step more.

    Where nothing moves all are asked: the party that is waited for may wait for one that hangs.
    """
    reached, deadline, moves = 0, time.monotonic() + patience, True
    replies: dict[str, Payload] = {}
    due = list(asked)
    while due:
        also = [] if moves else [name for name in plan.ranks if name not in asked]
        requests = {name: asked.get(name, messages.Poll()) for name in (*due, *also)}
        replies |= parties.exchange(requests, Payload)
        due = [name for name in asked if not replies[name].numbers[1:2].any()]
        done = min(plan.n_steps, *(int(replies[name].numbers[:1].sum()) for name in asked))
        moves = done > reached
        if moves:
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


@dataclass(frozen=True, kw_only=True)
class SecurePlan(TrainedTogether):
    """Plan of one joint training with a penalty."""

    about: ClassVar[str] = (
        "noisy sums over all columns, computed jointly by engines of secure computation and opened; as accurate as one "
        "table, at the price of engines and of trust that they do not collude"
    )
    proof: ClassVar[str] = "docs/privacy/vertical_secure.md"
    options: ClassVar[tuple[str, ...]] = ("colluding", "n_passes", "patience")

    # >= 1: computing parties that may put together what they know without seeing less noise than the statement says
    colluding: int = 1
    n_passes: int | None = None  # passes after the second moments, of classifiers; None by rule

    def check_bounds(self) -> None:
        require_row_bounds(self.facts, self.facts.names, self.name)

    @cached_property
    def joint(self) -> JointPlan:
        hinge = self.loss if isinstance(self.loss, SmoothedHinge) else None
        return JointPlan.of(
            self,
            **({} if hinge is None else {"loss": "smoothed hinge", "smoothing": float(hinge.smoothing)}),
            alpha=self.alpha,
            colluding=self.colluding,
            n_passes=self.n_passes,
        )

    def meet(self, parties: Parties) -> None:
        parties.own(self.facts.label_holder)  # its own model is trained last, which must not fail for want of a place
        super().meet(parties)

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        solution = super().solve(parties, y, model, streams)
        train_alone(parties, self, y, own_model_name(model))  # last: engines that wait would give up
        return solution

    @property
    def words(self) -> Words:
        passes = self.joint.n_steps
        then = f", then {passes} noisy sums of Newton passes," if passes else ""
        sums = (f"{passes} noisy sums over all columns, one a pass, to all parties",) if passes else ()
        return self.said(
            mechanism=f"{len(self.joint.ranks)} parties compute the noisy second moments of all columns{then} inside "
            f"secure computation ({self.computed_by}); each adds its share of the noise, and only noisy sums are "
            "opened",
            releases=(
                "the noisy second moments of all parties' columns, the label included, to all parties",
                *sums,
                "the model, which follows from them: each party keeps its own weights",
            ),
            bounds=self.facts.norms_in_words(self.facts.names),
            not_covered=(
                "a party that does not shorten its own rows to the norm it declared, or leaves its share of the noise "
                "out",
                SCORED,
                f"{quoted(self.facts.label_holder)}'s own model on its own columns, which is exact and stays there",
            ),
            of_holder="row of its columns, and label,",
        )


@dataclass(frozen=True, kw_only=True)
class SecureBallPlan(BallPlan, TrainedTogether):
    """``aggregation="secure"``: one ball, and the column of a step is chosen inside secure computation.

    It is private Frank-Wolfe on the joined table: slopes, products and scores stay secret, every party adds noise of
    its own, and the place of the largest noisy score is all that is opened. No column is shared, no score is told, no
    label is released, and a step is charged once, not once a party. Proof: ``docs/privacy/secure_frank_wolfe.md``.
    """

    proof: ClassVar[str] = "docs/privacy/secure_frank_wolfe.md"

    n_steps_given: int | None = None  # steps; None follows a public rule
    # bound on a residual of squared loss; None is half of the width of ``label_bounds``
    residual_bound: float | None = None

    def check_bounds(self) -> None:
        check_entry_bounds(self)

    @cached_property
    def joint(self) -> ColumnPlan:
        return ColumnPlan.of(
            self,
            residual_bound=self.residual_bound,
            radius=self.radius,
            n_steps_given=self.n_steps_given,
        )

    @property
    def words(self) -> Words:
        return self.said(
            mechanism=f"Frank-Wolfe on the l1 ball: {self.joint.n_choices} exponential mechanisms over the signed "
            f"columns of all parties, inside secure computation ({self.computed_by}); each of "
            f"{len(self.joint.ranks)} parties adds a Gumbel noise of its own, and only the place of the largest score "
            "is opened",
            releases=(
                f"the signed column that each of {self.joint.n_choices} steps takes, to all parties",
                "the model, which follows from them",
            ),
            bounds=self.bounds_in_words,
            not_covered=(
                "a party that does not clip its own entries to the bound it declared, or leaves its noise out",
                SCORED_THROUGH,
            ),
            of_holder="label and row of its columns",
        )
