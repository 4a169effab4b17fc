"""The public facts about one training run, checked once; every plan is made from them."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sottovoce._validation import number, privacy_budget, whole_number
from sottovoce.central.core import Asked
from sottovoce.central.data.rows import RowUnit
from sottovoce.central.released_norm import NormRelease, largest_norm
from sottovoce.losses import Loss
from sottovoce.privacy.adjacency import Adjacency, Neighbours, checked_max_rows
from sottovoce.privacy.calibration import gaussian_mu

HARDLY_ANY_NOISE: Final = 30.0  # mu: an epsilon of some 600


class _Derived:
    """What follows from the facts."""

    is_private: bool
    neighbours: Neighbours  # how far sums over rows can move: what mechanisms are made from
    n_units: float  # what a rule takes for the number of rows against the noise: with k rows a person, n / k persons
    n_weights: int
    entry: float  # of the intercept's column in a row as solvers see it; 0 where there is none
    alpha_scaled: float  # L2 penalty for rows at most 1 long with the intercept's column, and a weight of at most 1


@dataclass(frozen=True, kw_only=True)
class TrainingFacts(_Derived):
    """What is known of a training run before any data are read.

    Raises ParameterError if a number is out of its range.
    """

    loss: Loss
    n_samples: int  # public number of rows (a stand-in for it under add-remove adjacency)
    n_features: int
    n_models: int  # binary models trained on the same rows (one-vs-rest); each gets an equal part of the budget
    alpha: float  # L2 penalty for rows in units of ``data_norm``, the intercept's column included; 0 for none
    constant: float  # value of the intercept's column in units of ``data_norm``; 0 for none
    epsilon: float
    delta: float
    adjacency: Adjacency
    label_bound: float | None  # public bound on |y| after centring (squared loss)
    # Public bound on the weight of a row; None where rows have none. Solvers see the weights divided by it, so that the
    # heaviest row counts as one.
    weight_bound: float | None = None
    # Public number of rows of a person that are used, at most; None where the unit is a row.
    max_rows_per_group: int | None = None
    # Whether there is no public bound on the norm of a row: one that most rows keep is released first of all.
    releases_norm: bool = False

    def __post_init__(self) -> None:
        for name in ("n_samples", "n_features", "n_models"):
            whole_number(name, getattr(self, name), at_least=1, at_most=2**53)
        number("alpha", self.alpha, at_least=0.0)
        number("constant", self.constant, at_least=0.0)
        privacy_budget(self.epsilon, self.delta)
        if self.label_bound is not None:
            number("label_bound", self.label_bound, above=0.0)
        if self.weight_bound is not None:
            number("weight_bound", self.weight_bound, above=0.0)
        if self.max_rows_per_group is not None:
            checked_max_rows(self.max_rows_per_group)
        unit, rows = RowUnit(1.0, self.constant), self.max_rows_per_group or 1
        vars(self).update(
            is_private=math.isfinite(self.epsilon), neighbours=Neighbours(self.adjacency, rows),
            n_units=self.n_samples / rows, n_weights=self.n_features + (self.constant > 0.0), entry=unit.entry,
            alpha_scaled=self.alpha / unit.square / (1.0 if self.weight_bound is None else self.weight_bound),
        )  # fmt: skip

    @cached_property
    def norm_release(self) -> NormRelease | None:
        """How a bound on the norm of a row is released; None where it is public, and without privacy."""
        if not (self.releases_norm and self.is_private):
            return None
        mu = gaussian_mu(self.epsilon, self.delta)
        return NormRelease(mu, self.n_units, self.neighbours, keeps_all=mu > HARDLY_ANY_NOISE)

    @cached_property
    def share_of_norm(self) -> float:
        """Share of mu^2 that this release takes."""
        return 0.0 if self.norm_release is None else self.norm_release.share

    def norm(self) -> Asked[float | None]:
        """Release a bound on the lengths of measured rows: noisy, or without privacy the largest; None where public."""
        if not self.releases_norm:
            return None
        return (yield from largest_norm() if self.norm_release is None else self.norm_release.asks())
