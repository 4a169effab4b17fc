"""What an evaluation found: released counts, and the measures, curves and intervals that follow from them."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._plain_data import canonical_text, decode, digest, encode, encode_or_write, parsed
from sottovoce._shown import html_table
from sottovoce._validation import number
from sottovoce.evaluation.axes import Axis
from sottovoce.evaluation.measures import (
    Measure,
    calibration_of,
    in_words,
    of_binary,
    of_classes,
    of_losses,
    of_numbers,
    predicted,
    roc_of,
)
from sottovoce.evaluation.plan import COUNTS, EvaluationPlan
from sottovoce.evaluation.tables import Table
from sottovoce.exceptions import ModelFormatError, ParameterError, SottovoceError
from sottovoce.ledger.ledger import Charge
from sottovoce.privacy.guarantee import Guarantee

_FORMAT: Final = "sottovoce-evaluation"
_VERSION: Final = 1
_LEVEL: Final = 0.95
_MOST_NODES: Final = 64  # more than any plan has: a file may come from anybody, and its measures must not take long

# every measure, in the order in which it is shown: in words, and what it is
MEASURES: Final[dict[str, tuple[str, str]]] = {
    "accuracy": ("accuracy", "Share of rows whose class is predicted."),
    "balanced_accuracy": ("balanced accuracy", "Mean over the classes of the share of their rows that is predicted."),
    "auc": ("area under the ROC curve", "How often a row of the second class scores higher than one of the first."),
    "log_loss": ("log loss", "Mean log loss, with probabilities cut to within 0.0003 and 0.9997; 0 is best."),
    "brier": ("Brier score", "Mean squared error of the probabilities; summed over more than two classes. 0 is best."),
    "precision": (
        "precision",
        "Share of rows predicted as the second class that are of it; the mean over more classes.",
    ),
    "recall": ("recall", "Share of rows of the second class predicted as such; the mean over more classes."),
    "mse": (
        "mean squared error",
        "Labels and predictions are cut to the label bounds, residuals to `residual_bounds`.",
    ),
    "rmse": ("root mean squared error", "Root of `mse`, in the unit of the labels."),
    "mae": ("mean absolute error", "Labels and predictions are cut to the label bounds."),
    "r2": ("R^2", "Share of the variance of the labels that is explained; 1 is best."),
}
_SEEN: Final = 4.0  # standard deviations of noise: a count beyond is not noise alone
_CLASSES: Final = ("accuracy", "balanced_accuracy", "precision", "recall")
_NUMBERS: Final = ("mse", "rmse", "mae", "r2")


def _measure(name: str) -> Any:
    return property(lambda found: getattr(found._found.get(name), "value", None), doc=MEASURES[name][1])


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Measures of a model on private rows, each with an interval; all follows from released counts.

    A measure that the model does not allow is None; `why_not` says why.

    Attributes
    ----------
    plan : EvaluationPlan
    classes : tuple or None
        Labels of the lines of the confusion matrix.
    tables : dict of Table
        The released counts.
    guarantee_ : Guarantee
        The receipt.
    charge_ : Charge or None
        Entry of the ledger.
    """

    plan: EvaluationPlan
    classes: tuple[Any, ...] | None
    tables: Mapping[str, Table]
    guarantee_: Guarantee
    charge_: Charge | None = None

    # --- the measures

    accuracy = _measure("accuracy")
    balanced_accuracy = _measure("balanced_accuracy")
    auc = _measure("auc")
    log_loss = _measure("log_loss")
    brier = _measure("brier")
    precision = _measure("precision")
    recall = _measure("recall")
    mse = _measure("mse")
    rmse = _measure("rmse")
    mae = _measure("mae")
    r2 = _measure("r2")

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 95 % interval of each measure."""
        return {name: (found.low, found.high) for name, found in self._found.items()}

    def interval(self, name: str, level: float = _LEVEL) -> tuple[float, float]:
        """Return the interval of one measure.

        Parameters
        ----------
        name : str
            Such as ``"auc"``.
        level : float, default=0.95
            How often the interval covers the value in the population that the rows were drawn from.
        """
        found = self._measures(number("level", level, above=0.0, below=1.0))
        if name not in found:
            raise ParameterError(f"name must be one of {', '.join(found)}; got {name!r}. {self.why_not.get(name, '')}")
        return found[name].low, found[name].high

    @cached_property
    def why_not(self) -> dict[str, str]:
        """Why a measure is None, for each that is."""
        task, reasons = self.plan.task, {}
        if task == "regression":
            return dict.fromkeys([*_CLASSES, "auc", "log_loss", "brier"], "the model predicts numbers, not classes.")
        reasons = dict.fromkeys(_NUMBERS, "the model predicts classes, not numbers.")
        if not task.endswith("probabilities"):
            reasons |= dict.fromkeys(["log_loss", "brier"], "the model gives no probabilities.")
        if not task.startswith("binary"):
            reasons["auc"] = (
                "the model gives no score."
                if self.plan.n_classes == 2
                else "with several classes a row would be in one histogram for each class, at so many times the noise."
            )
        return reasons

    # --- counts and curves

    @property
    def n_rows(self) -> float:
        """Noisy number of rows that the measures are about."""
        return float(self.tables["table"].cells.sum())

    @property
    def n_left_out(self) -> float:
        """Noisy number of rows without a label of the list, or without a score."""
        return self.tables["table"].left_out

    @property
    def residual_bounds(self) -> tuple[float, float] | None:
        """As what residuals beyond count: far away from nearly all of them, by the first released histogram."""
        axis = self.tables["table"].axes[1]
        if self.plan.task != "regression" or axis is None:
            return None
        return float(axis.nodes[0]), float(axis.nodes[-1])

    @property
    def confusion(self) -> NDArray[np.float64] | None:
        """Noisy counts by label (lines) and predicted class (columns), in the order of `classes`; none is negative."""
        if self.plan.task == "regression":
            return None
        table = self.tables["table"]
        counts: NDArray[np.float64] = np.maximum(table.cells @ predicted(table).T, 0.0)
        return counts

    def roc(self) -> dict[str, Vector]:
        """Return the ROC curve.

        Returns
        -------
        dict of ndarray
            ``threshold`` (of the score: the logarithm of the odds), ``false_positive_rate``, ``true_positive_rate``,
            and ``low`` and ``high``, the 95 % interval of the latter at each threshold.
        """
        curve = roc_of(self._scored("roc"), _LEVEL)
        return dict(
            zip(("threshold", "false_positive_rate", "true_positive_rate", "low", "high"), curve.T, strict=True)
        )

    def calibration(self) -> dict[str, Vector]:
        """Return predicted probabilities against observed shares of the second class.

        Returns
        -------
        dict of ndarray
            ``predicted``, ``observed``, ``low`` and ``high`` (the 95 % interval of the latter), and noisy ``rows``.
        """
        if self.plan.task != "binary, probabilities":
            raise ParameterError("calibration is for two classes and a model that gives probabilities.")
        found = calibration_of(self._scored("calibration"), _LEVEL)
        return dict(zip(("predicted", "observed", "low", "high", "rows"), found.T, strict=True))

    def _scored(self, what: str) -> Table:
        if not self.plan.task.startswith("binary"):
            raise ParameterError(f"{what} is for two classes and a model that gives scores.")
        return self.tables["table"]

    @cached_property
    def _found(self) -> dict[str, Measure]:
        return self._measures(_LEVEL)

    def _measures(self, level: float) -> dict[str, Measure]:
        table = self.tables["table"]
        if self.plan.task == "regression":
            found = of_numbers(table, level)
        elif self.plan.task.startswith("binary"):
            found = of_binary(table, level, probabilities=self.plan.task == "binary, probabilities")
        else:
            found = of_classes(table, level)
            if "losses" in self.tables:
                found |= of_losses(self.tables["losses"], level)
        return {name: found[name] for name in MEASURES if name in found}

    # --- for people

    def heading(self, name: str) -> str:
        """Return a measure in words: those of one class of two name it."""
        if name not in ("precision", "recall") or self.classes is None or len(self.classes) > 2:
            return MEASURES[name][0]
        return f"{MEASURES[name][0]} of {self.classes[1]}"

    def rows(self) -> list[tuple[str, str]]:
        """Return (heading, text) pairs for a readable table."""
        measures = [
            (self.heading(name), "{}   ({})".format(*in_words(found.value, found.low, found.high)))
            for name, found in self._found.items()
        ]
        left_out = f"{max(0.0, self.n_left_out):,.0f}"
        if self.n_left_out > max(self.n_rows, _SEEN * self.tables["table"].noise_std):
            known = "numbers" if self.classes is None else f"among {', '.join(map(repr, self.classes))}"
            left_out += f", most of all rows: labels must be {known}, and features finite"
        counts = [("rows, about", f"{max(0.0, self.n_rows):,.0f}"), ("left out, about", left_out)]
        return [*measures, *counts, ("privacy", self.guarantee_.statement())]

    def __repr__(self) -> str:
        lines = [f"  {name:<26} {text}" for name, text in self.rows()]
        return "\n".join(("Evaluation with 95 % intervals", *lines))

    def _repr_html_(self) -> str:
        return html_table(self.rows())

    def to_html(self, *, title: str | None = None) -> str:
        """Return the evaluation as one self-contained HTML page to read and print, without scripts.

        Parameters
        ----------
        title : str or None, default=None
        """
        from sottovoce.evaluation.page import evaluation_page

        return evaluation_page(self, title=title)

    # --- storing

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as plain data for JSON; `from_dict` reads it again."""
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "measures": {
                name: {"value": encode(found.value), "low": encode(found.low), "high": encode(found.high)}
                for name, found in self._found.items()
            },
            "plan": self.plan.facts(),
            **released(self.classes, self.tables),
            "guarantee": self.guarantee_.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Read an evaluation again; its measures are computed anew from the counts.

        Raises
        ------
        ModelFormatError
            If the data are not an evaluation that this version can read, or not the one that its receipt is about.
        """
        if not isinstance(data, Mapping) or data.get("format") != _FORMAT:
            raise ModelFormatError(f"not an evaluation: 'format' must be {_FORMAT!r}.")
        if data.get("version") != _VERSION or isinstance(data["version"], bool):
            raise ModelFormatError(
                f"the evaluation has version {data.get('version')!r}, this version of sottovoce reads {_VERSION}: "
                "update sottovoce."
            )
        try:
            plan = EvaluationPlan.from_facts(dict(data["plan"]))
            tables = {name: _table(plan, name, entry) for name, entry in data["tables"].items()}
            classes = None if data["classes"] is None else tuple(decode(data["classes"]))
            found = cls(plan, classes, tables, Guarantee.from_dict(data["guarantee"]))
            about = found.guarantee_.parameters
            if canonical_text(plan.facts()) != canonical_text(about["evaluation"]):
                raise ModelFormatError("the plan is not the one that the receipt of the evaluation is about.")
            if digest(released(classes, tables)) != about[COUNTS]:
                raise ModelFormatError("the counts are not those that the receipt of the evaluation is about.")
            return found
        except ModelFormatError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, SottovoceError) as error:
            raise ModelFormatError(f"the evaluation does not hold together: {error!r}.") from None

    def to_json(self) -> str:
        """Return the evaluation as strict JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | Path) -> Self:
        """Read an evaluation from its JSON, or from the file that holds it; see `from_dict`."""
        try:
            return cls.from_dict(parsed(text.read_text(encoding="utf-8") if isinstance(text, Path) else text))
        except (ValueError, RecursionError, OSError) as error:
            if isinstance(error, SottovoceError):
                raise
            raise ModelFormatError(f"this is not an evaluation: {error}.") from None


