"""Audit of the secure choice, with the product's own numbers: whole rows, the plan's noise, the listed programs.

The adversary knows all other rows and picks the replaced one, whose slope stays at its bound on opposite sides. In the
worst view it knows the noise of all other parties: it may then be anything, and is none here. How often a step goes in
the person's direction is a randomised response, so a lower bound on its loss is one on the epsilon of all steps,
exactly composed. At the planned noise it stays below the promise and near it; at 0.7 times that noise it must not.
Who knows no share must see less.
"""

import math

import numpy as np
import pytest
from scipy.stats import beta

from sottovoce.privacy.accounting import GaussianAccountant
from sottovoce.privacy.events import RandomizedResponseEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.whole_gumbel import whole_gumbel
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.protocols.secure.column_plan import ColumnPlan, Columns

EPSILON, DELTA, STEPS, DRAWS = 1.0, 0.05, 12, 12_000
LABELS = {"squared": {"label_bounds": (-1.0, 1.0)}, "logistic": {}}


def bound_of(loss, factor, known):
    """Return a lower bound on epsilon, of confidence 0.999; ``known`` parties of three are known to the adversary."""
    plan = ColumnPlan(
        n_samples=2, blocks=(Columns("a", 1, 1.0), Columns("b", 1, 1.0)), helpers=("h",), label_holder="a", loss=loss,
        radius=1e-9, epsilon=EPSILON, delta=DELTA, engine="in-process", n_steps_given=STEPS, fit_intercept=False,
        **LABELS[loss],
    )  # fmt: skip
    noise, right = Streams(0).generator(Purpose.NOISE), 0
    for entry, wanted in ((1.0, 0), (-1.0, 2)):
        rows = [plan.rows("a", np.array([[entry], [0.0]])), plan.rows("b", np.zeros((2, 1)))]
        label, z = plan.whole_labels(np.ones(2)), np.zeros(2, np.int64)
        if loss == "logistic":  # such a slope needs a margin that is wrong by far: a coordinator may ask for it
            z = plan.margins("a", rows[0], np.array([-entry * 1e6]))
        nothing = [np.zeros(1, np.int64)] * 3
        *sums, total = plan.scores.in_clear(label, *nothing, z, np.zeros(2, np.int64), *rows)
        assert abs(int(sums[0][0])) == plan.scores.largest * 2**14
        for _ in range(DRAWS):
            drawn = np.zeros((3, 4), np.int64)
            for party in range(3 - known):
                drawn[party] = whole_gumbel(round(factor * plan.scale), 4, noise)
            drawn[0, [1, 3]] -= 2**60  # the other party's column is none: candidates are the two signs
            (place,) = plan.choice.in_clear(*sums, total, *drawn)
            right += int(place[0]) == wanted
    least = float(beta.ppf(1e-3, right, 2 * DRAWS - right + 1))
    one = RandomizedResponseEvent(math.log(least / (1.0 - least)))
    return GaussianAccountant().epsilon(RepeatedEvent(one, STEPS), DELTA)


@pytest.mark.parametrize("loss", list(LABELS))
@pytest.mark.parametrize("factor", [1.0, 0.7], ids=lambda factor: f"noise x {factor}")
def test_all_others_are_known(loss, factor, record_property):
    bound = bound_of(loss, factor, known=2)
    record_property("epsilon at least", (bound, DRAWS))
    print(f"{loss}, noise x {factor}: epsilon >= {bound:.3f}")
    if factor == 1.0:
        assert 0.4 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON


def test_nobody_is_known():
    """Three whole Gumbel variables hide more than one."""
    bound = bound_of("squared", 1.0, known=0)
    print(f"nobody known: epsilon >= {bound:.3f}")
    assert bound < 0.8 * EPSILON
