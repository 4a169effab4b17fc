"""Importance sampling: its law, balanced steps, and the bound for unequal blocks, which is never violated."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from sottovoce.exceptions import ParameterError
from sottovoce.papers import frank_wolfe as bfw

SCALES = np.array([8.0, 1.0, 1.0, 0.5, 3.0, 0.1])
DOMAIN = bfw.ProductDomain.intervals(-0.5, 0.5, n_blocks=len(SCALES))


def unequal():
    """Return least squares with columns of very different sizes, and its least value."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(30, len(SCALES))) * SCALES
    y = A @ rng.uniform(-0.7, 0.7, len(SCALES)) + rng.normal(size=30)
    return bfw.LeastSquares(A, y), lsq_linear(A, y, (-0.5, 0.5), tol=1e-14).cost / 30


def test_law():
    sampling = bfw.ImportanceSampling.from_curvatures([16.0, 4.0, 0.0, 4.0], mix=0.2)
    assert sampling.probabilities == pytest.approx([0.45, 0.25, 0.05, 0.25])
    rng = np.random.default_rng(0)
    drawn = np.concatenate([sampling.draw(rng) for _ in range(20_000)])
    assert np.bincount(drawn) / len(drawn) == pytest.approx(sampling.probabilities, abs=0.015)
    assert np.array_equal(sampling.pair_probabilities, np.diag(sampling.probabilities))
    assert sum(chance for _, chance in sampling.support()) == pytest.approx(1.0)
    assert [blocks.tolist() for blocks, _ in sampling.support()] == [[0], [1], [2], [3]]
    assert sampling.expected_size == pytest.approx(1.0)


def test_no_probabilities_have_a_better_constant():
    C = np.array([9.0, 1.0, 0.25, 4.0])
    best = bfw.ImportanceSampling.from_curvatures(C, mix=0.0).probabilities
    far = 10**7  # where the constant is what counts
    least = bfw.serial_bound(far, start=0.0, curvatures=C, probabilities=best)
    assert least == pytest.approx(2.0 * np.sqrt(C).sum() ** 2 / far, rel=1e-5)
    for p in np.random.default_rng(0).dirichlet(np.full(4, 3.0), 200):
        assert bfw.serial_bound(far, start=0.0, curvatures=C, probabilities=p) >= least * (1.0 - 1e-5)


def test_uniform_probabilities_give_the_bound_of_uniform_serial_sampling():
    objective, _ = unequal()
    C = bfw.block_curvatures(objective, DOMAIN)
    n = len(C)
    expected = bfw.expected_curvature(objective, DOMAIN, bfw.UniformSerialSampling(n))
    for t in (0, 5, 500):
        ours = bfw.serial_bound(t, start=0.3, curvatures=C, probabilities=np.full(n, 1 / n))
        assert ours == pytest.approx(2.0 * max(0.3, expected * n) / (t / n + 2.0))
        assert ours <= bfw.theorem_1_bound(t, start=0.3, curvature=expected, p_min=1 / n)


def test_balanced_steps_by_hand():
    """A block's step is the universal one times p_min / p_i; blocks may be of any sizes and come together."""
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(20, 6)), rng.normal(size=20)
    domain = bfw.ProductDomain([bfw.L1Ball(3, 1.0), bfw.Box(-1, 1), bfw.L2Ball(2, 1.0)])
    sampling = bfw.IndependentSampling([0.9, 0.3, 0.6])
    x, points, draws = np.zeros(6), [], np.random.default_rng(7)
    result = bfw.minimize(
        bfw.LeastSquares(A, y), domain, sampling, step="balanced", max_iter=12, tol=0.0, random_state=7,
        callback=lambda t, position: points.append(position.x.copy()),
    )  # fmt: skip
    for t in range(12):
        drawn = sampling.draw(draws)
        gradient = A.T @ (A @ x - y) / 20
        moved = x.copy()
        for i in drawn:
            place = domain.place(i)
            step = 2.0 / (0.3 * t + 2.0) * 0.3 / sampling.probabilities[i]
            moved[place] += step * (domain.blocks[i].oracle(gradient[place]) - x[place])
        x = moved
        assert points[t] == pytest.approx(x, abs=1e-12)
    assert result.n_steps == 12


@pytest.mark.parametrize("step", ["balanced", "line-search"])
@pytest.mark.parametrize("mix", [0.1, 1.0])
def test_bound_holds(step, mix):
    objective, best = unequal()
    C = bfw.block_curvatures(objective, DOMAIN)
    sampling = bfw.ImportanceSampling.from_curvatures(C, mix=mix)
    x0 = np.full(6, 0.5)
    runs, steps = 30, 150
    above = np.zeros(steps + 1)
    start = objective.at(x0).value() - best

    def look(t, position):
        above[t] += position.value() - best

    for seed in range(runs):
        bfw.minimize(
            objective, DOMAIN, sampling, x0=x0, step=step, max_iter=steps, tol=0, gap_every=steps, callback=look,
            random_state=seed,
        )  # fmt: skip
    p = sampling.probabilities
    bound = [bfw.serial_bound(t, start=start, curvatures=C, probabilities=p) for t in range(steps + 1)]
    assert start <= bound[0] * (1 + 1e-14)  # may be equal: then the last digit depends on the processor
    assert (above[1:] / runs <= bound[1:]).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bfw.ImportanceSampling([0.5, 0.4]), r"must be >= 0 and add up to 1; they add up to 0\.9"),
        (lambda: bfw.ImportanceSampling([1.0, 0.0]), r"blocks \[1\] are in no set"),
        (lambda: bfw.ImportanceSampling.from_curvatures([1.0, -1.0]), "curvatures must be >= 0, and one of them > 0"),
        (lambda: bfw.ImportanceSampling.from_curvatures([0.0, 0.0]), "curvatures must be >= 0, and one of them > 0"),
        (lambda: bfw.ImportanceSampling.from_curvatures([1.0, 0.0], mix=0), "would never draw blocks of curvature 0"),
        (lambda: bfw.ImportanceSampling.from_curvatures([1.0], mix=1.5), "mix"),
        (lambda: bfw.serial_bound(3, start=1, curvatures=[1.0], probabilities=[0.5, 0.5]), "got 1 and 2"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(ParameterError, match=words):
        make()
