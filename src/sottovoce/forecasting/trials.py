r"""Fits to made-up tables: what noise costs at any public n and epsilon, tried before there are any data.

A row is made of independent standard normal g_1 ... g_d: x_j = L (sqrt((1 - m) l_j) g_j + sqrt(m / d)), shortened to
norm 1, with l_j proportional to j^-p and adding up to 1. So rows have about the length L in units of their bound, and
the share m of its square is common to all of them. A row of class k has c_k s added to its g, where
c_kj^2 is proportional to j^-q: classes are clouds of one shape around centres s apart. A number is t = sum_j c_j g_j
plus normal noise.

One public figure sets how far the clouds are apart, or how large the noise is: the accuracy (R2) of the best rule.
The constants were chosen on nine real tables and confirmed on eleven others (``benchmarks/central/forecast.py``); those
of wide tables were added when text had been far off, and chosen on one of the nine.
Nothing here is a release: no data of anybody are looked at.
"""

import math
import statistics
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.base import clone

from sottovoce._numerics import Vector
from sottovoce._validation import MAX_EPSILON
from sottovoce.central.plan import Plan
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.pipeline import DPPipeline
from sottovoce.estimators.scaler import DPScaler
from sottovoce.privacy.accounting import gaussian_epsilon
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.randomness import uncounted_fits

_SEED: Final = 2019
_LENGTH: Final = 0.8
_MOST_COLUMNS: Final = 100
_WIDE: Final = 2_048  # columns beyond which a table is mostly text, of which no few columns carry all
_MOST_OF_WIDE: Final = 400
_MOST_ROWS: Final = 6_000
_FEW_ROWS: Final = 2_000
_FEW_OF_WIDE: Final = 4_000
_MOST_ENTRIES: Final = 180_000  # fewer than what threads share
_JUDGES: Final = 4_000  # rows on which a fit is judged
_JUDGES_SEED: Final = 2**31
_FARTHEST: Final = 20.0  # that classes are apart
_RUNS: Final = 3
_UNITS_SEED: Final = 2026
_MOST_DIGITS: Final = 3.0  # of the units of columns, on either side of 1
_MOST_MU: Final = 1e3  # hardly any noise is left
_WITHOUT_NOISE: Final = {"epsilon": math.inf, "alpha": "auto", "solver": "auto", "solver_options": None,
                         "tol": 1e-3, "max_iter": 300}  # fmt: skip


class _Shape(NamedTuple):
    """How fast columns get shorter (p) and count less for the label (q), and what all rows have in common (m)."""

    shorter: float
    lighter: float
    common: float


_FLAT: Final = _Shape(shorter=0.0, lighter=0.0, common=0.2)


@dataclass(frozen=True)
class Population(ABC):
    """Made-up rows and labels."""

    shape: ClassVar[_Shape]

    # Beyond 100, 100 columns stand for all: what noise does to a score depends on the length of a row, not on d. Beyond
    # 2,048, as text has them, 400 columns that all count alike do.
    n_features: int
    best: float  # accuracy, or R2, of the best rule

    @property
    def n_models(self) -> int:
        return 1

    @property
    def guessing(self) -> float:
        return -math.inf

    @property
    def width(self) -> int:
        """Columns of a made-up table."""
        return _MOST_OF_WIDE if self._is_wide else min(self.n_features, _MOST_COLUMNS)

    @property
    def most_rows(self) -> int:
        """Rows of a made-up table that stand for any larger number of them, if mu n is kept."""
        few = _FEW_OF_WIDE if self._is_wide else _FEW_ROWS
        return min(_MOST_ROWS, max(few, _MOST_ENTRIES // (self.width * self.n_models)))

    @property
    def _is_wide(self) -> bool:
        return self.n_features > _WIDE

    @property
    def _shape(self) -> _Shape:
        return _FLAT if self._is_wide else self.shape

    @property
    def public(self) -> dict[str, Any]:
        """Parameters of an estimator that are public facts of the labels, where it may not have them."""
        return {}

    @abstractmethod
    def table(self, n: int, seed: int) -> tuple[Vector, NDArray[Any]]:
        """Return n made-up rows, in units of their bound, and their labels."""

    @abstractmethod
    def score(self, model: Any) -> float:
        """Return the accuracy, or R2, of a fitted model."""

    def _rows(self, g: Vector) -> Vector:
        sizes = _falling(self.width, self._shape.shorter) * (1.0 - self._shape.common)
        X = _LENGTH * (g * np.sqrt(sizes) + math.sqrt(self._shape.common / self.width))
        return np.asarray(X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True)))

    def _directions(self, count: int) -> Vector:
        rng = np.random.default_rng([_SEED, 0])
        signs = rng.choice([-1.0, 1.0], (count, self.width))
        if len(np.unique(signs, axis=0)) < count:  # nothing tells apart classes of one centre
            numbers = rng.choice(2**self.width, count, replace=False)
            signs = 2.0 * (numbers[:, np.newaxis] >> np.arange(self.width) & 1) - 1.0
        return np.asarray(signs * np.sqrt(_falling(self.width, self._shape.lighter)))


