"""The coefficients of a model by the names of its features, and what they mean in the units of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from sottovoce._plain_data import plain
from sottovoce.cli._output import print_columns
from sottovoce.estimators.classifier import LogisticClassifier
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.tables import Schema

__all__ = ["coefficients_as_json", "print_coefficients"]

_SHOWN = 20


@dataclass(frozen=True)
class _Coefficient:
    feature: str
    coefficient: float
    amount: float
    meaning: str


@dataclass(frozen=True)
class _Scores:
    """What one line of coefficients adds up to."""

    what: str
    intercept: float
    coefficients: list[_Coefficient]


def print_coefficients(estimator: DPLinearEstimator, schema: Schema | None, *, every: bool) -> None:
    """Print the coefficients, the largest first: all of them, or some."""
    for scores in _scores(estimator, schema):
        shown = scores.coefficients if every else scores.coefficients[:_SHOWN]
        lines = [(one.feature, f"{one.coefficient:+.4g}", f"{one.amount:+.4g}", one.meaning) for one in shown]
        lines.append(
            ("(intercept)", f"{scores.intercept:+.4g}", f"{scores.intercept:+.4g}", "where every feature is 0")
        )
        headings = ("feature", "coefficient", "in the table", "")
        print_columns(f"What adds up to {scores.what}", headings, lines, ends_in_words=True)
        left = len(scores.coefficients) - len(shown)
        if left:
            print(f"{left} smaller ones are not shown; --coefficients shows all.\n")


def coefficients_as_json(estimator: DPLinearEstimator, schema: Schema | None) -> Any:
    """Return all coefficients as plain data, and the bounds to which columns are cut before, if they are."""
    told: dict[str, Any] = {
        "model": type(estimator).__name__, "scores": [asdict(scores) for scores in _scores(estimator, schema)],
    }  # fmt: skip
    if estimator.column_bounds_ is not None:
        names = _features(estimator, schema)
        told["columns are cut to"] = dict(zip(names, np.transpose(estimator.column_bounds_).tolist(), strict=True))
    return plain(told)


def _features(estimator: DPLinearEstimator, schema: Schema | None) -> list[str]:
    """Return the names of the columns that coefficients are multiplied by."""
    if schema is not None:
        return [name for column in schema.feature_columns for name in column.feature_names]
    known = getattr(estimator, "feature_names_in_", None)
    return [f"feature {k + 1}" for k in range(estimator.n_features_in_)] if known is None else [str(k) for k in known]


def _scores(estimator: DPLinearEstimator, schema: Schema | None) -> Iterator[_Scores]:
    lines = np.atleast_2d(estimator.coef_)
    for what, line, intercept in zip(
        _names(estimator, schema), lines, np.atleast_1d(estimator.intercept_), strict=True
    ):
        if schema is None:
            names = _features(estimator, schema)
            effects = [(float(value), f"for each 1 more of {name}") for name, value in zip(names, line, strict=True)]
        else:
            names, effects, start = [], [], 0
            for column in schema.feature_columns:
                own = column.feature_names
                names += own
                effects += column.effects([float(value) for value in line[start : start + len(own)]])
                start += len(own)
        found = [
            _Coefficient(str(name), float(value), *effect)
            for name, value, effect in zip(names, line, effects, strict=True)
        ]
        yield _Scores(what, float(intercept), sorted(found, key=lambda one: -abs(one.coefficient)))


def _names(estimator: DPLinearEstimator, schema: Schema | None) -> list[str]:
    """Return what each line of coefficients adds up to, in words."""
    target = "the label" if schema is None else str(schema.target)
    if not isinstance(estimator, ClassifierMixin):
        return [f"the prediction of {target}"]
    known = estimator.classes_.tolist()
    score = "the log odds of" if isinstance(estimator, LogisticClassifier) else "the score of"
    return [f"{score} {target} = {name}" for name in (known[1:] if len(known) == 2 else known)]
