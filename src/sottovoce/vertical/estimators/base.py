"""What the vertical estimators share: checks, the plan, the fit, receipts, prediction."""

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sottovoce._plain_data import encode
from sottovoce._validation import choice, magnitude, number, privacy_budget, whole_number
from sottovoce._whole_fit import whole_fit
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.ledger.charging import charging, is_charged
from sottovoce.ledger.ledger import Charge
from sottovoce.losses import Loss
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event, describe
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.large_delta import refuse_large_delta, warn_of_large_delta
from sottovoce.privacy.receipts import digest_of_parts, make_receipt
from sottovoce.published.vertical_admm.plan import PublishedPlan
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.alignment.aligned import AlignedParties
from sottovoce.vertical.alignment.identifiers import canonical_identifiers
from sottovoce.vertical.coordinator.history import History
from sottovoce.vertical.coordinator.parties import InProcessParties, Parties
from sottovoce.vertical.coordinator.plan import (
    PublicFacts,
    Scorer,
    SumOfScores,
    Term,
    VerticalPlan,
    VerticalSolution,
    ask_scores,
    read_public_facts,
)
from sottovoce.vertical.estimators.comparison import Comparison
from sottovoce.vertical.party.party import Part, Party
from sottovoce.vertical.protocols.exact.admm import FORMS
from sottovoce.vertical.protocols.exact.plan import ExactPlan, alone
from sottovoce.vertical.protocols.local_models.plan import LocalModelsPlan
from sottovoce.vertical.protocols.noisy_admm.plan import NoisyAdmmPlan
from sottovoce.vertical.protocols.noisy_features.plan import NoisyFeaturesPlan

__all__ = ["MECHANISMS", "VerticalEstimator"]

Vector = NDArray[np.float64]

MECHANISMS: Final[dict[str, type[VerticalPlan]]] = {
    "local-models": LocalModelsPlan,
    "noisy-features": NoisyFeaturesPlan,
    "noisy-admm": NoisyAdmmPlan,
    "paper": PublishedPlan,
}

_NOT_COVERED: Final = (
    "timing, memory and other side channels of the machines that train, the network between them, and whether the "
    "training failed",
    "parties or a coordinator who do not follow the protocol, beyond what the proof says of them",
    "who takes part, how many people are aligned, and their identifiers",
    "rows of the same person beyond one",
    "choosing parameters or data by looking at earlier results: each fit on the same people adds up",
    "how exactly floating-point Gaussians follow their law, where any are drawn",
)
_EXACT_OPTIONS: Final = ("admm_form", "admm_penalty", "memory", "precondition", "relaxation")


class VerticalEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the vertical estimators; constructor parameters are public facts and are never written by `fit`."""

    epsilon: float | None
    delta: float | None
    accept_delta: float | None
    mechanism: str
    mechanism_options: Mapping[str, Any] | None
    labels_public: bool
    label_holder: str | None
    alpha: float | str
    l1_ratio: float
    coef_bounds: tuple[float, float] | None
    fit_intercept: bool
    solver: str
    solver_options: Mapping[str, Any] | None
    max_iter: int
    tol: float
    random_state: Any
    ledger: Any
    dataset: str | None

    parts_: dict[str, Part]
    local_part_: Part | None
    scorer_: Scorer
    guarantee_: Guarantee
    party_guarantees_: dict[str, Guarantee]
    history_: History | None
    n_rounds_: int
    uplink_bytes_: int
    downlink_bytes_: int
    plan_: VerticalPlan
    charge_: Charge | None

    @abstractmethod
    def _make_loss(self) -> Loss: ...

    def _label_bounds(self) -> tuple[float, float] | None:
        return None

    @abstractmethod
    def _targets(self, y: NDArray[Any]) -> tuple[Vector, dict[str, Any]]:
        """Return the labels as the solvers take them, and the attributes that turn scores into predictions."""

    @abstractmethod
    def _weigh(self, scores: NDArray[np.float64], y: NDArray[Any]) -> tuple[Vector, float]:
        """Return the weights of some columns of scores, and a constant, that fit labels best."""

    @abstractmethod
    def _measures(self, y: NDArray[Any], scores: Vector) -> dict[str, float]:
        """Return how good scores are for labels."""

    def plan(self, parties: Any) -> VerticalPlan:
        """Return the frozen plan for these parties; it reads their public facts and nothing else.

        Parameters
        ----------
        parties : Parties or sequence of Party

        Returns
        -------
        VerticalPlan

        Raises
        ------
        ParameterError
            If a parameter is missing, out of range or does not fit another one.
        DataError
            If the parties do not hold the same number of rows.
        """
        parties = _as_parties(parties)
        plan = self._plan(parties, _label_holder(self.label_holder, parties))
        if plan.is_private:
            warn_of_large_delta(plan.delta, plan.facts.n_samples)
        return plan

    def _plan(self, parties: Parties, label_holder: str) -> VerticalPlan:
        epsilon, delta = privacy_budget(self.epsilon, self.delta)
        choice("mechanism", self.mechanism, MECHANISMS)
        for name in ("labels_public", "fit_intercept"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ParameterError(f"{name} must be True or False; got {getattr(self, name)!r}.")
        number("l1_ratio", self.l1_ratio, at_least=0.0, at_most=1.0)
        descriptions = read_public_facts(parties)
        n = next(iter(descriptions.values())).n_rows
        for name, description in descriptions.items():
            if description.n_rows != n:
                raise DataError(
                    f"party {name!r} holds {description.n_rows} rows and {parties.names[0]!r} holds {n}: align them "
                    "first, with sottovoce.vertical.align."
                )
        if math.isfinite(epsilon):
            refuse_large_delta(delta, n, self.accept_delta)
        remedy = "Or give 'auto', which is 1 / n_samples."
        automatic = isinstance(self.alpha, str) and self.alpha == "auto"
        alpha = 1.0 / n if automatic else magnitude("alpha", self.alpha, remedy=remedy)
        common: dict[str, Any] = {
            "facts": PublicFacts(
                n_samples=n, descriptions=descriptions, label_holder=label_holder, label_bounds=self._label_bounds()
            ),
            "loss": self._make_loss(),
            "alpha": alpha,
            "fit_intercept": bool(self.fit_intercept),
            "epsilon": epsilon,
            "delta": delta,
            "labels_public": bool(self.labels_public),
        }
        if math.isinf(epsilon):
            return self._exact_plan(common)
        if self.l1_ratio != 0.0 or self.coef_bounds is not None or _options_given(self.solver_options):
            raise ParameterError(
                "l1_ratio, coef_bounds and solver_options are for a training without noise (epsilon=inf); the private "
                "mechanisms have an L2 penalty."
            )
        return MECHANISMS[self.mechanism](**common, **_options(self.mechanism_options, self.mechanism))

    def _exact_plan(self, common: dict[str, Any]) -> ExactPlan:
        choice("solver", self.solver, ("auto", "lbfgs", "admm"))
        options = dict(self.solver_options or {})
        unknown = sorted(set(options) - set(_EXACT_OPTIONS))
        if unknown:
            raise ParameterError(f"solver_options has no entry {unknown[0]!r}; there are {', '.join(_EXACT_OPTIONS)}.")
        if options.get("admm_penalty") is not None:
            number("solver_options['admm_penalty']", options["admm_penalty"], above=0.0)
        choice("solver_options['admm_form']", options.get("admm_form", "sharing"), FORMS)
        number("solver_options['relaxation']", options.get("relaxation", 1.6), above=0.0, below=2.0)
        whole_number("solver_options['memory']", options.get("memory", 30), at_least=1)
        low, high = (-math.inf, math.inf) if self.coef_bounds is None else self.coef_bounds
        low = -number("coef_bounds[0]", -low, at_least=0.0, infinite=True, remedy="It is at most 0; -inf for none.")
        high = number("coef_bounds[1]", high, at_least=0.0, infinite=True, remedy="It is at least 0; inf for none.")
        if self.l1_ratio == 1.0 and self.solver == "lbfgs":
            raise ParameterError("l1_ratio=1 leaves no L2 penalty, which solver='lbfgs' needs; use solver='admm'.")
        solver = self.solver
        if solver == "auto":
            smooth = self.l1_ratio == 0.0 and self.coef_bounds is None and math.isfinite(common["loss"].smoothness)
            solver = "lbfgs" if smooth else "admm"
        return ExactPlan(
            **common,
            solver=solver,
            l1_ratio=float(self.l1_ratio),
            coef_bounds=(low, high),
            max_iter=whole_number("max_iter", self.max_iter, at_least=1),
            tol=number("tol", self.tol, above=0.0),
            **options,
        )

    @whole_fit
    def fit(self, parties: Any, y: ArrayLike | None = None) -> Self:
        """Train over the parties' columns.

        Parameters
        ----------
        parties : Parties or sequence of Party
            Aligned: row i is the same person everywhere.
        y : array-like of shape (n_rows,) or None
            Labels, in the common order of the rows. None takes those of the party that was made with ``y=...``.

        Returns
        -------
        self

        Raises
        ------
        ParameterError, DataError
            Before anything is released.
        PartyError
            If a party refuses, because of its own budget for example, or fails.
        """
        parties = _as_parties(parties)
        with parties.session() as session:
            self._fit(parties, session, y)
            # without the farewell, which is no part of the training; the counters of ``parties`` have it
            self.uplink_bytes_, self.downlink_bytes_ = session.uplink_bytes, session.downlink_bytes
        return self

    def _fit(self, parties: Parties, session: Parties, y: ArrayLike | None) -> None:
        """Train in ``session``, one that is open with ``parties``."""
        holder = _label_holder(self.label_holder, parties)
        streams = Streams(self.random_state)
        is_charged(self.ledger, self.dataset)
        own = _check_given(parties, holder, y)
        plan = self._plan(session, holder)
        _check_length(own if y is None else y, plan.facts.n_samples)
        if plan.is_private:
            warn_of_large_delta(plan.delta, plan.facts.n_samples)
        model = secrets.token_hex(8)
        with charging(
            self.ledger, self.dataset, plan.event, delta=plan.delta, adjacency=Adjacency.REPLACE_ONE,
            seeded=streams.seeded or any(party.is_seeded for party in _owned(parties).values()),
            plan=self._public_summary(plan),
        ) as charge:  # fmt: skip
            charge.looking()
            labels = _labels(parties, holder, y)
            targets, learnt = self._targets(labels)
            with _seeded(parties, streams, session.session_name) as seeded:
                solution = plan.solve(session, targets, model, streams)
            charge.commit(solution.event)
        self.charge_ = charge.charge
        for name, value in learnt.items():
            setattr(self, name, value)
        self.plan_ = plan
        self.scorer_ = solution.scorer
        self.model_ = model
        self.history_ = solution.history
        self.n_rounds_ = solution.n_rounds
        self._take(solution)
        self.parts_, self.local_part_ = _parts(parties, model, holder)
        self.guarantee_ = self._receipt(plan, solution, solution.event, plan.promised_epsilon, seeded, None)
        self.party_guarantees_ = {
            name: self._receipt(plan, solution, event, None, seeded, name)
            for name, event in solution.party_events.items()
        }

    def _take(self, solution: VerticalSolution) -> None:
        """Set what an estimator tells of a solution beside what all do."""

    def _public_summary(self, plan: VerticalPlan) -> dict[str, object]:
        """Return the plan for the ledger: public facts only."""
        return {
            "estimator": type(self).__name__,
            "mechanism": plan.name,
            "loss": plan.loss.name,
            "n_samples": plan.facts.n_samples,
            "parties": {name: facts.n_features for name, facts in plan.facts.descriptions.items()},
            "label_holder": plan.facts.label_holder,
            "labels_public": plan.labels_public,
            "alpha": plan.alpha,
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            **plan.details(),
            "event": describe(plan.event),
        }

    def _receipt(
        self,
        plan: VerticalPlan,
        solution: VerticalSolution,
        event: Event,
        epsilon: float | None,
        seeded: bool,
        party: str | None,
    ) -> Guarantee:
        """Return the receipt of the whole, or of what one party gives away."""
        accountant = accountant_for(event)
        private = plan.is_private and math.isfinite(plan.promised_epsilon)
        unit = plan.unit
        if party is not None:
            holder = party == plan.facts.label_holder
            what = plan.given_away_by_holder if holder else "row of its columns"
            unit = f"one person's {what} at {party}, replaced by any other, for what {party} gives away"
        return make_receipt(
            epsilon=accountant.epsilon(event, plan.delta) if epsilon is None else epsilon,
            delta=plan.delta,
            adjacency=Adjacency.REPLACE_ONE,
            unit=unit,
            mechanism=plan.mechanism,
            releases=plan.releases,
            event=event,
            assumptions=(
                f"n_samples = {plan.facts.n_samples} and who the aligned people are",
                *(f"{name}: n_features = {facts.n_features}" for name, facts in plan.facts.descriptions.items()),
                "all constructor parameters, chosen without looking at the data",
                *self._assumptions(),
                *plan.assumptions,
            ),
            not_covered=(*plan.not_covered, *_NOT_COVERED) if private else plan.not_covered,
            parameters={
                "estimator": type(self).__name__,
                "mechanism": plan.name,
                "loss": plan.loss.name,
                "alpha": plan.alpha,
                "labels_public": plan.labels_public,
                "label_holder": plan.facts.label_holder,
                "parties": list(plan.facts.names),
                **plan.details(),
                **solution.chosen,
                **({} if party is None else {"party": party}),
                **self._public_facts(plan),
            },
            seeded=seeded,
            private=private,
            proof=plan.proof,
            charge=getattr(self, "charge_", None),
            model=digest_of_parts(
                _parts_of(getattr(self, "parts_", {}), party), solution.scorer if party is None else None
            ),
        )

    def _public_facts(self, plan: VerticalPlan) -> dict[str, object]:
        """Return what the plan can be made from again."""
        described = {
            name: {field.name: encode(getattr(facts, field.name)) for field in fields(facts)}
            for name, facts in plan.facts.descriptions.items()
        }
        classes = getattr(self, "classes_", None)
        return {
            "described": described,
            **({} if classes is None else {"classes": [str(name) for name in classes]}),
            "arguments": {
                name: encode(value)
                for name, value in self.get_params(deep=False).items()
                if name not in ("random_state", "ledger", "dataset")
            },
        }

    def _assumptions(self) -> tuple[str, ...]:
        return ()

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
        return self._scores(self._ready(parties, (holder,)), SumOfScores({holder: Term()}), alone(self.model_))

    @staticmethod
    def _scores(parties: Parties, scorer: Scorer, model: str) -> Vector:
        with parties.session() as session:
            return scorer.scores(session, model)

    def recombine(self, parties: Any, y: ArrayLike | None = None) -> Self:
        """Learn the weights of the parties' scores anew, from labelled people who may be scored.

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
        if not isinstance(self.plan_, LocalModelsPlan):
            raise ParameterError(
                f"mechanism={self.plan_.name!r} has no weights to learn: recombine is for mechanism='local-models'."
            )
        names = self.plan_.facts.names
        parties = self._ready(parties, names)
        labels = _labels(parties, self.plan_.facts.label_holder, y)
        with parties.session() as session:
            columns = np.column_stack(list(ask_scores(session, names, self.model_).values()))
        _check_length(labels, len(columns))
        weights, constant = self._weigh(columns, labels)
        if not np.isfinite(weights).all():
            raise DataError(
                "the scores of these people do not determine the weights: take more, and more varied, people."
            )
        terms = {name: Term(float(weight)) for name, weight in zip(names, weights, strict=True)}
        self.scorer_ = SumOfScores(terms, constant=constant)
        return self

    def compare(self, parties: Any, y: ArrayLike | None = None) -> Comparison:
        """Return how good the label holder's own model and the joint one are on the same people.

        Parameters
        ----------
        parties : Parties or sequence of Party
        y : array-like of shape (n_rows,) or None
            As for `fit`.

        Returns
        -------
        Comparison
            For the label holder's eyes: it is computed from its labels.
        """
        check_is_fitted(self)
        parties = _as_parties(parties)
        labels = _labels(parties, self.plan_.facts.label_holder, y)
        local, joint = self.local_decision_function(parties), self.decision_function(parties)
        _check_length(labels, len(joint))
        return Comparison(len(labels), self._measures(labels, local), self._measures(labels, joint))

    def _ready(self, parties: Any, needed: tuple[str, ...]) -> Parties:
        """Return parties that hold their parts; in one process the estimator hands each its own."""
        ready = _as_parties(parties)
        known = self.plan_.facts.names
        for name in ready.names:
            if name not in known:
                raise DataError(f"party {name!r} took no part in this model; those who did are {list(known)!r}.")
        for name in needed:
            if name not in ready.names:
                raise DataError(f"party {name!r} is missing: its part of the model is needed for every score.")
        if isinstance(ready, InProcessParties):
            for name, party in ready.parties.items():
                if name in self.parts_ and isinstance(party, Party):
                    party.adopt(self.model_, self.parts_[name])
            holder = ready.parties.get(self.plan_.facts.label_holder)
            if self.local_part_ is not None and isinstance(holder, Party):
                holder.adopt(alone(self.model_), self.local_part_)
        return ready


