"""The plan of a joint training that opens noisy sums: second moments, and passes for classifiers."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import choice, magnitude, number, whole_number
from sottovoce.central.data.part import RowUnit
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, Loss, SmoothedHinge
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event
from sottovoce.privacy.mechanisms.discrete_gaussian import SPENT, SharedGaussian
from sottovoce.vertical.engines.engine import Whole
from sottovoce.vertical.engines.programs import Add, CrossProduct, Mask, OverRows, Program
from sottovoce.vertical.secure.agreed_plan import AgreedPlan, Steps, Weights
from sottovoce.vertical.secure.slope_passes import SlopePasses
from sottovoce.vertical.secure.training import LABEL, DualPasses, RefinedRidge, Training
from sottovoce.vertical.secure.whole_rows import (
    CONSTANT,
    ROW,
    NoisySum,
    RowPart,
    SecondMoments,
    row_weights,
    whole_margins,
)

_LOSSES: Final = ("squared", "logistic", "smoothed hinge")
_BOUNDS: Final = {"spu": 2**62, "in-process": 2**62, "shamir": 2**60}  # sums below them are exact
_MOST_WEIGHTS: Final = 4096  # as in one table: the matrix grows with their square
_MOST_PASSES: Final = 1000


@dataclass(frozen=True, kw_only=True)
class JointPlan(AgreedPlan):
    """Public facts and privacy parameters of one joint training.

    ``loss``: {"squared", "logistic", "smoothed hinge"}.
    """

    bounded: ClassVar[str] = "data_norm"
    first_step: ClassVar[str] = "second moments"

    smoothing: float = 0.5  # width of the rounded corner of the smoothed hinge
    alpha: float  # penalty (alpha / 2) |w|^2 of the weights in the tables' units, for the mean of the losses
    colluding: int = 1  # parties whose own shares of the noise are taken to be known to each other
    # None follows a rule; 0, for the squared loss alone, opens the second moments and nothing else
    n_passes: int | None = None

    def __post_init__(self) -> None:
        choice("loss", self.loss, _LOSSES)
        choice("engine", self.engine, tuple(_BOUNDS))
        self.check_facts()
        if self.loss != "squared" and self.label_bounds is not None:
            raise ParameterError(f"label_bounds are for the squared loss; got them with the {self.loss} loss.")
        self.keep(
            alpha=magnitude("alpha", self.alpha),
            smoothing=number("smoothing", self.smoothing, above=0.0),
            colluding=whole_number("colluding", self.colluding, at_least=1),
        )
        if self.n_passes is not None:
            least = 0 if self.loss == "squared" else 1
            self.keep(n_passes=whole_number("n_passes", self.n_passes, at_least=least, at_most=_MOST_PASSES))
        self.check_parties()
        self._check_view()
        # whatever is too small or large for the noise, or for sums in whole numbers, is refused here, and never later
        _ = self.event
        most = self._most_rows
        if self.n_samples > most:
            raise ParameterError(
                f"n_samples must be at most {most:,}, so that sums of whole numbers stay exact in the engine "
                f"{self.engine!r} with this loss; got {self.n_samples:,}."
            )

    def _check_view(self) -> None:
        n_parties = len(self.ranks)
        allowed = {"spu": 1, "shamir": (n_parties - 1) // 2, "in-process": n_parties - 1}[self.engine]
        if self.colluding > allowed:
            raise ParameterError(
                f"colluding must be from 1 to {allowed}: with engine={self.engine!r} more of {n_parties} parties see "
                f"everything, whatever the noise is; got {self.colluding}."
            )
        if self.n_weights > _MOST_WEIGHTS:
            raise ParameterError(
                f"mechanism='secure' takes at most {_MOST_WEIGHTS} weights, because it opens a matrix of their square; "
                f"got {self.n_weights}."
            )

    # ------------------------------------------------------------------ parties

    @cached_property
    def _parts(self) -> dict[str, RowPart]:
        constant = CONSTANT if self.fit_intercept else 0.0
        weights = row_weights([block.n_features for block in self.blocks])
        return {
            block.name: RowPart(block.n_features, block.bound, weight, constant)
            for block, weight in zip(self.blocks, weights, strict=True)
        }

    @cached_property
    def places(self) -> dict[str, NDArray[np.int64]]:
        """Place of each party's weights among all; the intercept's, the last, is the label holder's last."""
        widths = [block.n_features for block in self.blocks]
        parts = np.split(np.arange(sum(widths)), np.cumsum(widths)[:-1])
        found = {block.name: part for block, part in zip(self.blocks, parts, strict=True)}
        if self.constant:
            found[self.label_holder] = np.append(found[self.label_holder], sum(widths))
        return found

    # ------------------------------------------------------------------ what is computed

    @property
    def constant(self) -> int:
        """The intercept's column in whole numbers; 0 for none."""
        return math.trunc(RowUnit(1.0, CONSTANT).entry * ROW) if self.fit_intercept else 0

    @property
    def n_weights(self) -> int:
        return sum(block.n_features for block in self.blocks) + self.fit_intercept

    @cached_property
    def mu(self) -> float:
        """Gaussian-DP parameter of everything."""
        return gaussian_mu(self.epsilon, self.delta) * SPENT

    def shared(self, square: int, mu: float) -> SharedGaussian:
        return SharedGaussian(square, mu, len(self.ranks), self.colluding)

    @property
    def noise_factor(self) -> float:
        """Standard deviation of all noise over that of what colluding parties do not know."""
        return math.sqrt(len(self.ranks) / (len(self.ranks) - self.colluding))

    @cached_property
    def penalties(self) -> Vector:
        """Those of the weights in the plan's unit, for the sum of losses; 0 for the intercept."""
        penalties = [
            np.full(each.n_features, self.alpha * self.n_samples * each.factor**2) for each in self._parts.values()
        ]
        return np.concatenate([*penalties, np.zeros(int(self.fit_intercept))])

    @cached_property
    def training(self) -> Training:
        if self.loss == "squared":
            return RefinedRidge(self)
        loss: Loss = Logistic() if self.loss == "logistic" else SmoothedHinge(self.smoothing)
        return SlopePasses(self, loss) if self.engine == "shamir" else DualPasses(self, loss)

    @cached_property
    def moments(self) -> SecondMoments:
        """What step 0 opens."""
        return SecondMoments(self)

    @property
    def _most_rows(self) -> int:
        """Rows for which all sums inside are exact; an eighth is left for noise and for sums that are added."""
        return (_BOUNDS[self.engine] - _BOUNDS[self.engine] // 8) // self.training.largest

    @property
    def n_steps(self) -> int:
        return len(self.training.noises)

    @property
    def event(self) -> Event:
        return self.training.event

    @property
    def programs(self) -> tuple[Program, ...]:
        return (Add(), CrossProduct(), Mask(), *map(self.training.program, range(1, self.n_steps + 1)))

    def program(self, step: int) -> OverRows | None:
        return self.training.program(step) if step else None

    def openings(self, step: int) -> tuple[NoisySum, ...]:
        if step == 0:
            return tuple(self.moments.openings)
        noise = self.training.noises[step - 1]
        sums = tuple(NoisySum.even(f"sums{m}", block.n_features, noise) for m, block in enumerate(self.blocks))
        # what is opened is the sum of the rows' terms: the constant's part of the sum is that many times larger
        return (*sums, NoisySum.even("total", 1, noise, self.constant**2)) if self.constant else sums

    def rows(self, name: str, table: Any) -> Whole:
        return self._parts[name].whole(table)

    def whole_labels(self, y: Vector) -> Whole:
        if self.loss != "squared":
            return np.where(np.asarray(y) > 0.0, 1, -1).astype(np.int64)
        middle, half = self.label_unit
        with np.errstate(all="ignore"):
            scaled = np.clip(np.nan_to_num((np.asarray(y, dtype=np.float64) - middle) / half, nan=0.0), -1.0, 1.0)
        return np.trunc(LABEL * ROW * scaled).astype(np.int64)

    @property
    def label_unit(self) -> tuple[float, float]:
        """What numeric labels are reduced by, and divided by; without an intercept nothing is taken off."""
        assert self.label_bounds is not None
        low, high = self.label_bounds
        return (0.5 * (low + high), 0.5 * (high - low)) if self.fit_intercept else (0.0, max(abs(low), abs(high)))

    def margins(self, name: str, rows: Whole, point: Vector) -> Whole:
        width, training = self._parts[name].n_features, self.training
        constant = self.constant / ROW * float(point[width]) if len(point) > width else 0.0
        unit, bound = training.margin_unit, training.margin_bound
        return whole_margins(rows, point[:width], constant, unit, bound, slice(None))

    def conclude(self) -> Steps:
        chosen: dict[str, object] = {}
        passes, sums = self.training.passes(*self.moments.matrix((yield {})), chosen), None
        while True:
            try:
                point = next(passes) if sums is None else passes.send(sums)
            except StopIteration as done:
                return self.in_user_units(done.value), chosen
            points = {name: point[place] for name, place in self.places.items()}
            sums = (yield points | dict.fromkeys(self.helpers, np.zeros(0))).astype(np.float64)
            if self.constant:
                sums[-1] *= self.constant

    def in_user_units(self, point: Vector) -> Weights:
        middle, half = self.label_unit if self.loss == "squared" else (0.0, 1.0)
        found = {}
        for name, part in self._parts.items():
            weights = half * point[self.places[name]]
            intercept = 0.0
            if name == self.label_holder:
                intercept = middle + (float(weights[-1]) * self.constant / ROW if self.constant else 0.0)
            found[name] = (weights[: part.n_features] * part.factor, intercept)
        return found

    def details(self) -> dict[str, object]:
        return {
            **super().details(),
            "parties that may tell each other their noise": self.colluding,
            **self.training.details(),
            "total noise over the stated noise": self.noise_factor,
        }

    @property
    def view(self) -> str:
        K, t = len(self.ranks), self.colluding
        return (
            f"it holds against {t} of {K} colluding computing parties, who follow the protocol; each of {K} adds "
            f"{1 / (K - t):.3g} of the stated variance, so the sums carry {self.noise_factor:.3g} times the stated "
            "standard deviation"
        )
