"""Forecast: how good a private model to expect, and from how many rows, said before there are any data."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from sottovoce._shown import html_table, ten_lines
from sottovoce._validation import MAX_EPSILON, MIN_EPSILON, number, whole_number
from sottovoce.estimators.base import PrivateEstimator
from sottovoce.estimators.classifier import DPLinearClassifier
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.pipeline import DPPipeline
from sottovoce.estimators.regressor import DPLinearRegressor
from sottovoce.exceptions import ParameterError
from sottovoce.forecasting.trials import Classes, Numbers, PipelineTrials, Population, Trials
from sottovoce.report.pages._document import svg_rules, templates
from sottovoce.report.pages.figures import Drawing, Points, ticks

POINT: Final = 0.01
# of the way from guessing to certainty, for labels that follow the features; chosen on real tables
_FOLLOWING: Final = {"weakly": 0.5, "as usual": 0.8, "strongly": 0.96}
_R2: Final = {"weakly": 0.2, "as usual": 0.5, "strongly": 0.8}
_LABEL_SPREAD: Final = 0.35
_MOST_BEST: Final = 0.9999
# the price on a real table is within this factor of that on a made-up one, and a margin, in four cases of five
_FACTOR: Final = 2.0
_LEAST_ROWS, _MOST_ROWS = 10, 2**37
_COUNTS: Final = tuple(digit * 10**power for power in range(2, 9) for digit in (1, 2, 5))
_STEPS: Final = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0)
_CLASS: Final = "sottovoce-forecast"
_LEAST_HEIGHT: Final = 0.05  # of the axis of scores


@dataclass(frozen=True)
class Expected:
    """The score that a private model is expected to have.

    Attributes
    ----------
    n_samples : int
    epsilon : float
    without_noise : float
        Score of a model without privacy.
    score : float
        Accuracy, or R2.
    low, high : float
        Where the score of a real table was in about four cases of five.
    """

    n_samples: int
    epsilon: float
    without_noise: float
    score: float
    low: float
    high: float

    @property
    def price(self) -> float:
        """What privacy costs."""
        return self.without_noise - self.score


@dataclass(frozen=True)
class Forecast:
    """How good a private model to expect; calculated on made-up tables, with no data.

    Attributes
    ----------
    estimator : str
    metric : {"accuracy", "R2"}
    n_samples, n_features : int
    epsilon, delta : float
    assumed : dict
        The public figures of the made-up tables, given or by default.
    rows : dict of str to Expected
        One entry where the score without noise was told; else three, for labels that follow the features weakly, as
        usual and strongly.
    rows_for_a_point : int or None
        The first of 100, 200, 500, 1,000, ... rows at which privacy costs at most one point (.01); None if 5 * 10^8
        are not enough.
    """

    estimator: str
    metric: str
    n_samples: int
    n_features: int
    epsilon: float
    delta: float
    assumed: dict[str, object]
    rows: dict[str, Expected]
    rows_for_a_point: int | None
    _trials: Trials = field(repr=False, compare=False)

    @property
    def expected(self) -> Expected:
        """The entry of `rows` that is told, or the one for labels that follow the features as usual."""
        return self.rows.get("as usual") or next(iter(self.rows.values()))

    @cached_property
    def by_epsilon(self) -> tuple[Expected, ...]:
        """What to expect at the same n and other epsilons, from a 16th to the 16-fold."""
        return self._curve(
            [(self.n_samples, min(MAX_EPSILON, max(MIN_EPSILON, self.epsilon * step))) for step in _STEPS]
        )

    @cached_property
    def by_rows(self) -> tuple[Expected, ...]:
        """What to expect at the same epsilon and other n, from a 16th to the 16-fold."""
        n = self.n_samples
        return self._curve(
            [(max(_LEAST_ROWS, min(round(n * step), max(n, _MOST_ROWS))), self.epsilon) for step in _STEPS]
        )

    def _curve(self, places: list[tuple[int, float]]) -> tuple[Expected, ...]:
        best = self.expected.without_noise
        return tuple(_expected(self._trials, n, epsilon, best) for n, epsilon in places)

    @property
    def sentence(self) -> str:
        """The forecast in plain words."""
        middle = self.expected
        size, best = f"With {self.n_samples:,} rows and {self.n_features:,} columns", self._figure(middle.without_noise)
        near = (
            "even 500 million rows cost more than one point"
            if self.rows_for_a_point is None
            else f"from about {self.rows_for_a_point:,} rows on privacy costs at most one point"
        )
        if len(self.rows) > 1:
            return (
                f"{size}, if a model without privacy reaches {best} (nobody said how well labels can be predicted), "
                f"expect {self._said(middle)}; {near}."
            )
        return f"{size} expect {self._said(middle)}, where a model without privacy reaches {best}; {near}."

    def _said(self, one: Expected) -> str:
        name = "an accuracy of" if self.metric == "accuracy" else "R2 ="
        return f"{name} {self._figure(one.score)} ({self._figure(one.low)} to {self._figure(one.high)})"

    def _figure(self, score: float) -> str:
        return f"{100.0 * score:.1f} %" if self.metric == "accuracy" else f"{score:.3f}"

    def table(self) -> list[tuple[str, str]]:
        """Return (heading, text) pairs for a readable table."""
        lines = [("in short", self.sentence)]
        if len(self.rows) > 1:
            lines += [
                (f"if labels follow {name}", f"{self._said(row)}, without privacy {self._figure(row.without_noise)}")
                for name, row in self.rows.items()
            ]
        price = self.expected.price
        lines += [
            ("price of privacy", f"{100.0 * price:.1f} points" if self.metric == "accuracy" else f"{price:.3f} of R2"),
            ("the range", "where about four real tables of five lay; yours may lie elsewhere"),
            ("assumed", ", ".join(f"{name} = {_short(value)}" for name, value in self.assumed.items())),
        ]
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as plain data."""
        own = ("estimator", "metric", "n_samples", "n_features", "epsilon", "delta")
        told = ("without_noise", "score", "low", "high", "price")
        return {
            **{name: getattr(self, name) for name in own},
            "assumed": dict(self.assumed),
            "expected": {name: {one: getattr(row, one) for one in told} for name, row in self.rows.items()},
            "rows_for_a_point": self.rows_for_a_point,
            "in_words": self.sentence,
        }

    def picture(self) -> str:
        """Return the score against epsilon and against the number of rows as SVG; it names nothing outside itself."""
        return self._drawn("picture")

    def _drawn(self, template: str) -> str:
        panels = _panels(self.metric, self.expected, self.by_epsilon, self.by_rows)
        module: Any = templates().get_template("forecasting/pictures.html").module
        return str(getattr(module, template)(panels, self.metric, svg_rules(f".{_CLASS}"), _CLASS))

    def __str__(self) -> str:
        return ten_lines(self.table(), "as data: .to_dict(); as a picture: .picture()")

    def _repr_html_(self) -> str:
        return html_table(self.table()) + self._drawn("notebook")