def released(classes: tuple[Any, ...] | None, tables: Mapping[str, Table]) -> dict[str, Any]:
    """Return what all figures follow from, as it is stored; the receipt has its digest."""
    return {
        "classes": None if classes is None else [encode_or_write(label) for label in classes],
        "tables": {
            name: {
                "cells": encode(table.cells),
                "left_out": table.left_out,
                "axes": [None if axis is None else encode([axis.pieces, axis.centre]) for axis in table.axes],
            }
            for name, table in tables.items()
        },
    }


def _table(plan: EvaluationPlan, name: str, entry: Mapping[str, Any]) -> Table:
    pieces = [decode(axis) for axis in entry["axes"]]
    first, second = (
        None if one is None else Axis(tuple(tuple(map(float, piece)) for piece in one[0]), one[1]) for one in pieces
    )
    if any(axis is not None and len(axis) > _MOST_NODES for axis in (first, second)):
        raise ModelFormatError(f"the table {name!r} has more than {_MOST_NODES} nodes on an axis: damaged file.")
    cells = np.array(decode(entry["cells"]), dtype=np.float64)
    wanted = tuple(len(axis) if axis is not None else plan.n_classes for axis in (first, second))
    if cells.shape != wanted or not np.isfinite(cells).all() or not math.isfinite(entry["left_out"]):
        raise ModelFormatError(f"the table {name!r} has the shape {cells.shape} instead of {wanted}: damaged file.")
    return Table(cells, float(entry["left_out"]), plan.mechanisms[name].noise_std, (first, second))
