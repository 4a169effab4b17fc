"""The listings as printed: equal to the optimiser and to Algorithm 2 among parties, where both are without noise."""

import math

import numpy as np
import pytest

from benchmarks.papers.frank_wolfe import theorem_3 as measured
from sottovoce.papers import frank_wolfe as fw
from sottovoce.papers.frank_wolfe import reproduce
from sottovoce.papers.frank_wolfe.algorithm import algorithm_1, algorithm_2
from sottovoce.papers.frank_wolfe.bounds import balls_curvature
from sottovoce.papers.frank_wolfe.noise import published_column_std, published_rows, published_selection_scale
from support.data import VARIABLE


def test_algorithm_1_is_the_optimiser():
    rng = np.random.default_rng(0)
    Q = (A := rng.normal(size=(30, 9))).T @ A
    objective = fw.Quadratic(Q, rng.normal(size=9))
    domain, sampling = fw.ProductDomain.power(fw.L1Ball(3, 1.0), 3), fw.NiceSampling(3, 2)

    drawn = np.random.default_rng(5)
    found = fw.minimize(objective, domain, sampling, max_iter=50, tol=0.0, gap_every=50, random_state=5).x
    *_, x = algorithm_1(
        lambda x, block: (Q @ x + objective.b)[block],
        lambda i, g: domain.blocks[i].oracle(g),
        [domain.place(i) for i in range(3)],
        [sampling.draw(drawn) for _ in range(50)],
        domain.start(),
        sampling.p_min,
    )
    np.testing.assert_allclose(x, found, rtol=0.0, atol=1e-13)


@pytest.fixture(scope="module")
def problem():
    return measured.Problem(300)


def tables(problem):
    """Return tables of 200 rows with A'A and A'y of the problem's 300 people."""
    root = math.sqrt(problem.n) * problem.root
    y = np.linalg.lstsq(root.T, problem.n * problem.moment, rcond=None)[0]
    return np.split(root, 4, axis=1), y


def test_algorithm_2_without_noise_is_the_loop_that_is_measured(problem):
    A, y = tables(problem)
    x = algorithm_2(
        A, y, n=problem.n, eta=1.0, T=45, tau=50, b=0.0, pi=0.0, J=None, rng=np.random.default_rng(0)
    )  # fmt: skip
    loop = measured.printed(problem, 0, choices=False, columns=False, sketch=False)
    np.testing.assert_allclose(x, loop, rtol=0.0, atol=1e-9)


def test_algorithm_2_has_the_law_of_the_loop(problem):
    """Mean risks of 60 models each, with noise and sketch, within five standard errors."""
    (A, y), T, tau, runs, risks = tables(problem), 45, 5, 60, []
    claim, m = {"n_people": 300, "n_steps": T, "epsilon": 1.0, "delta": 1e-5}, published_rows(T, 1e-5, 0.3)
    b, pi = (
        published_selection_scale(1.0, 1.0, **claim),
        published_column_std(math.sqrt(300 / m) + 1, n_parties=4, **claim),
    )
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        J = rng.normal(size=(m, len(y))) / math.sqrt(m)
        risks.append(problem.risk(algorithm_2(A, y, n=300, eta=1.0, T=T, tau=tau, b=b, pi=pi, J=J, rng=rng)))
    loop = [problem.risk(measured.printed(problem, 1000 + seed, tau=tau)) for seed in range(runs)]
    error = math.sqrt((np.var(risks) + np.var(loop)) / runs)
    assert np.mean(risks) == pytest.approx(np.mean(loop), abs=5.0 * error)


def test_curvature_of_the_balls_is_a_bound_and_is_reached():
    balls = fw.ProductDomain.power(fw.L1Ball(2, 1.5), 3)
    bound = balls_curvature(1.5, n_parties=3)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (40, 6))
    assert fw.global_curvature(fw.LeastSquares(signs, np.zeros(40)), balls) <= bound
    assert fw.global_curvature(fw.LeastSquares(np.ones((40, 6)), np.zeros(40)), balls) == pytest.approx(bound)


def test_reproducing_needs_no_data(monkeypatch, capsys):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(reproduce, "theorem_1", lambda: [])
    monkeypatch.setattr(reproduce, "theorem_3_rows", lambda table: [("Theorem 3", "", f"{table.least:.4f}", "")])
    monkeypatch.setattr(reproduce, "remark_1", lambda table: [])
    reproduce.main()
    printed = capsys.readouterr().out
    assert "epsilon = 48,125" in printed
    assert "n^0.70" in printed
    assert list(reproduce.real()) == []
