"""The listings in plain numpy against the sound form: the same steps where they are mended, the printed ones else."""

import math

import numpy as np
import pytest

from sottovoce.papers.ldp import algorithm
from sottovoce.papers.ldp.noise import CopyNoise
from sottovoce.papers.ldp.reproduce import Judge, once_and_again, people
from sottovoce.papers.ldp.server import sigm
from sottovoce.papers.ldp.surrogate import GENERAL_LOSSES, Oracle, smoothed_hinge_derivative, smoothed_step

BETA, TICK = 0.25, 2.0**-20


def sent(p, n=200):
    X, y = people(n, 3, 0)
    rng = np.random.default_rng(p)
    x, labels = algorithm.devices(X, y, np.full(p * (p + 1) + 1, 0.3), rng)
    ticks = np.rint(np.dstack([x, labels]) / TICK).astype(np.int32)
    return ticks, ticks[..., :-1] * TICK, ticks[..., -1] * TICK, rng.integers(n, size=n)


def test_the_printed_noise_is_that_of_the_receipts():
    for p in (1, 2, 3):
        stds = CopyNoise.calibrated("printed", 3.0, 1e-6, p).stds
        np.testing.assert_allclose(algorithm.printed_noise(3.0, 1e-6, p), stds, rtol=1e-14)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_algorithm_1_mended_takes_the_steps_of_the_sound_form(p):
    ticks, x, y, turns = sent(p)
    oracle = Oracle(p, BETA)
    wanted = sigm(ticks, TICK, oracle, 2.0, turns, np.full(len(x), 0.5))
    found = algorithm.server(
        x, y, turns, lambda t: smoothed_hinge_derivative(t, BETA), 2.0, oracle.smoothness, mended=True
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("name", sorted(GENERAL_LOSSES))
def test_algorithm_2_with_one_s_a_report_takes_the_steps_of_the_sound_form(p, name):
    ticks, x, y, turns = sent(p)
    loss = GENERAL_LOSSES[name]
    oracle, shares = Oracle(p, BETA, loss), np.random.default_rng(0).uniform(size=len(x))
    wanted = sigm(ticks, TICK, oracle, 2.0, turns, shares)
    low, high = loss.ends
    found = algorithm.server(
        x, y, turns, lambda t: smoothed_step(t, BETA), 2.0, oracle.smoothness, mended=True,
        s=np.repeat(loss.thresholds(shares)[:, None], y.shape[1], axis=1), scale=high - low, offset=low,
    )  # fmt: skip
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_a_first_step_as_printed_by_hand():
    x, y = np.array([[[0.5, 0.0], [0.4, 0.1], [0.2, 0.3]]]), np.array([[1.0, 1.0, -1.0]])
    c = smoothed_hinge_derivative(np.array([0.0, 1.0]), BETA)  # nodes j/p, and u = 0 at w = 0: c_0 (1 - 0) + c_1 0
    b = 4.0 + 2.0**0.75 * math.sqrt(2.0)
    found = algorithm.server(x, y, np.array([0]), lambda t: smoothed_hinge_derivative(t, BETA), 1.0, 4.0)
    np.testing.assert_allclose(found, [-0.5 * c[0] / b, 0.0])


def test_the_listings_run_as_printed(monkeypatch):
    X, y = people(400, 3, 1)
    rng, loss = np.random.default_rng(0), GENERAL_LOSSES["logistic"]
    taken = []
    plain = algorithm.server

    def spy(x, labels, turns, *rest, **given):
        taken.append((turns, given.get("s")))
        return plain(x, labels, turns, *rest, **given)

    monkeypatch.setattr(algorithm, "server", spy)
    weights = [
        algorithm.algorithm_1(X, y, 32.0, 1e-6, 1, BETA, 5.0, rng),
        algorithm.algorithm_2(X, y, loss.derivative, loss.thresholds, 32.0, 1e-6, 1, BETA, 5.0, rng),
    ]
    assert all(0.0 < np.linalg.norm(w) <= 1.0 + 1e-12 for w in weights)
    for turns, _ in taken:  # with replacement: 1 - 1/e of the reports are seen
        assert len(turns) == 400 and abs(len(set(turns)) / 400 - (1.0 - math.exp(-1.0))) < 0.06
    assert len(np.unique(taken[1][1])) == taken[1][1].size == 400 * 3  # an s of its own for each factor


@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.PrivacyWarning")
def test_both_samplings_learn_from_the_same_reports():
    once, again = once_and_again(Judge(3, 5_000), 3, noise="printed", n=2_000)
    assert len(once) == len(again) == 3
    assert all(0.0 < value < 0.9 for value in (*once, *again)) and once != again
