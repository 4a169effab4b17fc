r"""Vertical training from one noisy copy of the other parties' columns, kept by the label holder.

Once, every party m but the label holder releases (in units of its public row bound, so that rows have norm at most 1)

.. math:: \tilde D_m = D_m + E_m, \qquad \tilde G_m = D_m'D_m + F_m,

with Gaussian noise that makes the pair mu_m-Gaussian DP for a replaced row. The label holder fits its own columns
without noise, to scores s_1, and takes one Newton step on the columns of the others, block by block,

.. math:: x_m = \big(K \kappa \tilde G_m^+ + (\alpha n + 2 \sigma_m |r|) I\big)^{-1} \tilde D_m' r,
          \qquad r_i = -l'(y_i, s_{1,i}), \quad \kappa = \text{mean of } l''(y_i, s_{1,i}).

* The s_1 of r and kappa are cross-fitted in five parts: a model's residuals on its own rows are too small.
* Given r, the noise in D~'r is N(0, sigma^2 |r|^2) in each entry; the ridge is twice that.
* K is the number of other parties. Their Gram matrix is at most K times its blocks on the diagonal
  (Cauchy-Schwarz), so the step never overshoots. The blocks beside the diagonal could be had without bias from
  D~_m'D~_k, but with noise of about sigma^2 sqrt(n) an entry: at epsilon 1 and 30,000 rows some 400 times that of the
  released blocks.

No message to another party depends on labels or on the label holder's columns. The coefficients x_m are *at the label
holder*, which must therefore be shown the columns of those whom it scores.

Statement and proof: ``docs/privacy/vertical_noisy_features.md``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from scipy.linalg import eigh

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude, number
from sottovoce.exceptions import ParameterError, PartyError
from sottovoce.losses.base import Loss
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event, NothingReleased, compose
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.coordinator.charges import (
    check_affordable,
    check_spent,
    require_row_bounds,
    split_mu,
)
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import Scorer, VerticalPlan, VerticalSolution
from sottovoce.vertical.coordinator.replies import checked
from sottovoce.vertical.protocols.exact.lbfgs import lbfgs
from sottovoce.vertical.protocols.exact.plan import own_model_name
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.protocols.general.messages import Description, Keep, Prepare
from sottovoce.vertical.protocols.noisy_features.messages import Features, SendFeatures
from sottovoce.vertical.protocols.noisy_features.party import FeatureRelease
from sottovoce.vertical.protocols.scoring.messages import Score, Scores, ShowFeatures, ShownFeatures
from sottovoce.vertical.wire import Done

__all__ = ["HeldCoefficients", "NoisyFeaturesPlan"]

_FOLDS: Final = 5


@dataclass(frozen=True)
class HeldCoefficients(Scorer):
    """The label holder's own score plus coefficients that it holds itself, times columns that it is shown.

    Attributes
    ----------
    label_holder : str
        Scores its own columns, as a party.
    coefficients : dict
        By other party, one number a column, *held by the label holder*: secret with it, as its own part is.
    """

    label_holder: str
    coefficients: Mapping[str, Vector]

    def scores(self, parties: Parties, model: str) -> Vector:
        """Ask the others to show the columns of the records, and return one number a record."""
        shown = parties.exchange(dict.fromkeys(self.coefficients, ShowFeatures()), ShownFeatures)
        total = parties.ask(self.label_holder, Score(model), Scores).scores.copy()
        for name, coefficients in self.coefficients.items():
            total += _table(name, shown[name].rows, len(total), len(coefficients)) @ coefficients
        return total

    @property
    def needed(self) -> tuple[str, ...]:
        """All parties of the training."""
        return (self.label_holder, *self.coefficients)


@dataclass(frozen=True, kw_only=True)
class NoisyFeaturesPlan(VerticalPlan):
    """Plan of one training from noisy columns.

    Attributes
    ----------
    budget_shares : dict or None
        Share of each other party in mu^2, the square of the mean shift that a person's rows at all of them may cause;
        None for equal shares.

    Raises
    ------
    ParameterError
        If a party that would send columns has no ``data_norm``, there is no such party, the loss has corners, or a
        parameter is out of range.
    """

    name: ClassVar[str] = "noisy-features"
    about: ClassVar[str] = "the other parties' columns plus noise, once"
    proof: ClassVar[str] = "docs/privacy/vertical_noisy_features.md"
    options: ClassVar[tuple[str, ...]] = ("budget_shares",)

    budget_shares: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        number("epsilon", self.epsilon, above=0.0)
        number("delta", self.delta, above=0.0, below=1.0)
        magnitude("alpha", self.alpha)
        if not (isinstance(self.loss, Loss) and math.isfinite(self.loss.smoothness)):
            raise ParameterError(
                f"mechanism='noisy-features' needs a smooth convex loss; the {self.loss.name} loss is none. "
                "Use the smoothed hinge, or mechanism='local-models'."
            )
        if not self.facts.others:
            raise ParameterError(
                "mechanism='noisy-features' needs a second party; a label holder alone has nothing to be sent."
            )
        require_row_bounds(self.facts, self.facts.others, self.name)
        for name in self.facts.others:  # refuses wrong shares, and too little noise, before anything is spent
            self.release_of(name).check()

    @cached_property
    def mus(self) -> dict[str, float]:
        """Mean shift of each other party's release."""
        return split_mu(gaussian_mu(self.epsilon, self.delta), self.facts.others, self.budget_shares)

    def release_of(self, name: str) -> FeatureRelease:
        """Return how a party releases its columns."""
        return FeatureRelease(self.mus[name], bool(self.facts.descriptions[name].nonnegative))

    @property
    def event(self) -> Event:
        """One Gaussian release a party; a person has a row at each."""
        return compose(*(self.release_of(name).event for name in self.facts.others))

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        """Ask for the noisy columns, fit the label holder's own, and take one Newton step on the others."""
        check_affordable(parties, {name: self.release_of(name).event for name in self.facts.others})
        replies = parties.exchange(
            {name: SendFeatures(self.mus[name]) for name in self.facts.others},
            Features,
        )
        with parties.inside(self.facts.label_holder) as own:
            held_out, n_rounds = self._local_model(own, y, model, streams)
            own.exchange(Keep(own_model_name(model)), Done)
        residual = -self.loss.derivative(y, held_out)
        curvature = float(np.mean(self.loss.curvature(y, held_out)))
        coefficients = {name: self._step(name, reply, residual, curvature) for name, reply in replies.items()}
        spent: dict[str, Event] = {self.facts.label_holder: NothingReleased()}
        spent |= {name: self.release_of(name).event for name in self.facts.others}
        return VerticalSolution(
            scorer=HeldCoefficients(self.facts.label_holder, coefficients),
            event=self.event,
            party_events={name: spent[name] for name in self.facts.names},
            n_rounds=1,
            chosen={"rounds of the label holder's own training, without messages to others": n_rounds},
        )

    def _local_model(self, own: Parties, y: Vector, model: str, streams: Streams) -> tuple[Vector, int]:
        """Fit the label holder's own columns; return cross-fitted scores of its rows, and the rounds of the fit."""
        n = len(y)
        l2 = self.alpha * n

        def fitted(loss: Any) -> tuple[Vector, int]:
            own.exchange(Prepare(l2, 0.0, -math.inf, math.inf, int(self.fit_intercept)), Done)
            history = lbfgs(own, ScoreProblem(loss, y), l2=l2, intercept=self.fit_intercept)
            own.exchange(Keep(model), Done)
            return own.ask(self.facts.label_holder, Score(model), Scores).scores, history.n_rounds

        held_out = np.empty(n)
        folds = min(_FOLDS, n)
        fold = streams.generator(Purpose.SHUFFLING).permutation(np.arange(n) % folds)
        for part in range(folds) if folds > 1 else ():
            scores, _ = fitted(_Kept(self.loss, (fold != part).astype(np.float64)))
            held_out[fold == part] = scores[fold == part]
        scores, n_rounds = fitted(self.loss)
        return (held_out if folds > 1 else scores), n_rounds

    def _step(self, name: str, reply: Features, residual: Vector, curvature: float) -> Vector:
        """Return the coefficients of one party's columns, in their own unit."""
        facts: Description = self.facts.descriptions[name]
        planned = self.release_of(name)
        check_spent(name, reply.event, planned.event)
        n, d = len(residual), facts.n_features
        noise = (reply.rows_noise_std, reply.gram_noise_std)
        if noise != (planned.rows_noise_std, planned.gram_noise_std):
            raise PartyError(f"party {name!r} sent columns with noise that was not planned: {noise!r}.")
        gradient = _table(name, reply.rows, n, d).T @ residual
        values, vectors = eigh(_table(name, reply.gram, d, d))
        length = float(np.linalg.norm(residual))
        ridge = self.alpha * n / facts.data_norm**2 + 2.0 * planned.rows_noise_std * length
        steepness = len(self.facts.others) * curvature * np.maximum(values, 0.0) + ridge
        step: Vector = vectors @ ((vectors.T @ gradient) / steepness)
        return step / facts.data_norm

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        return (
            "every other party sends its columns and their Gram matrix once, with Gaussian noise on a grid; the label "
            "holder fits its own columns exactly and takes one Newton step on the noisy ones"
        )

    @property
    def releases(self) -> tuple[str, ...]:
        """What leaves whom for whom, for the receipt."""
        holder = self.facts.label_holder
        return tuple(
            f"the columns of {name!r} and their Gram matrix, with noise, to the label holder {holder!r}"
            for name in self.facts.others
        )

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the statement leaves open, for the receipt."""
        holder = self.facts.label_holder
        return (
            f"people who are scored: the other parties show their columns to {holder!r} without noise",
            f"the model itself, which stays with {holder!r}: it is fitted without noise to that party's columns and "
            "labels, and must not be published",
        )

    def details(self) -> dict[str, object]:
        """Return noise and budget of each party."""
        details: dict[str, object] = {}
        for name in self.facts.others:
            release, bound = self.release_of(name), self.facts.descriptions[name].data_norm
            details[f"mu (Gaussian DP) of party {name!r}"] = release.mu
            details[f"noise of an entry of the columns of party {name!r}"] = release.rows_noise_std * bound
            details[f"noise of an entry of the diagonal of the Gram matrix of party {name!r}"] = (
                release.gram_noise_std * bound**2
            )
        return details


class _Kept:
    """A loss of which only some records count."""

    def __init__(self, loss: Any, weights: Vector) -> None:
        self.name, self.lipschitz, self.smoothness = loss.name, loss.lipschitz, loss.smoothness
        self.is_classification = loss.is_classification
        self._loss, self._weights = loss, weights

    def value(self, y: Vector, m: Vector) -> Vector:
        """Return the loss of each record that counts."""
        return np.asarray(self._weights * self._loss.value(y, m))

    def derivative(self, y: Vector, m: Vector) -> Vector:
        """Return its derivative."""
        return np.asarray(self._weights * self._loss.derivative(y, m))

    def curvature(self, y: Vector, m: Vector) -> Vector:
        """Return its second derivative."""
        return np.asarray(self._weights * self._loss.curvature(y, m))


def _table(name: str, entries: Vector, n_rows: int, n_columns: int) -> Vector:
    return checked(name, entries, n_rows * n_columns).reshape(n_rows, n_columns)
