r"""``"secure"``: the parties compute noisy sums over all their columns, and nothing else is opened.

Everybody sees what one table with central privacy would have released: the second moments with noise, and for
classifiers some sums of moves with noise (`sottovoce.vertical.protocols.secure.joint_plan`). Rows, labels, margins and
scores stay with their parties, and what the computing parties exchange are random shares. The coordinator carries the
plan, the cards by which the parties know each other, and what was opened; the parties' engines talk to each other
directly.

Proof: ``docs/privacy/vertical_secure.md``.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import choice, number, whole_number
from sottovoce.exceptions import PartyError
from sottovoce.losses import SmoothedHinge
from sottovoce.privacy.events import Event
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.charges import check_affordable, require_row_bounds
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import SumOfScores, Term, VerticalPlan, VerticalSolution
from sottovoce.vertical.engines.site import ENGINES
from sottovoce.vertical.protocols.exact.plan import own_model_name, train_alone
from sottovoce.vertical.protocols.secure.joint_plan import Block, JointPlan
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

__all__ = ["IN_PROCESS", "SecurePlan"]

IN_PROCESS: Final = "in-process"

_NO_LABELS: Final = np.zeros(0)


@dataclass(frozen=True, kw_only=True)
class SecurePlan(VerticalPlan):
    """Plan of one joint training.

    Attributes
    ----------
    engine : {"spu", "mpyc", "in-process"}
    colluding : int, >= 1
        Computing parties that may put together what they know without seeing less noise than the statement says.
    n_passes : int or None
        Passes after the second moments, of classifiers; None by rule.
    patience : float
        Seconds that one step may take at all parties together.

    Raises
    ------
    ParameterError
        If a party gave no ``data_norm``, they are too few or too many for the engine, or a parameter is out of range.
    """

    name: ClassVar[str] = "secure"
    about: ClassVar[str] = (
        "noisy sums over all columns, computed jointly by engines of secure computation and opened; as accurate as one "
        "table, at the price of engines and of trust that they do not collude"
    )
    proof: ClassVar[str] = "docs/privacy/vertical_secure.md"
    options: ClassVar[tuple[str, ...]] = ("colluding", "n_passes", "patience")
    uses_helpers: ClassVar[bool] = True

    engine: str = IN_PROCESS
    colluding: int = 1
    n_passes: int | None = None
    patience: float = 3600.0

    def __post_init__(self) -> None:
        choice("engine", self.engine, (*ENGINES, IN_PROCESS))
        whole_number("mechanism_options['colluding']", self.colluding, at_least=1)
        if self.n_passes is not None:
            least = 0 if self.loss.name == "squared" else 1
            whole_number("mechanism_options['n_passes']", self.n_passes, at_least=least)
        number("mechanism_options['patience']", self.patience, above=0.0)
        require_row_bounds(self.facts, self.facts.names, self.name)
        _ = self.joint  # refuses what cannot be planned before anything is spent

    @cached_property
    def joint(self) -> JointPlan:
        """What the parties agree on, word for word."""
        hinge = self.loss if isinstance(self.loss, SmoothedHinge) else None
        return JointPlan(
            n_samples=self.facts.n_samples,
            blocks=tuple(
                Block(
                    name=name,
                    n_features=facts.n_features,
                    data_norm=facts.data_norm,
                    nonnegative=bool(facts.nonnegative),
                )
                for name, facts in self.facts.descriptions.items()
            ),
            helpers=self.facts.helpers,
            label_holder=self.facts.label_holder,
            loss=self.loss.name if hinge is None else "smoothed hinge",
            **({} if hinge is None else {"smoothing": float(hinge.smoothing)}),
            label_bounds=self.facts.label_bounds,
            alpha=self.alpha,
            fit_intercept=self.fit_intercept,
            labels_public=False,  # they are shared as secrets like everything else: it costs nothing here
            epsilon=self.epsilon,
            delta=self.delta,
            colluding=self.colluding,
            engine=self.engine,
            n_passes=self.n_passes,
        )

    @property
    def computing(self) -> tuple[str, ...]:
        """All parties that compute: those with columns, then helpers."""
        return (*self.facts.names, *self.facts.helpers)

    @property
    def event(self) -> Event:
        """The whole training, from the view of the parties that may collude."""
        return self.joint.event

    # ------------------------------------------------------------------ training

    def meet(self, parties: Parties) -> None:
        """Invite all parties, and let their engines meet and test the session; no data are shared."""
        with parties.inside(self.facts.label_holder):
            pass  # its own model is trained last, which must not fail for want of a place
        check_affordable(parties, dict.fromkeys(self.facts.names, self.event))
        cards = parties.exchange(self._to_all(Invite(self.joint.text())), Card)
        listed = json.dumps([cards[name].card for name in self.computing])
        parties.exchange(self._to_all(Connect(listed)), Done)
        self._wait(parties, AskConnected(), Connected)

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        """Begin, take what is opened, and keep the model; the parties have met. See `VerticalPlan.solve`."""
        try:
            solution = self._train(parties, y, model)
        except PartyError as error:
            raise PartyError(
                f"{str(error).rstrip('.')}. The joint training had begun by then: epsilon = {self.epsilon:g} of every "
                "person's rows at all parties is spent and stays charged, whatever was opened. It cannot be resumed; a "
                "new fit is charged again."
            ) from error
        train_alone(parties, self, y, own_model_name(model))  # last: engines that wait would give up
        return solution

    def _train(self, parties: Parties, y: Vector, model: str) -> VerticalSolution:
        joint, holder = self.joint, self.facts.label_holder
        starts: dict[str, Message] = {name: Join(y if name == holder else _NO_LABELS) for name in self.computing}
        parties.exchange(starts, Done)
        fitting = joint.fitting()
        points, step = self._followed(fitting.moments, self._opened(parties, 0)), 0
        while points is not None:
            step += 1
            parties.exchange(self._to_all(StepJointly(step)), Done)
            points = self._followed(fitting.step, self._opened(parties, step))
        weights: dict[str, tuple[Vector, float]] = dict(fitting.weights)
        parties.exchange(dict.fromkeys(self.facts.names, KeepJoint(model)), Done)
        return VerticalSolution(
            scorer=SumOfScores({name: Term() for name in self.facts.names}),
            event=self.event,
            party_events=dict.fromkeys(self.facts.names, self.event),
            n_rounds=1 + step,
            chosen=dict(fitting.chosen),
            weights=weights,
        )

    @staticmethod
    def _followed(rule: Callable[[Vector], Any], opened: Vector) -> Any:
        """Return what follows from opened numbers, which may be anything if all parties say the same."""
        try:
            return rule(opened)
        except (ValueError, IndexError, ArithmeticError, np.linalg.LinAlgError):
            raise PartyError(
                f"all parties say that {len(opened):,} numbers were opened, which are no sums of this plan: bring them "
                "to the same version."
            ) from None

    def _to_all(self, request: Message) -> dict[str, Message]:
        return dict.fromkeys(self.computing, request)

    def _opened(self, parties: Parties, step: int) -> Vector:
        """Return what a step opened, which is the same at all parties."""
        replies = self._wait(parties, TakeOpened(step), Opened)
        first, *others = self.computing
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

    def _wait(self, parties: Parties, question: Message, answer: Any) -> dict[str, Any]:
        """Ask all computing parties until each is ready."""
        deadline = time.monotonic() + self.patience
        replies: dict[str, Any] = {}
        due: Sequence[str] = self.computing
        while due:
            came: Mapping[str, Any] = parties.exchange(dict.fromkeys(due, question), answer)
            replies.update({name: reply for name, reply in came.items() if reply.ready})
            due = [name for name in self.computing if name not in replies]
            if due and time.monotonic() > deadline:
                raise PartyError(
                    f"party {due[0]!r} was not ready after {self.patience:g} seconds; raise "
                    "mechanism_options['patience'], or look at what runs there."
                )
        return replies

    # ------------------------------------------------------------------ receipts

    @property
    def unit(self) -> str:
        """What one neighbouring change is about."""
        return "one person: their rows at all parties are replaced together, the label included"

    @property
    def given_away_by_holder(self) -> str:
        """What of a person the statement about the label holder alone covers."""
        return "row of its columns, and label,"

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        passes = self.joint.n_steps
        then = f", then {passes} noisy sums of Newton passes," if passes else ""
        return (
            f"{len(self.computing)} parties compute the noisy second moments of all columns{then} inside secure "
            f"computation ({self._engine}); each adds its share of the noise, and only noisy sums are opened"
        )

    @property
    def _engine(self) -> str:
        if self.engine == IN_PROCESS:
            return "in clear, in one process: a trial"
        return f"{self.joint.protocol}, engine {self._version}"

    @property
    def _version(self) -> str:
        """The engine's packages with their versions, the same at all parties."""
        return next((each[self.engine] for each in self.facts.engines.values() if self.engine in each), self.engine)

    @property
    def releases(self) -> tuple[str, ...]:
        """What leaves whom for whom, for the receipt."""
        opened = ["the noisy second moments of all parties' columns, the label included, to all parties"]
        if self.joint.n_steps:
            opened.append(f"{self.joint.n_steps} noisy sums over all columns, one a pass, to all parties")
        return (*opened, "the model, which follows from them: each party keeps its own weights")

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Facts taken as public, and what the claim rests on, for the receipt."""
        rows = tuple(
            f"{name}: rows of norm at most {facts.data_norm:g} (longer ones were shortened)"
            + (", entries non-negative" if facts.nonnegative else "")
            for name, facts in self.facts.descriptions.items()
        )
        K, t = len(self.computing), self.colluding
        view = (
            f"it holds against {t} of {K} colluding computing parties, who follow the protocol; each of {K} adds "
            f"{1 / (K - t):.3g} of the stated variance, so the sums carry {self.noise_factor:.3g} times the stated "
            "standard deviation"
        )
        if self.engine == IN_PROCESS:
            return (*rows, view)
        honest = "both parties" if K == 2 else "an honest majority of the computing parties"
        return (
            *rows,
            view,
            f"computational and semi-honest: it rests on the protocol {self.joint.protocol} of {self._version}, on "
            f"{honest} following it, and on the cards by which they know each other",
        )

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the statement of this mechanism leaves open, for the receipt."""
        if self.engine == IN_PROCESS:
            seen = "parties share one process: nothing is hidden from whoever runs it"
        elif len(self.computing) == 2:
            seen = "a computing party that does not follow the protocol may see the other's columns and the labels"
        else:
            seen = (
                "two colluding computing parties that put their shares together see all columns of everybody, and the "
                "labels, without noise"
            )
        return (
            seen,
            "a party that does not shorten its own rows to the norm it declared, or leaves its share of the noise out",
            "the people who are scored, those of the training included: each party sends one exact score for each",
            f"{self.facts.label_holder}'s own model on its own columns, which is exact and stays there",
        )

    @property
    def noise_factor(self) -> float:
        """Standard deviation of all shares together, over what the colluding parties face."""
        K = len(self.computing)
        return math.sqrt(K / (K - self.colluding))

    def details(self) -> dict[str, object]:
        """Return the mechanism's own parameters for the receipt."""
        return {
            **self.joint.details(),
            "total noise over the stated noise": self.noise_factor,
            "digest of the joint plan": self.joint.digest,
        }
