"""The plan of a joint training, as text that all parties compare: made from public facts, and from nothing else.

Noise, programs, account and what each party shares follow from the text alone, so a party trusts nobody's word for
them: it derives them itself.
"""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import bounds, filled_text, magnitude, privacy_budget, truth, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import Event
from sottovoce.vertical.engines.engine import Engine, Whole
from sottovoce.vertical.engines.programs import OverRows, Program, digest_of
from sottovoce.vertical.protocol import PartyFacts
from sottovoce.vertical.secure.worker import Script

if TYPE_CHECKING:
    from sottovoce.vertical.secure.whole_rows import SecondMoments

PIECE: Final = 2**16  # rows that a program runs on
_MOST_PARTIES: Final = 16
_MOST_COLUMNS: Final = 2**20


class _Plain:
    """Checked numbers become plain, so that equal plans are equal text."""

    def keep(self, **plain: object) -> None:
        for name, value in plain.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Block(_Plain):
    """The columns of one party, publicly."""

    name: str
    n_features: int
    bound: float  # on the length of a row, or on the size of an entry: what is beyond is shortened, or cut

    def __post_init__(self) -> None:
        filled_text("the name of a party", self.name)
        what = f"n_features of party {self.name!r}"
        self.keep(
            n_features=whole_number(what, self.n_features, at_least=1, at_most=_MOST_COLUMNS),
            bound=magnitude(f"the bound of party {self.name!r}", self.bound),
        )


Weights = dict[str, tuple[Vector, float]]  # by party, and its intercept
Steps = Generator[dict[str, Vector], Vector, tuple[Weights, Mapping[str, object]]]
"""It yields the points of the next step by party, is sent what that opened, and returns the model, and public numbers
that the training chose, for the receipt."""


class Conclusion:
    """From what was opened to a model: post-processing, the same for everybody who sees the openings.

    ``weights`` and ``chosen``: after the last step.
    """

    weights: Weights
    chosen: Mapping[str, object]

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        next(steps)  # step 0 has no points

    def take(self, values: Vector) -> dict[str, Vector] | None:
        """Take what the next step opened; return the points of the one after it by party, None after the last."""
        try:
            return self._steps.send(values)
        except StopIteration as done:
            self.weights, self.chosen = done.value
            return None