@dataclass(frozen=True)
class Classes(Population):
    """A population whose labels are classes."""

    shape = _Shape(shorter=0.5, lighter=0.75, common=0.5)

    classes: tuple[Any, ...]  # sorted; the first is the largest
    largest: float  # its share; the others share the rest equally

    @property
    def public(self) -> dict[str, Any]:
        return {"classes": list(self.classes)}

    @property
    def width(self) -> int:  # there is a corner for each class
        return max(super().width, (len(self.classes) - 1).bit_length())

    @property
    def n_models(self) -> int:
        return len(self.classes) if len(self.classes) > 2 else 1

    @property
    def guessing(self) -> float:
        return 1.0 / len(self.classes)

    def table(self, n: int, seed: int) -> tuple[Vector, NDArray[Any]]:
        g, y = self._drawn(n, seed, self._apart)
        return self._rows(g), np.asarray(self.classes)[y]

    def score(self, model: Any) -> float:
        """See `Population`; by the probabilities of the classes, which is less noisy than by drawn ones."""
        X, probabilities = self._judges
        predicted = np.searchsorted(model.classes_, model.predict(X))
        return float(probabilities[np.arange(len(X)), predicted].mean())

    @cached_property
    def _shares(self) -> Vector:
        others = np.full(len(self.classes) - 1, (1.0 - self.largest) / (len(self.classes) - 1))
        return np.concatenate([[self.largest], others])

    @cached_property
    def _centres(self) -> Vector:
        if len(self.classes) > 2:
            return self._directions(len(self.classes))
        return np.asarray(self._directions(1) * [[1.0], [-1.0]])

    def _drawn(self, n: int, seed: int, apart: float) -> tuple[Vector, NDArray[np.int64]]:
        """Return rows before they are scaled, and their classes."""
        u = np.random.default_rng([_SEED, 1, seed]).random(n)
        y = np.searchsorted(np.cumsum(self._shares)[:-1], u, side="right").astype(np.int64)
        return _normal(n, self.width, seed) + apart * self._centres[y], y

    def _probabilities(self, g: Vector, apart: float) -> Vector:
        # the squares of the centres are equal and cancel
        return np.asarray(softmax(apart * (g @ self._centres.T) + np.log(self._shares), axis=1))

    @cached_property
    def _apart(self) -> float:
        def excess(apart: float) -> float:
            g, _ = self._drawn(_JUDGES, _JUDGES_SEED, apart)
            return float(self._probabilities(g, apart).max(axis=1).mean()) - self.best

        return 0.0 if excess(0.0) >= 0.0 else float(brentq(excess, 0.0, _FARTHEST, xtol=1e-3))

    @cached_property
    def _judges(self) -> tuple[Vector, Vector]:
        g, _ = self._drawn(_JUDGES, _JUDGES_SEED, self._apart)
        return self._rows(g), self._probabilities(g, self._apart)


@dataclass(frozen=True)
class Numbers(Population):
    """A population whose labels are numbers."""

    shape = _Shape(shorter=1.5, lighter=1.5, common=0.8)

    label_bounds: tuple[float, float]
    label_spread: float  # standard deviation of the labels over half the distance between their bounds

    def table(self, n: int, seed: int) -> tuple[Vector, Vector]:
        g, noise = _normal(n, self.width, seed), np.random.default_rng([_SEED, 1, seed]).standard_normal(n)
        standard = math.sqrt(self.best) * (g @ self._directions(1)[0]) + math.sqrt(1.0 - self.best) * noise
        low, high = self.label_bounds
        half = 0.5 * (high - low)
        return self._rows(g), np.clip(low + half + half * self.label_spread * standard, low, high)

    def score(self, model: Any) -> float:
        X, y = self._judges
        return float(1.0 - np.mean((y - model.predict(X)) ** 2) / y.var())

    @cached_property
    def _judges(self) -> tuple[Vector, Vector]:
        return self.table(_JUDGES, _JUDGES_SEED)


def _falling(d: int, power: float) -> Vector:
    sizes = np.arange(1.0, d + 1.0) ** -power
    return np.asarray(sizes / sizes.sum())


@lru_cache(maxsize=4)
def _normal(n: int, d: int, seed: int) -> Vector:
    return np.random.default_rng([_SEED, 2, seed]).standard_normal((n, d))


class Price(NamedTuple):
    """How much lower a score is with noise than without, and how much it differs from fit to fit."""

    mean: float
    spread: float


