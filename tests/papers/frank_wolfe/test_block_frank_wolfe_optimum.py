"""Block-coordinate Frank-Wolfe against optima found otherwise, and against Theorem 1."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from benchmarks.papers.frank_wolfe import theorem_1 as measured
from benchmarks.papers.frank_wolfe.theorem_1 import hostile
from sottovoce.exceptions import ParameterError
from sottovoce.papers import frank_wolfe as bfw
from support.pairs import by_pairs

D, HALF = 8, 0.5
BOXES = bfw.ProductDomain.intervals(-HALF, HALF, n_blocks=D)


def samplings():
    p = np.random.default_rng(1).uniform(0.15, 0.9, D)
    return {
        "elementary": bfw.ElementarySampling(D),
        "uniform serial": bfw.UniformSerialSampling(D),
        "nice": bfw.NiceSampling(D, 2),
        "distributed": bfw.DistributedSampling(D, 2, 2),
        "independent": bfw.IndependentSampling(p),
    }


def regression():
    """Return A, y and the least mean squared error over the boxes, some of which bind."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, D)) @ (np.eye(D) + 0.3)
    y = A @ rng.normal(0, 0.6, D) + rng.normal(0, 0.5, 30)
    found = lsq_linear(A, y, (-HALF, HALF), tol=1e-14)
    assert 0 < np.count_nonzero(found.active_mask) < D
    return A, y, found.cost / 30


@pytest.mark.parametrize("sampling", samplings().values(), ids=samplings())
@pytest.mark.parametrize("step", ["universal", "line-search"])
def test_least_squares_over_boxes(sampling, step):
    A, y, best = regression()
    result = bfw.minimize(bfw.LeastSquares(A, y), BOXES, sampling, step=step, tol=2e-3, max_iter=30_000, random_state=0)
    assert result.converged
    assert -1e-12 <= result.value - best <= result.gap <= 2e-3


RUNS, STEPS = 20, 150


@pytest.mark.parametrize(
    ("name", "steps"),
    by_pairs(samplings(), [("universal", 0.0), ("listing", 0.05), ("listing", 0.5), ("line-search", 0.0)]),
)
def test_theorem_1(name, steps):
    """The mean of 20 runs stays below the bound at every step, also with errors as large as allowed."""
    step, error = steps
    sampling = samplings()[name]
    A, y, best = regression()
    objective, x0 = bfw.LeastSquares(A, y), np.full(D, 0.9 * HALF)
    C = bfw.expected_curvature(objective, BOXES, sampling)
    n_runs = 1 if name == "elementary" else RUNS
    above, gaps = np.zeros((2, n_runs, STEPS + 1))
    for r in range(n_runs):

        def look(t, position, r=r):
            above[r, t] = position.value() - best
            gaps[r, t] = BOXES.gaps(position.x, position.gradient(slice(None))).sum()

        look(0, objective.at(x0))
        if step == "listing":
            for t, x in enumerate(hostile(objective, BOXES, sampling, x0, error, C, STEPS, r), 1):
                look(t, objective.at(x))
        else:
            bfw.minimize(objective, BOXES, sampling, x0=x0, step=step, max_iter=STEPS, tol=0.0, gap_every=STEPS,
                callback=look, random_state=r)  # fmt: skip
    h0, p, t = above[0, 0], sampling.p_min, np.arange(STEPS + 1)
    rho = bfw.inexactness(sampling, BOXES, gradient_error=error, oracle_error=error)
    facts = {"start": h0, "curvature": C, "p_min": p, "inexactness": rho}
    bounds = np.array([bfw.theorem_1_bound(int(step), **facts) for step in t])
    mean = above.mean(axis=0)
    assert (mean <= bounds + 1e-12).all()
    # the two sharper statements of the page: K for t >= 1, and the least gap
    c = (1 + rho) * C
    assert (mean[1:] <= 2 * max(c / p, (1 + p / 2) * ((1 - p) * h0 + c / 2)) / (p * t[1:] + 2) + 1e-12).all()
    least_gap = 6 * max(h0, c / p) / (p * t + 4) + 4 * h0 / (p * (t + 1) * (p * t + 4))
    assert (np.minimum.accumulate(gaps.mean(axis=0)) <= least_gap).all()
    assert (above <= gaps + 1e-12).all()


# --- stopping, hostile pairs, bad input -------------------------------------------------------------------------------

MIXED = bfw.ProductDomain([bfw.Box(-1, [1, 0]), bfw.L1Ball(3, 2.0), bfw.Simplex(3), bfw.L2Ball(2, 1.5)])


def least_squares(domain=MIXED, seed=0, n_rows=12):
    rng = np.random.default_rng(seed)
    return bfw.LeastSquares(rng.normal(size=(n_rows, domain.n_coordinates)), rng.normal(size=n_rows))


@pytest.mark.parametrize("step", ["universal", "line-search", "balanced"])
@pytest.mark.parametrize("sampling", [bfw.NiceSampling(4, 2), bfw.IndependentSampling([0.3, 0.6, 1.0, 0.1])])
def test_every_iterate_is_in_the_domain(sampling, step):
    gaps = []

    def check(t, position):
        assert MIXED.contains(position.x)
        gaps.append(MIXED.gaps(position.x, position.gradient(slice(None))).sum())

    result = bfw.minimize(
        least_squares(), MIXED, sampling, step=step, max_iter=300, tol=0.0, callback=check, random_state=0
    )
    assert result.n_steps == 300
    assert result.gap < 0.3 * gaps[0]


def test_stops_and_history():
    objective, sampling = least_squares(), bfw.UniformSerialSampling(4)
    free = bfw.minimize(objective, MIXED, sampling, max_iter=1000, tol=0.0, gap_every=300, random_state=0)
    assert free.stop_reason == "max_iter"
    assert not free.converged
    assert free.n_block_updates == 1000
    assert free.value == pytest.approx(objective.at(free.x).value())
    assert free.gap == pytest.approx(MIXED.gaps(free.x, objective.at(free.x).gradient(slice(None))).sum())

    stopped = bfw.minimize(objective, MIXED, sampling, tol=0.02, random_state=0)
    assert stopped.converged
    assert stopped.gap <= 0.02
    before = bfw.minimize(objective, MIXED, sampling, tol=0.0, max_iter=stopped.n_steps - 4, random_state=0)
    assert before.gap > 0.02  # looked at four steps earlier, and not stopped
    again = bfw.minimize(objective, MIXED, sampling, x0=stopped.x, tol=0.03, random_state=0)
    assert (again.n_steps, again.stop_reason) == (0, "gap")
    assert np.array_equal(again.x, stopped.x)
    called = bfw.minimize(objective, MIXED, sampling, callback=lambda t, _: t == 7, random_state=0)
    assert (called.n_steps, called.stop_reason) == (7, "callback")
    none = bfw.minimize(objective, MIXED, sampling, max_iter=0)
    assert (none.n_steps, none.stop_reason) == (0, "max_iter")
    assert np.array_equal(none.x, MIXED.start())


def test_the_hostile_pair_goes_to_the_limits_of_assumption_1(monkeypatch):
    objective, sampling = least_squares(), bfw.NiceSampling(4, 2)
    asked = {}
    monkeypatch.setattr(measured, "algorithm_1", lambda *given: asked.update(zip("gobsxp", given, strict=True)) or [])
    for error, curvature in ((0.1, 3.0), (5.0, 8.0)):
        measured.hostile(objective, MIXED, sampling, MIXED.start(), error, curvature, 3, 0)
        for t, _ in enumerate(asked["s"]):
            allowed = error * curvature / (sampling.p_min * t + 2)
            for i, block in enumerate(MIXED.blocks):
                exact = objective.at(MIXED.start()).gradient(MIXED.place(i))
                assert np.linalg.norm(asked["g"](MIXED.start(), MIXED.place(i)) - exact) == pytest.approx(allowed)
                s, best, worst = asked["o"](i, exact), block.oracle(exact), block.oracle(-exact)
                assert block.contains(s)
                assert (s - best) @ exact == pytest.approx(min(allowed, (worst - best) @ exact))


def test_inexactness_by_hand():
    sampling = bfw.NiceSampling(4, 2)
    rho = bfw.inexactness(sampling, MIXED, gradient_error=0.1, oracle_error=0.2)
    assert rho == pytest.approx(0.5 * (0.1 * MIXED.diameters.sum() + 4 * 0.2))
    assert rho <= sampling.expected_size * (MIXED.diameters.max() * 0.1 + 0.2)


def test_bounds_by_hand():
    assert bfw.theorem_1_bound(6, start=1.0, curvature=3.0, p_min=0.5, inexactness=0.5) == pytest.approx(0.4 * 10.0)


def run(objective=None, domain=MIXED, sampling=None, **options):
    objective = least_squares() if objective is None else objective
    return bfw.minimize(objective, domain, sampling or bfw.NiceSampling(4, 2), **options)


FAULTS = {
    "coordinates": (lambda: run(bfw.Quadratic(np.eye(3))), "domain has 10 coordinates, the objective 3"),
    "blocks": (lambda: run(sampling=bfw.NiceSampling(5, 2)), "sampling is one of 5 blocks"),
    "x0 outside": (lambda: run(x0=np.full(10, 9.0)), "x0 must be a point of the domain"),
    "x0 short": (lambda: run(x0=[1.0]), "x0 must be a vector of 10"),
    "x0 nan": (lambda: run(x0=np.full(10, np.nan)), "x0 holds NaN"),
    "step": (lambda: run(step="fast"), "step must be one of"),
    "step number": (lambda: run(step=0.5), "step must be one of"),
    "max_iter": (lambda: run(max_iter=-1), "max_iter must be"),
    "tol": (lambda: run(tol=np.nan), "tol must be"),
    "gap_every": (lambda: run(gap_every=0), "gap_every must be"),
    "random_state": (lambda: run(random_state="x"), "random_state must be"),
    "p_min": (lambda: bfw.theorem_1_bound(1, start=1, curvature=1, p_min=0.0), "p_min must be"),
    "start": (lambda: bfw.theorem_1_bound(1, start=-1, curvature=1, p_min=0.5), "start must be"),
    "errors": (lambda: bfw.inexactness(bfw.NiceSampling(4, 2), MIXED, gradient_error=-1.0), "gradient_error must"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), FAULTS.values(), ids=FAULTS)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()