def forecast(
    estimator: PrivateEstimator[Any],
    n_samples: int,
    n_features: int,
    *,
    accuracy_without_noise: float | None = None,
    largest_class: float | None = None,
    r2_without_noise: float | None = None,
    label_spread: float | None = None,
) -> Forecast:
    """Return how good a private model to expect from a table of this public size; no data are read.

    The estimator is fitted to made-up tables with noise and without; the difference is the price of privacy. Real
    tables differ from made-up ones: how far the forecast was off on twenty of them is in ``docs/guide/planning.md``.

    Parameters
    ----------
    estimator : DPLogisticRegression, DPLinearSVC, DPRidge, or a DPPipeline that ends in one
        Its parameters are read, nothing else. More than two classes need ``classes``. Of a pipeline the scaler is tried
        with the model, on made-up columns in units of all sizes; its other steps learn nothing, and are left out.
    n_samples : int, >= 10
        Public number of rows (replaced by ``n_public`` where that is set).
    n_features : int
        After encoding; of a pipeline, the columns that it is given.
    accuracy_without_noise : float, optional
        Of a classifier without privacy, such as from a study that was published. Without it three values stand for
        labels that follow the features weakly, as usual and strongly: .5, .8 and .96 of the way from guessing to
        certainty.
    largest_class : float, optional
        Public share of the largest class. Default: all classes are equally large.
    r2_without_noise : float, optional
        Of a regression without privacy. Default: .2, .5 and .8.
    label_spread : float, default=0.35
        Standard deviation of the labels of a regression over half the distance between ``label_bounds``.

    Returns
    -------
    Forecast
        ``.expected``, ``.rows_for_a_point``, ``.sentence``, ``.picture()``.

    Raises
    ------
    ParameterError
        If a figure is missing, out of range or does not fit the estimator.

    Examples
    --------
    >>> from sottovoce import DPLogisticRegression, forecast
    >>> model = DPLogisticRegression(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[0, 1])
    >>> expected = forecast(model, 2_000, 20, accuracy_without_noise=0.86).expected
    >>> 0.8 < expected.low < expected.score < 0.86
    True
    """
    pipeline = estimator if isinstance(estimator, DPPipeline) else None
    model = estimator if pipeline is None else pipeline.checked()[0]
    if not (isinstance(model, DPLinearEstimator) and hasattr(model, "data_norm")):
        what = type(model).__name__
        known = "DPLogisticRegression, DPLinearSVC or DPRidge, or a DPPipeline that ends in one,"
        hint = " Its plan says what it would spend." if isinstance(estimator, PrivateEstimator) else ""
        raise ParameterError(f"estimator must be {known} for a forecast; got {what}.{hint}")
    whole_number("n_samples", n_samples, at_least=_LEAST_ROWS)
    plan = estimator.plan_for(n_samples, n_features, estimator.planned_models())
    if not plan.is_private:
        raise ParameterError("epsilon must be finite for a forecast; got inf. Without noise there is nothing to tell.")
    width = n_features if pipeline is None else plan.model.n_features  # after the steps that learn nothing
    if pipeline is not None and plan.scaler is None:  # nothing beside the model learns, or pays
        model, pipeline = pipeline.own_copy(model, epsilon=plan.epsilon), None
    populations: dict[str, Population]
    if isinstance(model, DPLinearClassifier):
        _refuse(model, r2_without_noise=r2_without_noise, label_spread=label_spread)
        populations, assumed = _of_classes(model, width, accuracy_without_noise, largest_class)
    else:
        _refuse(model, accuracy_without_noise=accuracy_without_noise, largest_class=largest_class)
        populations, assumed = _of_numbers(model, width, r2_without_noise, label_spread)
    n, epsilon = plan.n_samples, plan.epsilon
    trials = {
        name: Trials(model, one, width) if pipeline is None else PipelineTrials(pipeline, model, one, width)
        for name, one in populations.items()
    }
    usual = trials.get("as usual") or next(iter(trials.values()))
    enough = bisect_left(_COUNTS, True, key=lambda count: usual.price(count, epsilon).mean <= POINT)
    return Forecast(
        estimator=type(estimator).__name__,
        metric="accuracy" if isinstance(model, DPLinearClassifier) else "R2",
        n_samples=n,
        n_features=n_features,
        epsilon=epsilon,
        delta=plan.delta,
        assumed=assumed,
        rows={name: _expected(own, n, epsilon, populations[name].best) for name, own in trials.items()},
        rows_for_a_point=_COUNTS[enough] if enough < len(_COUNTS) else None,
        _trials=usual,
    )


