"""Audit of whole joint trainings: the adversary knows all other rows, and one party's shares of the noise.

One person's label is turned round, and their row is as long as a row may be; the others are balanced, so that the
person's term stays at its bound in every pass, on opposite sides in the two tables. The adversary follows both tables'
dual variables through what was opened, and scores a run by its exact log-likelihood ratio. At the planned noise the
lower bound on epsilon stays below the plan's; at 0.7 times that noise it must not. Somebody who knows no share sees
more noise, and must see less. The cubic's largest slope needs margins that no person has in both tables, so more of the
noise must be missing before it shows.
"""

import math

import numpy as np
import pytest

from sottovoce.audit import gaussian_lower_bound
from sottovoce.privacy.mechanisms.exact_coins import whole_gaussian
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.protocols.secure.joint_plan import Block, JointPlan
from support.joint_clear import JointClear

pytestmark = pytest.mark.slow

EPSILON, DELTA, RUNS, N = 1.0, 0.05, 4000, 401
MORE = {"ridge": 16_000}

KINDS = {
    "logistic": {"loss": "logistic", "n_passes": 4},
    "hinge": {"loss": "smoothed hinge", "n_passes": 4},
    "ridge": {"loss": "squared", "label_bounds": (-1.0, 1.0), "n_passes": 0},
    "refined ridge": {"loss": "squared", "label_bounds": (-1.0, 1.0), "n_passes": 3},
    "cubic": {"loss": "smoothed hinge", "engine": "mpyc"},
}


def scores_of(plan, truth, other, known, factor, seed, runs):
    """Return the log-likelihood ratio of ``truth`` against ``other`` of runs on ``truth``; negative evidence counts."""
    noise = Streams(seed).generator(Purpose.NOISE)
    steps = [plan.openings(step) for step in range(plan.n_steps + 1)]
    # all shares of all runs at once: those of a step, an opening and a party
    drawn = [
        [np.stack([_draw(each, factor, noise, runs) for _ in plan.ranks]) for each in openings] for openings in steps
    ]
    found, tables = np.zeros(runs), [JointClear(plan, *truth), JointClear(plan, *other)]
    moments = [each.moments() for each in tables]
    for run in range(runs):
        fitting, points = plan.fitting(), None
        for each in tables:
            each.duals = np.zeros(N, np.int64)
        for step, openings in enumerate(steps):
            exact = [each.step(step, points) for each in tables] if step else moments
            seen = []
            for k, opening in enumerate(openings):
                shares = drawn[step][k][:, run]
                seen.append((exact[0][k] + shares.sum(axis=0)).ravel())
                view = exact[0][k] + shares[known:].sum(axis=0)  # what is left when known shares are taken off
                variance = (len(plan.ranks) - known) * opening.scales.astype(np.float64) ** 2
                away = [((view - each[k]).astype(np.float64) ** 2 / variance).sum() for each in exact]
                found[run] += 0.5 * (away[1] - away[0])
            values = np.concatenate(seen).astype(np.float64)
            points = fitting.take(values)
    return found


def _draw(opening, factor, noise, runs):
    shares = np.zeros((runs, *opening.scales.shape), np.int64)
    for place in np.ndindex(opening.scales.shape):
        shares[(slice(None), *place)] = whole_gaussian(round(factor * int(opening.scales[place])), runs, noise)
    return shares


@pytest.mark.parametrize(
    ("kind", "known", "factor"),
    [
        ("logistic", 1, 1.0), ("logistic", 0, 1.0), ("logistic", 1, 0.7), ("hinge", 1, 1.0), ("hinge", 1, 0.7),
        ("ridge", 1, 1.0), ("ridge", 1, 0.7),
        ("refined ridge", 1, 1.0), ("refined ridge", 1, 0.7), ("cubic", 1, 1.0), ("cubic", 1, 0.4),
    ],
)  # fmt: skip
def test_audit(kind, known, factor):
    blocks = tuple(Block(name=name, n_features=1, data_norm=1.0) for name in ("a", "b"))
    facts = {"engine": "in-process", **KINDS[kind]}
    plan = JointPlan(
        n_samples=N, blocks=blocks, helpers=("h",), label_holder="a", alpha=1e-3, epsilon=EPSILON, delta=DELTA, **facts
    )
    column = np.ones((N, 1))
    y = np.where(np.arange(N) % 2 == 0, 1.0, -1.0)
    if kind == "ridge":  # the whole row turns with the label: the matrix moves by sqrt(2) of its largest term
        y[-1] = 1.0
        turned = {"a": np.where(np.arange(N)[:, None] == N - 1, -1.0, column), "b": column}
        tables = ({"a": column, "b": column}, y), (turned, np.where(np.arange(N) == N - 1, -1.0, y))
    else:
        tables = ({"a": column, "b": column}, y), ({"a": column, "b": column}, np.where(np.arange(N) == N - 1, -y, y))
    runs = MORE.get(kind, RUNS)
    first = scores_of(plan, *tables, known, factor, 1, runs)
    second = -scores_of(plan, *tables[::-1], known, factor, 2, runs)
    bound = gaussian_lower_bound(first, second, delta=DELTA)
    mu = (first.mean() - second.mean()) / math.sqrt(0.5 * (first.var() + second.var()))
    planned = plan.training.setting.mu
    print(f"{kind}, {known} known, noise x {factor}: epsilon >= {bound:.3f}, mu {mu:.3f} of {planned:.3f} planned")
    if factor == 1.0:
        assert (0.1 if kind == "cubic" else 0.5 if known else 0.2) * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON
