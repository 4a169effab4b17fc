"""The utility theorems of docs/privacy/dp_scd_utility.md, lemma by lemma: each holds, and is (nearly) attained."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.utility import accumulated_noise, excess_risk_bound
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Hinge, Logistic, SmoothedHinge, Squared
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.report import verify_receipt
from support.proved_passes import (
    gradient,
    logistic_table,
    minimiser,
    mu_of,
    objective,
    proved_plan,
    released_weights,
)

LOSS = Logistic()


def bound_of(n=2000, d=5, alpha=0.01, mu=1.0, **options):
    return excess_risk_bound(LOSS, n_samples=n, n_weights=d, alpha=alpha, mu=mu, **options)


def centres(targets, damping, momentum):
    """Follow one row's dual variable; return what its steps start from, and the steps."""
    a, before, found, steps = 0.0, 0.0, [], []
    for target in targets:
        centre = a + momentum * (a - before)
        step = damping * (target - centre)
        found.append(centre)
        steps.append(step)
        before, a = a, centre + step
    return np.array(found), np.array(steps)


@pytest.mark.parametrize("alpha", [1.0, 0.03, 1e-4])
def test_lemma_1_the_clip_never_binds(alpha):
    bound = bound_of(alpha=alpha, passes=50)
    impulse = np.zeros(3000)
    impulse[0] = 1.0
    weights, _ = centres(impulse, bound.damping, bound.momentum)
    assert weights.min() >= -1e-15
    assert weights.sum() <= 1.0 + 1e-9
    rng = np.random.default_rng(0)
    for targets in (rng.random(2000), rng.random(2000).round(), np.arange(2000) // 300 % 2):
        assert np.abs(centres(targets, bound.damping, bound.momentum)[1]).max() <= bound.clip * (1 + 1e-12)
    assert centres([0.0, 0.0, 1.0], bound.damping, bound.momentum)[1][-1] == pytest.approx(bound.clip)  # it is reached
    more = bound.momentum + 0.1 * (1.0 - bound.momentum)
    assert centres(impulse, bound.damping, more)[0].min() < -1e-6  # with more momentum it would bind


@pytest.mark.parametrize("momentum", [0.0, 0.6, 0.97])
def test_lemma_2_accumulated_noise(momentum):
    passes = 40
    expected = np.zeros(passes)
    for place in range(passes):
        N = before = 0.0
        for step in range(passes):
            seen = N + momentum * (N - before)
            expected[step] += seen**2
            before, N = N, seen + (step == place)
    np.testing.assert_allclose(accumulated_noise(passes, momentum), expected, rtol=1e-12)


@pytest.mark.parametrize("accelerated", [True, False])
def test_lemma_3_a_pass_is_a_gradient_step_that_is_off_by_the_noise(accelerated):
    n, alpha = 300, 0.05
    X, y = logistic_table(n, 3, 1)
    bound = bound_of(n, 3, alpha, passes=30, accelerated=accelerated)
    rng, beta, d = np.random.default_rng(2), bound.momentum, bound.damping
    a = a_before = np.zeros(n)
    v = v_before = w = w_before = N = N_before = np.zeros(3)
    for _ in range(30):
        noise = rng.standard_normal(3)
        centre, seen = a + beta * (a - a_before), v + beta * (v - v_before)
        step = d * (-LOSS.derivative(y, X @ seen / (alpha * n)) - centre)
        a_before, a = a, centre + step
        v_before, v = v, seen + X.T @ step + noise
        point, error = w + beta * (w - w_before), N + beta * (N - N_before)
        slope = gradient(LOSS, X, y, alpha, point) - error / n
        w_before, w = w, point - d / alpha * slope + noise / (alpha * n)
        N_before, N = N, error + noise
        np.testing.assert_allclose(v / (alpha * n), w, atol=1e-12)
        np.testing.assert_allclose(v - X.T @ a, N, atol=1e-12)


@pytest.mark.parametrize("accelerated", [True, False])
def test_the_library_does_these_passes(accelerated):
    n, alpha = 400, 0.02
    X, y = logistic_table(n, 4, 3)
    y[0] *= -1.0
    bound = bound_of(n, 4, alpha, passes=12, accelerated=accelerated)
    plan = proved_plan(bound, LOSS, n_samples=n, n_weights=4, epsilon=1e6)
    w = before = np.zeros(4)
    for _ in range(12):
        point = w + bound.momentum * (w - before)
        before, w = w, point - bound.damping / alpha * gradient(LOSS, X, y, alpha, point)
    np.testing.assert_allclose(released_weights(plan, X, y, 0), w, atol=2e-4 * np.linalg.norm(w))


def test_lemma_4_the_potential_falls_by_the_root_of_the_damping():
    """V+ <= (1 - sqrt d) V + sqrt d (N / n).(W+ - w*), for any point and error; reached by parabolas."""
    rng, alpha, worst = np.random.default_rng(4), 0.001, -np.inf
    d = bound_of(alpha=alpha).damping
    root = math.sqrt(d)
    for trial in range(400):
        if trial % 2:
            X, y = logistic_table(6, 2, trial, length=8.0)
            lowest = minimiser(LOSS, X, y, alpha)

            def value(w, X=X, y=y):
                return objective(LOSS, X, y, alpha, w)

            def slope(w, X=X, y=y):
                return gradient(LOSS, X, y, alpha, w)
        else:
            bend, lowest = alpha + 0.25 * np.array([0.0, rng.random() * (trial % 4)]) / 2.0, np.zeros(2)

            def value(w, bend=bend):
                return 0.5 * float(w @ (bend * w))

            def slope(w, bend=bend):
                return bend * w

        w, W = lowest + rng.standard_normal((2, 2)) * 10.0 ** rng.uniform(-2, 1, (2, 1))
        W = W if trial % 4 else w  # with a flat parabola: where the rate is nearly attained
        error = rng.standard_normal(2) * 10.0 ** rng.uniform(-3, 0) * (trial % 3 > 0)
        point = w + root / (1.0 + root) * (W - w)  # = w + beta (w - w_before), as W = w + (1/root - 1)(w - w_before)
        after = point - d / alpha * (slope(point) - error)
        W_after = w + (after - w) / root
        before = value(w) - value(lowest) + 0.5 * alpha * np.sum((W - lowest) ** 2)
        then = value(after) - value(lowest) + 0.5 * alpha * np.sum((W_after - lowest) ** 2)
        allowed = (1.0 - root) * before + root * float(error @ (W_after - lowest))
        assert then <= allowed + 1e-9 * before
        worst = max(worst, (then - root * float(error @ (W_after - lowest))) / before)
    assert worst > 1.0 - 1.1 * root


def exact(bound, bends, start, n):
    """Return E F(w) - min F after the passes, for a parabola with these second derivatives, exactly."""
    variance, d = (bound.noise_multiplier * bound.clip / (bound.alpha * n)) ** 2, bound.damping
    total = 0.0
    for bend, first in zip(bends, start, strict=True):
        columns = 1 + bound.passes  # what becomes of the start, and of the noise of each pass
        w = before = -first * np.eye(columns)[0]
        N = N_before = np.zeros(columns)
        for step in range(bound.passes):
            fresh = np.eye(columns)[step + 1]
            point, error = w + bound.momentum * (w - before), N + bound.momentum * (N - N_before)
            before, w = w, point - d / bound.alpha * (bend * point - bound.alpha * error) + fresh
            N_before, N = N, error + fresh
        total += 0.5 * bend * (w[0] ** 2 + variance * float(w[1:] @ w[1:]))
    return total


@pytest.mark.parametrize(("accelerated", "reached"), [(False, 0.97), (True, 0.24)])
def test_the_theorems_on_parabolas(accelerated, reached):
    """Where rows are flat the plain bound is met; the accelerated one is four times too large there."""
    n, ratios = 10**6, []
    for alpha in (1.0, 0.1):
        for eigenvalues in ([0.0] * 10, [0.1] * 10, [1.0] + [0.0] * 9, [1.0]):
            for passes in (1, 5, 40, 150):
                bound = bound_of(n, len(eigenvalues), alpha, passes=passes, accelerated=accelerated)
                bends = alpha + LOSS.smoothness * np.array(eigenvalues)
                start = np.sqrt(2.0 * bound.start / len(bends) / bends)
                ratios.append(exact(bound, bends, start, n) / bound.excess_risk)
    assert reached < max(ratios) <= 1.0


@pytest.mark.parametrize(
    ("loss", "accelerated"), [(Logistic(), True), (Logistic(), False), (SmoothedHinge(), True)], ids=str
)
def test_the_theorems_on_runs(loss, accelerated):
    n, d, alpha, epsilon, seeds = 1500, 4, 0.03, 4.0, 20
    X, y = logistic_table(n, d, 5)
    least = objective(loss, X, y, alpha, minimiser(loss, X, y, alpha))
    for averaged in (0.0, 0.45):
        bound = excess_risk_bound(
            loss, n_samples=n, n_weights=d, alpha=alpha, mu=mu_of(epsilon), accelerated=accelerated, averaged=averaged
        )
        plan = proved_plan(bound, loss, n_samples=n, n_weights=d, epsilon=epsilon, averaged=averaged)
        excess = [objective(loss, X, y, alpha, released_weights(plan, X, y, seed)) - least for seed in range(seeds)]
        mean, error = np.mean(excess), np.std(excess, ddof=1) / math.sqrt(seeds)
        assert mean + 4.0 * error < bound.excess_risk < 0.3 * bound.start
        assert bound.excess_risk < 120.0 * mean


@pytest.mark.parametrize("alpha", [0.3, 0.01, 1e-4])
def test_closed_forms(alpha):
    """The corollaries of the page bound the recursions, and are not far from them where there are passes enough."""
    n, d = 10**5, 7
    for factor in (3.0, 12.0, 40.0):
        root = math.sqrt(bound_of(n, d, alpha).damping)
        fast = bound_of(n, d, alpha, passes=math.ceil(factor / root))
        length = fast.passes * root
        closed = 2.0 * math.exp(-length / 2.0) * fast.start + fast.price * (
            length**2 * (1.0 + root) ** 2 / (1.0 - root / 2.0) + 4.0 * length
        )
        assert fast.excess_risk <= closed
        plain = bound_of(n, d, alpha, passes=math.ceil(factor / root**2), accelerated=False)
        length = plain.passes * root**2
        flat = 1.0 + LOSS.smoothness / (alpha * d)
        closed_plain = math.exp(-length) * plain.start + plain.price * (length**2 + length * flat)
        assert plain.excess_risk <= closed_plain
        if factor == 40.0:
            assert closed < 2.5 * fast.excess_risk
            assert closed_plain < 1.2 * plain.excess_risk


def proved_model(**changed):
    given = {
        "epsilon": 2.0, "delta": 1e-5, "data_norm": 1.0, "classes": [-1.0, 1.0], "alpha": 0.05, "solver": "scd",
        "fit_intercept": False, "random_state": 0, "solver_options": {"proved": True},
    }  # fmt: skip
    return sv.DPLogisticRegression(**given | changed)


def test_a_user_can_have_the_proved_run(tmp_path):
    X, y = logistic_table(2000, 20, 6)
    model = proved_model().fit(X, y)
    chosen, plan = model.guarantee_.parameters, model.plan(2000, 20)
    bound = plan.bound_for(chosen["lambda_max (noisy)"])
    assert chosen["passes"] == bound.passes == model.n_iter_
    assert chosen["expected excess risk of the penalised objective, at most"] == bound.excess_risk
    sv.save_model(model, tmp_path / "model.json")
    assert verify_receipt(tmp_path / "model.json").passed
    assert plan.summary()["passes of each model, at most"] >= bound.passes
    assert plan.summary()["expected excess risk of the penalised objective, at most"] >= bound.excess_risk
    w, least = model.coef_.ravel(), objective(LOSS, X, y, 0.05, minimiser(LOSS, X, y, 0.05))
    own = objective(LOSS, X, y, 0.05, w) - least
    assert own < bound.excess_risk
    rules = proved_model(solver_options={"calibration_share": 0.0}).fit(X, y).coef_.ravel()
    assert own < 0.2 * (objective(LOSS, X, y, 0.05, rules) - least)


def test_the_proved_run_at_the_ends_of_the_ranges():
    X, y = logistic_table(30, 3, 7)
    for alpha in (1e-50, 1e-6, 1e6, 1e50):
        for epsilon in (1e-9, 1e6):
            assert np.isfinite(proved_model(alpha=alpha, epsilon=epsilon).fit(X, y).coef_).all()


def test_where_the_proved_run_is_refused():
    with pytest.raises(ParameterError, match="proved must be True or False"):
        sv.plan(proved_model(solver_options={"proved": 1}), 10, 2)
    with pytest.raises(ParameterError, match="calibration_share must be 0 or None with proved=True"):
        sv.plan(proved_model(solver_options={"proved": True, "calibration_share": 0.1}), 10, 2)
    with pytest.raises(ParameterError, match="proved must be False for the logistic loss with 3 rows a person"):
        sv.plan(proved_model(max_rows_per_group=3), 10, 2)
    hinge = sv.DPLinearSVC(
        epsilon=1.0, delta=1e-5, data_norm=1.0, classes=[0, 1], solver="scd", solver_options={"proved": True}
    )
    with pytest.raises(ParameterError, match="proved must be False for the hinge loss"):
        sv.plan(hinge, 10, 2)


def test_dependence_on_the_public_facts():
    base = bound_of(10**5)
    assert bound_of(10**6).excess_risk < base.excess_risk / 50.0
    assert bound_of(10**5, mu=2.0).excess_risk == pytest.approx(bound_of(2 * 10**5).excess_risk)
    assert bound_of(10**5, adjacency=Adjacency.REPLACE_ONE).excess_risk == pytest.approx(
        bound_of(5 * 10**4).excess_risk
    )
    assert base.excess_risk < bound_of(10**5, d=10).excess_risk < 2.0 * base.excess_risk
    assert bound_of(10**5, eigenvalue=0.3).passes < base.passes
    chosen = [bound_of(10**5, passes=passes).excess_risk for passes in (base.passes // 2, 2 * base.passes)]
    assert base.excess_risk < min(chosen)


@pytest.mark.parametrize("loss", [Squared(), Hinge()], ids=lambda loss: loss.name)
def test_other_losses_are_refused(loss):
    with pytest.raises(ParameterError, match="loss must be Logistic or SmoothedHinge"):
        excess_risk_bound(loss, n_samples=10, n_weights=1, alpha=0.1, mu=1.0)


@pytest.mark.parametrize(
    "changed", [{"n": 0}, {"d": 0}, {"alpha": 0.0}, {"mu": 0.0}, {"eigenvalue": 0.0}, {"passes": 0}, {"averaged": 2.0}]
)
def test_numbers_out_of_range_are_refused(changed):
    with pytest.raises(ParameterError, match=r"must be|at least"):
        bound_of(**changed)
