"""An evaluation as one HTML page: how good the model is, how sure that is, and what it cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sottovoce._addresses import where_to_read
from sottovoce._validation import filled_text
from sottovoce.evaluation.evaluation import MEASURES
from sottovoce.evaluation.measures import in_words
from sottovoce.evaluation.plan import COUNTS
from sottovoce.report.pages._document import page
from sottovoce.report.pages.figures import DIAGONAL, QUARTERS, Drawing
from sottovoce.report.reading import fingerprint
from sottovoce.report.verdict import verdict_of

if TYPE_CHECKING:
    from sottovoce.evaluation.evaluation import Evaluation

_LARGEST_SHOWN: Final = 20  # classes of a confusion matrix
_WIDEST: Final = 0.9  # of an interval of a share; where the noise hides everything there is nothing to show


def evaluation_page(found: Evaluation, *, title: str | None = None) -> str:
    """Return an evaluation as one HTML file like that of `receipt_page`; its data block holds the evaluation."""
    receipt = found.guarantee_
    heading = f"Evaluation of {receipt.parameters['model that was evaluated']}"
    binary = found.plan.task.startswith("binary")
    headline, sure = _result(found)
    return page(
        "evaluation/page.html",
        title=heading if title is None else filled_text("title", title),
        kicker="Private evaluation",
        data={"evaluation": found.to_dict(), "page": {"title": title}},
        found=found,
        receipt=receipt,
        colour="good" if receipt.is_private and verdict_of(receipt).kind == "private" else "warn",
        headline=headline,
        sure=sure,
        left_out=max(0.0, found.n_left_out),
        measures=[
            (found.heading(name), MEASURES[name][1].replace("`", ""), *in_words(getattr(found, name), *interval))
            for name, interval in found.intervals.items()
        ],
        roc=_roc(found) if binary else None,
        calibration=_calibration(found) if found.plan.task == "binary, probabilities" else None,
        confusion=_confusion(found),
        missing=[f"{MEASURES[name][0]}: {why}" for name, why in found.why_not.items() if name in ("auc", "log_loss")],
        privacy=_privacy(found),
        fingerprint=fingerprint(receipt),
    )


def _result(found: Evaluation) -> tuple[str, str]:
    name, words = "r2", "of the variance of the labels is explained"
    if found.plan.task != "regression":
        name, words = "accuracy", "of rows are predicted rightly"
    low, high = found.intervals[name]
    again = "" if found.auc is None else (
        f" Two rows of different classes are put in the right order in {_percent(found.auc)} of cases "
        f"({_percent(found.intervals['auc'][0])} to {_percent(found.intervals['auc'][1])})."
    )  # fmt: skip
    sure = f"With 95 % confidence {_percent(low)} to {_percent(high)}, noise and sampling counted.{again}"
    return f"{_percent(getattr(found, name))} {words}", sure


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f} %" if math.isfinite(value) else "an unknown share"


_SHARES: Final[dict[str, Any]] = {"ticks_x": QUARTERS, "ticks_y": QUARTERS, "most_x": 1.0, "y_range": (0.0, 1.0)}


def _roc(found: Evaluation) -> Drawing:
    curve = found.roc()
    false = curve["false_positive_rate"]
    band = [*zip(false, curve["high"], strict=True), *zip(false[::-1], curve["low"][::-1], strict=True)]
    area, interval = in_words(found.auc, *found.intervals["auc"])
    return Drawing(
        name="roc-curve",
        title="ROC curve: true-positive rate against false-positive rate",
        description=f"The area under the curve is {area}, with 95 % confidence {interval}.",
        labels=("false-positive rate", "true-positive rate"),
        lines=[("area", band), DIAGONAL, ("curve", list(zip(false, curve["true_positive_rate"], strict=True)))],
        **_SHARES,
    )


def _calibration(found: Evaluation) -> tuple[Drawing, list[tuple[str, str, str, str]]]:
    assert found.classes is not None
    curve = found.calibration()
    lines = zip(*(curve[name] for name in ("predicted", "observed", "low", "high", "rows")), strict=True)
    seen = [line for line in lines if line[3] - line[2] < _WIDEST]
    drawing = Drawing(
        name="calibration-curve",
        title="Calibration: observed share against predicted probability",
        description="A model that is calibrated has all its points on the dashed line.",
        labels=("predicted probability", f"observed share of {found.classes[1]}"),
        lines=[DIAGONAL, *(("curve", [(said, low), (said, high)]) for said, _, low, high, _ in seen)],
        marks=[(said, observed) for said, observed, *_ in seen],
        **_SHARES,
    )
    return drawing, [
        (_percent(said), _percent(observed), f"{_percent(low)} to {_percent(high)}", f"{size:,.0f}")
        for said, observed, low, high, size in seen
    ]


def _confusion(found: Evaluation) -> list[tuple[str, ...]]:
    """Return the headings and the lines of the table; nothing where there are too many classes."""
    counts, names = found.confusion, [str(name) for name in found.classes or ()]
    if counts is None or len(names) > _LARGEST_SHOWN:
        return []
    lines = zip(names, counts.tolist(), strict=True)
    return [
        ("true class", *(f"predicted {name}" for name in names)),
        *((name, *(f"{value:,.0f}" for value in line)) for name, line in lines),
    ]


def _privacy(found: Evaluation) -> list[tuple[str, str]]:
    receipt = found.guarantee_
    noise = ", ".join(f"{one.noise_std:.3g} rows ({name})" for name, one in found.plan.mechanisms.items())
    return [
        ("Unit of protection", receipt.unit),
        ("Statement", receipt.statement()),
        ("Mechanism", receipt.mechanism),
        ("Noise in a count", noise),
        ("Released counts (SHA-256)", str(receipt.parameters[COUNTS])),
        *[(name[0].upper() + name[1:], text) for name, text in receipt.ties()],
        ("Proof", "\n".join(where_to_read(receipt.proof))),
    ]
