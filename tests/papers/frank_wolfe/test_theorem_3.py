"""Theorem 3 of Lou and Cheung: its formula, the floor that sampling leaves, and the loop that measures it."""

import math

import numpy as np
import pytest

from benchmarks.papers.frank_wolfe import theorem_3 as measured
from sottovoce.exceptions import ParameterError
from sottovoce.papers import frank_wolfe as bfw
from sottovoce.papers.frank_wolfe.bounds import theorem_3, weight_cap
from sottovoce.papers.frank_wolfe.noise import published_column_std, published_selection_scale

FACTS = {
    "n_columns": 200, "n_parties": 4, "sampled_columns": 10, "epsilon": 0.5, "delta": 1e-6, "radius": 2.0,
    "curvature": 30.0, "slope_bound": 0.7,
}  # fmt: skip


@pytest.fixture(scope="module")
def problem():
    return measured.Problem(300)


def test_formula_as_printed():
    bound = theorem_3(n_people=5000, sketch_rows=100, **FACTS)
    both = bound.gradient_constant + bound.oracle_constant
    assert bound.sampling_rate == pytest.approx(0.2)
    assert bound.n_steps == pytest.approx((30.0 * 5000 * 0.5 / both) ** (2 / 3))
    logarithm = math.log(2 * 0.7 * 2.0 * 4 * 10 * 5000)
    assert bound.risk == pytest.approx(
        both ** (2 / 3) * 30.0 ** (1 / 3) * logarithm / (0.2**2 * (5000 * 0.5) ** (2 / 3))
    )


def test_constants_are_the_printed_noise():
    """C sqrt(T) / (n epsilon) is the noise on a choice, and on a gradient through a column."""
    n, T = 5000, 77
    bound = theorem_3(n_people=n, sketch_rows=100, **FACTS)
    unit = math.sqrt(T) / (n * 0.5)
    claim = {"n_people": n, "n_steps": T, "epsilon": 0.5, "delta": 1e-6}
    assert bound.oracle_constant * unit == pytest.approx(published_selection_scale(0.7, 2.0, **claim))
    std = published_column_std(math.sqrt(n / 100) + 1.0, n_parties=4, **claim)
    # a column of norm sqrt(n), four of them with weight 2 in all, independent noise
    assert bound.gradient_constant * unit == pytest.approx(math.sqrt(n) * 2.0 * math.sqrt(4) * std / n)


def test_a_sketch_needs_more_noise_not_less():
    """The paper says the contrary; a column without a sketch has the error 1 / sqrt(n), with one 1 / sqrt(m)."""
    for n in (10_000, 1_000_000):
        raw = theorem_3(n_people=n, **FACTS)
        sketched = theorem_3(n_people=n, sketch_rows=230, **FACTS)
        assert sketched.gradient_constant / raw.gradient_constant == pytest.approx(math.sqrt(n / 230) + 1.0)


def test_the_loop_without_noise_and_sketch_is_frank_wolfe_over_a_product_of_balls(problem):
    x = measured.printed(problem, 0, choices=False, columns=False, sketch=False)
    result = bfw.minimize(
        bfw.Quadratic(problem.gram, -problem.moment), bfw.ProductDomain.power(bfw.L1Ball(50, 1.0), 4),
        bfw.ElementarySampling(4), max_iter=45, tol=0.0, gap_every=45,
    )  # fmt: skip
    assert x == pytest.approx(result.x, abs=1e-9)


@pytest.mark.parametrize("choices", [True, False])
def test_weights_have_a_mean_within_their_cap(problem, choices):
    """Whatever the noise is: a column that is seldom drawn has little weight."""
    runs = 80
    cap = weight_cap(1.0, sampled_columns=2, n_columns_of_party=50)
    models = np.array([measured.printed(problem, seed, tau=2, choices=choices) for seed in range(runs)])
    spread = models.std(axis=0) / math.sqrt(runs)
    assert (np.abs(models.mean(axis=0)) <= cap + 5.0 * spread).all()
    assert np.abs(models).max() > 2 * cap  # of one run it says nothing
    excess = np.array([problem.risk(x) for x in models])
    assert excess.mean() >= problem.least_within(cap)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: theorem_3(n_people=100, **{**FACTS, "sampled_columns": 51}), "sampled_columns"),
        (lambda: theorem_3(n_people=100, **{**FACTS, "curvature": 0.0}), "curvature"),
        (lambda: weight_cap(1.0, sampled_columns=3, n_columns_of_party=2), "sampled_columns"),
        (lambda: weight_cap(0.0, sampled_columns=1, n_columns_of_party=2), "radius"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(ParameterError, match=words):
        make()
