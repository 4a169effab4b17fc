"""Objective perturbation: the plan, the optimiser that always gets there, the receipt, and what is refused."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.central import newton
from sottovoce.central.data.rows import make_rows
from sottovoce.central.newton import PerturbedObjective, gradient_rounding, minimise
from sottovoce.central.parallel import team
from sottovoce.central.solvers import objective_perturbation
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.losses import Logistic, SmoothedHinge
from sottovoce.privacy.accounting import flatten
from sottovoce.privacy.events import GaussianEvent, ObjectivePerturbationEvent
from sottovoce.privacy.guarantee import Guarantee

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 6))
X /= np.linalg.norm(X, axis=1, keepdims=True)
SIGN = np.where(X[:, 0] > 0.1, 1, -1)
THREE = np.argmax(X[:, :3], axis=1)


def logistic(**changed):
    return sv.DPLogisticRegression(
        **{"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "classes": [-1, 1], "random_state": 0,
           "solver": "objective", **changed}
    )  # fmt: skip


def svc(**changed):
    return sv.DPLinearSVC(**{**logistic().get_params(), **changed})


# --- plan and receipt -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "y", "changed"),
    [
        pytest.param(logistic, SIGN, {}, id="logistic"),
        pytest.param(svc, SIGN, {}, id="hinge"),
        pytest.param(logistic, THREE, {"classes": [0, 1, 2]}, id="three classes"),
        pytest.param(logistic, SIGN, {"adjacency": "add-remove", "n_public": 250}, id="add-remove"),
        pytest.param(svc, SIGN, {"solver_options": {"smoothing": 0.3, "penalty": 7.0}}, id="options"),
    ],
)
def test_the_run_is_what_the_plan_says(make, y, changed, monkeypatch):
    """The noise that is drawn, the events of the receipt and the budget agree."""
    scales = []
    original = PerturbedObjective.__init__

    def record(self, rows, y, loss, penalty, linear, team):
        scales.append((penalty, float(np.std(linear)), loss))
        original(self, rows, y, loss, penalty, linear, team)

    monkeypatch.setattr(PerturbedObjective, "__init__", record)
    model = make(**changed)
    plan = sv.plan(model, *X.shape)
    model.fit(X, y)
    receipt = model.guarantee_
    assert receipt.epsilon == 1.0
    assert 0.995 <= receipt.epsilon_at(1e-5) <= 1.0
    assert receipt.delta_at(1.0) <= 1e-5
    multiplier, slack = plan.noise_multiplier, (1 + 2.0**-20) ** 2
    assert flatten(receipt.event) == {
        ObjectivePerturbationEvent(
            multiplier, plan.trained_loss.smoothness * slack / plan.total_penalty
        ): plan.n_models,
        GaussianEvent(32.0 * multiplier): plan.n_models,
    }
    assert receipt.event == plan.event
    assert Guarantee.from_json(receipt.to_json()).event == receipt.event
    assert "minimiser of a perturbed objective" in dict(receipt.rows())["accounted event"]
    assert len(scales) == plan.n_models
    for penalty, std, loss in scales:
        assert penalty == plan.total_penalty
        assert loss == plan.trained_loss
        assert 0.3 * multiplier < std < 2.2 * multiplier  # seven draws
    output = plan.output_mechanism
    assert output.noise_multiplier == 32.0 * multiplier
    assert output.l2_sensitivity >= 2.0 * plan.gradient_tolerance / plan.total_penalty
    assert model.n_iter_ == 1
    assert receipt.proof == "docs/privacy/objective_perturbation.md"


def test_the_linear_term_has_the_planned_scale(monkeypatch):
    """Many weights, so that the scale can be seen to within a few percent."""
    rng = np.random.default_rng(1)
    seen = []
    monkeypatch.setattr(
        objective_perturbation, "minimise", lambda objective, tolerance: seen.append(objective.linear) or 0 * seen[0]
    )
    wide = sp.random_array((50, 8000), density=0.01, rng=rng, format="csr")
    model = logistic(data_norm=100.0)
    model.fit(wide, SIGN[:50])
    planned = sv.plan(model, *wide.shape).noise_multiplier
    assert np.std(seen[0]) == pytest.approx(planned, rel=0.04)
    assert abs(np.mean(seen[0])) < 5 * planned / math.sqrt(8000)


def test_the_hinge_is_smoothed_and_the_receipt_says_so():
    receipt = svc(solver_options={"smoothing": 0.25}).fit(X, SIGN).guarantee_
    assert receipt.parameters["loss"] == "hinge"
    assert receipt.parameters["loss that is minimised"] == "smoothed hinge (smoothing 0.25)"
    assert "smoothed hinge (smoothing 0.25)" in receipt.mechanism


def test_the_penalty_follows_public_facts():
    def penalty(n, d, **changed):
        return sv.plan(logistic(**changed), n, d).total_penalty

    assert penalty(1000, 20) == penalty(1000, 20)
    assert penalty(1000, 20, epsilon=0.1) > 5 * penalty(1000, 20)  # the curvature must stay cheap
    assert penalty(1000, 100_000) > 10 * penalty(1000, 20)  # wide tables: more noise
    assert penalty(1000, 20, alpha=0.1, fit_intercept=False) == pytest.approx(100.0)  # never below alpha n
    assert penalty(1000, 20, solver_options={"penalty": 3.5}) == 3.5
    ratio = sv.plan(logistic(epsilon=0.5), 1000, 20).curvature_ratio
    assert math.log1p(ratio) <= 0.15 * 0.5 * (1 + 1e-5)


def test_more_models_share_the_budget():
    two, ten = logistic(), logistic(classes=list(range(10)))
    options = {"solver_options": {"penalty": 50.0}}
    one = sv.plan(two.set_params(**options), 300, 6).noise_multiplier
    all_ten = sv.plan(ten.set_params(**options), 300, 6).noise_multiplier
    assert 0.95 * math.sqrt(10) * one < all_ten < 1.3 * math.sqrt(10) * one


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 30.0, 1000.0])
def test_tiny_and_huge_budgets_train(epsilon):
    model = logistic(epsilon=epsilon).fit(X, SIGN)
    assert np.all(np.isfinite(model.coef_))
    assert 0.95 * epsilon <= model.guarantee_.epsilon_at(1e-5) <= epsilon
    if epsilon >= 30.0:
        assert model.score(X, SIGN) > 0.9


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_and_sparse_agree_and_a_seed_repeats(dtype):
    dense, again = (logistic().fit(X.astype(dtype), SIGN).coef_ for _ in range(2))
    np.testing.assert_array_equal(dense, again)
    sparse = logistic().fit(sp.csr_matrix(X.astype(dtype)), SIGN).coef_
    np.testing.assert_allclose(sparse, dense, atol=1e-4)
    other = logistic(random_state=1).fit(X.astype(dtype), SIGN).coef_
    assert np.abs(other - dense).max() > 0.1


# --- the optimiser ----------------------------------------------------------------------------------------------------


def objective(threads, loss, penalty=3.0, scale=3.0, matrix=X):
    rows = make_rows(matrix, data_norm=1.0, constant=0.2, names=None, team=threads)
    linear = scale * np.random.default_rng(1).normal(size=rows.n_weights)
    return PerturbedObjective(rows, SIGN[: matrix.shape[0]].astype(float), loss, penalty, linear, threads)


def exact_gradient(problem, w):
    """In extended precision, from the definition."""
    rows = problem.rows
    raw = rows.raw.toarray() if sp.issparse(rows.raw) else rows.raw
    full = np.hstack([raw * rows.scale[:, None], np.full((len(raw), 1), rows.constant)]).astype(np.longdouble)
    m = full @ w.astype(np.longdouble)
    y = problem.y.astype(np.longdouble)
    if isinstance(problem.loss, Logistic):
        slope = -y / (1 + np.exp(y * m))
    else:
        slope = -y * np.clip((1 - y * m) / problem.loss.smoothing, 0, 1)
    return full.T @ slope + problem.penalty * w + problem.linear


@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(1.0), SmoothedHinge(0.05)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("way", ["factored", "conjugate gradients", "gradient steps"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_every_way_reaches_the_tolerance(loss, way, sparse, monkeypatch):
    if way == "conjugate gradients":
        monkeypatch.setattr(newton, "_FACTORED", 0)
    elif way == "gradient steps":
        monkeypatch.setattr(newton, "_NEWTON_STEPS", 0)
    with team(1) as threads:
        problem = objective(threads, loss, matrix=sp.csr_matrix(X) if sparse else X)
        w = minimise(problem, 1e-8)
        truth = exact_gradient(problem, w)
        assert float(np.linalg.norm(truth)) <= 1e-8
        error = problem.gradient(w, problem.rows.margins(w, threads)) - truth
        assert float(np.linalg.norm(error)) <= problem.error(w) < 1e-8


def test_a_stalled_newton_method_goes_on_by_gradient_steps(monkeypatch):
    monkeypatch.setattr(newton, "_line_search", lambda *arguments: None)
    with team(1) as threads:
        problem = objective(threads, Logistic())
        assert np.linalg.norm(exact_gradient(problem, minimise(problem, 1e-7))) <= 1e-7


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1e3, 1e6])
@pytest.mark.parametrize("penalty", [1e-3, 1.0, 1e6])
def test_extreme_problems_are_solved(scale, penalty):
    with team(1) as threads:
        problem = objective(threads, SmoothedHinge(0.5), penalty=penalty, scale=scale)
        bound = gradient_rounding(
            problem.loss, n_rows=300, n_weights=7, norm=2 * np.linalg.norm(problem.linear) / penalty + 800 / penalty,
            penalty=penalty, linear_norm=np.linalg.norm(problem.linear),
        )  # fmt: skip
        w = minimise(problem, max(1e-6, 4 * bound))
        assert np.linalg.norm(exact_gradient(problem, w)) <= max(1e-6, 4 * bound)


def test_more_threads_change_the_last_ticks_only(monkeypatch):
    from sottovoce.central import parallel

    monkeypatch.setattr(parallel, "_SMALL", 0)
    results = []
    for count in ("1", "3"):
        monkeypatch.setenv("SOTTOVOCE_NUM_THREADS", count)
        results.append(logistic().fit(X, SIGN).coef_)
    np.testing.assert_allclose(results[0], results[1], atol=1e-4)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"adjacency": "replace-one"}, "adjacency must be 'zero-out' or 'add-remove' for solver='objective'"),
        ({"solver_options": {"penalty": 0.0}}, "penalty must be a finite number >= 1e-50 and <= 1e.50; got 0.0"),
        ({"solver_options": {"penalty": math.nan}}, "penalty must be a finite number >= 1e-50 and <= 1e.50; got nan"),
        ({"solver_options": {"smoothing": -1.0}}, "smoothing must be a finite number >= 1e-50 and <= 1e.50; got -1.0"),
        (
            {"solver_options": {"tolerance": math.inf}},
            "tolerance must be a finite number >= 1e-50 and <= 1e.50; got inf",
        ),
        ({"solver_options": {"tolerance": 1e-49}}, "tolerance must be .*Less drowns in rounding errors"),
        ({"solver_options": {"n_passes": 3}}, "no entry 'n_passes' .* it takes 'penalty', 'smoothing', 'tolerance'"),
    ],
)
def test_bad_parameters(changed, message, noise_is_forbidden):
    with pytest.raises(ParameterError, match=message):
        svc(**changed).fit(X, SIGN)


def test_squared_loss_is_refused(noise_is_forbidden):
    model = sv.DPRidge(epsilon=1.0, delta=1e-5, data_norm=1.0, label_bounds=(-1.0, 1.0), solver="objective")
    with pytest.raises(ParameterError, match=r"needs a loss of bounded slope; the squared loss has none. Use solver="):
        model.fit(X, X[:, 0])


def test_far_more_rows_than_stated_are_refused(noise_is_forbidden):
    with pytest.raises(DataError, match=r"X has 300 rows, more than 200 for n_public=20: .* Raise n_public"):
        logistic(adjacency="add-remove", n_public=20).fit(X, SIGN)


def test_without_privacy_the_options_are_left_aside():
    assert logistic(epsilon=math.inf, alpha=0.1).fit(X, SIGN).guarantee_.epsilon == math.inf
