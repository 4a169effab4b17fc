"""What a search plans and does in each trial: from public facts to the noise of one, the space, and noisy scores.

A score is a sum of one bounded term a row. Every term is computed from its row and the model alone, by the row kernels
and by scalar functions, so that the other rows cannot reach its last digit (a matrix product may round a row
differently in another place of the matrix).
"""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._plain_data import scalar
from sottovoce._validation import choice
from sottovoce.central.core import Asked, Release
from sottovoce.central.data.operation import AtHome, Ticks
from sottovoce.central.data.part import Part
from sottovoce.central.parallel import team
from sottovoce.central.plan import FrozenPlan
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.regressor import DPLinearRegressor
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import GaussianAccountant, accountant_for, gaussian_delta, gaussian_epsilon, nudge
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.calibration import gaussian_mu, least_noise
from sottovoce.privacy.events import Event, GaussianEvent, RepeatAndSelectEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

_EXACT = GaussianAccountant()
# What a trial may choose: public choices that leave adjacency, budget and the checks of the data as they are.
SEARCHABLE: Final = ("alpha", "data_norm", "fit_intercept", "intercept_scaling", "solver", "solver_options")
_MOST_CHECKED: Final = 4096  # combinations of listed values that are checked before the data are read


@dataclass(frozen=True, kw_only=True)
class SearchPlan(FrozenPlan):
    """Public facts and privacy parameters of a search, and how the budget becomes that of one trial."""

    what = "A search"
    # Budget of the whole search.
    epsilon: float
    delta: float
    adjacency: Adjacency
    n_iter: float  # expected number of trials
    scoring: str  # "accuracy" or "neg_mean_squared_error"
    score_bound: float  # bound on a row's loss
    validation_size: float  # probability with which a row is held out
    n_samples: int  # public number of rows (a stand-in for it under add-remove adjacency), held-out rows included
    n_features: int

    @property
    def noise_multiplier(self) -> float:
        """Noise over sensitivity of the one Gaussian release that a trial costs as much as."""
        return _calibrate(self.epsilon, self.delta, self.n_iter)

    @property
    def event(self) -> Event:
        return self.event_of(GaussianEvent(self.noise_multiplier))

    def event_of(self, trial: Event) -> Event:
        return RepeatAndSelectEvent(trial, self.n_iter)

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter that no trial may exceed, neither in training nor in scoring."""
        return _EXACT.mu(GaussianEvent(self.noise_multiplier))

    @property
    def trial_delta(self) -> float:
        """Delta for the estimator of a trial: that of the search, unless it is too large for a positive epsilon."""
        return min(self.delta, 0.5 * gaussian_delta(self.mu, 0.0))

    @cached_property
    def trial_epsilon(self) -> float:
        """Epsilon that goes with `trial_delta`: the estimator turns the pair into its mu again, never above `mu`."""
        mu, delta = self.mu * (1.0 - 1e-12), self.trial_delta  # a trial composes its parts in double precision
        return nudge(gaussian_epsilon(mu, delta), lambda epsilon: gaussian_mu(epsilon, delta) <= mu, up=False)

    @property
    def n_train(self) -> int:
        """Public stand-in for the number of training rows."""
        return max(1, round(self.n_samples * (1.0 - self.validation_size)))

    def keeps_budget(self, event: Event) -> bool:
        """Tell whether a trial's ``event`` costs at most `mu`; events that are not Gaussian raise AccountingError."""
        return _EXACT.mu(event) <= self.mu

    def facts(self) -> dict[str, object]:
        """Return what the plan can be made from again, beside what the estimator tells."""
        of_estimator = ("adjacency", "scoring", "score_bound")
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in of_estimator}

    def details(self) -> dict[str, object]:
        return {
            "expected number of trials": self.n_iter,
            "scoring": self.scoring,
            "bound on the loss of a row": self.score_bound,
            "validation_size": self.validation_size,
            "mu (Gaussian DP) of a trial": self.mu,
            "epsilon of a trial": self.trial_epsilon,
            "delta of a trial": self.trial_delta,
            "standard deviation of the noise in a score, about": self.score_noise,
        }

    @property
    def score_noise(self) -> float:
        """Standard deviation of the noise in the score of a trial, in the unit of the score."""
        held_out = max(1.0, self.n_samples * self.validation_size)
        return 0.5 * self.score_bound * self.adjacency.sum_factor * self.noise_multiplier / held_out


@lru_cache(maxsize=256)
def _calibrate(epsilon: float, delta: float, n_iter: float) -> float:
    def make(noise_multiplier: float) -> Event:
        return RepeatAndSelectEvent(GaussianEvent(noise_multiplier), n_iter)

    start = 1.5 / gaussian_mu(epsilon, delta)
    return least_noise(make, accountant_for(make(1.0)), epsilon, delta, start=start, tolerance=1e-6)


