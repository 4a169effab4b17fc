"""An evaluation as one HTML page: how good the model is, how sure that is, and what it cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from sottovoce._addresses import where_to_read
from sottovoce._validation import filled_text
from sottovoce._version import __version__
from sottovoce.evaluation.evaluation import NAMES
from sottovoce.evaluation.plan import COUNTS
from sottovoce.report.pages._document import (
    Markup,
    data_block,
    document,
    element,
    fact_table,
    figure,
    join,
    listed,
    section,
    table,
)
from sottovoce.report.pages.figures import Axes, axes_for
from sottovoce.report.pages.figures import figure as drawing
from sottovoce.report.reading import fingerprint
from sottovoce.report.verdict import verdict_of

if TYPE_CHECKING:
    from sottovoce.evaluation.evaluation import Evaluation

# in the words of somebody who has half a minute
_MEANINGS: Final = {
    "accuracy": "share of rows whose class is predicted rightly",
    "balanced_accuracy": "the same for each class by itself, then the mean",
    "auc": "how often a row of the second class scores higher than one of the first; 0.5 is a coin",
    "log_loss": "how surprised the probabilities are by the labels; 0 is best",
    "brier": "mean squared error of the probabilities; 0 is best",
    "precision": "of the rows that are predicted as the second class: how many are of it",
    "recall": "of the rows of the second class: how many are predicted as such",
    "mse": "mean squared difference of label and prediction",
    "rmse": "its root, in the unit of the labels",
    "mae": "mean absolute difference of label and prediction",
    "r2": "share of the variance of the labels that is explained; 1 is best",
}
_LARGEST_SHOWN: Final = 20  # classes of a confusion matrix
_WIDEST: Final = 0.9  # of an interval of a share; where the noise hides everything there is nothing to show
_TICKS: Final = [(value / 4, f"{25 * value} %") for value in range(5)]


def evaluation_page(found: Evaluation, *, title: str | None = None) -> str:
    """Return an evaluation as one HTML file like that of `receipt_page`; its data block holds the evaluation."""
    heading = f"Evaluation of {found.guarantee_.parameters['model that was evaluated']}"
    heading = heading if title is None else filled_text("title", title)
    binary = found.plan.task.startswith("binary")
    parts = [
        _measures(found),
        *([_roc(found)] if binary else []),
        *([_calibration(found)] if found.plan.task == "binary, probabilities" else []),
        *([_confusion(found)] if found.classes is not None else []),
        _reading(found),
        _privacy(found),
    ]
    return document(
        title=heading,
        lead=(element("p", "Private evaluation", class_="kicker"), element("h1", heading), _verdict(found)),
        first=parts,
        data=(data_block("evaluation", found.to_dict()), data_block("page", {"title": title})),
        foot=f"Page made by sottovoce {__version__}. Fingerprint of the receipt: {fingerprint(found.guarantee_)}.",
    )


def _verdict(found: Evaluation) -> Markup:
    name, words, text = ("r2", "of the variance of the labels is explained", _percent)
    if found.plan.task != "regression":
        name, words = "accuracy", "of rows are predicted rightly"
    low, high = found.intervals[name]
    again = "" if found.auc is None else (
        f" Two rows of different classes are put in the right order in {_percent(found.auc)} of cases "
        f"({_percent(found.intervals['auc'][0])} to {_percent(found.intervals['auc'][1])})."
    )  # fmt: skip
    private = found.guarantee_.is_private
    return element(
        "section",
        element("p", f"{text(getattr(found, name))} {words}", class_="headline"),
        element("p", f"With 95 % confidence {text(low)} to {text(high)}, noise and sampling counted.{again}"),
        element("p", element("strong", "Privacy: "), found.guarantee_.statement()),
        class_=f"verdict {'good' if private and verdict_of(found.guarantee_).kind == 'private' else 'warn'}",
        aria_label="Result",
    )


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f} %" if math.isfinite(value) else "an unknown share"


def _measures(found: Evaluation) -> Markup:
    rows = []
    for name, (low, high) in found.intervals.items():
        value = getattr(found, name)
        what = join((found.heading(name), element("br"), element("span", _MEANINGS[name], class_="soft")))
        rows.append((what, f"{value:.4g}", f"{low:.4g} to {high:.4g}"))
    heads = ("measure", "value", "95 % interval")
    note = " Precision and recall are means over the classes." if len(found.classes or ()) > 2 else ""
    return section(
        "measures",
        "Measures",
        f"About {found.n_rows:,.0f} rows were evaluated, and about {max(0.0, found.n_left_out):,.0f} were left out, "
        f"because their label is none of the list or is missing, or they could not be scored.{note}",
        table("What the counts say", heads, rows, figures=2),
    )


def _roc(found: Evaluation) -> Markup:
    curve, axes = found.roc(), axes_for(1.0, 0.0, 1.0)
    false = curve["false_positive_rate"]
    band = [*zip(false, curve["high"], strict=True), *zip(false[::-1], curve["low"][::-1], strict=True)]
    content = [
        element("path", class_="area", d=axes.path(band) + " Z"),
        _diagonal(axes),
        element("path", class_="curve", d=axes.path(list(zip(false, curve["true_positive_rate"], strict=True)))),
    ]
    low, high = found.intervals["auc"]
    picture = drawing(
        "roc-curve",
        "ROC curve: true-positive rate against false-positive rate",
        f"The area under the curve is {found.auc:.3f}, with 95 % confidence {low:.3f} to {high:.3f}.",
        axes,
        _TICKS,
        _TICKS,
        ("false-positive rate", "true-positive rate"),
        content,
    )
    caption = (
        "Each threshold of the score gives one point. The shade is the 95 % interval of the true-positive rate at each "
        "threshold; the dashed line is a coin."
    )
    return section("roc", "ROC curve", figure(picture, caption))


def _calibration(found: Evaluation) -> Markup:
    assert found.classes is not None
    curve, axes = found.calibration(), axes_for(1.0, 0.0, 1.0)
    lines = list(zip(*(curve[name] for name in ("predicted", "observed", "low", "high", "rows")), strict=True))
    content = [_diagonal(axes)]
    rows = []
    for predicted, observed, low, high, size in lines:
        if not high - low < _WIDEST:
            continue
        x = f"{axes.x(predicted):.1f}"
        content += [
            element("line", class_="curve", x1=x, x2=x, y1=f"{axes.y(low):.1f}", y2=f"{axes.y(high):.1f}"),
            element("circle", class_="mark", cx=x, cy=f"{axes.y(observed):.1f}", r=4),
        ]
        rows.append((_percent(predicted), _percent(observed), f"{_percent(low)} to {_percent(high)}", f"{size:,.0f}"))
    picture = drawing(
        "calibration-curve",
        "Calibration: observed share against predicted probability",
        "A model that is calibrated has all its points on the dashed line.",
        axes,
        _TICKS,
        _TICKS,
        ("predicted probability", f"observed share of {found.classes[1]}"),
        content,
    )
    caption = "Points on the dashed line: the probabilities are what they claim. Bars are 95 % intervals."
    heads = ("predicted", "observed", "95 % interval", "rows, about")
    return section("calibration", "Calibration", figure(picture, caption), table("In figures", heads, rows, figures=3))


def _confusion(found: Evaluation) -> Markup:
    counts, names = found.confusion, [str(name) for name in found.classes or ()]
    assert counts is not None
    if len(names) > _LARGEST_SHOWN:
        return section("confusion", "Labels against predictions", "There are too many classes to show.")
    rows = [(name, *(f"{value:,.0f}" for value in line)) for name, line in zip(names, counts.tolist(), strict=True)]
    heads = ("true class", *(f"predicted {name}" for name in names))
    return section(
        "confusion", "Labels against predictions", table("Noisy counts of rows", heads, rows, figures=len(names))
    )


def _reading(found: Evaluation) -> Markup:
    limits = found.residual_bounds
    notes = [
        "An interval holds, in 95 of 100 evaluations, the value in the population that the rows were drawn from.",
        "Rows that were held out of training tell how good the model is. On training rows the figures are optimistic.",
        "All figures on this page come from the same few noisy counts: looking at them more often costs nothing.",
    ]
    if found.log_loss is not None:
        notes.append("Probabilities within 0.0003 of 0 or 1 count as that for the log loss.")
    if limits is not None:
        notes.append(f"Residuals beyond {limits[0]:.4g} and {limits[1]:.4g} count as these ends.")
    missing = [f"{NAMES[name]}: {why}" for name, why in found.why_not.items() if name in ("auc", "log_loss")]
    return section(
        "reading",
        "How to read this",
        listed(notes, ""),
        *((element("h3", "Not given"), listed(missing, "")) if missing else ()),
    )


def _privacy(found: Evaluation) -> Markup:
    receipt = found.guarantee_
    noise = ", ".join(f"{one.noise_std:.3g} rows ({name})" for name, one in found.plan.mechanisms.items())
    rows = [
        ("Unit of protection", receipt.unit),
        ("Statement", receipt.statement()),
        ("Mechanism", receipt.mechanism),
        ("Noise in a count", noise),
        ("Released counts (SHA-256)", str(receipt.parameters[COUNTS])),
        *[(name[0].upper() + name[1:], text) for name, text in receipt.ties()],
        ("Proof", "\n".join(where_to_read(receipt.proof))),
    ]
    return section(
        "privacy",
        "What it cost, and what was released",
        fact_table("The receipt in short", rows),
        element("h3", "Taken as public, or as true"),
        listed(receipt.assumptions, "nothing"),
        element("h3", "What is not covered"),
        listed(receipt.not_covered, "nothing"),
    )


def _diagonal(axes: Axes) -> Markup:
    return element("path", class_="chance", d=axes.path([(0.0, 0.0), (1.0, 1.0)]))
