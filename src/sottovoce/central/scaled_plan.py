"""What solvers share that first release scales: the length of rows, lambda_max, and two numbers on the labels."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.calibration import calibrated, prior_for, share_for
from sottovoce.central.core import Asked
from sottovoce.central.data.lengths import Shorten
from sottovoce.central.facts import HARDLY_ANY_NOISE
from sottovoce.central.plan import Plan
from sottovoce.central.scales import label_location_and_scale, most_rows_bound
from sottovoce.central.sums.largest_eigenvalue import largest_eigenvalue
from sottovoce.central.sums.whole_gram import MAX_WEIGHTS
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.privacy.calibration import gaussian_mu

__all__ = ["ScaledPlan", "Scales", "refuse_many_weights"]

_SHARE: Final = 0.02  # of mu^2, for each estimated scale
_NORM_SHARE: Final = 0.01  # of mu^2, for the length of the rows
_SHORT_BY_WISH: Final = 1e-3  # alpha beyond which the length of the weights is what was asked for


@dataclass(frozen=True)
class Scales:
    """Noisy scales of the data, released; one that is not estimated has its public value."""

    norm: float = 1.0
    eigenvalue: float = 1.0
    location: float = 0.0
    label: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ScaledPlan(Plan):
    """Plan of a solver that first releases lambda_max and, without a Lipschitz bound, two numbers on the labels."""

    # Whether a bound that most rows keep is released first of all, and rows are shortened to it.
    estimates_norm: ClassVar[bool] = False
    takes_released_norm = True
    # Whether lambda_max is released first.
    estimates_eigenvalue: ClassVar[bool] = True

    @cached_property
    def mu(self) -> float:
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def estimates_labels(self) -> bool:
        return not math.isfinite(self.loss.lipschitz)

    @property
    def shortens_rows(self) -> bool:
        """Whether a bound that most rows keep is released within the public one.

        Not where there is hardly any noise that it could lessen, nor where no bound is public: then one was released.
        """
        return self.estimates_norm and self.is_noisy and not self.releases_norm

    @property
    def mu_scale(self) -> float:
        """Gaussian-DP parameter of lambda_max, and of the labels."""
        return self.mu * math.sqrt(_SHARE)

    @property
    def mu_norm(self) -> float:
        """Gaussian-DP parameter of the length of the rows."""
        return self.mu * math.sqrt(_NORM_SHARE * self.shortens_rows + self.facts.share_of_norm)

    @property
    def share_of_scales(self) -> float:
        """Share of mu^2 that all scales take."""
        length = _NORM_SHARE * self.shortens_rows + self.facts.share_of_norm
        return length + _SHARE * (self.estimates_eigenvalue + self.estimates_labels)

    @property
    def mu_steps(self) -> float:
        """Gaussian-DP parameter that is left for the steps of all models together."""
        return self.mu * math.sqrt(1.0 - self.share_of_scales - self.share_of_calibration)

    @property
    def share_of_calibration(self) -> float:
        """Share of mu^2 for slope and shift of the finished models; 0 where they are not calibrated."""
        return 0.0

    def calibration_by_rule(self, given: float | None) -> float:
        """Return the share that was given, or that of the rule: the logistic loss of one model has one."""
        if given is not None:
            return given
        if self.weight_bound is not None:
            return 0.0  # the odds that weights ask for are not those of the rows
        is_one = self.n_models == 1 and isinstance(self.loss, Logistic) and self.alpha <= _SHORT_BY_WISH
        return share_for(self.mu * self.n_units) if is_one and self.is_noisy else 0.0

    @property
    def is_noisy(self) -> bool:
        """False for budgets that hardly are any: a run then tends to the penalised optimum, length and all."""
        return self.mu <= HARDLY_ANY_NOISE

    def check_calibration(self, given: float | None) -> None:
        """Refuse a share that is none, or one for predictions that have no slope and shift to fit."""
        if given is not None:
            number("calibration_share", given, at_least=0.0, at_most=0.5)
        if given and self.weight_bound is not None:
            raise ParameterError(
                "calibration_share must be 0 or None where rows have weights (class_weight, max_sample_weight): the "
                f"odds that weights ask for are not those of the rows; got {given!r}."
            )
        if given and not self.loss.is_classification:
            raise ParameterError(
                f"calibration_share must be 0 or None for the {self.loss.name} loss: only the predictions of "
                f"classifiers have a slope and a shift to fit; got {given!r}."
            )

    @property
    def mu_calibration(self) -> float:
        """Gaussian-DP parameter for slope and shift of all models together."""
        return self.mu * math.sqrt(self.share_of_calibration)

    @property
    def mu_model(self) -> float:
        """Gaussian-DP parameter that is left for the steps of each model."""
        return self.mu_steps / math.sqrt(self.n_models)

    def scales(self, *, keeps_whole: bool = False) -> Asked[Scales]:
        """Release the scales as planned; rows are shortened to the bound that was found.

        ``keeps_whole`` keeps the scales of the whole rows, too.
        """
        norm, eigenvalue, location, label = 1.0, 1.0, 0.0, 1.0
        if self.shortens_rows:
            norm = yield from most_rows_bound(self.n_samples, self.neighbours, self.mu_norm)
        if norm < 1.0 or keeps_whole:
            yield Shorten(norm, keeps_whole)
        if self.estimates_eigenvalue:
            eigenvalue = yield from largest_eigenvalue(
                self.n_weights, self.n_samples, self.neighbours, self.mu_scale, entry=self.facts.entry
            )
        if self.estimates_labels:
            assert self.label_bound is not None
            location, label = yield from label_location_and_scale(
                self.n_samples, self.label_bound, self.neighbours, self.mu_scale, located=self.facts.constant > 0.0
            )
        return Scales(norm, eigenvalue, location, label)

    def calibrated(self, weights: Vector, eigenvalue: float, model: int) -> Asked[Vector]:
        """Return finished weights of the model at work with slope and shift as planned.

        ``eigenvalue`` is a released upper estimate of lambda_max. Where the plan has no share for it nothing is done.
        """
        if self.share_of_calibration == 0.0:
            return weights
        prior = prior_for(self.mu_model * self.n_units, self.facts, eigenvalue, self.mu_scale * self.n_samples)
        mu = self.mu_calibration / math.sqrt(self.n_models)
        return (yield from calibrated(weights, prior, mu, self.facts, model))


def refuse_many_weights(plan: Plan) -> None:
    """Refuse a plan that releases the matrix of more weights than fit."""
    if plan.n_weights > MAX_WEIGHTS:
        raise ParameterError(
            f"solver={plan.solver!r} takes at most {MAX_WEIGHTS} weights, because it releases a matrix of their "
            f"square; got n_features = {plan.n_features}. Use solver='scd'."
        )
