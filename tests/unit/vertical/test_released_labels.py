"""Training on released labels: the plan and its account, the limit without noise, refusals."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit

from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team, team
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.losses import Logistic, Squared
from sottovoce.privacy.accounting import GaussianAccountant
from sottovoce.privacy.events import RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.local_models import public_weight
from sottovoce.vertical.requests.local_models import LogisticOnLabelsPlan, SquaredOnLabelsPlan
from support.labels import plan_on_labels

TEAM = Team(1, None)
rng = np.random.default_rng(0)
N, D = 3000, 4
X = rng.uniform(0.0, 1.0, (N, D)) * [1.0, 1.0, 0.5, 0.1]
X[:, 1] = 0.8 * X[:, 0] + 0.2 * X[:, 1]  # correlated columns: the Gram matrix has small eigenvalues
Y = np.where(rng.random(N) < expit(X @ [6.0, -4.0, 3.0, 5.0] - 1.0), 1.0, -1.0)
NORM = 1.6


def plan_of(**changed):
    return plan_on_labels(**{"loss": Logistic(), "n_samples": N, "n_features": D, "alpha": 1e-3, "mu": 1.0, **changed})


def rows_of(matrix=X, *, constant=0.3, norm=NORM):
    return make_rows(matrix, data_norm=norm, constant=constant, names=None, team=TEAM)


def scaled(constant=0.3):
    return np.column_stack([X / NORM, np.full(N, constant)]) / math.sqrt(1.0 + constant**2)


def exact(plan, labels):
    """Minimise J of the module's docstring by another program."""
    U, t = scaled(plan.intercept), plan.soft_labels(labels)
    penalty = plan.alpha_scaled * N

    def objective(w):
        m = U @ w
        return np.sum(np.logaddexp(m / 2, -m / 2) - t * m) + penalty / 2 * (w @ w), U.T @ (
            expit(m) - 0.5 - t
        ) + penalty * w

    if isinstance(plan.loss, Squared):
        return np.linalg.solve(U.T @ U + penalty * np.eye(U.shape[1]), U.T @ t)
    return minimize(objective, np.zeros(U.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-7}).x


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.2])
@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=lambda loss: loss.name)
def test_without_noise_it_is_the_minimiser(loss, p, nonnegative):
    rng = np.random.default_rng(1)
    plan = plan_of(loss=loss, mu=1e4, flip_probability=p, nonnegative=nonnegative)
    labels = np.where(rng.random(N) < p, -Y, Y)
    found = plan.solve(rows_of(), labels, Streams(0), TEAM).result.weights[0]
    np.testing.assert_allclose(scaled() @ found, scaled() @ exact(plan, labels), atol=5e-3)


def test_flipped_labels_are_unbiased():
    """Over the flips, a soft label has the mean of that of the true label."""
    p = 0.3
    for loss in (Logistic(), Squared()):
        one, other = plan_of(loss=loss, flip_probability=p, n_samples=2).soft_labels(np.array([1.0, -1.0]))
        true = plan_of(loss=loss, n_samples=1).soft_labels(np.array([1.0]))[0]
        assert (1 - p) * one + p * other == pytest.approx(true)


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.3, 5.0, 1e4])
@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=lambda loss: loss.name)
def test_the_event_is_what_scales_the_noise(loss, mu, monkeypatch):
    plan = plan_of(loss=loss, mu=mu, flip_probability=0.3, nonnegative=True)
    original, seen = GridGaussian.release, []

    class Counted:
        def __init__(self, noise):
            self.noise = noise

        def standard_normal(self, shape):
            self.drawn = self.noise.standard_normal(shape)
            return self.drawn

    def release(self, ticks, noise):
        counted = Counted(noise)
        value, event = original(self, ticks, counted)
        off = np.abs(value - ticks * self.tick - event.noise_multiplier * self.l2_sensitivity * counted.drawn)
        assert off.max() <= self.tick + 1e-7 * self.noise_std  # rounding of the noise to a whole tick, and of this sum
        seen.append(event)
        return value, event

    monkeypatch.setattr(GridGaussian, "release", release)
    found = plan.solve(rows_of(), Y, Streams(0), TEAM)
    n_steps = plan.n_steps if isinstance(loss, Logistic) else 0  # sums of slopes
    steps = (RepeatedEvent(seen[1], n_steps),) if n_steps else ()
    assert len(seen) == 1 + n_steps
    assert set(seen[1:]) <= {seen[-1]}
    assert found.event == plan.event == compose(seen[0], *steps)
    assert mu * (1 - 1e-9) <= GaussianAccountant().mu(found.event) <= mu
    assert np.isfinite(found.result.weights).all()


def test_storage_and_threads_do_not_matter():
    plan = plan_of(n_samples=60_000, flip_probability=0.1)
    matrix, labels = np.tile(X, (20, 1)), np.tile(Y, 20)
    one = plan.solve(rows_of(matrix), labels, Streams(0), TEAM).result.weights
    with team(2) as two:
        np.testing.assert_array_equal(plan.solve(rows_of(matrix), labels, Streams(0), two).result.weights, one)
    other = plan.solve(rows_of(sp.csr_array(matrix)), labels, Streams(0), TEAM).result.weights
    np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-6)