def check_space(space: object) -> None:
    """Refuse what is no dict from searchable parameters to lists or distributions."""
    if not isinstance(space, Mapping) or not space:
        raise ParameterError(
            f"param_distributions must be a dict from names to lists or distributions, not empty; got {space!r}."
        )
    for name, values in space.items():
        choice("param_distributions", name, SEARCHABLE, remedy="Others are the same in every trial.")
        listed = isinstance(values, (list, tuple)) or (isinstance(values, np.ndarray) and values.ndim == 1)
        if not hasattr(values, "rvs") and not (listed and len(values)):
            raise ParameterError(
                f"param_distributions[{name!r}] must be a list, not empty, or have a method rvs; got {values!r}."
            )


def combinations(space: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Go through the listed values, up to a few thousand; those with a distribution stay as the estimator has them."""
    listed = {name: values for name, values in space.items() if not hasattr(values, "rvs")}
    for chosen in itertools.islice(itertools.product(*listed.values()), _MOST_CHECKED):
        yield {name: scalar(value) for name, value in zip(listed, chosen, strict=True)}


def draw(space: Mapping[str, Any], chance: np.random.Generator) -> dict[str, Any]:
    """Draw each parameter by itself, with replacement: trials have to be independent and alike."""
    drawn = {}
    for name, values in space.items():
        listed = not hasattr(values, "rvs")
        drawn[name] = scalar(values[chance.integers(len(values))] if listed else values.rvs(random_state=chance))
    return drawn


def scoring_for(estimator: DPLinearEstimator) -> tuple[str, float]:
    """Return the name of the score and the bound on a row's loss, from public facts."""
    if not isinstance(estimator, DPLinearRegressor):
        return "accuracy", 1.0
    low, high = estimator.label_range()
    return "neg_mean_squared_error", 0.25 * (high - low) ** 2


def row_losses(bound: float, model: DPLinearEstimator, X: Any, y: Vector) -> Vector:
    """Return the loss of each row, within [0, ``bound``] whatever the row is.

    ``bound``: from `scoring_for`.
    ``model``: trained.
    ``X``: of shape (n, d).
    ``y``: of shape (n,); labels, or places in ``model.classes_``.
    """
    margins = margins_of(model, X)
    if isinstance(model, DPLinearRegressor):
        loss = (np.clip(margins[:, 0], *model.label_range()) - y) ** 2
    else:
        winners = (margins[:, 0] > 0.0).astype(int) if margins.shape[1] == 1 else margins.argmax(axis=1)
        loss = (winners != y).astype(np.float64)
    return np.clip(np.where(np.isnan(loss), bound, loss), 0.0, bound)


def score_mechanism(adjacency: Adjacency, noise_multiplier: float) -> GridGaussian:
    """Return the mechanism that releases the score of a trial; what it costs is known before any data are read."""
    return clipped_sum(Neighbours(adjacency), 1.0, noise_multiplier).mechanism


def score(bound: float, mechanism: GridGaussian) -> Asked[float]:
    """Release sum_i (1 - 2 loss_i / bound) with noise, of rows whose losses are within [0, ``bound``]."""
    (noisy,) = yield Release("a noisy score", ScoreSum(bound, mechanism.tick), mechanism)
    return float(noisy)


@dataclass(frozen=True)
class ScoreSum(AtHome[Ticks]):
    """The sum of one term of each loss, within [-1, 1], in whole ticks.

    A row that is not there contributes 0, the middle of the range, so that its term moves the sum by 1 and not by 2.
    """

    bound: float
    tick: float

    def on(self, part: Any) -> Ticks:
        terms = np.clip(1.0 - 2.0 * (part / self.bound), -1.0, 1.0)
        total: Ticks = np.trunc(terms / self.tick).astype(np.int64).sum(keepdims=True)
        return total


def margins_of(model: DPLinearEstimator, X: Any) -> Vector:
    """Return the margin of each row for each weight vector, shape (n, k)."""
    weights = np.atleast_2d(model.coef_)
    X, margins = model.within_bounds(X), np.empty((X.shape[0], len(weights)))
    with team() as threads, closing(Part(X, threads).blocks()) as blocks:
        for place, rows in blocks:
            for k, w in enumerate(weights):
                margins[place, k] = rows.margins(w, threads)
    with np.errstate(invalid="ignore", over="ignore"):
        out: Vector = model.of_shortened(margins, X) + np.atleast_1d(model.intercept_)
    return out
