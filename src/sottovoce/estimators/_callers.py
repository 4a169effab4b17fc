"""What the calling frames of scikit-learn, and earlier fits, did to the table: steps, rows drawn twice, repeated fits.

A `Pipeline` tells its last step nothing of the others, so the calling frames are asked: the `Pipeline` whose ``fit``
runs is among them. A step learns nothing if its class itself, not one that is derived from it, is in a closed list; of
a `ColumnTransformer`, a `FeatureUnion` and a pipeline in a pipeline the parts are asked. All others are named: also one
that only stored what it was given (an imputer with a constant), and what a `TransformedTargetRegressor` learned of y. A
step with a receipt (`DPScaler`) has paid for what it learned: it is named with its promise, which adds up with the
model's.

By the same list a `DPPipeline` refuses steps, before any fit. A fitted `DPScaler` that is frozen (`FrozenEstimator`) is
taken as it is: it was paid for.

*Several private fits on one table in one run*, with no ledger that adds them up, are counted, and worth a warning.
Whoever fits thirteen times in a grid search spends thirteen budgets, so the receipt of the best model says that it is
that of fit 13. The table is the one that was given, or the ``X`` of the outermost call of scikit-learn that is running,
as folds of a cross-validation are parts of it. It is known again by its identity: the object, or the array that it is a
view of, where views overlap. Weak references are kept. Which objects a program hands over says nothing about rows, so
neither does a receipt that counts, or the warning.

Nothing is known of copies, of rows that were drawn by hand, and of other runs and workers: a ledger is for that.
"""

import contextlib
import json
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, NamedTuple

import numpy as np
from sklearn.base import clone

from sottovoce._optional import loaded
from sottovoce._shown import QUOTED, is_class_name, quoted
from sottovoce._warnings import warn_of_privacy
from sottovoce.exceptions import ParameterError
from sottovoce.randomness import UNCOUNTED

PAID: Final = "with a receipt of its own"
_BOUNDS: Final = "DPScaler, which pays for what it learns, or public bounds (SchemaEncoder, a FunctionTransformer)"
_REMEDIES: Final = {
    **dict.fromkeys(("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"), _BOUNDS),
    **dict.fromkeys(("QuantileTransformer", "PowerTransformer", "KBinsDiscretizer", "SplineTransformer"), _BOUNDS),
    **dict.fromkeys(("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"), "SchemaEncoder, with public categories"),
    **dict.fromkeys(
        ("SimpleImputer", "KNNImputer", "IterativeImputer"), "a public rule for missing values (SchemaEncoder)"
    ),
    **dict.fromkeys(
        ("CountVectorizer", "TfidfVectorizer"),
        "a HashingVectorizer: make_pipeline(HashingVectorizer(), DPPipeline(...))",
    ),
}

# classes by name, with the modules that have them
_COMPOSED: Final = {
    "ColumnTransformer": "sklearn.compose", "FeatureUnion": "sklearn.pipeline", "Pipeline": "sklearn.pipeline",
}  # fmt: skip
_LEARN_NOTHING: Final = {
    **dict.fromkeys(("Binarizer", "FunctionTransformer", "Normalizer", "PolynomialFeatures"), "sklearn.preprocessing"),
    "FeatureHasher": "sklearn.feature_extraction",
    "HashingVectorizer": "sklearn.feature_extraction.text",
    "AdditiveChi2Sampler": "sklearn.kernel_approximation",
    "SchemaEncoder": "sottovoce.tables.transformer",
}
# what would let a step look at all of its rows: how many entries are 0, and whether a function can be undone on them
_ROW_BY_ROW: Final = {"sparse_threshold": 0, "check_inverse": False}
_STEP: Final = re.compile(
    rf"(?P<name>{QUOTED}) \((?P<kind>\w+)"
    rf"(?:, {PAID}: epsilon=(?:[0-9.e+-]+|inf), delta=[0-9.e+-]+, which add up with this one)?\)"
)
_LOCK: Final = threading.Lock()


