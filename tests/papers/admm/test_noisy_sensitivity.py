"""What a replaced row can do to a noisy message of a party: at most what its noise is scaled by, whatever the row."""

import math

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.papers.admm.noisy import NoisyBlock, score_release


def scores_and_bound(table, targets, *, penalty, rho, c, R, W):
    """Return the exact clipped scores for these targets, and the release."""
    release = score_release(*table.shape, penalty, rho, c, R, W, 1.0)
    block = NoisyBlock(table, release)
    block.update(np.asarray(targets) / 2.0)  # the first targets are twice the shift
    return block.clipped_scores(), release, c * block.weights


def moved(rest, pair, targets, **facts):
    """Return how far the scores move between neighbours, all of them and those of the others, and the release."""
    (first, release, _), (second, _, _) = (
        scores_and_bound(np.vstack([row[None, :], rest]), targets, **facts) for row in pair
    )
    return np.linalg.norm(first - second), np.linalg.norm(first[1:] - second[1:]), release


def others_bound(release):
    return math.sqrt(release.sensitivity**2 - 4.0)  # in units of the score bound, as everything of a release


def test_scores_move_by_at_most_the_sensitivity():
    """Random rows, targets and settings; the part of the others is held to its own bound."""
    rng = np.random.default_rng(0)
    largest, largest_others = 0.0, 0.0
    for trial in range(1500):
        n, d = int(rng.integers(1, 12)), int(rng.integers(1, 4))
        rest = rng.normal(size=(n, d))
        rest *= rng.uniform(0.05, 1.0) / np.linalg.norm(rest, axis=1, keepdims=True)
        pair = rng.normal(size=(2, d))
        if trial % 2:
            pair[1] = -pair[0]
        facts = {
            "penalty": 10.0 ** rng.uniform(-3, 1),
            "rho": 10.0 ** rng.uniform(-1, 1),
            "R": 10.0 ** rng.uniform(-1, 1),
            "W": 10.0 ** rng.uniform(-1, 1),
            "c": 10.0 ** rng.uniform(-2, 1),
        }
        targets = facts["W"] * np.clip(rng.normal(size=n + 1) * 3.0, -1.0, 1.0)
        whole, others, release = moved(rest, pair, targets, **facts)
        largest = max(largest, whole / release.sensitivity)
        largest_others = max(largest_others, others / others_bound(release))
    assert 0.6 < largest <= 1.0 + 1e-9
    assert 0.4 < largest_others <= 1.0 + 1e-9


@pytest.mark.parametrize("kappa", [1e-3, 0.5, 20.0])
def test_the_bound_on_the_others_is_reached(kappa):
    """Opposite rows, coefficients that change sign: tight where W = (3 + 2 kappa) R, kappa = lambda / rho."""
    R, rho, n = 0.7, 2.0, 5000
    W = (3.0 + 2.0 * kappa) * R
    rest = np.full((n, 1), math.sqrt((2.0 + kappa) / n))
    pair = np.array([[1.0], [-1.0]])
    targets = np.append([-W], np.zeros(n))
    whole, others, release = moved(
        rest, pair, targets, penalty=kappa * rho, rho=rho, c=0.02 * R * math.sqrt(2.0 + kappa), R=R, W=W
    )
    assert others == pytest.approx(others_bound(release), rel=1e-4)
    assert 0.99 * release.sensitivity < whole <= release.sensitivity  # so 0.7 times the noise would not do


def test_the_bound_on_the_own_score_is_reached():
    """Many like-minded others hold x at the edge; the replaced row turns its score from c to -c."""
    pair = np.array([[1.0], [-1.0]])
    whole, others, release = moved(
        np.ones((300, 1)), pair, np.full(301, 2.0), penalty=50.0, rho=1.0, c=1.0, R=1.2, W=2.0
    )
    assert others == 0.0
    assert 0.95 * release.sensitivity < whole <= release.sensitivity


