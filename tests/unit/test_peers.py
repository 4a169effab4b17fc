"""The tuned peers of the comparison: DP-SGD clips and adds noise as it says, the search finds, cells are counted."""

import numpy as np
import pytest
import scipy.sparse as sp
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant

from benchmarks.peers import fair, fast_dpsgd, run_paid_dpsgd, tuning

N, D = 200, 4


def made_up():
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((N, D)) / 3).astype(np.float32)
    signs = np.where(rows @ rng.standard_normal(D) + 0.3 * rng.standard_normal(N) > 0.0, 1.0, -1.0)
    return rows, signs, rng.integers(0, 3, N)


X, SIGNS, KINDS = made_up()


def descend(rows, y, classes, *, clip, rate, steps, sigma=0.0, l2=0.0, batches=1, seed=0):
    """Return the last iterate, a row for each feature."""
    found = fast_dpsgd.descend(
        *fast_dpsgd._arrays(rows), y.astype(float), classes, False, batches, steps, clip, rate, 0.0, l2, sigma,
        D * classes, np.array([steps - 1]), np.random.default_rng(seed),
    )  # fmt: skip
    return found[0].reshape(D, classes)


@pytest.mark.parametrize(("rows", "y", "classes"), [(X, SIGNS, 1), (sp.csr_matrix(X), KINDS, 3)])
def test_a_step_sums_gradients_that_are_clipped_as_a_whole(rows, y, classes):
    residual = -0.5 * SIGNS[:, None] if classes == 1 else np.full((N, 3), 1 / 3) - np.eye(3)[KINDS]
    gradients = X[:, :, None] * residual[:, None, :]
    lengths = np.linalg.norm(gradients.reshape(N, -1), axis=1)
    clipped = gradients * np.minimum(1.0, 0.1 / lengths)[:, None, None]
    np.testing.assert_allclose(descend(rows, y, classes, clip=0.1, rate=1.0, steps=1), -clipped.mean(axis=0), atol=1e-7)


@pytest.mark.parametrize("batches", [1, 4])
def test_the_noise_has_its_scale(batches):
    """1,200 draws of a normal: the standard deviation is within 10 % but for 1 in 10^6."""
    still = np.zeros_like(X)
    draws = [
        descend(still, SIGNS, 1, clip=0.1, rate=1.0, steps=1, sigma=3.0, batches=batches, seed=k) for k in range(300)
    ]
    assert np.std(draws) == pytest.approx(3.0 * 0.1 * batches / N, rel=0.1)


def test_the_noise_multiplier_keeps_the_budget():
    whole, sampled = (fast_dpsgd.noise_multiplier(1.0, 1e-5, batches, 100) for batches in (1, 10))
    assert fast_dpsgd.epsilon_of(whole, 1.0, 100, 1e-5) == pytest.approx(1.0, rel=0.01)
    assert 0.99 < fast_dpsgd.epsilon_of(sampled, 0.1, 100, 1e-5) <= 1.0


def score(setting, seed):
    """Two metrics that want different settings, and a variant that is better in both."""
    noise = 1e-3 * np.random.default_rng(seed).standard_normal()
    metrics = {"one": (setting["a"] - 7) ** 2 + (setting["b"] - 2) ** 2, "two": (setting["a"] - 1) ** 2}
    return {name: {0.0: -value - 0.5 + noise, 0.5: -value + noise} for name, value in metrics.items()}


def test_the_search_finds_what_each_metric_wants():
    space = {"a": tuple(range(10)), "b": tuple(range(10))}
    found = tuning.search(score, ("one", "two"), space=space, coarse={"a": (4,)}, default={"b": 6})
    assert found["one"]["setting"] == {"a": 7, "b": 2, "variant": 0.5}
    assert found["two"]["setting"]["a"] == 1
    assert found["two"]["ended by"] == "no better neighbour"
    spent = tuning.search(score, ("one",), space=space, coarse={"a": (4,)}, default={"b": 6}, budget=25.0)
    assert spent["one"]["ended by"] == "the budget"


def test_cells_are_counted_by_paired_differences():
    base = np.array([0.80, 0.70, 0.90, 0.60, 0.85])
    gaps = {"+": 0.01, "-": -0.01, "=": np.array([0.02, -0.02, 0.01, -0.01, 0.005])}
    for mark, gap in gaps.items():
        fits = {("ours", "a9a", 1.0, seed): {"accuracy": score} for seed, score in enumerate(base + gap)}
        fits |= {("them", "a9a", 1.0, seed): {"accuracy": score} for seed, score in enumerate(base)}
        (line,) = fair.compared(fits, "them", ["a9a", "bank"], [1.0], 5)
        assert line[:4] == ("chosen", "a9a", 1.0, "accuracy")
        assert line[6] == mark


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_search_that_pays_keeps_the_budget_and_trains_with_more_noise(epsilon):
    paid, count = run_paid_dpsgd.noise_multipliers(epsilon, 1e-5)
    step = PoissonSampledDpEvent(1 / run_paid_dpsgd.BATCHES, GaussianDpEvent(paid))
    for event in (SelfComposedDpEvent(step, run_paid_dpsgd.STEPS), GaussianDpEvent(count)):
        accountant = RdpAccountant(run_paid_dpsgd.ORDERS)
        accountant.compose(RepeatAndSelectDpEvent(event, run_paid_dpsgd.TRIALS, np.inf))
        assert 0.98 * epsilon < accountant.get_epsilon(1e-5) <= epsilon
    assert paid > 1.5 * fast_dpsgd.noise_multiplier(epsilon, 1e-5, run_paid_dpsgd.BATCHES, run_paid_dpsgd.STEPS)