class Trials:
    """Fits of one estimator to tables of one population.

    ``margin``: what a score on a real table may differ by, beside the price and the spread of fits.

    ``estimator``: its constructor parameters are read, nothing else.
    ``n_features``: public; the population may stand for it with fewer columns.
    """

    margin = 0.005

    def __init__(self, estimator: DPLinearEstimator, population: Population, n_features: int) -> None:
        self._estimator, self._population, self._n_features = estimator, population, n_features
        self._most_rows: int | None = estimator.max_rows_per_group
        self._exact: dict[int, tuple[float, ...]] = {}

    @property
    def least_score(self) -> float:
        """What guessing reaches."""
        return self._population.guessing

    @property
    def noise_score(self) -> float:
        """What a model of noise alone reaches, were all classes as frequent; nothing bounds an R2 from below."""
        return min(0.5, self.least_score) if self.least_score > 0.0 else -math.inf

    def price(self, n: int, epsilon: float) -> Price:
        """Return what noise costs in a fit to n rows.

        Of a large table fewer rows are made up, and epsilon is raised so that mu n (of Gaussian differential privacy)
        is the same; solver and penalty are those of n rows.
        """
        rows = min(n, self._population.most_rows)
        plan = self._plan(n, epsilon)
        if rows < n:
            mu = min(_MOST_MU, gaussian_mu(epsilon, plan.delta) * n / rows)
            epsilon = min(MAX_EPSILON, gaussian_epsilon(mu, plan.delta))
        given = self._estimator.solver
        solver = plan.solver if isinstance(given, str) else given  # what "auto" took for n rows, or the object
        noisy = self._scores(rows, epsilon=epsilon, solver=solver, alpha=plan.alpha)
        if rows not in self._exact:
            self._exact[rows] = self._scores(rows, **_WITHOUT_NOISE)
        # no model is better for its noise: where it seems so, the fit without noise had too few rows
        lost = max(0.0, statistics.mean(self._exact[rows]) - statistics.mean(noisy))
        return Price(lost, statistics.stdev(noisy))

    def _plan(self, n: int, epsilon: float) -> Plan:
        estimator = self._for(n, epsilon=epsilon)
        return estimator.plan_for(n, self._n_features, estimator.planned_models())

    def _for(self, n: int, **changed: Any) -> DPLinearEstimator:
        own = self._estimator
        bound = {} if isinstance(own.data_norm, str) else {"data_norm": 1.0}  # rows are in units of their bound
        size = {} if own.n_public is None else {"n_public": n}
        nobodys = {"ledger": None, "dataset": None, "verbose": 0, "accept_delta": own.delta}
        given = {**own.get_params(deep=False), **nobodys, **self._population.public, **bound, **size, **changed}
        return type(own)(**given)

    def _groups(self, rows: int) -> NDArray[Any] | None:
        """Return made-up people, each with as many rows as a person may have, or None where each row is one."""
        return None if self._most_rows is None else np.arange(rows) // self._most_rows

    def _scores(self, rows: int, **changed: Any) -> tuple[float, ...]:
        found = []
        with warnings.catch_warnings(action="ignore"), uncounted_fits():  # nobody's data are fitted
            for run in range(_RUNS):
                X, y = self._population.table(rows, run)
                model = self._for(rows, random_state=run, **changed)
                found.append(self._population.score(self._fitted(model, X, y, self._groups(rows))))
        return tuple(found)

    def _fitted(self, model: Any, X: Any, y: Any, groups: Any) -> Any:
        return model.fit(X, y, groups=groups)


class PipelineTrials(Trials):
    """Fits of a scaler and a model to tables of one population, whose columns are brought to units of all sizes."""

    margin = 0.015  # chosen on eleven tables, confirmed on ten: benchmarks/central/forecast_pipelines.py

    def __init__(self, pipeline: DPPipeline, model: DPLinearEstimator, population: Population, n_features: int) -> None:
        super().__init__(model, population, n_features)
        self._pipeline, self._most_rows = pipeline, pipeline.max_rows_per_group
        sizes = np.random.default_rng(_UNITS_SEED).uniform(-_MOST_DIGITS, _MOST_DIGITS, (2, population.width))
        self._units, self._offsets = 10.0 ** sizes[0], 10.0 ** sizes[0] * sizes[1]

    def _plan(self, n: int, epsilon: float) -> Plan:
        pipeline = self._for(n, epsilon=epsilon)
        plan: Plan = pipeline.plan_for(n, self._n_features, pipeline.planned_models()).model
        return plan

    def _for(self, n: int, **changed: Any) -> Any:
        own, of_pipeline = self._pipeline, ("epsilon", "random_state")
        model = clone(self._estimator).set_params(
            **self._population.public, **{name: value for name, value in changed.items() if name not in of_pipeline}
        )
        scalers = [(name, clone(step)) for name, step in own.steps[:-1] if isinstance(step, DPScaler)]
        return DPPipeline(
            [*scalers, (own.steps[-1][0], model)], delta=own.delta, accept_delta=own.delta, adjacency=own.adjacency,
            n_public=None if own.n_public is None else n, max_rows_per_group=own.max_rows_per_group,
            scaler_share=own.scaler_share, **{name: changed[name] for name in of_pipeline if name in changed},
        )  # fmt: skip

    def _fitted(self, model: Any, X: Any, y: Any, groups: Any) -> Any:
        """Return a fitted model for rows in the unit of the population."""
        fitted = model.fit(X * self._units + self._offsets, y, groups=groups)
        return SimpleNamespace(
            classes_=getattr(fitted, "classes_", None),
            predict=lambda rows: fitted.predict(rows * self._units + self._offsets),
        )