@dataclass(frozen=True)
class Opening(ABC):
    """What is opened: what a program makes of secret variables and of the noise of every party."""

    names: tuple[str, ...]  # of the variables
    program: Program

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers are opened."""

    @abstractmethod
    def share(self, noise: np.random.Generator) -> Whole:
        """Draw the noise of one party."""


@dataclass(frozen=True, kw_only=True)
class AgreedPlan(_Plain, ABC):
    """What every joint training is planned from."""

    bounded: ClassVar[str]
    """What parties declare a bound on: ``"data_norm"`` or ``"data_bound"``."""
    first_step: ClassVar[str]
    """What step 0 opens, in words."""

    n_samples: int  # aligned people
    blocks: tuple[Block, ...]  # the parties with columns, in order
    helpers: tuple[str, ...] = ()  # parties that compute and hold no table
    label_holder: str
    loss: str
    label_bounds: tuple[float, float] | None = None  # of numeric labels
    fit_intercept: bool = True
    epsilon: float
    delta: float
    engine: str  # {"spu", "shamir", "in-process"}

    def check_facts(self) -> None:
        """Refuse what no joint training can be planned from."""
        epsilon, delta = privacy_budget(self.epsilon, self.delta)
        if math.isinf(epsilon):
            raise ParameterError("epsilon must be finite for mechanism='secure'; got infinity.")
        self.keep(
            n_samples=whole_number("n_samples", self.n_samples, at_least=1, at_most=2**40),
            blocks=tuple(self.blocks),
            helpers=tuple(self.helpers),
            fit_intercept=truth("fit_intercept", self.fit_intercept),
            epsilon=epsilon,
            delta=delta,
        )
        if self.loss == "squared":
            remedy = "They are public; never compute them from the data."
            self.keep(label_bounds=bounds("label_bounds", self.label_bounds, remedy=remedy))

    def check_parties(self) -> None:
        """Refuse names that are not their own, and numbers of parties that the engine does not take."""
        for name in self.ranks:
            filled_text("the name of a party", name)
        if len(set(self.ranks)) != len(self.ranks):
            raise ParameterError(f"parties must have names of their own; got {list(self.ranks)!r}.")
        if len(self.blocks) < 2:
            raise ParameterError(
                f"mechanism='secure' joins the columns of at least two parties; got {len(self.blocks)}."
            )
        if self.label_holder not in {block.name for block in self.blocks}:
            raise ParameterError(f"label_holder must be a party with columns; got {self.label_holder!r}.")
        n_parties, least, most = len(self.ranks), 2, _MOST_PARTIES
        if self.engine == "spu":
            most = 3
        elif self.engine == "shamir":
            least = 3
        if not least <= n_parties <= most:
            raise ParameterError(
                f"engine={self.engine!r} takes {least} to {most} parties, helpers included; got {n_parties}. Add "
                "helpers, or choose another engine."
            )

    @classmethod
    def of(cls, plan: Any, **own: Any) -> Self:
        """Return what the parties agree on of a `VerticalPlan`, with what this kind of plan has of its ``own``."""
        facts = plan.facts
        given = {"loss": plan.loss.name, "label_bounds": facts.label_bounds, "fit_intercept": plan.fit_intercept} | own
        return cls(
            n_samples=facts.n_samples,
            blocks=tuple(
                Block(name, each.n_features, getattr(each, cls.bounded)) for name, each in facts.descriptions.items()
            ),
            helpers=facts.helpers,
            label_holder=facts.label_holder,
            epsilon=plan.epsilon,
            delta=plan.delta,
            engine=plan.engine,
            **given,
        )

    # ------------------------------------------------------------------ the text

    def text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def digest(self) -> str:
        """What parties compare, of the plan."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    # ------------------------------------------------------------------ parties

    @property
    def ranks(self) -> tuple[str, ...]:
        """All parties that compute, in order: those with columns, then helpers."""
        return tuple(block.name for block in self.blocks) + tuple(self.helpers)

    @property
    def holder(self) -> int:
        return self.ranks.index(self.label_holder)

    @property
    def protocol(self) -> str:
        """What the engine runs."""
        if self.engine == "spu":
            return "ABY3" if len(self.ranks) == 3 else "CHEETAH"
        return "Shamir" if self.engine == "shamir" else "in the clear"

    def declared(self, facts: PartyFacts) -> dict[str, object]:
        """Return what a party declared, under the names of its block's fields; refused where it declared no bound."""
        return {"n_features": facts.n_features, "bound": facts.bound_of(self.bounded)}

    # ------------------------------------------------------------------ what is computed

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """Steps after step 0."""

    @property
    @abstractmethod
    def event(self) -> Event: ...

    @property
    @abstractmethod
    def view(self) -> str:
        """Whom the noise holds against, for the receipt."""

    @property
    def moments(self) -> "SecondMoments | None":
        """What step 0 computes of pairs of columns; None where it is a pass as all others are."""
        return None

    @abstractmethod
    def program(self, step: int) -> OverRows | None:
        """Return what a step adds up over the rows, if anything."""

    @abstractmethod
    def openings(self, step: int) -> tuple[Opening, ...]:
        """Return what a step opens, in order."""

    @property
    @abstractmethod
    def programs(self) -> tuple[Program, ...]: ...

    @cached_property
    def programs_digest(self) -> str:
        """What parties compare, of the programs."""
        return digest_of(self.programs)

    @property
    def piece(self) -> int:
        """Rows of a piece; the last piece is filled up with zeros, so that one compiled program serves all."""
        return math.ceil(self.n_samples / self.n_pieces)

    @property
    def n_pieces(self) -> int:
        return math.ceil(self.n_samples / PIECE)

    def n_opened(self, step: int) -> int:
        return sum(opening.size for opening in self.openings(step))

    def shares(self, step: int, name: str, noise: np.random.Generator) -> tuple[Whole, ...]:
        """Draw the noise that a party adds in a step."""
        self.ranks.index(name)
        return tuple(opening.share(noise) for opening in self.openings(step))

    @abstractmethod
    def rows(self, name: str, table: Any) -> Whole:
        """Return a party's columns as whole numbers within its public bound."""

    @abstractmethod
    def whole_labels(self, y: Vector) -> Whole:
        """Return labels as whole numbers, cut to their public bounds whatever they are."""

    @abstractmethod
    def margins(self, name: str, rows: Whole, point: Vector) -> Whole:
        """Return a party's margins in whole numbers at its part of the released weights."""

    def script(self, name: str, engine: Engine, table: Any, labels: Vector | None) -> Script:
        """Return a party's end; ``table`` is None for a helper, and ``labels`` for all but the label holder."""
        return Script(self, name, engine, table, labels)

    @abstractmethod
    def conclude(self) -> Steps:
        """Make the model of what is opened."""

    def fitting(self) -> Conclusion:
        return Conclusion(self.conclude())

    def details(self) -> dict[str, object]:
        """Return what this kind of plan tells of itself in a receipt."""
        return {"engine": self.engine, "protocol": self.protocol, "parties that compute": list(self.ranks)}
