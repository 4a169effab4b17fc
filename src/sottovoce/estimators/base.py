"""What every estimator here shares, a search too: the budget, one plan, one charge, and warnings before any noise."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sottovoce import _parameters as of_budget
from sottovoce._columns import refuse_no_table
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._plain_data import decode, digest, encode, encode_or_write
from sottovoce._validation import nearest, privacy_budget, refuse_large_delta, warn_of_large_delta, whole_number
from sottovoce.central.plan import FrozenPlan
from sottovoce.estimators import reading
from sottovoce.estimators._callers import callers, fit_without_ledger, warn_of_fitted_steps
from sottovoce.estimators.reading import check_columns_of, check_public_sizes, own_groups, public_size, refuse_beside
from sottovoce.exceptions import ModelFormatError, ParameterError
from sottovoce.ledger.charging import OpenCharge, charging, is_charged
from sottovoce.ledger.ledger import Charge
from sottovoce.privacy.adjacency import Adjacency, checked_max_rows, is_of_persons, unit_of
from sottovoce.privacy.events import Event
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.receipts import make_receipt
from sottovoce.randomness import Streams

_OF_ROWS: Final = "rows of the same person beyond one: k rows cost k times epsilon, and more of delta"
_OF_PERSONS: Final = "one person under several names in groups: m names cost m times epsilon, and more of delta"
_PENALTIES: Final = ("C", "penalty", "l1_ratio")
_L2: Final = "The penalty is L2, of the strength alpha; DPSparseLogisticRegression and DPLasso bound the L1 norm."
_NO_TUNING: Final = "The solver follows public rules, and needs none; solver_options has those of a solver by name."
_NOT_COVERED: Final = (
    "timing, memory and other side channels of the machine that trains, and whether the fit failed",
    "choosing parameters or data by looking at earlier results: each fit on the same people adds up",
    "how exactly floating-point Gaussians follow their law, where any are drawn",
)
_BEFORE: Final = "what the steps before the model in its pipeline learned from the data: {}"
_MOST_ROWS: Final = 2**37  # sums of so many rows, of 2^24 ticks each, fit in 63 bits together with their noise
STEPS: Final = "fitted before it in a pipeline"  # among the parameters of a receipt
# parameters of scikit-learn's linear models that are others here, or need none
_INSTEAD: Final = {
    "C": "Give alpha, the strength of the L2 penalty: C over n rows is alpha = 1 / (C n).",
    **dict.fromkeys(_PENALTIES[1:], _L2),
    "positive": "DPLasso and DPSparseLogisticRegression have constraint='nonnegative'.",
    "loss": "The loss is the estimator's own: DPLogisticRegression, DPLinearSVC (hinge), DPRidge (squared).",
    "multi_class": "More than two classes are one model by default; solver='scd' trains one against the rest.",
    "n_jobs": "Threads are set by the environment variable SOTTOVOCE_NUM_THREADS.",
    "bounds": "Give data_norm, the public bound on the norm of a row, or put a DPScaler(bounds=...) before the model.",
    **dict.fromkeys(("warm_start", "dual", "eta0", "learning_rate", "batch_size", "shuffle"), _NO_TUNING),
}
# a seed would take the noise away; where the budget is kept is nobody's business who gets the model
LEFT_OUT: Final = ("random_state", "ledger", "dataset")
BOUNDS: Final = ("column_bounds_", "row_bound_", "row_unit_")  # that rows keep when they are multiplied
UNPENALISED: Final = ("least_squares_", "maximum_likelihood_", "standard_errors_")  # what intervals are made of
# receipts without weights, persons and a wish stay what they were
_LEFT_OUT_IF: Final = {
    "class_weight": None, "max_sample_weight": None, "max_rows_per_group": None, "objective": "probability",
}  # fmt: skip
_DTYPES: Final = {"text": np.str_, "integer": np.int64, "number": np.float64, "boolean": np.bool_, "mixed": object}
_KINDS: Final = {"U": "text", "i": "integer", "u": "integer", "f": "number", "b": "boolean", "O": "mixed"}
_PLAIN: Final = frozenset((bool, int, float, str, type(None)))
PlanT = TypeVar("PlanT", bound=FrozenPlan)


class Circumstances(NamedTuple):
    """What a receipt says of a run beside its plan and what it released."""

    seeded: bool
    steps: Sequence[str] = ()  # the fitted ones before the model in its pipeline
    charge: Charge | None = None
    model: str | None = None  # digest of what the fit left
    fits: int = 1  # which fit of the table it is that no ledger adds up

    def receipt(
        self, plan: FrozenPlan, parameters: Mapping[str, object], *, last: Mapping[str, object],
        exceptions: Sequence[str] = (), **said: Any,
    ) -> Guarantee:  # fmt: skip
        """Return the receipt of a fit.

        ``last``: parameters that stand behind the steps.
        ``exceptions``: what is not covered, beside what no fit covers.
        ``said``: what else `make_receipt` is told.
        """
        unit = unit_of(plan.max_rows_per_group)
        before = (_BEFORE.format(", ".join(self.steps)),) if self.steps else ()
        steps, (first, *rest) = {STEPS: list(self.steps)} if self.steps else {}, _NOT_COVERED
        others = (first, _OF_PERSONS if is_of_persons(unit) else _OF_ROWS, *rest)
        return make_receipt(
            epsilon=plan.promised_epsilon, delta=plan.delta, adjacency=plan.adjacency, unit=unit, seeded=self.seeded,
            private=plan.is_private, charge=self.charge, model=self.model, fits=None if self.fits == 1 else self.fits,
            parameters={**parameters, **steps, **last},
            not_covered=(*before, *exceptions, *others) if plan.is_private else (), **said,
        )  # fmt: skip


class Written:
    """Plain values, equal where they are written alike: 1 and 1.0, or 0.0 and -0.0, are not."""

    def __init__(self, given: Any) -> None:
        self.given, self._text = given, repr(given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def are_plain(*values: Any) -> bool:
    """Tell whether nothing about values follows from more than how they are written."""
    return all(
        type(one) in _PLAIN or (type(one) in (list, tuple) and all(type(each) in _PLAIN for each in one))
        for one in values
    )


def planned(estimator: Any, *sizes: int) -> Any:
    """Return the plan of public facts alone: fits, also of other objects, share it where these are the same."""
    kind: Any = type(estimator)
    given = estimator.get_params(deep=False)
    given = {name: value for name, value in given.items() if name not in LEFT_OUT}
    # what plans of a subclass of somebody else follow from is not known
    shared = kind.plan_follows_from_arguments and kind.__module__.startswith(f"{__package__}.")
    # with n_public the number of rows is secret, or may be: nothing is kept of it
    if not shared or given.get("n_public") is not None or not are_plain(*given.values()):
        return estimator.plan_for(*sizes)
    return _planned(kind, kind.plan_for, Written(given), *sizes)


@lru_cache(maxsize=256)
def _planned(kind: type[Any], plan_for: Callable[..., Any], arguments: Written, *sizes: int) -> Any:
    """Return the plan of a new object with these arguments: nothing that was fitted is held, or has a say."""
    return plan_for(kind(**arguments.given), *sizes)


@dataclass
class Run(Generic[PlanT]):
    """One fit: its random streams, its charge, and its plan, which is made again only for other public facts."""

    streams: Streams
    charge: OpenCharge | None  # None: there is no ledger
    plan_for: Callable[[int, int, int], PlanT]
    models: int | None  # of two classes each, from constructor parameters alone
    steps: tuple[str, ...]  # the fitted ones before the model in its pipeline
    fits: int = 1  # which fit of the table it is

    def begin(self, plan: PlanT) -> None:
        """Refuse a plan that is not the one that was charged, and warn of what weakens the promise; no noise yet."""
        if self.charge is not None:
            self.charge.check_plan(plan.event)
        if plan.is_private:
            warn_of_fitted_steps(self.steps)
            warn_of_large_delta(plan.delta, plan.n_samples)

    def commit(self, event: Event) -> Circumstances:
        """Make the charge final with what was released."""
        if self.charge is not None:
            self.charge.commit(event)
        charge = None if self.charge is None else self.charge.charge
        return Circumstances(self.streams.seeded, self.steps, charge, fits=self.fits)


# parameters of whatever fits a table itself: models, scaler and pipeline
ADJACENCY: Final[Any] = parameter(
    '{"zero-out", "add-remove", "replace-one"}',
    default="zero-out",
    text="Which tables are neighbours; see `sottovoce.privacy.adjacency.Adjacency`.",
)
N_PUBLIC: Final[Any] = parameter(
    "int or None",
    default=None,
    text='Public stand-in for the number of rows; required for ``"add-remove"``, where n is secret.',
)
MAX_ROWS: Final[Any] = parameter(
    "int or None",
    default=None,
    text="""Public number of rows that are used of one person, needed where `fit` is given ``groups``: the guarantee
    is then for a person with all their rows. Of those who have more, so many are drawn at random. Small is less
    noise, large uses more of the rows.""",
)


@estimator
class PrivateEstimator(BaseEstimator, ABC, Generic[PlanT]):  # type: ignore[misc]
    """Base of the estimators; constructor parameters are public facts and are never written by `fit`.

    Methods without an underscore that the user's guide does not name serve the search, model files and the check of
    receipts.
    """

    epsilon: float | None = of_budget.EPSILON
    delta: float | None = of_budget.DELTA
    random_state: Any = of_budget.RANDOM_STATE
    ledger: Any = of_budget.LEDGER
    dataset: str | None = of_budget.DATASET
    accept_delta: float | None = of_budget.ACCEPT_DELTA

    n_features_in_: int = attribute("int")
    feature_names_in_: NDArray[np.object_] = attribute(
        "ndarray of shape (n_features,)", "Only when X has column names."
    )
    guarantee_: Guarantee = attribute("Guarantee", "The receipt.")
    charge_: Charge | None = attribute("Charge or None", "Entry of the ledger about this fit.")

    plan_follows_from_arguments: ClassVar[bool] = True  # and from sizes, and making it warns of nothing

    _get_param_names = classmethod(cache(BaseEstimator._get_param_names.__func__))  # type: ignore[arg-type, var-annotated]

    @staticmethod
    def instead_of(name: str, known: Collection[str]) -> str:
        """Return what to give in place of a parameter that these estimators do not have."""
        if name in _INSTEAD and "solver" not in known and "radius" not in known:
            return " It belongs to the model."
        if "radius" in known and name in _PENALTIES:
            return " Give radius, the L1 norm that the coefficients have at most."
        return f" {_INSTEAD[name]}" if name in _INSTEAD else nearest(name, known)

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of steps inside as ``step__name``; see scikit-learn."""
        own = self.get_params(deep=False)
        for name in params.keys() & _INSTEAD.keys() - own.keys():
            raise ParameterError(f"{type(self).__name__} takes no {name!r}.{self.instead_of(name, own)}")
        super().set_params(**params)
        return self

    def plan(self, n_samples: int, n_features: int) -> PlanT:
        """Return the frozen plan for a table of public size, before any data are read.

        Parameters
        ----------
        n_samples : int
            Public number of rows (replaced by ``n_public`` where that is set).
        n_features : int

        Returns
        -------
        Plan or SearchPlan

        Raises
        ------
        ParameterError
            If a parameter is missing, out of range or does not fit another one.
        """
        plan = self.plan_for(n_samples, n_features, self.planned_models())
        if plan.is_private:
            warn_of_large_delta(plan.delta, plan.n_samples)
        return plan

    @abstractmethod
    def plan_for(self, n_samples: int, n_features: int, n_models: int) -> PlanT:
        """Return the frozen plan for public facts; every parameter is checked."""

    def known_models(self) -> int | None:
        """Return the number of binary models from constructor parameters alone, or None where the labels tell it."""
        return 1

    def planned_models(self) -> int:
        """Return the number of binary models from constructor parameters or an earlier fit."""
        return self.known_models() or 1

    def _check_table(self, X: Any, plan: PlanT) -> None:
        """Refuse a table on which the plan cannot be followed, before anything is charged."""

    def _check_sizes(self, X: Any, y: Any) -> None:
        """Refuse, before anything is charged or read, sizes that do not go together, and columns that cannot be."""
        check_public_sizes(X, y)
        self.check_columns(X)

    def check_columns(self, X: Any, *, reset: bool = True) -> None:
        """Refuse columns that cannot be, or with ``reset=False`` those that are not the fitted ones; no row is read."""
        check_columns_of(self, X, reset=reset)

    @contextmanager
    def running(self, X: Any, y: Any, *, bounded: bool = False) -> Iterator[Run[PlanT]]:
        """Check, plan and charge a fit from public facts; the values of X and y are read in the block, not before.

        ``bounded``: whether weights or persons bound what copies of a row do.
        """
        asked = callers(X)
        if asked.copies and not bounded and not (isinstance(self.epsilon, float) and self.epsilon == math.inf):
            raise ParameterError(
                "bagging with bootstrap=True copies rows, and a row that is there k times costs k times epsilon. Give "
                "bootstrap=False, with max_samples below 1."
            )
        models, size = self.known_models(), size_before_reading(X, reading.least_rows(self))
        plan_for = cache(partial(planned, self))
        plan = plan_for(*(size or (1, 1)), models or 1)  # every parameter is checked before the data are looked at
        charged = (self.ledger is not None or self.dataset is not None) and is_charged(self.ledger, self.dataset)
        streams, steps = Streams(None if asked.is_seeded else self.random_state), asked.steps if plan.is_private else ()
        if size is None:
            refuse_no_table(X)
        self._check_table(X, plan)
        if not charged:
            if plan.is_private and size and models:
                _ = plan.event  # refuses what no noise can meet
            with fit_without_ledger(asked, lambda: streams.opened) if plan.is_private else nullcontext(1) as number:
                yield Run(streams, None, plan_for, models, steps, number)
            return
        if models is None:
            raise ParameterError(
                "classes is missing: a fit is charged to a ledger before y is read, and the list of classes decides "
                "what it costs. Give classes=[...]."
            )
        plan = plan_for(*public_size(X), models)
        self._check_sizes(X, y)
        of = {"of": type(self._prototype()).__name__} if hasattr(self, "_prototype") else {}
        with charging(
            self.ledger, self.dataset, plan.event, delta=plan.delta, adjacency=plan.adjacency, seeded=streams.seeded,
            unit=unit_of(plan.max_rows_per_group), plan={"estimator": type(self).__name__, **of, **plan.summary()},
        ) as charge:  # fmt: skip
            charge.looking()
            yield Run(streams, charge, plan_for, models, steps)

    # of those with the parameters of a table

    def public_facts(self: Any, n_samples: int, n_features: int) -> dict[str, Any]:
        """Return budget, adjacency and public numbers of rows and columns, checked."""
        epsilon, delta = privacy_budget(self.epsilon, self.delta)
        whole_number("n_samples", n_samples, at_least=reading.least_rows(self), at_most=_MOST_ROWS)
        n_features = whole_number("n_features", n_features, at_least=1)
        private = math.isfinite(epsilon)
        adjacency, n_samples = public_rows(self.adjacency, n_samples, self.n_public, private=private)
        refuse_large_delta(delta if private else 0.0, n_samples, self.accept_delta)
        most = None if self.max_rows_per_group is None else checked_max_rows(self.max_rows_per_group)
        return {
            "epsilon": epsilon, "delta": delta, "adjacency": adjacency, "n_samples": n_samples,
            "n_features": n_features, "max_rows_per_group": most,
        }  # fmt: skip

    def check_groups(self: Any, X: Any, groups: Any) -> None:
        """Refuse, from public facts, groups that are missing, or too many."""
        groups = own_groups(X) if groups is None else groups
        given = groups is not None
        if not given and self.max_rows_per_group is None:
            return
        if self.max_rows_per_group is None:
            raise ParameterError(
                "max_rows_per_group is missing: with groups, noise is made for a person with the most rows that are "
                "used of one. Give that public number; of those who have more, so many are drawn at random."
            )
        checked_max_rows(self.max_rows_per_group)
        if not given:
            raise ParameterError(
                f"groups is missing: max_rows_per_group={self.max_rows_per_group!r} asks for a guarantee for persons. "
                "Give fit the person of each row, groups=..., or leave max_rows_per_group None where each person has "
                "one row."
            )
        refuse_beside(X, groups=groups)

    def group_assumptions(self: Any) -> tuple[str, ...]:
        """Return what a receipt says of persons and their rows."""
        most = self.max_rows_per_group
        if most is None:
            return ()
        return (
            f"max_rows_per_group = {most} (of persons with more rows so many were drawn at random; rows without a "
            "person were left out)",
            "groups: rows of one person have one name there, and no two persons share one",
        )

    def public_sizes(self: Any, n_samples: int, n_features: int) -> str:
        """Return what a receipt says of the public size of the table."""
        given = "n_public" if self.n_public is not None else "n_samples"
        return f"{given} = {n_samples}, n_features = {n_features} and their names"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # a private model may differ between two fits on the same data, and is noise on a dozen rows
        tags.non_deterministic = self.random_state is None and self.epsilon != math.inf
        return tags


