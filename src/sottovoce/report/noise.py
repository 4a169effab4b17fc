"""Noise against signal, from the event and public numbers alone."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    releases_of,
)
from sottovoce.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class NoiseLine:
    """One kind of release."""

    release: str  # what is randomised, and how
    times: str  # how often
    noise: str  # the noise, in units of the most that one neighbouring change can move the release (its sensitivity)
    # The noise in units of the most that all rows can sum to; empty where that is not a sum, or n is not known.
    share: str


def public_size(guarantee: Guarantee) -> int | None:
    """Return the public number of rows whose sums a receipt of a central model is about, or None."""
    if "solver" not in guarantee.parameters:  # parties and devices also release single rows, which nothing adds up
        return None
    return number_of_people(guarantee)


def number_of_people(guarantee: Guarantee) -> int | None:
    """Return the public number of rows, or of aligned people, that a receipt names, or None."""
    for line in guarantee.assumptions:
        found = re.match(r"(?:n_samples|n_public) = ([1-9][0-9]{0,17})(?![0-9.])", line)
        if found:
            return int(found[1])
    return None


def noise_lines(guarantee: Guarantee) -> list[NoiseLine]:
    """Return one line for each kind of release, in the order of the event; a schedule of Gaussian noise is one line."""
    factor, size = Adjacency.parse(guarantee.adjacency).sum_factor, public_size(guarantee)
    counted: dict[tuple[object, ...], Counter[Event]] = {}
    for basic, times, setting in _walk(guarantee.event, 1, ""):
        release = _describe(basic, size, factor)[0]
        kind = (release, setting) if _noise_of(basic) is not None else (release, setting, basic)
        counted.setdefault(kind, Counter())[basic] += times
    return [_line(str(kind[1]), events, size, factor) for kind, events in counted.items()]


def _walk(event: Event, times: int, setting: str) -> Iterator[tuple[Event, int, str]]:
    for release, often in releases_of(event, times):
        if isinstance(release, RepeatAndSelectEvent):
            trials = f"{setting} in each of a random number of trials, {release.mean:g} on average"
            yield from _walk(release.event, often, trials)
        else:
            yield release, often, setting


def _noise_of(event: Event) -> float | None:
    """Return the noise multiplier of a Gaussian release, on a secret sample or not; None where nothing was released."""
    inner = event.event if isinstance(event, PoissonSampledEvent) else event
    return (
        inner.noise_multiplier if isinstance(inner, GaussianEvent) and math.isfinite(inner.noise_multiplier) else None
    )


def _line(setting: str, events: Counter[Event], size: int | None, factor: float) -> NoiseLine:
    """Return the line of releases that differ by their noise alone, from the least to the most of it."""
    ordered = sorted(events, key=lambda event: _noise_of(event) or 0.0)
    (release, least, low), (_, most, high) = (_describe(event, size, factor) for event in (ordered[0], ordered[-1]))
    noise, share = (a if a == b else f"{a.split()[0]} to {b}" for a, b in ((least, most), (low, high)))
    return NoiseLine(release, f"{events.total():,}{setting}", noise, share)


def _describe(event: Event, size: int | None, factor: float) -> tuple[str, str, str]:
    match event:
        case GaussianEvent():
            return "sum plus Gaussian noise", _times(event.noise_multiplier), _share(event, size, factor)
        case PoissonSampledEvent():
            rate = event.sampling_rate
            expected = None if size is None else rate * size
            return (
                f"sum over a secret sample (each row with probability {rate:.4g}) plus Gaussian noise",
                _times(event.event.noise_multiplier),
                _share(event.event, expected, factor),
            )
        case BoundedRangeEvent():
            scale = 1.0 / event.epsilon
            return (
                "choice of the best by noisy scores (exponential mechanism)",
                f"{_times(scale)} (scale of the Gumbel noise; the change of a difference of two scores)",
                "",
            )
        case RandomizedResponseEvent() | PureEvent():
            flip = 1.0 / (1.0 + math.exp(min(event.epsilon, 700.0)))
            what = "a bit, flipped at random" if isinstance(event, RandomizedResponseEvent) else "a randomised report"
            like = "" if isinstance(event, RandomizedResponseEvent) else "tells no more than a yes or no that is "
            return what, f"{like}flipped with probability {flip:.4g}", ""
        case NonPrivateEvent():
            return "released without protection", "none", "0 %"
        case _:
            return type(event).__name__, "", ""


def _times(multiplier: float) -> str:
    return "released nothing" if math.isinf(multiplier) else f"{multiplier:.4g} x sensitivity"


def _share(event: GaussianEvent, size: float | None, factor: float) -> str:
    """Return the noise over what ``size`` rows can sum to; to replace a row moves a sum by twice what it adds."""
    if size is None or size <= 0.0 or math.isinf(event.noise_multiplier):
        return ""
    return f"{100.0 * factor * event.noise_multiplier / size:.3g} %"
