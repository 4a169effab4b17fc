"""Runs of block-coordinate Frank-Wolfe: stopping, the hostile pair of Assumption 1, bad input."""

import numpy as np
import pytest

from benchmarks.papers.frank_wolfe import theorem_1 as measured
from sottovoce.exceptions import ParameterError
from sottovoce.papers import frank_wolfe as bfw

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