def public_rows(
    adjacency: str | Adjacency, n_samples: int, n_public: int | None, *, private: bool = True
) -> tuple[Adjacency, int]:
    """Return the adjacency and the public number of rows, or the stand-in for it, checked."""
    parsed = Adjacency.parse(adjacency)
    if n_public is not None:
        return parsed, whole_number("n_public", n_public, at_least=1, at_most=2**53)
    if parsed is Adjacency.ADD_REMOVE and private:
        raise ParameterError(
            "n_public is missing: with adjacency='add-remove' the number of rows is secret, so give a public stand-in "
            "for it (an order of magnitude is enough), or use adjacency='zero-out'."
        )
    return parsed, int(n_samples)


def absent(message: str) -> Any:
    """Return a property for names that are not there, whose error says what is."""

    def missing(_: object) -> Any:
        raise AttributeError(message)

    return property(missing, doc="Not there, and an error says what is.")


def size_before_reading(X: Any, least: int = 1) -> tuple[int, int] | None:
    """Return the public size; None for what is no table or has too few rows, which is refused where it is read."""
    try:
        if not reading.is_plain(X):
            refuse_no_table(X)
        size = public_size(X)
    except (TypeError, ValueError):
        return None
    return size if size[0] >= least and size[1] > 0 else None


def plan(estimator: PrivateEstimator[PlanT], n_samples: int, n_features: int) -> PlanT:
    """Return the frozen plan that ``estimator.fit`` would follow on a table of this public size.

    Parameters
    ----------
    estimator : one of sottovoce's estimators, or DPSearchCV
        Its parameters are read, nothing else. For more than two classes, give it ``classes``.
    n_samples : int
        Public number of rows.
    n_features : int

    Returns
    -------
    Plan or SearchPlan
        ``.event`` is what would be accounted, ``.summary()`` the whole in words and numbers.

    Raises
    ------
    ParameterError
        If a parameter is missing, out of range or does not fit another one.

    Examples
    --------
    >>> from sottovoce import DPLogisticRegression, plan
    >>> model = DPLogisticRegression(epsilon=1.0, delta=1e-5, data_norm=1.0, classes=[0, 1])
    >>> plan(model, n_samples=10_000, n_features=20).summary()["adjacency"]
    'zero-out'
    """
    if not isinstance(estimator, PrivateEstimator):
        raise ParameterError(f"estimator must be one of sottovoce's estimators; got {type(estimator).__name__}.")
    return estimator.plan(n_samples, n_features)