def test_the_gram_matrix_is_left_out_where_it_would_tell_nothing():
    assert plan_of(mu=1.0).releases_gram
    assert not plan_of(mu=1e-3).releases_gram
    assert not plan_of(n_features=1024, mu=100.0).releases_gram
    assert plan_of(loss=Squared(), mu=1e-3).releases_gram


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 30.0])
def test_noise_in_a_prediction_is_about_one_at_most(mu):
    """Noise alone: a table of zeros with a label sum of 0, whose weights are the noise of the run."""
    plan = plan_of(n_samples=400, mu=mu, intercept=0.0)
    rows = rows_of(np.zeros((400, D)), constant=0.0)
    labels = np.resize([1.0, -1.0], 400)
    weights = np.array([plan.solve(rows, labels, Streams(seed), TEAM).result.weights[0] for seed in range(60)])
    # 240 draws: the estimate of a standard deviation of 1 exceeds 1.25 with a probability below 1e-6; seeds are fixed
    assert np.sqrt(np.mean(weights**2)) < 1.25


def test_less_noise_with_nonnegative_rows():
    assert plan_of(nonnegative=True).gradient_noise < 0.9 * plan_of().gradient_noise
    flips = [plan_of(flip_probability=p).gradient_noise for p in (0.0, 0.2, 0.4)]
    assert flips == sorted(flips)


@pytest.mark.usefixtures("noise_is_forbidden")
class TestRefusals:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"alpha": 0.0}, "alpha must be a finite number >= 1e-50 and <= 1e.50; got 0.0"),
            ({"mu": 0.0}, "mu must be a finite number >= 1e-06 and <= 10000; got 0.0"),
            ({"mu": math.nan}, "mu must be .* got nan"),
            ({"flip_probability": 0.5}, "flip_probability must be .* got 0.5. Labels that were flipped half"),
            ({"flip_probability": math.nan}, "flip_probability must be .* got nan"),
            ({"label_bound": 1.0}, "label_bound is for numbers as labels.*with the logistic loss"),
            ({"loss": Squared(), "label_bound": 1.0, "flip_probability": 0.1}, "label_bound is for numbers"),
            ({"loss": Squared(), "label_bound": math.nan}, "label_bound must be .* got nan"),
            ({"loss": Squared(), "n_features": 4096}, "at most 4096 weights here.*n_features = 4096.*Use Logistic"),
        ],
    )
    def test_public_facts(self, changed, message):
        with pytest.raises(ParameterError, match=message):
            plan_of(**changed)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            (np.where(np.arange(N) == 7, 0.0, Y), r"labels must be -1 or \+1; got .*0.0.* at row 7 \(1 such row"),
            (np.where(np.arange(N) == 7, math.nan, Y), r"labels must be -1 or \+1; got .*nan.* at row 7"),
        ],
    )
    def test_labels(self, labels, message):
        with pytest.raises(DataError, match=message):
            plan_of().solve(rows_of(), labels, Streams(0), TEAM)

    @pytest.mark.parametrize("bad", [1.5, -math.inf, math.nan])
    def test_numbers_as_labels(self, bad):
        with pytest.raises(DataError, match="labels must be within label_bound = 1 of 0; got"):
            plan_of(loss=Squared(), label_bound=1.0).soft_labels(np.where(np.arange(N) == 0, bad, 0.5))


def plan_for(kind=LogisticOnLabelsPlan, **changed):
    return kind(**{"n_samples": 10_000, "n_features": 20, "alpha": 1e-4, "mu": 0.1, **changed})


def weight(plan, n_others=1, is_classification=True):
    return public_weight(plan, n_others=n_others, is_classification=is_classification)


@pytest.mark.parametrize(
    ("kind", "is_classification", "strength", "most"),
    [(LogisticOnLabelsPlan, True, 0.1, 0.7), (SquaredOnLabelsPlan, True, 0.4, 0.7),
     (SquaredOnLabelsPlan, False, 0.01, 1.0)],
)  # fmt: skip
def test_it_is_the_share_of_the_signal(kind, is_classification, strength, most):
    plan = plan_for(kind, flip_probability=0.3)
    unit = 0.5 if kind is LogisticOnLabelsPlan else 1.0
    signal = strength * 1e8 / 20
    noise = 20 * plan.gradient_noise**2 + (unit / 0.4) ** 2 * 1e4
    assert weight(plan, is_classification=is_classification) == pytest.approx(most * signal / (signal + noise))


def test_the_noise_of_a_gradient_is_that_of_what_is_released():
    squared, logistic = plan_for(SquaredOnLabelsPlan), plan_for()
    for plan in (squared, logistic):
        released = plan.moments_mechanism().noise_std  # of the entry label_weight * sqrt(2) * beta_j
        assert plan.label_sum_noise == pytest.approx(released / math.sqrt(2.0) / plan.label_weight)
    assert squared.gradient_noise == squared.label_sum_noise
    assert logistic.gradient_noise == pytest.approx(math.hypot(logistic.label_sum_noise, 1.0 / logistic.mu_slopes))


def test_limits():
    assert weight(plan_for(mu=1e-6)) < 1e-6  # noise is all there is
    assert 0.7 > weight(plan_for(mu=1e3, n_samples=10**7)) > 0.699
    assert weight(plan_for(flip_probability=0.5 - 1e-9)) < 1e-6  # labels that say nothing
    more = [weight(plan_for(n_samples=n)) for n in (100, 1_000, 10_000, 100_000)]
    assert more == sorted(more)
    fewer = [weight(plan_for(n_features=d)) for d in (300, 30, 3)]
    assert fewer == sorted(fewer)
    assert weight(plan_for(), n_others=4) == pytest.approx(weight(plan_for()) / 4**0.3)
    numbers = plan_for(SquaredOnLabelsPlan)
    alone = weight(numbers, is_classification=False)
    assert weight(numbers, n_others=4, is_classification=False) == pytest.approx(alone / 4)