def test_a_computed_solution_is_within_the_accepted_gap():
    """Against a general solver, inside the ball and on its edge, for a table that is nearly singular."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(1)
    table = rng.normal(size=(40, 3))
    table[:, 2] = table[:, 0] + 1e-7 * table[:, 1]
    table /= 2.0 * np.linalg.norm(table, axis=1).max()
    targets = rng.uniform(-2.0, 2.0, 40)
    for R in (0.1, 100.0):
        _, release, x = scores_and_bound(table, targets, penalty=0.05, rho=0.5, c=1.0, R=R, W=2.0)

        def objective(v):
            return 0.025 * v @ v + 0.25 * np.sum((table @ v - targets) ** 2)

        inside = {"type": "ineq", "fun": lambda v, R=R: R**2 - v @ v}
        best = minimize(objective, np.zeros(3), constraints=inside, method="SLSQP", options={"ftol": 1e-14}).x
        assert np.linalg.norm(x) <= R * (1.0 + 1e-12)
        np.testing.assert_allclose(table @ x, table @ best, atol=1e-4)
        assert release.solving < 0.05 * release.sensitivity


def test_what_is_not_solved_is_0_and_nobody_is_told():
    """A solution outside the accepted gap, which no data give, must not stop the party: that would be an answer."""
    block = NoisyBlock(np.eye(3), score_release(3, 3, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0))
    block.steepness = block.steepness * 2.0
    block.update(np.ones(3))
    assert block.clipped_scores().tolist() == [0.0, 0.0, 0.0]
    assert np.all(block.send(np.random.default_rng(0)) != 0.0)


def test_every_computed_solution_is_accepted():
    """At any public numbers and rows, far from the accepted gap: what is taken in its place is never needed."""
    rng = np.random.default_rng(2)
    closest, refused = 0.0, 0
    for trial in range(600):
        n, d = int(rng.integers(1, 60)), int(rng.integers(1, 8))
        table = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-8, 0, size=(1, d))
        table /= np.linalg.norm(table, axis=1).max()
        if trial % 3 == 0:
            table[:, -1] = table[:, 0]
        wide = 49 if trial % 2 else 3
        rho, c, R, W, l2 = 10.0 ** rng.uniform(-wide, wide, 5)
        try:
            release = score_release(n, d, l2, rho, c, R, W, 1.0)
        except ParameterError:
            refused += 1
            continue
        block = NoisyBlock(table, release)
        targets = release.target * rng.uniform(-1, 1, n)
        x = block.on_the_ball(block.vectors.T @ (targets @ block.rows))
        rows = block.rows  # shortened to 1
        gradient = release.ratio * x - targets @ block.rows + rows.T @ (rows @ x)
        gap = float(gradient @ x) + release.radius * float(np.linalg.norm(gradient))
        assert np.isfinite(x).all() and np.linalg.norm(x) <= release.radius * (1.0 + 1e-12)
        closest = max(closest, gap / release.gap)
    assert closest < 0.25
    assert refused < 500


@pytest.mark.parametrize("scale", [1.0, 1e-45, 1e-50, 1e-155, 1e-165, 1e-170, 1e45, 1e200])
def test_a_message_is_never_the_column(scale):
    """Bounds of 1e-170 once made the noise 10^12 times too small: the correlation was 1."""
    column = np.random.default_rng(69).uniform(0.0, 1.0, (200, 1))
    try:
        release = score_release(200, 1, 1.0, 1.0, scale, scale, scale, 0.01)
    except ParameterError as error:
        assert "_bound must be a finite number >= 1e-50 and <= 1e+50" in str(error)
        return
    block, pull = NoisyBlock(column, release), np.zeros(200)
    pull[0] = 0.25 * scale
    block.update(pull)
    scores = block.send(np.random.default_rng(0))
    assert abs(np.corrcoef(scores, column[:, 0])[0, 1]) < 0.4
    assert np.std(scores) > 100.0 * scale


def test_any_shift_is_taken():
    """Targets are clipped, also where sums of shifts overflow."""
    block = NoisyBlock(np.random.default_rng(0).random((200, 2)), score_release(200, 2, 1.0, 0.3, 1.0, 1.0, 1.0, 1.0))
    for shift in (1e308, 1e308, -1e308, -1e308, -1e308, 0.0):
        block.update(np.full(200, shift))
        assert np.isfinite(block.send(np.random.default_rng(0))).all()