class Callers(NamedTuple):
    """What the calls of scikit-learn that are running say of a fit inside them."""

    table: Any  # the ``X`` of the outermost one, or the fit's own
    fits: int  # of it that a search has made before, in workers too
    steps: tuple[str, ...]  # the fitted ones before the one that is being fitted now, as `described_step`, in order
    # Whether bagging drew rows with replacement. Where the estimator takes weights, it gives it all rows and their
    # counts instead, which ``max_sample_weight`` bounds.
    copies: bool
    # Whether bagging has set a seed that nobody gave: of 31 bits in each of its members, which is no private noise.
    is_seeded: bool


def callers(X: Any) -> Callers:
    """Ask the calling frames, from the innermost outward."""
    fits, copies, is_seeded = 0, False, False
    found: list[str] = []
    of_labels: list[str] = []
    inner = False  # whether a step before the last one of a pipeline is fitted: then those after it do not count
    for frame in _frames_of_sklearn():
        module, told, name = frame.f_globals["__name__"], frame.f_locals, frame.f_code.co_name
        owner = told.get("self")
        X = X if told.get("X") is None else told["X"]
        fits += len(told.get("all_out") or ())  # of `BaseSearchCV.fit`: one entry a fit
        if module == "sklearn.ensemble._bagging" and (ensemble := told.get("ensemble")) is not None:
            copies = copies or bool(getattr(ensemble, "bootstrap", False))
            is_seeded = is_seeded or ensemble.random_state is None
        if module == "sklearn.compose._target":  # which scales y before a regressor sees it
            of_labels += _learned([("transformer of y", getattr(owner, "transformer_", None))])
        if module == "sklearn.pipeline" and isinstance(owner, frame.f_globals["Pipeline"]):
            if name == "_fit":
                inner = True
                found = [*_learned(owner.steps[: told.get("step_idx", 0)]), *found]
            elif name.startswith("fit"):
                found = found if inner else [*_learned(owner.steps[:-1]), *found]
                inner = False
    return Callers(X, fits, (*found, *of_labels), copies, is_seeded)


def described_step(name: str, step: Any) -> str:
    """Return a step as a receipt names it, with its own promise; `checked_steps` knows the form again."""
    receipt = getattr(step, "guarantee_", None)
    paid = ""
    if receipt is not None:
        paid = f", {PAID}: epsilon={receipt.epsilon:g}, delta={receipt.delta:g}, which add up with this one"
    return f"{quoted(name)} ({type(step).__name__}{paid})"


def checked_steps(steps: Any) -> list[str]:
    """Return steps of a receipt, which are no words of anybody's own.

    Raises ParameterError if one is not of the form of `described_step`.
    """
    if not isinstance(steps, list):
        raise ParameterError(f"the steps of a pipeline must be a list; got {steps!r}.")
    for step in steps:
        found = _STEP.fullmatch(step) if isinstance(step, str) else None
        if found is None or quoted(json.loads(found["name"])) != found["name"] or not is_class_name(found["kind"]):
            raise ParameterError(f"{step!r} does not name a step of a pipeline.")
    return list(steps)


def learns_nothing(step: Any) -> bool:
    """Tell, before or after its fit, whether a step treats each row by itself and its fit learns nothing."""
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return True
    kind = type(step)  # a class that is derived from one of these may learn
    if not _is_one_of(kind, _COMPOSED):
        return _is_one_of(kind, _LEARN_NOTHING)
    if kind.__name__ != "ColumnTransformer":
        return all(learns_nothing(part) for _, part in getattr(step, "steps", None) or step.transformer_list)
    chosen = any(callable(columns) for *_, columns in step.transformers)  # by a function of the table: it learns
    return not chosen and all(learns_nothing(part) for part in (step.remainder, *(one[1] for one in step.transformers)))


def _is_one_of(kind: type, homes: Mapping[str, str]) -> bool:
    """Tell whether a class is one of those that are named; a module that nobody has loaded has given no object."""
    home = loaded(homes.get(kind.__name__, ""))
    return home is not None and getattr(home, kind.__name__) is kind


def row_by_row(step: Any) -> Any:
    """Return a copy of a step that learns nothing, whose output has one form whatever the rows are."""
    copy = clone(step)
    set_here = {name: _ROW_BY_ROW.get(name.rpartition("__")[2]) for name in copy.get_params()}
    return copy.set_params(**{name: value for name, value in set_here.items() if value is not None})


