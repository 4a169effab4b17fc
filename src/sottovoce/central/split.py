"""How a budget is divided among what a solver releases before, in and after its steps; and the scales before them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.calibration import calibrated, prior_for
from sottovoce.central.core import Asked, Steps
from sottovoce.central.data.lengths import Shorten
from sottovoce.central.data.targets import BeginModel
from sottovoce.central.facts import HARDLY_ANY_NOISE, TrainingFacts
from sottovoce.central.scales import label_location_and_scale, most_rows_bound
from sottovoce.central.sums.largest_eigenvalue import largest_eigenvalue
from sottovoce.privacy.calibration import gaussian_mu

__all__ = ["AFTER_STEPS", "Scales", "Split", "State", "averaged", "one_by_one", "unshortened"]

AFTER_STEPS: Final = "the weights after every step (the model is an average of them)"
State = tuple[Vector, ...]  # the point where a model is, and whatever else its steps need

_ORIGIN: Final[State] = (np.zeros(1),)  # one entry stands for all weights
_SHARE: Final = 0.02  # of mu^2, for each estimated scale
_NORM_SHARE: Final = 0.01  # of mu^2, for the length of the rows


@dataclass(frozen=True)
class Scales:
    """Noisy scales of the data, released; one that is not estimated has its public value."""

    norm: float = 1.0
    eigenvalue: float = 1.0
    location: float = 0.0
    label: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Split:
    """The Gaussian-DP parameter of each release of a run, from public facts; the squares add up to mu^2.

    Parameters
    ----------
    shortens : bool
        Whether the solver gains from a bound that most rows keep, which is then released within a public one.
    eigenvalue, labels : bool
        Whether lambda_max, and two numbers on the labels, are released.
    others : float
        Share of mu^2 for what the solver releases once, beside its steps.
    calibration : float
        Share of mu^2 for slope and shift of the finished models.
    """

    facts: TrainingFacts
    shortens: bool = False
    eigenvalue: bool = False
    labels: bool = False
    others: float = 0.0
    calibration: float = 0.0

    @cached_property
    def whole(self) -> float:
        """Mu of the whole run."""
        return gaussian_mu(self.facts.epsilon, self.facts.delta)

    @cached_property
    def is_noisy(self) -> bool:
        """False for budgets that hardly are any: a run then tends to the penalised optimum, length and all."""
        return self.whole <= HARDLY_ANY_NOISE

    @cached_property
    def shortens_rows(self) -> bool:
        """Whether a bound that most rows keep is released within the public one.

        Not where there is hardly any noise that it could lessen, nor where no bound is public: then one was released.
        """
        return self.shortens and self.is_noisy and not self.facts.releases_norm

    @cached_property
    def share_of_norm(self) -> float:
        return _NORM_SHARE * self.shortens_rows + self.facts.share_of_norm

    @cached_property
    def norm(self) -> float:
        """Mu for the length of the rows."""
        return self.whole * math.sqrt(self.share_of_norm)

    @cached_property
    def scale(self) -> float:
        """Mu for lambda_max, and for the labels."""
        return self.whole * math.sqrt(_SHARE)

    @cached_property
    def of_labels(self) -> float:
        """Mu for the labels: 0 where nothing is released of them."""
        return self.scale if self.labels else 0.0

    @cached_property
    def slopes(self) -> float:
        """Mu for slope and shift of all models together."""
        return self.whole * math.sqrt(self.calibration)

    @cached_property
    def steps(self) -> float:
        """Mu that is left for the steps of all models together."""
        scales = self.share_of_norm + _SHARE * (self.eigenvalue + self.labels)
        return self.whole * math.sqrt(1.0 - self.others - scales - self.calibration)

    @cached_property
    def model(self) -> float:
        """Mu that is left for the steps of each model."""
        return self.steps / math.sqrt(self.facts.n_models)

    def scales(self, *, keeps_whole: bool = False) -> Asked[Scales]:
        """Release the scales as planned; rows are shortened to the bound that was found.

        ``keeps_whole`` keeps the scales of the whole rows, too.
        """
        facts, norm, eigenvalue, location, label = self.facts, 1.0, 1.0, 0.0, 1.0
        if self.shortens_rows:
            norm = yield from most_rows_bound(facts.n_samples, facts.neighbours, self.norm)
        if norm < 1.0 or keeps_whole:
            yield Shorten(norm, keeps_whole)
        if self.eigenvalue:
            eigenvalue = yield from largest_eigenvalue(
                facts.n_weights, facts.n_samples, facts.neighbours, self.scale, entry=facts.entry
            )
        if self.labels:
            assert facts.label_bound is not None
            location, label = yield from label_location_and_scale(
                facts.n_samples, facts.label_bound, facts.neighbours, self.scale, located=facts.constant > 0.0
            )
        return Scales(norm, eigenvalue, location, label)

    def calibrated(self, weights: Vector, eigenvalue: float, model: int) -> Asked[Vector]:
        """Return finished weights of the model at work with slope and shift as planned."""
        if not self.calibration:
            return weights
        facts = self.facts
        prior = prior_for(self.model * facts.n_units, facts, eigenvalue, self.scale * facts.n_samples)
        mu = self.slopes / math.sqrt(facts.n_models)
        return (yield from calibrated(weights, prior, mu, facts, model))


def averaged(
    step: Callable[[int, State, tuple[int, int]], Asked[State]],
    start: State,
    n_points: int,
    share: float,
    *,
    unit: float = 1.0,
    model: tuple[int, int] = (0, 1),
    apart: int = 0,
) -> Asked[Vector]:
    """Take noisy steps, and return the mean of the last points: all of them are released.

    ``step``: takes the number of a step, the state before it, and what a progress bar is told with it.
    ``start``: one entry of the point stands for all weights.
    ``share``: share of the points, the last ones, that the mean is over.
    ``unit``: what a point is divided by to be weights.
    ``model``: which model it is, and of how many, for the progress bar.
    ``apart``: the one step that releases other things than all others.
    """
    (place, of), state, total = model, start, np.zeros_like(start[0])
    last = max(1, round(share * n_points))

    def one(number: int) -> Asked[None]:
        nonlocal state, total
        state = yield from step(number, state, (place * n_points + number + 1, n_points * of))
        if number >= n_points - last:
            total = total + state[0]

    for numbers in (range(apart), range(apart, min(apart + 1, n_points)), range(apart + 1, n_points)):
        yield Steps(numbers, one)
    return total / (last * unit)


def one_by_one(
    split: Split,
    scales: Scales,
    step: Callable[[int, State, tuple[int, int]], Asked[State]],
    n_points: int,
    share: float,
    *,
    start: State = _ORIGIN,
    duals: tuple[tuple[str, int | None], ...] = (),
    unit: float = 1.0,
) -> Asked[list[Vector]]:
    """Train one model for each target by the same noisy steps; return their weights for rows as they were.

    ``duals``: columns of dual variables, zeros when a model is begun, and how many numbers each has for a row.
    The rest is as in `averaged`.
    """
    weights, n_models = [], split.facts.n_models
    for model in range(n_models):
        yield BeginModel(model, scales.location, duals)
        point = yield from averaged(step, start, n_points, share, unit=unit, model=(model, n_models))
        found = yield from split.calibrated(point, scales.eigenvalue, model)
        weights.append(unshortened(found, scales.norm, split.facts.n_features))
    return weights


def unshortened(weights: Vector, norm: float, n_features: int) -> Vector:
    """Return weights for rows as they were before they were shortened to ``norm``."""
    found = np.array(weights)
    found[..., :n_features] /= norm
    return found