def _expected(trials: Trials, n: int, epsilon: float, best: float) -> Expected:
    price, spread = trials.price(n, epsilon)
    # few trials of a model that is noise may score less than what noise does in the long run
    score, margin = max(best - price, trials.noise_score), trials.margin + spread
    low = max(best - _FACTOR * price - margin, min(score, trials.least_score))
    return Expected(n, epsilon, best, score, low, min(1.0, best - price / _FACTOR + margin))


def _of_classes(
    estimator: DPLinearClassifier, n_features: int, best: float | None, largest: float | None
) -> tuple[dict[str, Population], dict[str, object]]:
    known = estimator.public_classes()
    classes: tuple[Any, ...] = (0, 1) if known is None else tuple(known.tolist())
    equal = 1.0 / len(classes)
    share = equal if largest is None else number("largest_class", largest, at_least=equal, below=1.0)
    if best is None:
        levels = {name: share + (1.0 - share) * part for name, part in _FOLLOWING.items()}
    else:
        remedy = "80 % is 0.8, and guessing reaches the share of the largest class (largest_class)."
        levels = {"as told": number("accuracy_without_noise", best, above=share, at_most=1.0, remedy=remedy)}
    return (
        {name: Classes(n_features, min(level, _MOST_BEST), classes, share) for name, level in levels.items()},
        {"classes": len(classes), "share of the largest class": share},
    )


