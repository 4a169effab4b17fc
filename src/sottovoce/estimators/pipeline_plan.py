"""The frozen plan of a pipeline: what a scaler spends, and what is left to the model."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sottovoce.central.column_scales import ColumnScalesPlan, signal_of
from sottovoce.central.plan import FrozenPlan, Plan
from sottovoce.exceptions import AccountingError
from sottovoce.privacy.accounting import accountant_for, gaussian_epsilon
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event, compose

_LEAST_SHARE, _LARGEST_SHARE = 0.03, 0.3  # of mu^2, for the scaler
_WANTED: Final = 14.0  # rows over the noise of a count
_PLENTY, _CHEAP = 20.0, 0.1  # as many, for all rounds, where they cost no more than this share
_HALVINGS: Final = 12


@dataclass(frozen=True, kw_only=True)
class PipelinePlan(FrozenPlan):
    """Public facts and privacy parameters of a pipeline."""

    what = "A pipeline"
    # Budget of the whole.
    epsilon: float
    delta: float
    model: Plan
    scaler: ColumnScalesPlan | None  # None where there is no scaler
    model_epsilon: float  # budget of the model, at the same delta
    n_features: int  # columns of the table that the pipeline is given

    def __post_init__(self) -> None:
        shown = ("adjacency", "n_samples", "max_rows_per_group")
        vars(self).update((name, getattr(self.model, name)) for name in shown)

    @property
    def event(self) -> Event:
        """What the whole costs at most: scaler, then model."""
        return self.event_of(self.model.event)

    def event_of(self, model: Event) -> Event:
        return model if self.scaler is None else compose(self.scaler.event, model)

    def details(self) -> dict[str, object]:
        return {
            **({} if self.scaler is None else self.scaler.details()),
            "epsilon left to the model": self.model_epsilon,
        }

    def summary(self) -> dict[str, object]:
        return {
            **self.model.summary(), "n_features": self.n_features, "epsilon": self.epsilon, **self.details(),
            "event": self.event.describe(),
        }  # fmt: skip


def scaler_share(epsilon: float, delta: float, n_samples: int, n_features: int, per_column: float) -> float:
    """Return the share of mu^2 that a scaler gets, from public facts; ``docs/measured/data/pipelines``.

    So much that counts of all columns stand out from their noise, at least 3 % and at most 30 %.
    """
    if not math.isfinite(epsilon):
        return _LEAST_SHARE
    signal = signal_of(gaussian_mu(epsilon, delta), n_samples, n_features, per_column)
    plenty = (_PLENTY / signal) ** 2
    return min(_LARGEST_SHARE, max(_LEAST_SHARE, plenty if plenty <= _CHEAP else (_WANTED / signal) ** 2))


def model_epsilon(scaler: ColumnScalesPlan, epsilon: float, delta: float, model: Callable[[float], Event]) -> float:
    """Return the largest epsilon that a model may have after a scaler, so that both together keep the budget.

    Raises AccountingError if nothing is left.

    ``epsilon``, ``delta``: of both together.
    ``model``: from an epsilon to the event of the model at the same delta.
    """
    if not scaler.rounds or not scaler.is_private:
        return epsilon

    def kept(own: float) -> bool:
        event = compose(scaler.event, model(own))
        return accountant_for(event).epsilon(event, delta) <= epsilon

    # what is left in Gaussian DP, less what two roundings can differ by: of Gaussian models it is all
    mu = gaussian_mu(epsilon, delta)
    left = gaussian_epsilon(mu * math.sqrt(1.0 - scaler.share) * (1.0 - 1e-12), delta)
    low, high = (left, epsilon) if kept(left) else (0.0, left)
    if low > 0.0 and not kept(low * 1.01):
        return low
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if kept(middle) else (low, middle)
    if low <= 0.0:
        raise AccountingError(
            f"epsilon={epsilon!r} at delta={delta!r} leaves nothing to the model after the scaler: raise one of them, "
            "or give a smaller share."
        )
    return low
