r"""Regression that outliers in the label do not spoil: people report under neighbouring bounds of the label.

A report of a regression knows a label through its mean alone: the device rounds it to one of its bounds at random, so
the law of the report is linear in the label. Two populations with the same E[y | x] send the same reports, whatever
their medians are, and no fit can tell absolute or Huber regression from least squares. What a device *can* do is move
the label into bounds first. Which bounds are good is known after the collection only; so each person is given one of
several protocols at random, which differ in their label bounds [b_0, b_1], [b_1, b_2], ... alone. With y moved into
[low, high] := [b_i, b_j],

.. math:: y - low = \sum_{g=i}^{j-1} (y_g - b_g), \qquad y_g = y \text{ moved into } [b_g, b_{g+1}],

and E[y_g x] is what group g's reports estimate. So the first moment for *any* of these bounds is a sum, as exact as if
all the groups that it takes had reported under them, and second moments come from everybody. The server looks at the
mean of y_g in each group, about the share of people above b_g, and keeps the intervals around the median where it
lies between ``share`` and 1 - ``share``. All of it is post-processing of reports.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import bounds, in_order, number
from sottovoce.exceptions import ParameterError
from sottovoce.local.fits.fitting import fit_model, layout_of
from sottovoce.local.fits.model import LocalModel
from sottovoce.local.fits.moments import MomentEstimate, Moments
from sottovoce.local.protocol import Protocol
from sottovoce.local.server.aggregator import Aggregator


def label_ladder(edges: Sequence[float], **rest: Any) -> tuple[Protocol, ...]:
    """Return one protocol for each interval between neighbouring edges; give each person one of them, at random.

    Parameters
    ----------
    edges : sequence of float
        Public, rising; two or more. They may reach as far as labels can: intervals with outliers alone are left out
        by the fit.
    **rest
        As for `Protocol`, which makes a regression of them.

    Examples
    --------
    >>> from sottovoce.local import label_ladder
    >>> [protocol.label_bounds for protocol in label_ladder([0, 1, 2, 10], epsilon=2.0, n_features=3)]
    [(0.0, 1.0), (1.0, 2.0), (2.0, 10.0)]
    """
    points = [number("edges", edge) for edge in in_order("edges", edges)]
    if len(points) < 2:
        raise ParameterError(f"edges must be two or more numbers; got {len(points)}.")
    for name in ("task", "label_bounds", "classes"):
        if name in rest:
            raise ParameterError(f"{name} follows from edges: leave it out.")
    return tuple(
        Protocol(task="regression", label_bounds=bounds("edges", pair, remedy="They must rise."), **rest)
        for pair in pairwise(points)
    )


def fit_ladder(
    aggregators: Sequence[Aggregator],
    *,
    share: float = 0.15,
    label_bounds: tuple[float, float] | None = None,
    alpha: float | None = None,
) -> LocalModel:
    """Return the least-squares model of labels that are moved into bounds chosen from the reports.

    Parameters
    ----------
    aggregators : sequence of Aggregator
        One for each protocol of `label_ladder`, with the reports of its people.
    share : float, in (0, 0.5), default=0.15
        Of people: an interval is kept where about this share or more are on either side. Take more than the share of
        outliers.
    label_bounds : pair of float, optional
        Two of the edges, instead of the choice.
    alpha : float >= 0 or None
        As for `Aggregator.fit`.

    Returns
    -------
    LocalModel
        Its protocol has the bounds that were chosen; its receipt names the protocols that people reported under. There
        is no ``quality_``.

    Raises
    ------
    ParameterError
        If the aggregators do not belong together, or one of them has too few reports.
    """
    groups = _together(aggregators)
    share = number("share", share, above=0.0, below=0.5)
    edges = [group.protocol.label_bounds[0] for group in groups if group.protocol.label_bounds]
    edges.append((groups[-1].protocol.label_bounds or (0.0, 0.0))[1])
    if label_bounds is None:
        first, last = _chosen(groups, share)
    else:
        low, high = bounds("label_bounds", label_bounds)
        if low not in edges or high not in edges:
            raise ParameterError(f"label_bounds must be two of the edges {edges!r}; got {label_bounds!r}.")
        first, last = edges.index(low), edges.index(high)
    protocol = _with_bounds(groups[0].protocol, (edges[first], edges[last]))
    moments = _Ladder([group.moments for group in groups], np.diff(edges), first, last)
    ids = [group.protocol.id.hex() for group in groups]
    return replace(fit_model(protocol, moments, alpha=alpha, reported_under=ids), quality_=None)


class _Ladder(Moments):
    """Moments of the label within the bounds from the first to the last of the intervals."""

    def __init__(self, groups: list[Moments], widths: NDArray[np.float64], first: int, last: int) -> None:
        super().__init__(groups[0].d, groups[0].n_folds)
        self._groups, self._widths, self._kept = groups, widths, range(first, last)
        self.count = np.sum([group.count for group in groups], axis=0)

    def estimate(self, A1: float, A2: float, *, without: int | None = None, only: int | None = None) -> MomentEstimate:
        parts = [group.estimate(A1, A2, without=without, only=only) for group in self._groups]
        n = sum(part.n for part in parts)
        second = sum((part.n / n * part.second for part in parts), np.zeros((self.d, self.d)))
        # on the scale [-1, 1] of the whole, an interval's label counts by its width
        weight = self._widths[self._kept.start : self._kept.stop]
        weight = weight / weight.sum()
        kept = [parts[place] for place in self._kept]
        first = sum((w * part.first for w, part in zip(weight, kept, strict=True)), np.zeros(self.d))
        noise = sum(float(w) ** 2 * part.v1 / part.n for w, part in zip(weight, kept, strict=True))
        return MomentEstimate(n, first, second, n * noise, parts[0].v2)


def _together(aggregators: Sequence[Aggregator]) -> list[Aggregator]:
    groups = list(aggregators)
    if not groups or not all(isinstance(group, Aggregator) for group in groups):
        raise ParameterError("aggregators must be one Aggregator for each protocol of label_ladder.")
    if any(group.protocol.label_bounds is None for group in groups):
        raise ParameterError("aggregators must be of regressions: a classification has no label bounds.")
    groups.sort(key=lambda group: group.protocol.label_bounds or (0.0, 0.0))
    one = groups[0].protocol
    for before, after in pairwise(groups):
        if _with_bounds(after.protocol, one.label_bounds) != one or before.moments.n_folds != after.moments.n_folds:
            raise ParameterError("aggregators must differ in the label bounds of their protocols alone.")
        if (before.protocol.label_bounds or (0.0, 0.0))[1] != (after.protocol.label_bounds or (0.0, 0.0))[0]:
            raise ParameterError("aggregators must have neighbouring label bounds, without a gap and none twice.")
    if one.completion != "slack" or not one.intercept or not one.degree:
        raise ParameterError("aggregators need protocols with completion 'slack', an intercept and degree 1.")
    for group in groups:
        if not (group.moments.count > 0).all():
            raise ParameterError(
                f"the protocol with label bounds {group.protocol.label_bounds!r} has {group.n_reports} reports in "
                f"{group.moments.n_folds} folds: each fold needs some. Take fewer intervals."
            )
    return groups


def _chosen(groups: list[Aggregator], share: float) -> tuple[int, int]:
    """Return the first interval that is kept, and the one behind the last."""
    A, layout = groups[0].constants.A, layout_of(groups[0].protocol)
    assert isinstance(layout.free, int)
    assert layout.level is not None
    means = [group.moments.estimate(*A[:2]).first[layout.free] / layout.level for group in groups]
    above = [0.5 * (1.0 + float(mean)) for mean in means]
    middle = min(range(len(above)), key=lambda place: abs(above[place] - 0.5))
    first, last = middle, middle + 1
    while last < len(above) and above[last] > share:
        last += 1
    while first > 0 and above[first - 1] < 1.0 - share:
        first -= 1
    return first, last


def _with_bounds(protocol: Protocol, label_bounds: tuple[float, float] | None) -> Protocol:
    given = {name: getattr(protocol, name) for name in ("epsilon", "task", "loss", "scale", "completion", "intercept")}
    given |= {name: getattr(protocol, name) for name in ("degree", "K", "m", "b", "mechanism")}
    rows = {"n_features": protocol.n_features} if protocol.features is None else {"features": protocol.features}
    return Protocol(label_bounds=label_bounds, **given, **rows)
