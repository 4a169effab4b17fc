"""Audits of all that an evaluation releases, by the exact likelihood ratio of all its tables."""

from dataclasses import replace
from functools import partial

import numpy as np

from sottovoce.evaluation.plan import EvaluationPlan
from sottovoce.evaluation.tables import PLACING, ScoredRows, axes_of, count, placing_cells
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams
from support.audits.audit import DELTA, SLOW, Audit, Scores
from support.noise import Scaled

RUNS = 12_000
# labels and scores of three rows, and what the last one is replaced by: both on ends of the axes, so in one cell
TASKS = {
    "binary, probabilities": (2, None, ([0.0, 1.0, 1.0], [1.0, -2.0, -8.0]), (0.0, 8.0)),
    "classes": (3, None, ([0.0, 1.0, 1.0], [2.0, 1.0, 0.0]), (2.0, 2.0)),
    "regression": (0, (-1.0, 1.0), ([0.5, 0.1, -1.0], [0.5, 0.0, 1.0]), (1.0, -1.0)),
}


def evaluation(task, adjacency, delta, rows_each, factor, patch):
    """Pure releases are looked at one by one, here the last one: a sum of their ratios is seldom at its largest."""
    n_classes, bounds, (labels, scores), other = TASKS[task]
    plan = EvaluationPlan(
        task=task, n_classes=n_classes, label_bounds=bounds, epsilon=1.0, delta=delta, adjacency=adjacency, n_samples=3,
        max_rows_per_group=rows_each, accept_delta=delta or None,
    )  # fmt: skip
    many = rows_each or 1
    pairs = [(labels[:2] + labels[2:] * many, scores[:2] + scores[2:] * many), (labels[:2], scores[:2])]
    if adjacency is Adjacency.REPLACE_ONE:
        pairs[1] = (labels[:2] + [other[0]] * many, scores[:2] + [other[1]] * many)
    tables = [ScoredRows(np.array(one), np.array(two), np.zeros(len(one), bool)) for one, two in pairs]
    found, placed = [np.zeros(RUNS), np.zeros(RUNS)], {}
    noise = Streams(5).generator(Purpose.NOISE)
    for name, mechanism in plan.mechanisms.items():
        if name in PLACING:
            exact = [placing_cells(plan, name, table) for table in tables]
            placed[name] = mechanism.release(exact[0], noise)[0], mechanism.noise_std
        else:
            axes = axes_of(plan, name, placed)
            exact = [count(plan, name, axes, table) for table in tables]
        if delta == 0.0:
            found = [np.zeros(RUNS), np.zeros(RUNS)]
        for place, ticks in enumerate(exact):
            released = released_with(mechanism, np.tile(ticks, (RUNS, 1)), factor, noise)
            found[place] += log_ratio(released, *(one * mechanism.tick for one in exact), mechanism)
    if delta:
        return Scores(*found)
    # the ratio is at its largest with a large probability
    return Scores(*(np.round(one, 6) for one in found), mechanism.event.epsilon, delta=0.0, gaussian=False)


def released_with(mechanism, ticks, factor, noise):
    if isinstance(mechanism, GridGaussian):
        return mechanism.release(ticks, Scaled(noise, factor))[0]
    return replace(mechanism, epsilon=mechanism.epsilon / factor).release(ticks, noise)[0]


def log_ratio(value, first, second, mechanism):
    if isinstance(mechanism, GridGaussian):
        return ((value - second) ** 2 - (value - first) ** 2).sum(axis=1) / (2.0 * mechanism.noise_std**2)
    return (np.abs(value - second) - np.abs(value - first)).sum(axis=1) / (mechanism.scale * mechanism.tick)


AUDITS = tuple(
    Audit(
        f"evaluation, {task}, {adjacency.value}, delta {delta}, a {'person' if rows_each else 'row'}",
        partial(evaluation, task, adjacency, delta, rows_each),
        **({"factors": (1.0,), "slow": (0.7,)} if adjacency is not Adjacency.ZERO_OUT else SLOW),
    )
    for task in TASKS
    for adjacency in (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
    for delta in (0.0, DELTA)
    for rows_each in (None, 3)
)  # fmt: skip
