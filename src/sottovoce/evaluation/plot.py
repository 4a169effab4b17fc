"""Pictures of an evaluation, with matplotlib where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.exceptions import ParameterError

if TYPE_CHECKING:
    from sottovoce.evaluation.evaluation import Evaluation

__all__ = ["draw"]

_LARGEST_SHOWN = 12  # classes of a confusion matrix whose counts are written out


def draw(found: Evaluation) -> Any:
    """Return a figure: ROC curve, calibration and confusion matrix, as far as there are any, or errors."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ParameterError(
            "plot needs matplotlib, which is not installed: pip install matplotlib. Without it, to_html() has the same "
            "pictures."
        ) from None
    parts = [
        part
        for part, there in (
            (_roc, _scored(found)),
            (_calibration, _chances(found)),
            (_confusion, _classes(found)),
            (_measures, True),
        )
        if there
    ]
    figure, axes = pyplot.subplots(1, len(parts), figsize=(4.6 * len(parts), 4.2), layout="constrained", squeeze=False)
    for part, axis in zip(parts, axes[0], strict=True):
        part(found, axis)
    return figure


def _scored(found: Evaluation) -> bool:
    return found.plan.task.startswith("binary")


def _chances(found: Evaluation) -> bool:
    return found.plan.task == "binary, probabilities"


def _classes(found: Evaluation) -> bool:
    return found.classes is not None


def _roc(found: Evaluation, axis: Any) -> None:
    curve = found.roc()
    axis.fill_between(curve["false_positive_rate"], curve["low"], curve["high"], alpha=0.25, linewidth=0)
    axis.plot(curve["false_positive_rate"], curve["true_positive_rate"])
    axis.plot([0, 1], [0, 1], linestyle=":", color="grey")
    low, high = found.intervals["auc"]
    axis.set(
        xlabel="false-positive rate", ylabel="true-positive rate", aspect="equal",
        title=f"ROC: area {found.auc:.3f} ({low:.3f} to {high:.3f})",
    )  # fmt: skip


def _calibration(found: Evaluation, axis: Any) -> None:
    curve = found.calibration()
    shown = curve["high"] - curve["low"] < 0.9  # where the noise hides everything there is nothing to see
    middle, ends = curve["observed"][shown], (curve["low"][shown], curve["high"][shown])
    spread = np.abs(np.array([middle - ends[0], ends[1] - middle]))
    axis.errorbar(curve["predicted"][shown], middle, yerr=spread, fmt="o", capsize=3)
    axis.plot([0, 1], [0, 1], linestyle=":", color="grey")
    axis.set(
        xlabel="predicted probability", ylabel=f"observed share of {found.classes[1]!r}", aspect="equal",  # type: ignore[index]
        xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), title="Calibration",
    )  # fmt: skip


def _confusion(found: Evaluation, axis: Any) -> None:
    counts, names = found.confusion, [str(name) for name in found.classes or ()]
    assert counts is not None
    axis.imshow(counts, cmap="Blues")
    places = range(len(names))
    axis.set(
        xticks=places, yticks=places, xticklabels=names, yticklabels=names, xlabel="predicted", ylabel="true",
        title="Noisy counts",
    )  # fmt: skip
    if len(names) <= _LARGEST_SHOWN:
        for line in places:
            for column in places:
                dark = counts[line, column] > 0.5 * counts.max()
                axis.text(
                    column, line, f"{counts[line, column]:,.0f}", ha="center", va="center",
                    color="white" if dark else "black",
                )  # fmt: skip


def _measures(found: Evaluation, axis: Any) -> None:
    shown = {name: ends for name, ends in found.intervals.items() if name not in ("mse", "rmse", "mae")}
    if found.plan.task == "regression":
        shown = found.intervals
    for place, (name, (low, high)) in enumerate(shown.items()):
        value = getattr(found, name, 0.5 * (low + high))
        axis.plot([low, high], [place, place], color="C0")
        axis.plot([value], [place], "o", color="C0")
    axis.set(yticks=range(len(shown)), yticklabels=[name.replace("_", " ") for name in shown], title="95 % intervals")
    axis.invert_yaxis()