def remedy_for(step: Any) -> str:
    """Return what to use in place of a step that learns without noise, or of its first part that does."""
    if type(step).__name__ == "ColumnTransformer" and _is_one_of(type(step), _COMPOSED):
        for name, part, _ in step.transformers:
            if not learns_nothing(part):
                return f"in place of its {name!r} ({type(part).__name__}) {remedy_for(part)}"
    return _REMEDIES.get(
        type(step).__name__, "a step that treats each row by itself, by rules that are public (FunctionTransformer)"
    )


def warn_of_fitted_steps(steps: Sequence[str]) -> None:
    unpaid = [step for step in steps if PAID not in step]
    if unpaid:
        warn_of_privacy(
            f"{', '.join(unpaid)} learned from the data before this private model was fitted, without noise: the "
            "receipt does not cover it, and says so. Use steps that learn nothing (public bounds, Normalizer), or a "
            "DPPipeline with a DPScaler, which pays for what it learns."
        )


def _frames_of_sklearn() -> Iterator[FrameType]:
    """Go through the calling frames of scikit-learn; the values of others are not asked for: that would keep them."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("sklearn."):
            yield frame
        frame = frame.f_back


def _learned(steps: Sequence[tuple[str, Any]]) -> list[str]:
    return [described_step(name, step) for name, step in steps if not learns_nothing(step)]


@dataclass(eq=False)
class _Table:
    """A table that was fitted, by its identity."""

    fits: int = 0
    told: bool = False  # whether there was a warning


@dataclass
class _Owner:
    """An object that holds tables, and in which of its bytes."""

    reference: weakref.ref[Any]
    tables: list[tuple[tuple[int, int], _Table]] = field(default_factory=list)


_OWNERS: Final[dict[int, _Owner]] = {}


@contextmanager
def fit_without_ledger(asked: Callers, has_drawn: Callable[[], bool]) -> Iterator[int]:
    """Warn once of a table that was fitted before, remember it if noise may have been drawn; yield which fit it is."""
    if UNCOUNTED.get():
        yield 1
        return
    with _LOCK:
        held = _held(asked.table)
        number = 1 + max((asked.fits, *(one.fits for one in held)))
        told = number == 1 or any(one.told for one in held)
        for one in held:  # before the warning: of many threads one tells
            one.told = True
    if not told:
        warn_of_privacy(
            "this table was fitted privately before in this process, and no ledger adds the fits up: each receipt is "
            "about one fit, and their epsilons add up. Give ledger= and dataset=, or add the receipts up with "
            "sottovoce.report.sum_receipts. (Said once for each table.)"
        )
    try:
        yield number
    finally:
        if has_drawn():
            with _LOCK:
                _remember(asked.table, told=number > 1)


def forget() -> None:
    """Forget all tables, for tests."""
    with _LOCK:
        _OWNERS.clear()


def _owner(table: Any) -> tuple[Any, tuple[int, int]]:
    """Return the object behind a view, and which of its bytes the view spans."""
    if not isinstance(table, np.ndarray):
        return table, (0, 1)
    span = np.lib.array_utils.byte_bounds(table)
    while isinstance(table.base, np.ndarray):
        table = table.base
    return table, span


def _held(table: Any) -> list[_Table]:
    """Return what is remembered of this object, and of views that overlap with it."""
    owner, (low, high) = _owner(table)
    known = _OWNERS.get(id(owner))
    if known is None or known.reference() is not owner:
        return []
    return list(dict.fromkeys(one for (begin, end), one in known.tables if low < end and begin < high))


def _remember(table: Any, *, told: bool) -> None:
    held = _held(table) or [_Table()]
    for one in held:
        one.fits, one.told = one.fits + 1, one.told or told
    owner, span = _owner(table)
    key = id(owner)
    with contextlib.suppress(TypeError):  # nothing refers weakly to a list
        # no lock in the call-back: it may run anywhere, also while this thread holds the lock
        reference = weakref.ref(owner, lambda _: _OWNERS.pop(key, None))
        known = _OWNERS.get(key)
        if known is None or known.reference() is not owner:
            known = _OWNERS[key] = _Owner(reference)
        if not any(place == span for place, _ in known.tables):
            known.tables += [(span, one) for one in held]
