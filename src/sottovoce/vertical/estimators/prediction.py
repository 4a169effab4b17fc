"""The parties that a user gives, and what a fitted model does with them: scores, weights learnt again, a comparison."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sottovoce._entries import entries
from sottovoce._numerics import Vector
from sottovoce._validation import choice
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.alignment import AlignedParties
from sottovoce.vertical.coordinator.exact import own_model_name
from sottovoce.vertical.coordinator.parties import InProcessParties, Parties
from sottovoce.vertical.coordinator.plan import SumOfScores, Term, VerticalPlan, ask_scores
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.requests.identifiers import canonical_identifiers


def as_parties(parties: Any) -> Parties:
    """Return parties as `Parties`; a list of `Party` objects is of this process."""
    if isinstance(parties, Sequence) and parties and all(isinstance(party, Party) for party in parties):
        parties = InProcessParties(parties)
    if not isinstance(parties, Parties):
        raise ParameterError(
            f"parties must be Parties or a non-empty list of Party objects; got {type(parties).__name__}."
        )
    if not isinstance(parties, AlignedParties):
        _check_order(owned(parties))
    return parties


def owned(parties: Parties) -> dict[str, Party]:
    return {name: party for name, party in parties.here.items() if isinstance(party, Party)}


def _check_order(parties: Mapping[str, Party]) -> None:
    """Refuse parties whose identifiers, where they have any, say that row i is not the same person everywhere."""
    first: tuple[str, Any] = ("", None)
    for name, party in parties.items():
        if party.ids is None:
            continue
        ids = canonical_identifiers(f"ids of party {name!r}", party.ids)
        if first[1] is None:
            first = (name, ids)
        elif not ids.equals(first[1]):
            raise DataError(
                f"parties {first[0]!r} and {name!r} hold different identifiers, or in another order: align them first, "
                "with sottovoce.vertical.align."
            )


@contextmanager
def seeded_for_session(parties: Parties, streams: Streams, session: bytes) -> Iterator[bool]:
    """Give every party in this process a seed of its own for one session; tell whether any noise can be repeated."""
    here = list(owned(parties).values())
    if not streams.seeded:
        yield any(party.is_seeded for party in here)
        return
    seeds = streams.generator(Purpose.SHUFFLING).integers(2**63, size=len(here))
    with ExitStack() as stack:
        for party, seed in zip(here, seeds, strict=True):
            stack.enter_context(party.seeded(int(seed), session=session))
        yield True


def kept_parts(parties: Parties, model: str, holder: str) -> tuple[dict[str, Part], Part | None]:
    """Return what each party keeps, in one process, and the label holder's own model; elsewhere both stay there."""
    here = owned(parties)
    parts = {name: party.parts[model] for name, party in here.items() if party.keeps(model)}
    return parts, here[holder].parts.get(own_model_name(model)) if holder in here else None


def hand_out(parties: Parties, model: str, holder: str, parts: Mapping[str, Part], local: Part | None) -> None:
    """Give the parties in this process what `kept_parts` returned."""
    here = owned(parties)
    for name, party in here.items():
        if name in parts:
            party.adopt(model, parts[name])
    if local is not None and holder in here:
        here[holder].adopt(own_model_name(model), local)


def label_holder(given: str | None, parties: Parties) -> str:
    """Return who holds the labels: who is named, else the one party that was made with some, else the first."""
    if given is not None:
        return choice("label_holder", given, parties.names)
    holders = [name for name, party in owned(parties).items() if party.y is not None]
    if len(holders) > 1:
        raise ParameterError(
            f"parties {', '.join(map(repr, holders))} all hold labels: say whose with label_holder=..."
        )
    if holders:
        return holders[0]
    here = owned(parties)
    return next((name for name in parties.names if name not in here or not here[name].is_helper), parties.names[0])


def own_labels(parties: Parties, holder: str, y: ArrayLike | None) -> Any:
    """Return the labels that the party itself holds, or None; refuse a training without any. Nothing is read."""
    party = owned(parties).get(holder)
    own = None if party is None else party.y
    if own is None and y is None:
        raise ParameterError(f"y is missing: give the labels, or make the party {holder!r} with y=...")
    return own


def labels_of(parties: Parties, holder: str, y: ArrayLike | None) -> NDArray[Any]:
    """Return the labels, given or held; where they are both, they must be the same."""
    own = own_labels(parties, holder, y)
    if own is None or y is None:
        return entries(own if y is None else y)
    given = entries(y)
    if not np.array_equal(given, own):
        raise DataError(
            f"y is given twice, and is not the same: party {holder!r} was made with y=... too. Give it once; aligned "
            "parties put their own in order."
        )
    return given


def check_length(y: ArrayLike, n_rows: int) -> None:
    if np.shape(y) != (n_rows,):
        raise DataError(f"y must hold one label for each of {n_rows} rows; got the shape {np.shape(y)}.")


# ------------------------------------------------------------------ a fitted model

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
