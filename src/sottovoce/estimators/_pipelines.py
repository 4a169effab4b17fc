"""What the calling frames of scikit-learn did to the table: steps fitted before the model, and rows drawn twice.

A `Pipeline` tells its last step nothing of the others, so the calling frames are asked: the `Pipeline` whose ``fit``
runs is among them. A step *has learned* if its fit set an attribute that ends in an underscore, beyond those that count
or name columns; of a `ColumnTransformer`, a `FeatureUnion` and a pipeline in a pipeline the parts are asked. So
`Normalizer` or a `FunctionTransformer` without state have not, and `StandardScaler`, `SimpleImputer` and `SelectKBest`
have. A step that only stored what it was given (an imputer with a constant) is named all the same. A step with a
receipt (`DPScaler`) has paid for what it learned: it is named with its promise, which adds up with the model's.

What may stand in a `DPPipeline` is told before any fit: steps that say that they need none, and a few that only count.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Final

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.utils import get_tags

from sottovoce._warnings import warn_of_privacy
from sottovoce.exceptions import ParameterError

__all__ = [
    "fitted_before",
    "fitted_steps",
    "learns_nothing",
    "given_seed",
    "refuse_copies",
    "remedy_for",
    "warn_of_fitted_steps",
]

_PAID: Final = "with a receipt of its own"
_BOUNDS: Final = "DPScaler, which pays for what it learns, or public bounds (SchemaEncoder, a FunctionTransformer)"
_REMEDIES: Final = {
    **dict.fromkeys(("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"), _BOUNDS),
    **dict.fromkeys(("QuantileTransformer", "PowerTransformer", "KBinsDiscretizer", "SplineTransformer"), _BOUNDS),
    **dict.fromkeys(("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"), "SchemaEncoder, with public categories"),
    **dict.fromkeys(
        ("SimpleImputer", "KNNImputer", "IterativeImputer"), "a public rule for missing values (SchemaEncoder)"
    ),
}

_COUNTS: Final = frozenset(
    {"n_features_in_", "feature_names_in_", "n_output_features_", "n_features_out_", "output_indices_"}
)


def fitted_steps() -> tuple[str, ...]:
    """Return the fitted steps before the one that is being fitted now, as "name (class)", the first one first."""
    found: list[str] = []
    inner = False  # whether a step before the last one is fitted: then those after it do not count
    for frame in _frames("sklearn.pipeline"):
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


def fitted_before(steps: Sequence[str]) -> tuple[str, ...]:
    """Return what a receipt says of fitted steps before the model."""
    if not steps:
        return ()
    return (f"what the steps before the model in its pipeline learned from the data: {', '.join(steps)}",)


def learns_nothing(step: Any) -> bool:
    """Tell, before any fit, whether a step treats each row by itself and its fit learns nothing from the data."""
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return True
    if isinstance(step, ColumnTransformer):
        return all(learns_nothing(part) for _, part, _ in step.transformers) and learns_nothing(step.remainder)
    if isinstance(step, FeatureUnion):
        return all(learns_nothing(part) for _, part in step.transformer_list)
    if isinstance(step, Pipeline):
        return all(learns_nothing(part) for _, part in step.steps)
    if isinstance(step, (PolynomialFeatures, FunctionTransformer)):
        return True
    return hasattr(step, "transform") and not get_tags(step).requires_fit


def remedy_for(step: Any) -> str:
    """Return what to use in place of a step that learns without noise."""
    return _REMEDIES.get(type(step).__name__, "a step that treats each row by itself, by rules that are public")


def warn_of_fitted_steps(steps: Sequence[str]) -> None:
    """Warn of fitted steps before a private model."""
    unpaid = [step for step in steps if _PAID not in step]
    if unpaid:
        warn_of_privacy(
            f"{', '.join(unpaid)} learned from the data before this private model was fitted, without noise: the "
            "receipt does not cover it, and says so. Use steps that learn nothing (public bounds, Normalizer), see "
            "docs/guide/pipelines.md."
        )


def refuse_copies() -> None:
    """Refuse a fit on rows that `BaggingClassifier` or `BaggingRegressor` drew with replacement.

    A row is in such a table several times, and k copies cost k times what the receipt would say. Where the estimator
    takes weights, bagging gives it all rows and their counts instead, which ``max_sample_weight`` bounds.
    """
    for frame in _frames("sklearn.ensemble._bagging"):
        if getattr(frame.f_locals.get("ensemble"), "bootstrap", False):
            raise ParameterError(
                "bagging with bootstrap=True copies rows, and a row that is there k times costs k times epsilon. Give "
                "bootstrap=False, with max_samples below 1."
            )


def given_seed(random_state: Any) -> Any:
    """Return the ``random_state`` that a person gave.

    Bagging sets one of 31 bits in each of its members, also where nobody gave it any: that would be no private noise.
    """
    for frame in _frames("sklearn.ensemble._bagging"):
        ensemble = frame.f_locals.get("ensemble")
        if ensemble is not None and ensemble.random_state is None:
            return None
    return random_state


def _frames(module: str) -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") == module:
            yield frame
        frame = frame.f_back


def _learned(steps: Sequence[tuple[str, Any]]) -> list[str]:
    return [f"{name} ({type(step).__name__}{_promise(step)})" for name, step in steps if _has_learned(step)]


def _promise(step: Any) -> str:
    receipt = getattr(step, "guarantee_", None)
    if receipt is None:
        return ""
    return f", {_PAID}: epsilon={receipt.epsilon:g}, delta={receipt.delta:g}, which add up with this one"


def _has_learned(step: Any) -> bool:
    if isinstance(step, ColumnTransformer):
        return any(_has_learned(part) for _, part, _ in getattr(step, "transformers_", step.transformers))
    if isinstance(step, FeatureUnion):
        return any(_has_learned(part) for _, part in step.transformer_list)
    if isinstance(step, Pipeline):
        return any(_has_learned(part) for _, part in step.steps)
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return False
    return any(name.endswith("_") and not name.startswith("_") for name in vars(step).keys() - _COUNTS)