def _as_parties(parties: Any) -> Parties:
    if isinstance(parties, Sequence) and parties and all(isinstance(party, Party) for party in parties):
        parties = InProcessParties(parties)
    if not isinstance(parties, Parties):
        raise ParameterError(
            f"parties must be Parties or a non-empty list of Party objects; got {type(parties).__name__}."
        )
    if not isinstance(parties, AlignedParties):
        _check_order(_owned(parties))
    return parties


def _owned(parties: Parties) -> dict[str, Party]:
    """Return the parties that live in this process, by name."""
    if not isinstance(parties, InProcessParties):
        return {}
    return {name: party for name, party in parties.parties.items() if isinstance(party, Party)}


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


def _label_holder(given: str | None, parties: Parties) -> str:
    if given is not None:
        return choice("label_holder", given, parties.names)
    holders = [name for name, party in _owned(parties).items() if party.y is not None]
    if len(holders) > 1:
        raise ParameterError(
            f"parties {', '.join(map(repr, holders))} all hold labels: say whose with label_holder=..."
        )
    return holders[0] if holders else parties.names[0]


def _check_given(parties: Parties, holder: str, y: ArrayLike | None) -> Any:
    """Return the labels that the party itself holds, or None; refuse a training without any. Nothing is read."""
    party = _owned(parties).get(holder)
    own = None if party is None else party.y
    if own is None and y is None:
        raise ParameterError(f"y is missing: give the labels, or make the party {holder!r} with y=...")
    return own


