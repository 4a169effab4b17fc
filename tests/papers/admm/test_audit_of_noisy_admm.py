"""Audit of what a party of noisy ADMM sends; the adversary knows all other rows and chooses what he sends.

Each release is Gaussian, so the best score is the likelihood ratio: the projection of what was released on the
difference of the two exact values, which he knows. At the planned noise the lower bound on epsilon stays below the
promise and near it; at 0.7 times it, it must not. The bound holds with confidence 0.999, so with fresh seeds the chance
of a false alarm is 1e-3 a test; here seeds are fixed.
"""

import math

import numpy as np
import pytest

from sottovoce.audit.threshold import gaussian_lower_bound
from sottovoce.papers.admm.noisy import NoisyBlock, score_release
from sottovoce.privacy.calibration import gaussian_mu
from support.noise import scale_gaussians

EPSILON, DELTA, RUNS = 1.0, 0.05, 5000
MU = gaussian_mu(EPSILON, DELTA)


@pytest.fixture(params=[1.0, 0.7], ids=lambda factor: f"noise x {factor}")
def factor(request, monkeypatch):
    """Scale the noise of every release: what a wrong noise scale looks like to the rest of the code."""
    scale_gaussians(monkeypatch, request.param)
    return request.param


def judge(scores, neighbour_scores, factor, what):
    bound = gaussian_lower_bound(scores, neighbour_scores, delta=DELTA)
    print(f"{what}, noise x {factor}: epsilon >= {bound:.3f} at delta = {DELTA} ({RUNS} runs a table)")
    if factor == 1.0:
        assert 0.4 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON


CASES = {
    # like-minded others hold x at the edge of the ball; the replaced row's own score goes from c to -c
    "own score": (
        np.ones((200, 1)),
        {"score_bound": 1.0, "norm_bound": 1.2, "target_bound": 2.0},
        50.0,
        np.full(201, 2.0),
    ),
    # the others' scores move as far as they can: kappa = lambda / rho = 0.5, target_bound = (3 + 2 kappa) norm_bound
    "others' scores": (
        np.full((2000, 1), math.sqrt(2.5 / 2000)),
        {"score_bound": 0.05, "norm_bound": 0.7, "target_bound": 2.8},
        0.5,
        np.append([-2.8], np.zeros(2000)),
    ),
}


def party(case, row):
    rest, bounds, penalty, targets = CASES[case]
    table = np.vstack([[[row]], rest])
    block = NoisyBlock(table, score_release(*table.shape, penalty, 1.0, *bounds.values(), MU))
    block.update(targets / 2.0)
    return block


@pytest.mark.parametrize("case", CASES)
def test_audit_of_noisy_admm(case, factor):
    released, exact = [], []
    for place, row in enumerate((1.0, -1.0)):
        block, noise = party(case, row), np.random.default_rng(place)
        exact.append(block.clipped_scores())
        mechanism = block.release.mechanism
        ticks = np.rint(exact[-1] / mechanism.tick).astype(np.int64)
        released.append([mechanism.release(ticks, noise)[0] for _ in range(RUNS)])
    direction = exact[0] - exact[1]
    judge(*(np.array(values) @ direction for values in released), factor, f"noisy ADMM, {case}")


def test_the_message_is_that_release():
    """What the audit above repeats is what is sent: the same numbers from the same seed."""
    block = party("own score", 1.0)
    mechanism = block.release.mechanism
    ticks = np.rint(block.clipped_scores() / mechanism.tick).astype(np.int64)
    scores, _ = mechanism.release(ticks, np.random.default_rng(3))
    np.testing.assert_array_equal(block.send(np.random.default_rng(3)), scores)
