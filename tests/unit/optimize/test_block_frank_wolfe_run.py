"""Runs of block-coordinate Frank-Wolfe: stopping, inexactness, what callers supply, bad input."""

import numpy as np
import pytest

from sottovoce import optimize as bfw
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.optimize import theory

MIXED = bfw.ProductDomain([bfw.Box(-1, [1, 0]), bfw.L1Ball(3, 2.0), bfw.Simplex(3), bfw.L2Ball(2, 1.5)])


def least_squares(domain=MIXED, seed=0, n_rows=12):
    rng = np.random.default_rng(seed)
    return bfw.LeastSquares(rng.normal(size=(n_rows, domain.n_coordinates)), rng.normal(size=n_rows))


@pytest.mark.parametrize("step", ["universal", "line-search", lambda t: 2 / (t + 2)])
@pytest.mark.parametrize("sampling", [bfw.NiceSampling(4, 2), bfw.IndependentSampling([0.3, 0.6, 1.0, 0.1])])
def test_every_iterate_is_in_the_domain(sampling, step):
    def check(t, position):
        assert MIXED.contains(position.x)

    result = bfw.block_frank_wolfe(
        least_squares(), MIXED, sampling, step=step, max_iter=300, tol=0.0, callback=check, random_state=0
    )
    assert result.n_steps == 300
    assert result.history.gaps[-1] < 0.2 * result.history.gaps[0]


def test_one_step_by_hand():
    """The set that is drawn moves by the universal step toward its minimisers, and nothing else moves."""
    objective, x0 = least_squares(), MIXED.start()
    sampling = bfw.ExplicitSampling(4, [[0, 2], [1, 3]], [0.25, 0.75])
    seen = []
    bfw.block_frank_wolfe(objective, MIXED, sampling, max_iter=5, tol=0.0, random_state=1,
        callback=lambda t, position: seen.append(position.x.copy()))  # fmt: skip
    rng, x = np.random.default_rng(1), x0
    for t in range(5):
        chosen = sampling.draw(rng)
        c = MIXED.coordinates(chosen)
        x = x.copy()
        x[c] += 2 / (0.25 * t + 2) * (MIXED.oracle(objective.at(x).gradient(slice(None)))[c] - x[c])
        assert seen[t] == pytest.approx(x)


def test_seeded_runs_repeat_and_others_differ():
    def run(state):
        return bfw.block_frank_wolfe(least_squares(), MIXED, bfw.NiceSampling(4, 2), max_iter=20, random_state=state).x

    assert np.array_equal(run(3), run(3))
    assert not np.array_equal(run(3), run(4))
    assert np.array_equal(run(3), run(np.random.default_rng(3)))


def test_stops_and_history():
    objective, sampling = least_squares(), bfw.UniformSerialSampling(4)
    free = bfw.block_frank_wolfe(objective, MIXED, sampling, max_iter=1000, tol=0.0, gap_every=300, random_state=0)
    assert free.stop_reason == "max_iter"
    assert not free.converged
    assert free.history.steps.tolist() == [0, 300, 600, 900, 1000]
    assert free.n_block_updates == 1000
    assert (free.value, free.gap) == (free.history.values[-1], free.history.gaps[-1])
    assert free.value == pytest.approx(objective.at(free.x).value())
    assert free.gap == pytest.approx(MIXED.gaps(free.x, objective.at(free.x).gradient(slice(None))).sum())

    stopped = bfw.block_frank_wolfe(objective, MIXED, sampling, tol=0.02, random_state=0)
    assert stopped.converged
    assert stopped.gap <= 0.02 < stopped.history.gaps[-2]
    again = bfw.block_frank_wolfe(objective, MIXED, sampling, x0=stopped.x, tol=0.03, random_state=0)
    assert (again.n_steps, again.stop_reason) == (0, "gap")
    assert np.array_equal(again.x, stopped.x)
    called = bfw.block_frank_wolfe(objective, MIXED, sampling, callback=lambda t, _: t == 7, random_state=0)
    assert (called.n_steps, called.stop_reason) == (7, "callback")
    none = bfw.block_frank_wolfe(objective, MIXED, sampling, max_iter=0)
    assert (none.n_steps, none.stop_reason) == (0, "max_iter")
    assert np.array_equal(none.x, MIXED.start())


def test_the_tolerance_met_at_the_last_step_counts():
    objective, sampling = least_squares(), bfw.ElementarySampling(4)
    for gap in ("full", "sampled"):
        result = bfw.block_frank_wolfe(objective, MIXED, sampling, tol=0.05, max_iter=500, gap=gap, gap_every=1000)
        assert (result.n_steps, result.stop_reason) == (500, "gap")


