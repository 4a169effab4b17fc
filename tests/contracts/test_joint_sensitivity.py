"""What one replaced person can do to what a joint training opens: at most the sensitivity that scales the noise.

Rows are as bad as a table can hold; distances are measured in the metric of the noise, exactly.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from sottovoce.vertical.secure.agreed_plan import Block
from sottovoce.vertical.secure.joint_plan import JointPlan
from support.joint_clear import JointClear

ROWS = (
    [[1.0, 0.0], [1.0, 0.0]], [[-1.0, 0.0], [-1.0, 0.0]], [[0.0, 1.0], [0.0, -1.0]], [[3e300, 1e-300], [1e308, 1e308]],
    [[0.6, 0.8], [0.8, 0.6]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [-1.0, 1.0]], [[-1e200, 1e200], [0.0, 0.0]],
)  # fmt: skip
KINDS = {
    "ridge": {"loss": "squared", "label_bounds": (-1.0, 1.0), "n_passes": 4},
    "ridge without intercept": {"loss": "squared", "label_bounds": (-1.0, 1.0), "fit_intercept": False, "n_passes": 4},
    "moments": {"loss": "squared", "label_bounds": (-1.0, 1.0), "n_passes": 0},
    "logistic": {"loss": "logistic", "n_passes": 4},
    "hinge": {"loss": "smoothed hinge", "n_passes": 4, "fit_intercept": False},
    "cubic": {"loss": "logistic", "engine": "shamir"},
    "cubic hinge": {"loss": "smoothed hinge", "engine": "shamir"},
}


def plan(kind):
    blocks = (Block("a", 2, 1.0), Block("b", 2, 1.0))
    facts = {"engine": "in-process", **KINDS[kind]}
    return JointPlan(
        n_samples=1, blocks=blocks, helpers=("h",), label_holder="b", alpha=1.0, epsilon=1.0, delta=1e-5, **facts
    )


def distance(one, other, openings, free):
    """Return the square of the distance over the variance of what colluding parties do not know; exact.

    36 of the variance is what the proof smooths with (``docs/privacy/discrete_gaussian.md``).
    """
    total = Fraction(0)
    for a, b, opening in zip(one, other, openings, strict=True):
        for left, right, scale in zip(a.ravel(), b.ravel(), opening.scales.ravel(), strict=True):
            total += Fraction((int(left) - int(right)) ** 2, free * int(scale) ** 2 - 36)
    return total


def spent(plan, step):
    """Return the square of mu that the plan accounts for a step."""
    training = plan.training
    if step:
        return Fraction(training.noises[step - 1].mu) ** 2
    labels = Fraction(training.labels.mu) ** 2 if training.labels is not None else 0
    return Fraction(training.moments.mu) ** 2 + labels


def tables(plan):
    """Yield the whole numbers of one person, for each row and label that is tried."""
    for row in ROWS:
        for y in (-1.0, 1.0):
            yield JointClear(plan, {"a": np.array(row[:1]), "b": np.array(row[1:])}, np.array([y]))


@pytest.mark.parametrize("kind", KINDS)
def test_second_moments(kind):
    one = plan(kind)
    found = [table.moments() for table in tables(one)]
    worst = max(distance(a, b, one.openings(0), 2) for a in found for b in found)
    assert worst <= spent(one, 0)
    assert worst > 0.7 * float(spent(one, 0))  # and it is not a bound that nobody comes near


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "moments"])
def test_passes(kind):
    """At points of any size, with dual variables anywhere: the person's term is bounded inside."""
    one, rng = plan(kind), np.random.default_rng(0)
    everyone = list(tables(one))
    sizes, widths = (0.0, 1.0, 30.0, 1e10, 1e300), {name: len(place) for name, place in one.places.items()}
    points = [{name: size * rng.normal(size=width) for name, width in widths.items()} for size in sizes]
    most = 0.0
    for step in range(1, one.n_steps + 1):
        for point in points:
            for table in everyone:
                table.duals = rng.integers(-(2**23), 2**23, size=1)
            found = [table.step(step, point) for table in everyone]
            worst = max(distance(a, b, one.openings(step), 2) for a in found for b in found)
            assert worst <= spent(one, step)
            most = max(most, float(worst / spent(one, step)))
    assert most > 0.2
    assert math.isfinite(most)
