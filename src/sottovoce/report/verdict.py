"""What a receipt says in words that need no training: its verdict, its noise against signal, its numbers.

A bound is never rounded in its own favour.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Final

from sottovoce._validation import is_large_delta
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
)
from sottovoce.privacy.guarantee import Guarantee

# what is commonly held (Ponomareva et al. 2023, arXiv:2303.00654, section 5.2): up to 1 strong, up to 10 reasonable
_STRONG: Final = 1.0
_REASONABLE: Final = 10.0
_LARGEST_DELTA: Final = 1e-3


def rounded_up(value: float, significant: int = 3) -> str:
    """Return an upper bound in few digits, rounded up."""
    if not math.isfinite(value):
        return "∞" if value == math.inf else str(value)
    return (
        f"{float(Context(prec=significant, rounding=ROUND_CEILING).plus(Decimal(repr(float(value))))):.{significant}g}"
    )


def percent(value: float) -> str:
    """Return an upper bound on a probability as a percentage, rounded up; never above 100 %."""
    return f"{rounded_up(min(100.0, 100.0 * value))} %"


def one_in(probability: float) -> str:
    """Return a small probability as "1 in N", with N rounded down: the probability is not understated."""
    if probability <= 0.0:
        return "never"
    if probability > 0.5:
        return percent(probability)
    many = Context(prec=3, rounding=ROUND_FLOOR).divide(Decimal(1), Decimal(repr(float(probability))))
    return f"1 in {int(many):,}" if many < 10**15 else f"1 in {many:.3g}".replace("e+", "e")


def digits(value: object) -> str:
    """Return a value of a receipt as it is stored, with all digits."""
    return repr(value) if isinstance(value, float) else str(value)


def flat_parameters(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return parameters with those of a group by its name and theirs: "arguments: alpha"."""
    flat: dict[str, object] = {}
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}: {inner}": item for inner, item in value.items()}
        else:
            flat[name] = value
    return flat


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
    for release, often in event.releases(times):
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


@dataclass(frozen=True)
class Verdict:
    """What a reader must know first."""

    kind: str  # one of "nothing", "private", "weak", "seeded", "not-private"
    headline: str
    explanation: str  # one or two sentences


def verdict_of(guarantee: Guarantee) -> Verdict:
    """Return the verdict, from the promise alone."""
    if isinstance(guarantee.event, NothingReleased):
        return Verdict("nothing", "Nothing was released", "Nothing that depends on the data left the program.")
    if not math.isfinite(guarantee.epsilon):
        return Verdict("not-private", "Not private", _why_not(guarantee.event, guarantee.delta))
    if guarantee.seeded:
        return Verdict(
            "seeded",
            "Private only against people without the seed",
            "The noise was drawn from a seed that somebody chose (random_state). Whoever knows or guesses the seed can "
            "take the noise away again: against them there is no protection at all, nor against anybody else if the "
            "seed is used for a second run.",
        )
    n = number_of_people(guarantee)
    many = n is not None and is_large_delta(guarantee.delta, n)
    if guarantee.epsilon > _REASONABLE or guarantee.delta > _LARGEST_DELTA or many:
        what = "epsilon is above 10" if guarantee.epsilon > _REASONABLE else "delta is above 1 in 1,000"
        if many:
            what = (
                f"delta is not below 1 in {n:,}, the number of rows: a program that publishes a whole row now and then "
                "could promise the same"
            )
        return Verdict(
            "weak",
            "Weak protection",
            f"Noise was added and the promise below holds, but it permits much: {what}. Treat what was released "
            "as personal data unless other safeguards apply.",
        )
    if guarantee.fits is not None and guarantee.fits > 1:
        return Verdict(
            "weak",
            "One of several fits that no ledger adds up",
            f"Noise was added and the promise below holds for this fit, but it was fit {guarantee.fits:,} of the same "
            "table in one run. What each of them released adds up: ask for the receipts of all, or for a ledger.",
        )
    strength = "strong" if guarantee.epsilon <= _STRONG else "moderate"
    return Verdict(
        "private",
        "Private",
        "Noise hides each single contribution: whoever sees what was released learns little more about it than without "
        f"it. By common judgement the bound is {strength} (epsilon "
        + ("at most 1)." if strength == "strong" else "between 1 and 10)."),
    )


def _why_not(event: Event, delta: float) -> str:
    if isinstance(event, NonPrivateEvent):
        return (
            "The model was trained without protection: what was released may tell everything about any person in the "
            "data. Treat it as personal data."
        )
    if delta == 0.0:
        return "With delta = 0 the releases keep to no epsilon: see the privacy curve for larger values of delta."
    return (
        "What was released keeps to no finite bound: it may tell everything about any person in the data. Treat it as "
        "personal data."
    )