def test_sampled_gaps_ask_for_few_whole_gradients():
    """And the stop still rests on a whole gap."""
    asked = {"full": 0, "sampled": 0}
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(30, 10)), rng.normal(size=30)
    domain = bfw.ProductDomain.intervals(-0.3, 0.3, n_blocks=10)
    for gap in asked:

        def partial(x, coordinates, gap=gap):
            asked[gap] += isinstance(coordinates, slice)
            return (A.T @ (A @ x - y))[coordinates]

        objective = bfw.SmoothFunction(lambda x: 0.5 * float(((A @ x - y) ** 2).sum()), None, 10,
                                       partial_gradient=partial)  # fmt: skip
        result = bfw.block_frank_wolfe(objective, domain, bfw.UniformSerialSampling(10), step="line-search", tol=1e-3,
            gap=gap, random_state=0)  # fmt: skip
        assert result.converged
        assert result.gap <= 1e-3
        assert result.gap == pytest.approx(domain.gaps(result.x, A.T @ (A @ result.x - y)).sum(), abs=1e-12)
    assert asked["sampled"] <= 4 < asked["full"]


def test_the_sampled_gap_is_unbiased():
    """Averaged over the sets by their probabilities, sum of gap_i / p_i is the whole gap."""
    objective = least_squares()
    sampling = bfw.ExplicitSampling(4, [[0, 1], [2], [1, 2, 3], []], [0.4, 0.2, 0.3, 0.1])
    gaps = MIXED.gaps(MIXED.start(), objective.at(MIXED.start()).gradient(slice(None)))
    from sottovoce.optimize.algorithm import _Run

    mean = sum(
        chance * _Run(objective, MIXED, sampling, None, None, None).move(chosen, 1.0, None, False)
        for chosen, chance in sampling.support()
    )
    assert mean == pytest.approx(gaps.sum())


def test_line_search_never_goes_up():
    rng = np.random.default_rng(0)
    logistic = bfw.GeneralizedLinear(rng.normal(size=(20, 10)), np.sign(rng.normal(size=20)), Logistic())
    values = []
    bfw.block_frank_wolfe(logistic, MIXED, bfw.NiceSampling(4, 2), step="line-search", max_iter=300, random_state=0,
        callback=lambda t, position: values.append(position.value()))  # fmt: skip
    assert (np.diff(values) <= 1e-12).all()


def test_the_adversarial_pair_goes_to_the_limits_of_assumption_1():
    objective = least_squares()
    sampling = bfw.NiceSampling(4, 2)
    position, blocks = objective.at(MIXED.start()), np.array([1, 2, 3])
    c = MIXED.coordinates(blocks)
    exact = position.gradient(c)
    for error, step, curvature in ((0.1, 0.5, 3.0), (5.0, 1.0, 8.0)):
        allowed = error * step * curvature / 2
        poor = theory.AdversarialGradient(MIXED, error, curvature)(position, blocks, c, step)
        lengths = np.sqrt(MIXED.sum_by_block((poor - exact) ** 2, blocks))
        assert lengths == pytest.approx(np.full(3, allowed))
        s = theory.AdversarialOracle(MIXED, error, curvature)(exact, blocks, step)
        assert MIXED.contains(s, blocks)
        best, worst = MIXED.oracle(exact, blocks), MIXED.oracle(-exact, blocks)
        excess = MIXED.sum_by_block((s - best) * exact, blocks)
        most = np.minimum(allowed, MIXED.sum_by_block((worst - best) * exact, blocks))
        assert excess == pytest.approx(most)
    assert theory.inexactness(sampling, MIXED, gradient_error=0.1, oracle_error=0.2) == pytest.approx(
        0.5 * (0.1 * MIXED.diameters.sum() + 4 * 0.2)
    )
    largest = sampling.expected_size * (MIXED.diameters.max() * 0.1 + 0.2)
    assert theory.inexactness(sampling, MIXED, gradient_error=0.1, oracle_error=0.2) <= largest


def test_an_exact_pair_that_is_supplied_changes_nothing():
    objective, sampling = least_squares(), bfw.NiceSampling(4, 2)
    plain = bfw.block_frank_wolfe(objective, MIXED, sampling, max_iter=50, random_state=0)
    gradient, oracle = theory.AdversarialGradient(MIXED, 0.0, 1.0), theory.AdversarialOracle(MIXED, 0.0, 1.0)
    supplied = bfw.block_frank_wolfe(
        objective, MIXED, sampling, max_iter=50, random_state=0, inexact_gradient=gradient, inexact_oracle=oracle
    )
    assert supplied.x == pytest.approx(plain.x)