# --- what ties a receipt to its model: the digest of what `fit` left, and the arguments the model was made with


def arguments_of(estimator: Any) -> dict[str, Any]:
    """Return the constructor arguments as plain data, without the seed, which would take the noise away."""
    return {
        name: encode_or_write(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in LEFT_OUT and not (name in _LEFT_OUT_IF and encode_or_write(value) == _LEFT_OUT_IF[name])
    }


def fitted_values(estimator: Any) -> dict[str, Any]:
    """Return what `fit` left in the model as plain data: all that predictions and intervals are made of."""
    fitted: dict[str, Any] = {
        "n_features_in_": int(estimator.n_features_in_),
        "n_iter_": int(estimator.n_iter_),
        "coef_": encode(estimator.coef_),
        "intercept_": encode(estimator.intercept_),
    }
    if getattr(estimator, "data_norm", None) == "auto":  # else it is a parameter
        fitted["data_norm_"] = encode(estimator.data_norm_)
    for name in (*BOUNDS, *UNPENALISED):
        if getattr(estimator, name, None) is not None:
            fitted[name] = encode(getattr(estimator, name))
    if hasattr(estimator, "classes_"):
        fitted["classes_"] = encode_classes(estimator.classes_)
    if hasattr(estimator, "feature_names_in_"):
        fitted["feature_names_in_"] = [str(name) for name in estimator.feature_names_in_]
    return fitted


def model_digest(estimator: Any) -> str:
    """Return the SHA-256 of the canonical text of `fitted_values`: the entry ``fitted`` of the model file."""
    return digest(fitted_values(estimator))


def encode_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Return the list of classes as plain data; a kind that no model file can hold is written out as text."""
    kind = _KINDS.get(classes.dtype.kind, str(classes.dtype))
    return {"kind": kind, "values": [encode_or_write(name) for name in classes]}


def decode_classes(entry: Mapping[str, Any]) -> NDArray[Any]:
    if entry["kind"] not in _DTYPES:
        raise ModelFormatError(f"classes_ are of the unknown kind {entry['kind']!r}: update sottovoce.")
    values = decode(entry["values"])
    classes: NDArray[Any] = np.array(values, dtype=_DTYPES[entry["kind"]])
    if classes.ndim != 1 or len(classes) < 2:
        raise ModelFormatError(f"classes_ must list at least two classes; got {values!r}: damaged file.")
    return classes
