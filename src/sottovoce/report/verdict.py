"""What a receipt says in words that need no training: its verdict and its numbers.

A bound is never rounded in its own favour.
"""

import math
import re
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Final

from sottovoce._shown import rounded_up
from sottovoce._validation import is_large_delta
from sottovoce.privacy.events import Event, NonPrivateEvent, NothingReleased
from sottovoce.privacy.guarantee import Guarantee

# what is commonly held (Ponomareva et al. 2023, arXiv:2303.00654, section 5.2): up to 1 strong, up to 10 reasonable
_STRONG: Final = 1.0
_REASONABLE: Final = 10.0
_LARGEST_DELTA: Final = 1e-3


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


def number_of_people(guarantee: Guarantee) -> int | None:
    """Return the public number of rows, or of aligned people, that a receipt names, or None."""
    for line in guarantee.assumptions:
        found = re.match(r"(?:n_samples|n_public) = ([1-9][0-9]{0,17})(?![0-9.])", line)
        if found:
            return int(found[1])
    return None


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
            "remove the noise: against them there is no protection at all, nor against anybody else if the "
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