def _of_numbers(
    estimator: DPLinearRegressor, n_features: int, best: float | None, spread: float | None
) -> tuple[dict[str, Population], dict[str, object]]:
    width = _LABEL_SPREAD if spread is None else number("label_spread", spread, above=0.0, at_most=1.0)
    levels = _R2 if best is None else {"as told": number("r2_without_noise", best, above=0.0, at_most=1.0)}
    return (
        {
            name: Numbers(n_features, min(level, _MOST_BEST), estimator.label_range(), width)
            for name, level in levels.items()
        },
        {"standard deviation of labels over half the width of label_bounds": width},
    )


def _refuse(estimator: DPLinearEstimator, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise ParameterError(f"{name} is not for {type(estimator).__name__}; got {value!r}. Leave it out.")


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _panels(
    metric: str, here: Expected, by_epsilon: Sequence[Expected], by_rows: Sequence[Expected]
) -> tuple[Drawing, Drawing]:
    """Return both curves with their ranges, the place that was asked for marked."""
    shown = (*by_epsilon, *by_rows)
    # a score below guessing, or an R2 far below 0, says no more than the bottom of the picture
    low = max(min(one.low for one in shown), -0.1)
    high = max(here.without_noise, *(one.high for one in shown))
    scores = (low, max(high, low + _LEAST_HEIGHT))
    return (
        _panel("epsilon", metric, scores, here, by_epsilon, lambda one: one.epsilon, lambda value: f"{value:.2g}"),
        _panel("rows", metric, scores, here, by_rows, lambda one: float(one.n_samples), _count),
    )


def _panel(
    name: str,
    metric: str,
    scores: tuple[float, float],
    here: Expected,
    curve: Sequence[Expected],
    place: Callable[[Expected], float],
    label: Callable[[float], str],
) -> Drawing:
    low, high = scores
    step = ticks(high - low)[1]
    levels = [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]

    def line(value: Callable[[Expected], float], points: Sequence[Expected] = curve) -> Points:
        return [(math.log(place(one) / place(curve[0])), min(high, max(low, value(one)))) for one in points]

    above, below, expected = line(lambda one: one.high), line(lambda one: one.low), line(lambda one: one.score)
    told = "; ".join(
        f"{label(place(one))}: {one.score:.3f}, range {one.low:.3f} to {one.high:.3f}" for one in curve[::2]
    )
    return Drawing(
        name=f"forecast-{name}",
        title=f"Expected {metric} against {name}",
        description=f"The band is the range; the dashed line is a model without privacy, {here.without_noise:.3f}. "
        f"{told}.",
        labels=(f"{name}, the other things as planned", metric),
        ticks_x=[(x, label(place(one))) for (x, _), one in list(zip(expected, curve, strict=True))[::2]],
        ticks_y=[(at, f"{100.0 * at:.3g} %" if metric == "accuracy" else f"{at:.3g}") for at in levels],
        most_x=expected[-1][0],
        y_range=scores,
        lines=[
            ("area", [*above, *reversed(below)]),
            ("chance", line(lambda one: one.without_noise)),
            ("curve", expected),
        ],
        marks=line(lambda one: one.score, [here]),
    )


def _count(value: float) -> str:
    for size, unit in ((1e9, " bn"), (1e6, " m"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}"