def _labels(parties: Parties, holder: str, y: ArrayLike | None) -> NDArray[Any]:
    own = _check_given(parties, holder, y)
    if own is None or y is None:
        return np.asarray(own if y is None else y)
    given = np.asarray(y)
    if not np.array_equal(given, own):
        raise DataError(
            f"y is given twice, and is not the same: party {holder!r} was made with y=... too. Give it once; aligned "
            "parties put their own in order."
        )
    return given


def _check_length(y: ArrayLike, n_rows: int) -> None:
    if np.shape(y) != (n_rows,):
        raise DataError(f"y must hold one label for each of {n_rows} rows; got the shape {np.shape(y)}.")


@contextmanager
def _seeded(parties: Parties, streams: Streams, session: bytes) -> Iterator[bool]:
    """Give every party in this process a seed of its own for one session; tell whether any noise can be repeated."""
    owned = list(_owned(parties).values())
    if not streams.seeded:
        yield any(party.is_seeded for party in owned)
        return
    seeds = streams.generator(Purpose.SHUFFLING).integers(2**63, size=len(owned))
    with ExitStack() as stack:
        for party, seed in zip(owned, seeds, strict=True):
            stack.enter_context(party.seeded(int(seed), session=session))
        yield True


def _parts(parties: Parties, model: str, holder: str) -> tuple[dict[str, Part], Part | None]:
    """Return what each party keeps, in one process; elsewhere it stays where it is."""
    owned = _owned(parties)
    parts = {name: party.part(model) for name, party in owned.items() if party.keeps(model)}
    local = owned[holder].part(alone(model)) if holder in owned and owned[holder].keeps(alone(model)) else None
    return parts, local


def _parts_of(parts: Mapping[str, Part], party: str | None) -> Mapping[str, Part]:
    return parts if party is None else {name: part for name, part in parts.items() if name == party}


def _options_given(given: Any) -> bool:
    if given is not None and not isinstance(given, Mapping):
        raise ParameterError(f"solver_options must be a dict or None; got {given!r}.")
    return bool(given)


def _options(given: Mapping[str, Any] | None, mechanism: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ParameterError(f"mechanism_options must be a dict or None; got {given!r}.")
    allowed = MECHANISMS[mechanism].options
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise ParameterError(
            f"mechanism_options has no entry {unknown[0]!r} for mechanism={mechanism!r}; there are "
            f"{', '.join(allowed) or 'none'}."
        )
    return dict(given)
