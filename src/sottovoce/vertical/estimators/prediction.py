"""What a fitted vertical model does: scores of rows at the parties, weights learnt again, a comparison."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sottovoce._numerics import Vector
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import SumOfScores, Term, VerticalPlan, ask_scores
from sottovoce.vertical.estimators.parties import as_parties, check_length, hand_out, labels_of, owned
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.protocols.exact.plan import own_model_name

_HIGHER_IS_BETTER: Final = ("accuracy", "R^2")  # the others are losses


@dataclass(frozen=True)
class Comparison:
    """Measures of the local and of the joint model.

    Attributes
    ----------
    n_samples : int
    local, joint : dict
        By the name of the measure, such as ``"accuracy"`` or ``"log loss"``.
    """

    n_samples: int
    local: Mapping[str, float]
    joint: Mapping[str, float]

    @property
    def improved(self) -> tuple[str, ...]:
        """The measures in which the joint model is better."""
        signs = {name: 1.0 if name in _HIGHER_IS_BETTER else -1.0 for name in self.local}
        return tuple(name for name, sign in signs.items() if sign * self.joint[name] > sign * self.local[name])

    def __str__(self) -> str:
        lines = [f"on {self.n_samples} people           local     joint"]
        lines += [f"{name:<20} {self.local[name]:>9.4f} {self.joint[name]:>9.4f}" for name in self.local]
        return "\n".join(lines)


class Predicting(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator whose model is split over parties."""

    model_: str  # its name at the parties
    plan_: VerticalPlan
    scorer_: SumOfScores
    parts_: dict[str, Part]
    local_part_: Part | None

    @abstractmethod
    def _weigh(self, scores: Vector, y: NDArray[Any]) -> tuple[Vector, float]:
        """Return the weights of some columns of scores, and a constant, that fit labels best."""

    @abstractmethod
    def _measures(self, y: NDArray[Any], scores: Vector) -> dict[str, float]: ...

    def decision_function(self, parties: Any) -> Vector:
        """Return the joint score of each row.

        Parameters
        ----------
        parties : Parties or sequence of Party
            The same organisations, by name, with the rows to score. With ``mechanism="local-models"`` a party beside
            the label holder may be missing: its term is left out.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        check_is_fitted(self)
        return self._scores(self._ready(parties, self.scorer_.needed), self.scorer_, self.model_)

    def local_decision_function(self, parties: Any) -> Vector:
        """Return the score of each row by the label holder's own exact model, from its own columns alone.

        Parameters
        ----------
        parties : Parties or sequence of Party

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        check_is_fitted(self)
        holder = self.plan_.facts.label_holder
        return self._scores(self._ready(parties, (holder,)), SumOfScores({holder: Term()}), own_model_name(self.model_))

    @staticmethod
    def _scores(parties: Parties, scorer: SumOfScores, model: str) -> Vector:
        with parties.session() as session:
            return scorer.scores(session, model)

    def recombine(self, parties: Any, y: ArrayLike | None = None) -> Self:
        """Learn the weights of the parties' scores again, from labelled people who may be scored.

        With ``mechanism="local-models"`` the weights of the parties' terms are public constants, because nobody sees
        how much the parties' columns overlap. The label holder can learn them from some people whose scores it may
        have: one number a party for each of them, which no statement covers. Do not use the people of `fit`.

        Parameters
        ----------
        parties : Parties or sequence of Party
            All parties of the model, with the rows of these people.
        y : array-like of shape (n_rows,) or None
            As for `fit`.

        Returns
        -------
        self
            `scorer_` has new weights; the coefficients stay what they are.
        """
        check_is_fitted(self)
        if not self.plan_.weighs_parties:
            raise ParameterError(
                f"mechanism={self.plan_.name!r} has no weights to learn: recombine is for mechanism='local-models'."
            )
        names = self.plan_.facts.names
        parties = self._ready(parties, names)
        labels = labels_of(parties, self.plan_.facts.label_holder, y)
        with parties.session() as session:
            columns = np.column_stack(list(ask_scores(session, names, self.model_).values()))
        check_length(labels, len(columns))
        weights, constant = self._weigh(columns, labels)
        if not np.isfinite(weights).all():
            raise DataError(
                "the scores of these people do not determine the weights: take more, and more varied, people."
            )
        terms = {name: Term(float(weight)) for name, weight in zip(names, weights, strict=True)}
        self.scorer_ = SumOfScores(terms, constant=constant)
        return self

    def compare(self, parties: Any, y: ArrayLike | None = None, *, local: "Predicting | None" = None) -> Comparison:
        """Return how good a model of the label holder's own columns and the joint one are on the same people.

        Parameters
        ----------
        parties : Parties or sequence of Party
        y : array-like of shape (n_rows,) or None
            As for `fit`.
        local : VerticalEstimator or None
            Fitted on a list of the label holder alone, say with ``epsilon=inf``. None takes the label holder's own
            model of `fit`, where there is one.

        Returns
        -------
        Comparison
            For the label holder's eyes: it is computed from its labels.

        Raises
        ------
        ParameterError
            If ``local`` is missing where `fit` trained none, or was fitted on other parties.
        """
        check_is_fitted(self)
        holder = self.plan_.facts.label_holder
        parties = as_parties(parties)
        if local is None:
            own = self.local_decision_function(parties)
        else:
            check_is_fitted(local)
            if local.plan_.facts.names != (holder,):
                raise ParameterError(
                    f"local must be fitted on a list of the label holder {holder!r} alone; it was on "
                    f"{list(local.plan_.facts.names)!r}."
                )
            own = local.decision_function([party for name, party in owned(parties).items() if name == holder])
        labels = labels_of(parties, holder, y)
        joint = self.decision_function(parties)
        check_length(labels, len(joint))
        return Comparison(len(labels), self._measures(labels, own), self._measures(labels, joint))

    def _ready(self, parties: Any, needed: tuple[str, ...]) -> Parties:
        """Return parties that hold their parts; in one process the estimator hands each its own."""
        ready = as_parties(parties)
        known = self.plan_.facts.names
        for name in ready.names:
            if name not in (*known, *self.plan_.facts.helpers):
                raise DataError(f"party {name!r} took no part in this model; those who did are {list(known)!r}.")
        for name in needed:
            if name not in ready.names:
                raise DataError(f"party {name!r} is missing: its part of the model is needed for every score.")
        hand_out(ready, self.model_, self.plan_.facts.label_holder, self.parts_, self.local_part_)
        return ready
