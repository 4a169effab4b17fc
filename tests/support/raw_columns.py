"""Columns as people have them: shapes whose locations and widths nobody would guess, and tables with one of each.

A table has the shape as its last column, behind three ordinary ones in different units. Its labels follow two of these
and the rank of the shape, so that a code tells as much as a number. Every third table has few of one class.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import r2_score, roc_auc_score

from sottovoce.privacy.calibration import gaussian_mu

Shape = Callable[[np.random.Generator, int], Any]


class RawTable(NamedTuple):
    """A training and a test part in raw units, and the public facts that an estimator is given."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    public: dict[str, Any]

    def larger_class(self) -> float:
        """Return the accuracy of always saying the class that most training rows have; R^2 of a constant."""
        if "label_bounds" in self.public:
            return 0.0
        return float(np.mean(self.y_test == self._most()))

    def _most(self) -> Any:
        values, counts = np.unique(self.y, return_counts=True)
        return values[counts.argmax()]

    def noise_of_a_comparison(self, model: Any, epsilon: float, delta: float) -> float:
        """Return by how much a model may be below the larger class by chance.

        Three standard errors of the difference on the test rows, and the length of the noise of a released mean of rows
        of norm 1, with their label: sqrt(d + 1) / (mu n).
        """
        apart = float(np.mean(model.predict(self.X_test) != self._most()))
        mu = gaussian_mu(epsilon, delta) if math.isfinite(epsilon) else math.inf
        return 3.0 * math.sqrt(apart / len(self.y_test)) + math.sqrt(self.X.shape[1] + 1) / (mu * len(self.X))


class Scores(NamedTuple):
    """How well a model orders test rows (AUC; accuracy of several classes; R^2) and its accuracy (R^2)."""

    ranking: float
    right: float


def _either(share: float, one: Shape, other: Shape) -> Shape:
    return lambda rng, n: np.where(rng.random(n) < share, one(rng, n), other(rng, n))


def _coded(code: float, share: float, other: Shape) -> Shape:
    return _either(share, lambda rng, n: code, other)


def _heaped(rng: np.random.Generator, n: int) -> Any:
    heaped, x = rng.random(n) < 0.7, rng.normal(700, 200, n)
    return np.where(heaped, np.round(x, -2), x)


def _uniform(low: float, high: float) -> Shape:
    return lambda rng, n: rng.uniform(low, high, n)


def _normal(mean: float, deviation: float) -> Shape:
    return lambda rng, n: rng.normal(mean, deviation, n)


def _lognormal(mean: float, deviation: float) -> Shape:
    return lambda rng, n: rng.lognormal(mean, deviation, n)


_DAYS, _ANSWER, _INCOME = _uniform(1, 900), _uniform(0, 30), _lognormal(10.5, 0.6)

