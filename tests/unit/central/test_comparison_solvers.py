"""DP-SGD, sequential and primal DP-SCD: what is planned is what is released, and bad options are refused."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.central.solvers.sgd import safe_rate
from sottovoce.central.split import Scales
from sottovoce.exceptions import ParameterError, PrivacyWarning
from sottovoce.privacy.accounting import GaussianAccountant
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from support.solvers import solved

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 5))
X /= np.linalg.norm(X, axis=1, keepdims=True)
SIGN = np.where(X[:, 0] > 0, 1, -1)
THREE = np.argmax(X[:, :3], axis=1)
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


def labels(loss):
    return X[:, 0] if loss == "squared" else SIGN


@pytest.fixture
def released(monkeypatch):
    """The mechanisms of one fit, in order."""
    seen = []
    original = GridGaussian.release
    monkeypatch.setattr(GridGaussian, "release", lambda self, t, g: (seen.append(self), original(self, t, g))[1])
    return seen


@pytest.mark.parametrize(
    ("adjacency", "factor"), [("zero-out", math.sqrt(4 * 49 - 2)), ("replace-one", 2 * math.sqrt(56))]
)
def test_sequential_releases_what_it_accounts(adjacency, factor, released):
    model = make("Sequential", adjacency=adjacency).fit(X, SIGN)
    batches = math.ceil(200 / 7)
    assert len(released) == model.n_iter_ == 2 * batches
    for mechanism in released:
        assert mechanism.noise_multiplier == pytest.approx(math.sqrt(2) / gaussian_mu(1.0, 1e-5))
        assert mechanism.l2_sensitivity == pytest.approx(1e-3 * factor, rel=2e-6)
    # each row is in two of these releases
    assert GaussianAccountant().mu(model.guarantee_.event) == pytest.approx(gaussian_mu(1.0, 1e-5))


def test_a_given_clip_needs_no_scale_of_the_labels(released):
    model = make("sgd", "squared", {**SMALL["sgd"], "clipping_norm": 0.5})
    model.set_params(label_bounds=(-2.0, 2.0)).fit(X, X[:, 0])
    assert len(released) == 20
    assert released[0].l2_sensitivity == pytest.approx(0.5 * 2.0, rel=2e-6)


@pytest.mark.parametrize("solver", SMALL)
def test_sparse_and_dense_agree_and_seeds_differ(solver):
    dense = make(solver).fit(X, SIGN).coef_
    np.testing.assert_allclose(make(solver).fit(sp.csr_matrix(X), SIGN).coef_, dense, rtol=1e-4, atol=1e-6)
    assert not np.array_equal(dense, make(solver, random_state=1).fit(X, SIGN).coef_)


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


BAD = [
    ("sgd", {"batch_size": 0.5}, {}, "batch_size must be a finite number >= 1; got 0.5"),
    ("sgd", {"epochs": 0.0}, {}, "epochs must be a finite number > 0 and <= 1e.06; got 0.0"),
    ("sgd", {"learning_rate": -1.0}, {}, "learning_rate must be a finite number >= 1e-50 and <= 1e.50; got -1.0"),
    ("sgd", {"clipping_norm": math.nan}, {}, "clipping_norm must be a finite number >= 1e-50 and <= 1e.50; got nan"),
    ("sgd", {"momentum": 0.9}, {}, "no entry 'momentum' for solver='sgd'; it takes 'learning_rate', 'clipping_norm', "),
    ("sgd", {"batch_size": 50}, {"adjacency": "replace-one"}, "got 'replace-one'. Give .*'batch_size': n_samples"),
    ("Sequential", {"batch_size": 2.0}, {}, "batch_size must be a whole number >= 1; got 2.0"),
    ("Sequential", {"clipping_norm": 0.0}, {}, "clipping_norm must be a finite number >= 1e-50 and <= 1e.50; got 0.0"),
    ("Sequential", {"epochs": 0}, {}, "epochs must be a whole number >= 1 and <= 50000; got 0"),
    ("Sequential", {}, {"adjacency": "add-remove", "n_public": 200}, "'zero-out' or 'replace-one' for .*Sequential"),
    (
        "Published",
        {},
        {"adjacency": "add-remove", "n_public": 200},
        "'zero-out' or 'replace-one' for papers.dp_scd.Published",
    ),
    ("Primal", {"block_size": 0}, {}, "block_size must be a whole number >= 1 and <= 1000000; got 0"),
    ("Primal", {"epochs": 1.5}, {}, "epochs must be a whole number >= 1 and <= 200000; got 1.5"),
    (
        "Primal",
        {"learning_rate": math.inf},
        {},
        "learning_rate must be a finite number >= 1e-50 and <= 1e.50; got inf",
    ),
]


@pytest.mark.parametrize(("solver", "options", "changed", "message"), BAD)
def test_bad_options_are_refused_before_anything_is_released(solver, options, changed, message, released):
    with pytest.raises(ParameterError, match=message):
        make(solver, options=options, **changed).fit(X, SIGN)
    assert not released


def test_the_published_algorithm_noises_what_a_short_row_moves(monkeypatch):
    """On rows of norm 1/100 the dual variables move by at most the clip too, and their noise is on the grid."""
    seen = []

    def record(self, ticks, noise):
        seen.append(ticks * self.tick)
        return ticks * self.tick, self.event

    monkeypatch.setattr(GridGaussian, "release", record)
    model = make("Published", options={"batch_size": 20, "epochs": 2, "clipping_norm": 1e-4}, fit_intercept=False)
    with pytest.warns(PrivacyWarning):
        model.fit(X / 100, SIGN)
    moves = np.abs(np.concatenate([release[:20] for release in seen]))
    assert 0.99e-4 < moves.max() <= 1e-4


@pytest.mark.parametrize("solver", ["sgd", "Minibatch"])
@pytest.mark.parametrize(
    "rare", [{"n_public": 2**53, "batch_size": 1e9}, {"n_public": 10**6, "batch_size": 2.0, "epochs": 10.0}]
)
def test_samples_too_rare_for_the_accountant_are_refused_in_words(solver, rare):
    n_public, options = rare["n_public"], {name: value for name, value in rare.items() if name != "n_public"}
    model = sv.DPLogisticRegression(
        epsilon=1.0, delta=1e-9, data_norm=1.0, classes=[0, 1], adjacency="add-remove", n_public=n_public,
        **solved(solver, options),
    )  # fmt: skip
    with pytest.raises(ParameterError, match=r"batch_size and epochs make \d+ steps .* Raise solver_options"):
        model.plan(10, 3)
