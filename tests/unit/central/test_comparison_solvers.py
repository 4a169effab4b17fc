"""DP-SGD, sequential and primal DP-SCD: what is planned is what is released, and bad options are refused."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.solvers.sgd import safe_rate
from sottovoce.central.split import Scales
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from support.solvers import solved

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 5))
X /= np.linalg.norm(X, axis=1, keepdims=True)
SIGN = np.where(X[:, 0] > 0, 1, -1)
# sampled steps are calibrated here, not judged: tests/contracts/test_accountants.py
pytestmark = pytest.mark.usefixtures("coarse_losses")
PUBLIC = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "random_state": 0}
CLASSIFIERS = {"logistic": sv.DPLogisticRegression, "hinge": sv.DPLinearSVC}
SMALL = {
    "sgd": {"batch_size": 50, "epochs": 5},
    "Sequential": {"batch_size": 7, "epochs": 2},
    "Primal": {"block_size": 2, "epochs": 3},
}


def make(solver, loss="logistic", options=None, **changed):
    options = SMALL[solver] if options is None else options
    parameters = {**PUBLIC, **solved(solver, options), **changed}
    if loss == "squared":
        return sv.DPRidge(label_bounds=(-1.0, 1.0), **parameters)
    return CLASSIFIERS[loss](**{"classes": [-1, 1], **parameters})


@pytest.fixture
def released(monkeypatch):
    """The mechanisms of one fit, in order."""
    seen = []
    original = GridGaussian.release
    monkeypatch.setattr(GridGaussian, "release", lambda self, t, g: (seen.append(self), original(self, t, g))[1])
    return seen


def test_a_given_clip_needs_no_scale_of_the_labels(released):
    model = make("sgd", "squared", {**SMALL["sgd"], "clipping_norm": 0.5})
    model.set_params(label_bounds=(-2.0, 2.0)).fit(X, X[:, 0])
    assert len(released) == 20
    assert released[0].l2_sensitivity == pytest.approx(0.5 * 2.0, rel=2e-6)


@pytest.mark.parametrize("n_samples", [1, 2, 100, 10**7])
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_the_rules_of_sgd_make_sense_for_every_size(loss, n_samples):
    plan = sv.plan(make("sgd", loss, {}, delta=1e-9), n_samples, 30)
    assert 1.0 <= plan.batches.expected_size <= n_samples
    assert 400 <= plan.batches.n_steps <= 10_000
    assert 0.0 < plan.rate <= safe_rate(plan.facts)


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_the_rules_of_sgd_keep_the_path_whatever_the_clip(loss):
    """Noise in each direction of w has standard deviation rate * steps * clip / (mu n)."""
    plans = [sv.plan(make("sgd", loss, {"clipping_norm": clip}, alpha=1e-9), 3000, 30) for clip in (0.1, 0.4)]
    paths = [plan.walk.horizon * plan.clipping_norm / (plan.split.model * plan.n_samples) for plan in plans]
    assert paths == pytest.approx([0.75 if loss == "squared" else 2.0] * 2)


def test_the_clip_of_sgd_by_rule_tends_to_the_whole_bound():
    shapes = ((200, 5), (10**6, 5), (200, 16_000))
    small, large, wide = (sv.plan(make("sgd", options={}, delta=1e-9), *shape) for shape in shapes)
    clips = [plan.clip_for(Scales(1.0, 0.0, 1.0, ())) for plan in (small, large, wide)]
    assert clips == pytest.approx([0.5, 1.0, 0.25], rel=1e-3)
