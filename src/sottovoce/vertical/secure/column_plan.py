r"""The plan of a joint training that opens places: private Frank-Wolfe on the l1 ball, one signed column a step.

It is what `sottovoce.central.solvers.frank_wolfe` does on the joined table. Inside, with everything secret, the slopes
of all people, cut, are multiplied by their columns; every party adds Gumbel noise of its own to both signs of every
sum; where the largest is, and nothing else, is opened. Entries are counted in steps of 2^-14 of the largest
``data_bound``, slopes in steps of their bound over 2^14 (squared loss) or of 2^-18 (logistic); a replaced person moves
the score of a signed column by at most 2 C E, C and E the bounds in these steps.

Proof: ``docs/privacy/secure_frank_wolfe.md``.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from sottovoce._numerics import PIECE, Vector
from sottovoce._validation import choice, magnitude, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, Loss, Squared
from sottovoce.privacy.calibration import bounded_range, gaussian_mu
from sottovoce.privacy.events import BoundedRangeEvent, Event, RepeatedEvent
from sottovoce.privacy.mechanisms.whole_gumbel import LARGEST_SCALE, whole_gumbel
from sottovoce.vertical.engines.engine import EngineError, Whole
from sottovoce.vertical.engines.programs import AddScores, ChooseColumn, Program
from sottovoce.vertical.secure.agreed_plan import AgreedPlan, Block, Opening, Steps
from sottovoce.vertical.secure.training import sigmoid_clips
from sottovoce.vertical.secure.whole_rows import ROW, whole_margins

_LOSSES: Final = ("squared", "logistic")
_ENGINES: Final = ("spu", "in-process")
_ENTRY: Final = ROW  # of the largest data_bound
_SLOPE: Final = 2**14  # of the bound on a residual
_LOGISTIC_SLOPE: Final = 2**18
_LOGISTIC_MARGIN: Final = 2**7
_MARGIN_BOUND: Final = 2**40
_EXACT: Final = 2**61  # all scores with noise stay below it
_MOST_ENTRIES: Final = 2**26  # of all tables together, each secret at every party
_STEPS: Final = 0.75  # as in one table
_FEWEST: Final = 4
_MOST_STEPS: Final = 400  # of the rule; each takes seconds over a slow line
_MOST_GIVEN: Final = 10_000


@dataclass(frozen=True)
class Place(Opening):
    """Where the largest of some whole numbers is, with Gumbel noise of all parties."""

    n_candidates: int
    scale: int
    size: ClassVar[int] = 1

    def share(self, noise: np.random.Generator) -> Whole:
        return whole_gumbel(self.scale, self.n_candidates, noise)


@dataclass(frozen=True, kw_only=True)
class ColumnPlan(AgreedPlan):
    """Public facts and privacy parameters of one joint training on the l1 ball.

    ``loss``: {"squared", "logistic"}.
    """

    bounded: ClassVar[str] = "data_bound"
    first_step: ClassVar[str] = "the first column"

    # bound on a residual of squared loss; None is half of the width of ``label_bounds``, without an intercept the
    # largest label in size
    residual_bound: float | None = None
    # bound on the sum of the absolute coefficients, that of the intercept over the label holder's ``data_bound``
    radius: float
    n_steps_given: int | None = None  # choices; None follows the rule of one table

    def __post_init__(self) -> None:
        choice("loss", self.loss, _LOSSES)
        if self.engine == "shamir":
            raise ParameterError(
                "engine='shamir' cannot compare secret numbers in any useful time, and aggregation='secure' compares "
                "all columns in every step. Use engine='spu', with two or three parties."
            )
        choice("engine", self.engine, _ENGINES)
        self.check_facts()
        self.keep(radius=magnitude("radius", self.radius))
        if self.loss != "squared" and not (self.label_bounds is None and self.residual_bound is None):
            raise ParameterError("label_bounds and residual_bound are for the squared loss.")
        if self.residual_bound is not None:
            self.keep(residual_bound=magnitude("residual_bound", self.residual_bound))
        if self.n_steps_given is not None:
            steps = whole_number("n_steps", self.n_steps_given, at_least=1, at_most=_MOST_GIVEN)
            self.keep(n_steps_given=steps)
        self.check_parties()
        self._check_sizes()

    def _check_sizes(self) -> None:
        """Refuse what is too large for memory, for the noise, or for sums in whole numbers."""
        entries = self.n_samples * self.n_columns
        if entries > _MOST_ENTRIES:
            raise ParameterError(
                f"aggregation='secure' takes tables of at most {_MOST_ENTRIES:,} entries together, which every party "
                f"holds as secrets; got {self.n_samples:,} rows of {self.n_columns:,} columns. Use fewer columns, or "
                "aggregation='local'."
            )
        magnitude("radius * data_bound / label width", self.vertex)
        if self.scale > LARGEST_SCALE:
            raise ParameterError(
                f"a step would have to be chosen at a range of {self.selection_range:g}, with more noise than whole "
                "numbers hold. Give a larger epsilon, or fewer steps (n_steps)."
            )
        largest = self.n_samples * self.scores.largest * _ENTRY
        if largest + len(self.ranks) * 2**13 * self.scale > _EXACT:
            raise ParameterError(
                f"sums over {self.n_samples:,} people with this noise would leave the whole numbers of the engine. "
                "Give a larger epsilon, or fewer steps (n_steps)."
            )

    # ------------------------------------------------------------------ units

    @property
    def bound(self) -> float:
        """The unit of entries: the largest ``data_bound``."""
        return max(block.bound for block in self.blocks)

    @property
    def middle(self) -> float:
        if self.label_bounds is None or not self.fit_intercept:
            return 0.0
        return 0.5 * (self.label_bounds[0] + self.label_bounds[1])

    @property
    def label_unit(self) -> float:
        if self.label_bounds is None:
            return 1.0
        return max(self.label_bounds[1] - self.middle, self.middle - self.label_bounds[0])

    @property
    def clip(self) -> float:
        """Bound on a slope, in units of labels."""
        return 1.0 if self.residual_bound is None else self.residual_bound / self.label_unit

    @property
    def vertex(self) -> float:
        """Size of a vertex of the ball, for entries in units of `bound` and labels of size 1."""
        return self.radius * self.bound / self.label_unit

    @property
    def intercept_entry(self) -> float:
        """The intercept's column in units of `bound`: the label holder's ``data_bound``; 0 for none."""
        return float(self.blocks[self.holder].bound) / self.bound if self.fit_intercept else 0.0

    @property
    def constant(self) -> int:
        """The intercept's column in whole numbers; 0 for none."""
        return max(1, round(self.intercept_entry * _ENTRY)) if self.fit_intercept else 0

    @property
    def n_columns(self) -> int:
        return sum(block.n_features for block in self.blocks) + self.fit_intercept

    @property
    def per_unit(self) -> float:
        """Steps of margins and labels to a prediction of size 1."""
        return _LOGISTIC_MARGIN if self.loss == "logistic" else _SLOPE / self.clip

    # ------------------------------------------------------------------ the noise

    @cached_property
    def n_choices(self) -> int:
        """Steps of Frank-Wolfe; the rule is that of one table (`FrankWolfePlan.n_steps`), with fewer at most."""
        if self.n_steps_given is not None:
            return self.n_steps_given
        loss: Loss = Logistic() if self.loss == "logistic" else Squared()
        noise = 2.0 * self.clip * math.log(2.0 * self.n_columns + 1.0)
        information = self.vertex * loss.smoothness * self.n_samples * gaussian_mu(self.epsilon, self.delta) / noise
        return round(min(_MOST_STEPS, max(_FEWEST, _STEPS * math.pow(information, 2.0 / 3.0))))

    @cached_property
    def selection_range(self) -> float:
        return bounded_range(self.epsilon, self.delta, self.n_choices)

    @property
    def score_range(self) -> int:
        """How far the losses of a choice reach, times the scale: 4 C E, and 4 for noise that is rounded down."""
        return 4 * self.scores.largest * _ENTRY + 4

    @cached_property
    def scale(self) -> int:
        return math.ceil(Fraction(self.score_range) / Fraction(self.selection_range))

    @property
    def event(self) -> Event:
        """All choices; it holds against all parties but one that know each other's noise."""
        return RepeatedEvent(BoundedRangeEvent(self.selection_range), self.n_choices)

    # ------------------------------------------------------------------ what is computed

    @cached_property
    def scores(self) -> AddScores:
        """How slopes are cut, and multiplied by columns."""
        if self.loss == "squared":
            return AddScores(offset=0, factors=(1,), bounds=(_SLOPE,), shift=1)
        factors, bounds = sigmoid_clips(_LOGISTIC_MARGIN, _LOGISTIC_SLOPE)
        return AddScores(offset=_LOGISTIC_SLOPE // 2, factors=factors, bounds=bounds)

    @property
    def choice(self) -> ChooseColumn:
        return ChooseColumn(self.constant, len(self.blocks))

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self.scores, self.choice)

    @property
    def n_steps(self) -> int:
        return self.n_choices - 1

    def program(self, step: int) -> AddScores:
        return self.scores

    def openings(self, step: int) -> tuple[Opening, ...]:
        sums = (*(f"sums{m}" for m in range(len(self.blocks))), "total")
        return (Place(sums, self.choice, 2 * self.n_columns, self.scale),)

    def rows(self, name: str, table: Any) -> Whole:
        block = self._block(name)
        rows = np.zeros((table.shape[0], block.n_features), np.int64)
        for low in range(0, len(rows), PIECE):
            piece: Any = table[low : low + PIECE]
            dense = np.asarray(piece if isinstance(piece, np.ndarray) else piece.toarray(), dtype=np.float64)
            cut = np.clip(np.nan_to_num(dense, nan=0.0), -block.bound, block.bound) / self.bound
            rows[low : low + PIECE] = np.clip(np.rint(cut * _ENTRY), -_ENTRY, _ENTRY)
        return rows

    def whole_labels(self, y: Vector) -> Whole:
        if self.loss == "logistic":
            return np.where(np.asarray(y) > 0.0, 1, -1).astype(np.int64)
        assert self.label_bounds is not None
        cut = np.clip(np.nan_to_num(np.asarray(y, dtype=np.float64), nan=self.middle), *self.label_bounds)
        with np.errstate(all="ignore"):
            steps = np.nan_to_num((cut - self.middle) / self.label_unit * self.per_unit, nan=0.0)
        return np.rint(np.clip(steps, -_MARGIN_BOUND, _MARGIN_BOUND)).astype(np.int64)

    def margins(self, name: str, rows: Whole, point: Vector) -> Whole:
        width = self._block(name).n_features
        taken = np.flatnonzero(point[:width])
        constant = self.intercept_entry * float(point[width]) if len(point) > width else 0.0
        return whole_margins(rows, point[taken], constant, self.per_unit, _MARGIN_BOUND, taken)

    def _block(self, name: str) -> Block:
        return next(block for block in self.blocks if block.name == name)

    def conclude(self) -> Steps:
        """Add up equal steps along signed columns; the intercept's column is the last."""
        points: dict[str, Vector] = {}
        taken = np.zeros(self.n_columns, np.int64)  # steps along every column, those down counted negative
        for _ in range(self.n_choices):
            values = yield points | dict.fromkeys(self.helpers, np.zeros(0))
            if values.shape != (1,) or not (0 <= values[0] < 2 * len(taken) and values[0] == int(values[0])):
                raise EngineError("what was opened is no place of a column; a party computes something else")
            place = int(values[0])
            taken[place % len(taken)] += 1 if place < len(taken) else -1
            points = self._by_party(np.asarray(taken * (self.vertex / self.n_choices), np.float64))
        found, unit = {}, self.label_unit / self.bound
        for block in self.blocks:
            part, width = points[block.name], block.n_features
            intercept = float(part[width:].sum()) * self.intercept_entry * self.label_unit
            found[block.name] = (part[:width] * unit, intercept)
        return found, {}

    def _by_party(self, weights: Vector) -> dict[str, Vector]:
        ends = np.cumsum([block.n_features for block in self.blocks])
        parts = dict(zip((block.name for block in self.blocks), np.split(weights[: ends[-1]], ends[:-1]), strict=True))
        if self.fit_intercept:
            parts[self.label_holder] = np.append(parts[self.label_holder], weights[-1])
        return parts

    def details(self) -> dict[str, object]:
        return {
            **super().details(),
            "radius": self.radius,
            "steps": self.n_choices,
            "bounded range of a selection": self.selection_range,
            "clip of a row's slope (units of labels)": self.clip,
            "scale of each party's Gumbel noise (ticks)": self.scale,
            "fit_intercept": self.fit_intercept,
        }

    @property
    def view(self) -> str:
        K = len(self.ranks)
        return (
            f"each of {K} parties adds the whole noise of the statement: as far as noise goes it holds against the "
            f"other {K - 1} together, who follow the protocol"
        )
