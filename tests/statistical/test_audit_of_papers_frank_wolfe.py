"""The published noise of a shared column names a person's entry: with the printed noise always, at a claim of 1.

The adversary sees what every party and the coordinator are sent in the steps of one training of four parties and 2,000
people, and knows the columns but for one entry, +1 or -1. Seeds are fixed. Failures of the attack on the printed noise
have probabilities below 1e-9.
"""

import math

import numpy as np
import pytest

from sottovoce.audit.threshold import epsilon_lower_bound
from sottovoce.papers.frank_wolfe import PROTOCOL, PublishedLasso
from sottovoce.papers.frank_wolfe.attacks import identify_entry, least_error
from sottovoce.papers.frank_wolfe.noise import ColumnRelease
from sottovoce.papers.frank_wolfe.published import PublishedBallStart, PublishedBallStep, PublishedBallWorker
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical import split_columns
from support.noise import scale_gaussians

N, CLAIM, DELTA, PERSON = 2000, 1.0, 1e-5, 123
COLUMN = np.random.default_rng(1).choice([-1.0, 1.0], (N, 1))


@pytest.fixture(scope="module")
def plan():
    """Of four parties with a column each, T and m as printed."""
    tables = np.repeat(COLUMN, 4, axis=1)
    parties = split_columns(tables, {name: [at] for at, name in enumerate("abcd")}, data_bound=dict.fromkeys("abcd", 1),
                            protocols={name: [PROTOCOL] for name in "abcd"})  # fmt: skip
    return PublishedLasso(
        epsilon=CLAIM, delta=DELTA, radius=1.0, label_bounds=(-1, 1), labels_public=True, fit_intercept=False
    ).plan(parties)


def releases(plan, entry, steps, seed, multiplier=None):
    """Return the sketches that party "a" sends in so many steps, its person's entry being this one."""
    column = COLUMN.copy()
    column[PERSON] = entry
    start = PublishedBallStart(
        "squared", np.zeros(N), 1.0, plan.selection_scale("a"),
        plan.column.noise_multiplier if multiplier is None else multiplier, steps, 1, 0, plan.public_sketch.n_rows, 0,
    )  # fmt: skip
    worker = PublishedBallWorker(column, 1.0, start, Streams(seed).generator(Purpose.NOISE))
    told = [worker.step(PublishedBallStep(np.zeros(plan.column.size))).octets for _ in range(steps)]
    return np.stack([plan.column.read(raw) for raw in told])


def guess(plan, seen):
    return identify_entry(seen, COLUMN[:, 0], PERSON, [-1.0, 1.0], plan.public_sketch)


def distance(plan):
    """Mean shift of one release at this person."""
    own = np.zeros(N)
    own[PERSON] = 1.0
    return 2.0 * float(np.linalg.norm(plan.public_sketch.compress(own))) / plan.column.mechanism.noise_std


def test_all_sketches_of_a_training_name_the_entry_always(plan):
    """159 steps; the error of the attack is below 1e-100, and a claim of 1 allows 73 % of right answers at most."""
    mu = distance(plan) * math.sqrt(plan.n_steps)
    assert least_error(mu) < 1e-100
    entries = [1.0, -1.0, -1.0, 1.0, 1.0, -1.0]
    assert [guess(plan, releases(plan, entry, plan.n_steps, seed)) for seed, entry in enumerate(entries)] == entries


@pytest.mark.parametrize("factor", [1.0, 0.7], ids=lambda factor: f"noise x {factor}")
def test_what_the_receipt_says_of_a_sketch(plan, factor, monkeypatch):
    """At a noise at which a bound can be measured it stays below the receipt's epsilon; at .7 of the noise it must not.

    The adversary takes the person whose column of J is the longest.
    """
    epsilon, delta, draws = 2.0, 0.05, 2000
    scale_gaussians(monkeypatch, factor)
    sketch = plan.public_sketch
    worst = int(np.argmax([np.linalg.norm(sketch.compress(unit)) for unit in np.eye(N)]))
    direction, found = sketch.compress(np.eye(N)[worst]), []
    for entry, seed in ((1.0, 0), (-1.0, 1)):
        column = COLUMN.copy()
        column[worst] = entry
        start = PublishedBallStart(
            "squared", np.zeros(N), 1.0, 1.0, 1.0 / gaussian_mu(epsilon, delta), draws, 1, 0, sketch.n_rows, 0
        )
        worker = PublishedBallWorker(column, 1.0, start, Streams(seed).generator(Purpose.NOISE))
        release = ColumnRelease(start.column_noise, sketch)
        request = PublishedBallStep(np.zeros(sketch.n_rows))
        found.append([release.read(worker.step(request).octets) @ direction for _ in range(draws)])
    bound = epsilon_lower_bound(*found, delta=delta, gaussian=True)
    if factor == 1.0:
        assert 0.4 * epsilon < bound < epsilon
    else:
        assert bound > epsilon