SHAPES: dict[str, Shape] = {
    # codes for what is missing or does not apply
    **{f"code -1 in {share:.0%}, days": _coded(-1, share, _DAYS) for share in (0.05, 0.3, 0.6, 0.85, 0.97)},
    **{f"code 0 in {share:.0%}, income": _coded(0, share, _INCOME) for share in (0.3, 0.85, 0.97)},
    **{f"code 999 in {share:.0%}, answers to 30": _coded(999, share, _ANSWER) for share in (0.05, 0.6, 0.85, 0.97)},
    **{f"code -999 in {share:.0%}, degrees": _coded(-999, share, _normal(0, 10)) for share in (0.3, 0.85)},
    "code 1900 in 85%, years": _coded(1900, 0.85, _uniform(1950, 2020)),
    "codes -1 and -2 in 40% each, days": _coded(-1, 0.4, _coded(-2, 2 / 3, _DAYS)),
    # spikes that are no codes
    "spike at the mean in 60%": _coded(100, 0.6, _normal(100, 20)),
    "spike at the mean in 90%": _coded(100, 0.9, _normal(100, 20)),
    "spike in 99%": _coded(3, 0.99, _uniform(0, 1000)),
    "spike far from 0 in 85%": _coded(1e6, 0.85, _normal(1e6, 1)),
    "spike of a minimum wage in 50%": _coded(12.5, 0.5, _lognormal(3, 0.5)),
    "heaped at whole hundreds": _heaped,
    "a cap of 100 in 70%": lambda rng, n: np.minimum(rng.normal(110, 19, n), 100),
    # constants
    "constant 0": lambda rng, n: np.zeros(n),
    "constant 7.3": lambda rng, n: np.full(n, 7.3),
    "constant 1e9": lambda rng, n: np.full(n, 1e9),
    "constant but for one in 1,000": _coded(50, 0.999, _uniform(0, 100)),
    # heavy tails
    "Cauchy": lambda rng, n: rng.standard_cauchy(n),
    "Student, 2 degrees": lambda rng, n: 40 + 3 * rng.standard_t(2, n),
    "Pareto 1.1": lambda rng, n: 1_000 * (1 + rng.pareto(1.1, n)),
    "lognormal 2": _lognormal(3, 2),
    "lognormal 3": _lognormal(0, 3),
    "exponential": lambda rng, n: rng.exponential(30, n),
    # counts
    "Poisson .1": lambda rng, n: rng.poisson(0.1, n),
    "Poisson 3": lambda rng, n: rng.poisson(3, n),
    "Poisson 200": lambda rng, n: rng.poisson(200, n),
    "visits, most have none": lambda rng, n: rng.negative_binomial(0.1, 0.02, n),
    "yes in 2%": lambda rng, n: rng.random(n) < 0.02,
    "yes in 50%": lambda rng, n: rng.random(n) < 0.5,
    # money
    "balances": lambda rng, n: np.where(rng.random(n) < 0.1, -rng.lognormal(5, 1, n), rng.lognormal(6.5, 1.5, n)),
    "incomes": _INCOME,
    "bills, some credited, some none": lambda rng, n: (
        np.where(rng.random(n) < 0.2, 0, rng.lognormal(9, 1.5, n) * np.where(rng.random(n) < 0.05, -1, 1))
    ),
    "gains, most have none": _coded(0, 0.92, _lognormal(8.5, 1.2)),
    # several modes
    "two modes, 0 and 1,000": lambda rng, n: rng.normal(0, 1, n) + 1000 * (rng.random(n) < 0.5),
    "two modes, a tenth at 10,000": lambda rng, n: rng.normal(50, 10, n) + 10_000 * (rng.random(n) < 0.1),
    "two modes, narrow and wide": _either(0.5, _normal(5, 0.1), _normal(300, 80)),
    "three modes": lambda rng, n: rng.normal(0, 1, n) + rng.choice([-100, 0, 100], n),
    # units and places
    "shares of a millionth": _uniform(0, 1e-6),
    "nanometres in metres": _normal(5e-9, 1e-9),
    "bytes": _lognormal(23, 2),
    "currency of large numbers": _normal(4e11, 1e11),
    "years": _normal(1990, 10),
    "seconds since 1970": _uniform(1.55e9, 1.65e9),
    "dates in days": _uniform(735_000, 738_000),
    "an offset of a million": _normal(1e6, 1),
    "an offset of 2,000": lambda rng, n: 2_000 + rng.uniform(-1, 1, n),
    "degrees of an angle": _uniform(0, 360),
    "temperatures in Kelvin": _normal(290, 8),
}  # fmt: skip


def table(name: str, n_samples: int, seed: int = 0) -> RawTable:
    """Return a training and a test part of as many rows, whose last column has this shape."""
    place = list(SHAPES).index(name)
    rng = np.random.default_rng([place, seed])
    n = 2 * n_samples
    age, sight, visits = rng.normal(50, 15, n), rng.lognormal(10, 0.5, n), rng.poisson(3, n)
    shape = np.asarray(SHAPES[name](rng, n), dtype=np.float64)
    rank = rankdata(shape) / n - 0.5
    score = 0.05 * (age - 50) + 0.4 * (visits - 3) + 3.0 * rank - (2.5 if place % 3 == 2 else 0.0)
    y = (score + rng.logistic(size=n) > 0).astype(int)
    X = np.column_stack([age, sight, visits, shape])
    return RawTable(X[:n_samples], y[:n_samples], X[n_samples:], y[n_samples:], {"classes": [0, 1]})


def ranged(given: RawTable) -> RawTable:
    """Return the table by public bounds: each column from its least and its largest entry to [-1, 1].

    That nobody knows these exactly is in favour of what is compared with them.
    """
    both = np.vstack([given.X, given.X_test])
    low, high = both.min(axis=0), both.max(axis=0)
    half, middle = np.maximum(0.5 * (high - low), 1e-300), 0.5 * low + 0.5 * high
    scaled = ((one - middle) / half for one in (given.X, given.X_test))
    X, X_test = scaled
    return given._replace(X=X, X_test=X_test, public={**given.public, "data_norm": X.shape[1] ** 0.5})


def scores_of(model: object, given: RawTable) -> Scores:
    """Return how good a fitted model is on the test part."""
    fitted: Any = model
    if "label_bounds" in given.public:
        found = float(r2_score(given.y_test, fitted.predict(given.X_test)))
        return Scores(found, found)
    right = float(np.mean(fitted.predict(given.X_test) == given.y_test))
    if len(given.public["classes"]) > 2:
        return Scores(right, right)
    return Scores(float(roc_auc_score(given.y_test, fitted.predict_proba(given.X_test)[:, 1])), right)
