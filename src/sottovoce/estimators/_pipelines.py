"""What the calling frames of scikit-learn did to the table: steps fitted before the model, and rows drawn twice.

A `Pipeline` tells its last step nothing of the others, so the calling frames are asked: the `Pipeline` whose ``fit``
runs is among them. A step learns nothing if its class itself, not one that is derived from it, is in a closed list; of
a `ColumnTransformer`, a `FeatureUnion` and a pipeline in a pipeline the parts are asked. All others are named: also one
that only stored what it was given (an imputer with a constant). A step with a receipt (`DPScaler`) has paid for what it
learned: it is named with its promise, which adds up with the model's.

By the same list a `DPPipeline` refuses steps, before any fit. A fitted `DPScaler` that is frozen (`FrozenEstimator`) is
taken as it is: it was paid for.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Final

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, PolynomialFeatures

from sottovoce._optional import loaded
from sottovoce._shown import QUOTED, is_class_name, quoted
from sottovoce._warnings import warn_of_privacy
from sottovoce.exceptions import ParameterError

PAID: Final = "with a receipt of its own"
_BOUNDS: Final = "DPScaler, which pays for what it learns, or public bounds (SchemaEncoder, a FunctionTransformer)"
_REMEDIES: Final = {
    **dict.fromkeys(("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"), _BOUNDS),
    **dict.fromkeys(("QuantileTransformer", "PowerTransformer", "KBinsDiscretizer", "SplineTransformer"), _BOUNDS),
    **dict.fromkeys(("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"), "SchemaEncoder, with public categories"),
    **dict.fromkeys(
        ("SimpleImputer", "KNNImputer", "IterativeImputer"), "a public rule for missing values (SchemaEncoder)"
    ),
}

_LEARN_NOTHING: Final = (
    AdditiveChi2Sampler, Binarizer, FeatureHasher, FunctionTransformer, HashingVectorizer, Normalizer,
    PolynomialFeatures,
)  # fmt: skip
# what would let a step look at all of its rows: how many entries are 0, and whether a function can be undone on them
_ROW_BY_ROW: Final = {"sparse_threshold": 0, "check_inverse": False}
_STEP: Final = re.compile(
    rf"(?P<name>{QUOTED}) \((?P<kind>\w+)"
    rf"(?:, {PAID}: epsilon=(?:[0-9.e+-]+|inf), delta=[0-9.e+-]+, which add up with this one)?\)"
)


def fitted_steps() -> tuple[str, ...]:
    """Return the fitted steps before the one that is being fitted now, as `described_step` does, in their order."""
    found: list[str] = []
    inner = False  # whether a step before the last one is fitted: then those after it do not count
    for frame in frames_of("sklearn.pipeline"):
        pipeline = frame.f_locals.get("self")
        if not isinstance(pipeline, Pipeline):
            continue
        if frame.f_code.co_name == "_fit":
            inner = True
            place = frame.f_locals.get("step_idx", 0)
            found = [*_learned(pipeline.steps[:place]), *found]
        elif frame.f_code.co_name.startswith("fit"):
            found = found if inner else [*_learned(pipeline.steps[:-1]), *found]
            inner = False
    return tuple(found)


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


def fitted_before(steps: Sequence[str]) -> tuple[str, ...]:
    if not steps:
        return ()
    return (f"what the steps before the model in its pipeline learned from the data: {', '.join(steps)}",)


def learns_nothing(step: Any) -> bool:
    """Tell, before or after its fit, whether a step treats each row by itself and its fit learns nothing."""
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return True
    kind = type(step)  # a class that is derived from one of these may learn
    if kind is ColumnTransformer:
        chosen = any(callable(columns) for *_, columns in step.transformers)  # by a function of the table: it learns
        return not chosen and all(
            learns_nothing(part) for part in (step.remainder, *(one[1] for one in step.transformers))
        )
    if kind in (FeatureUnion, Pipeline):
        return all(learns_nothing(part) for _, part in (step.steps if kind is Pipeline else step.transformer_list))
    own = loaded("sottovoce.tables.transformer")
    return kind in _LEARN_NOTHING or (own is not None and kind is own.SchemaEncoder)


def row_by_row(step: Any) -> Any:
    """Return a copy of a step that learns nothing, whose output has one form whatever the rows are."""
    copy = clone(step)
    set_here = {name: _ROW_BY_ROW.get(name.rpartition("__")[2]) for name in copy.get_params()}
    return copy.set_params(**{name: value for name, value in set_here.items() if value is not None})


def remedy_for(step: Any) -> str:
    """Return what to use in place of a step that learns without noise."""
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


def refuse_copies() -> None:
    """Refuse a fit on rows that `BaggingClassifier` or `BaggingRegressor` drew with replacement.

    A row is in such a table several times, and k copies cost k times what the receipt would say. Where the estimator
    takes weights, bagging gives it all rows and their counts instead, which ``max_sample_weight`` bounds.
    """
    for frame in frames_of("sklearn.ensemble._bagging"):
        if getattr(frame.f_locals.get("ensemble"), "bootstrap", False):
            raise ParameterError(
                "bagging with bootstrap=True copies rows, and a row that is there k times costs k times epsilon. Give "
                "bootstrap=False, with max_samples below 1."
            )


def given_seed(random_state: Any) -> Any:
    """Return the ``random_state`` that a person gave.

    Bagging sets one of 31 bits in each of its members, also where nobody gave it any: that would be no private noise.
    """
    for frame in frames_of("sklearn.ensemble._bagging"):
        ensemble = frame.f_locals.get("ensemble")
        if ensemble is not None and ensemble.random_state is None:
            return None
    return random_state


def frames_of(module: str) -> Iterator[FrameType]:
    """Go through the calling frames of a module and of those below it."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if f"{frame.f_globals.get('__name__')}.".startswith(f"{module}."):
            yield frame
        frame = frame.f_back


def _learned(steps: Sequence[tuple[str, Any]]) -> list[str]:
    return [described_step(name, step) for name, step in steps if not learns_nothing(step)]