def test_bounds_by_hand():
    assert theory.universal_step(6, 0.5) == 0.4
    assert theory.theorem_1_bound(6, start=1.0, curvature=3.0, p_min=0.5, inexactness=0.5) == pytest.approx(0.4 * 10.0)
    assert theory.gap_bound(6, start=1.0, curvature=3.0, p_min=0.5, inexactness=0.5) == pytest.approx(
        6 * 9 / 7 + 4 / (0.5 * 7 * 7)
    )
    assert theory.sharp_bound(6, start=1.0, curvature=3.0, p_min=0.5, inexactness=0.5) == pytest.approx(0.4 * 9.0)
    assert theory.sharp_bound(6, start=100.0, curvature=3.0, p_min=0.5) == pytest.approx(0.4 * 1.25 * 51.5)
    assert theory.sharp_bound(0, start=100.0, curvature=3.0, p_min=0.5) == 100.0
    assert theory.sharp_bound(8, start=100.0, curvature=3.0, p_min=1.0) == pytest.approx(2 * 3 / 10)  # Jaggi's


def test_the_sharp_bound_is_never_above_theorem_1():
    for t in (0, 1, 2, 50):
        for start in (0.0, 0.1, 10.0):
            for p in (0.01, 0.5, 1.0):
                facts = {"start": start, "curvature": 2.0, "p_min": p, "inexactness": 0.3}
                assert theory.sharp_bound(t, **facts) <= theory.theorem_1_bound(t, **facts)


def run(objective=None, domain=MIXED, sampling=None, **options):
    objective = least_squares() if objective is None else objective
    return bfw.block_frank_wolfe(objective, domain, sampling or bfw.NiceSampling(4, 2), **options)


FAULTS = {
    "domain": (lambda: run(domain=3), "domain must be a ProductDomain"),
    "sampling": (lambda: run(sampling=3), "sampling must be a Sampling"),
    "objective": (lambda: run(np.sum), "objective must be one such as"),
    "coordinates": (lambda: run(bfw.Quadratic(np.eye(3))), "domain has 10 coordinates, the objective 3"),
    "blocks": (lambda: run(sampling=bfw.NiceSampling(5, 2)), "sampling is one of 5 blocks"),
    "not proper": (lambda: run(sampling=bfw.ElementarySampling(4, [0, 2])), r"never draws the blocks \[1, 3\]"),
    "x0 outside": (lambda: run(x0=np.full(10, 9.0)), "x0 must be a point of the domain"),
    "x0 short": (lambda: run(x0=[1.0]), "x0 must be a vector of 10"),
    "x0 nan": (lambda: run(x0=np.full(10, np.nan)), "x0 holds NaN"),
    "step": (lambda: run(step="fast"), "step must be one of"),
    "step number": (lambda: run(step=0.5), "step must be 'universal'"),
    "step too long": (lambda: run(step=lambda t: 1.5), r"step\(t\) must be"),
    "step nan": (lambda: run(step=lambda t: np.nan), r"step\(t\) must be"),
    "max_iter": (lambda: run(max_iter=-1), "max_iter must be"),
    "tol": (lambda: run(tol=np.nan), "tol must be"),
    "gap": (lambda: run(gap="none"), "gap must be one of"),
    "gap_every": (lambda: run(gap_every=0), "gap_every must be"),
    "callback": (lambda: run(callback=3), "callback must be a function"),
    "random_state": (lambda: run(random_state="x"), "random_state must be"),
    "gradient supplied": (lambda: run(inexact_gradient=3), "inexact_gradient must be a function"),
    "gradient short": (lambda: run(inexact_gradient=lambda *a: np.zeros(1)), "inexact_gradient must return"),
    "gradient nan": (lambda: run(inexact_gradient=lambda p, b, c, s: np.nan * p.x[c]), "inexact_gradient must return"),
    "oracle outside": (lambda: run(inexact_oracle=lambda g, b, s: np.full(len(g), 9.0)), "one is outside"),
    "oracle nan": (lambda: run(inexact_oracle=lambda g, b, s: np.nan * g), "inexact_oracle must return"),
    "function": (lambda: run(bfw.SmoothFunction(lambda x: np.nan, np.zeros_like, 10)), "must return a finite number"),
    "derivative": (
        lambda: run(bfw.SmoothFunction(lambda x: 0.0, lambda x: x * np.nan, 10)), "finite partial derivatives",
    ),
    "derivatives": (lambda: run(bfw.SmoothFunction(lambda x: 0.0, lambda x: x[:2], 10)), "must return 10 numbers"),
    "p_min": (lambda: theory.theorem_1_bound(1, start=1, curvature=1, p_min=0.0), "p_min must be"),
    "start": (lambda: theory.gap_bound(1, start=-1, curvature=1, p_min=0.5), "start must be"),
    "errors": (lambda: theory.inexactness(bfw.NiceSampling(4, 2), MIXED, gradient_error=-1.0), "gradient_error must"),
    "error": (lambda: theory.AdversarialOracle(MIXED, np.nan, 1.0), "error must be"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), FAULTS.values(), ids=FAULTS)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()
