"""Noisy ADMM: what is sent, what it costs, the limit without noise, and Theorem 2 of ADMM sharing with its constant."""

import math

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Hinge, Logistic, Squared
from sottovoce.papers.admm import Penalty, admm, coupling, noisy_admm, rate_constant, start_value, theorem_1_conditions
from sottovoce.papers.admm.noisy import NoisyBlock, score_release
from sottovoce.papers.admm.sharing import ScoreProblem
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import GaussianEvent, NothingReleased, RandomizedResponseEvent, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from support.pairs import by_pairs
from support.sigmoid_loss import SigmoidLoss

rng = np.random.default_rng(0)
N = 200
BLOCKS = [rng.normal(size=(N, 3)), rng.random((N, 2))]
Y = np.where(BLOCKS[0][:, 0] + 2.0 * BLOCKS[1][:, 0] - 1.0 > 0, 1.0, -1.0)


def trained(**changed):
    given = {"l2": 1e-2 * N, "epsilon": 2.0, "delta": 1e-5, "data_norm": 3.0, "rng": np.random.default_rng(5)}
    return noisy_admm(BLOCKS, Y, **{**given, **changed})


@pytest.fixture
def silent(monkeypatch):
    """No noise in any release."""

    def exact(self, ticks, noise):
        return ticks.astype(np.float64) * self.tick, self.event

    monkeypatch.setattr(GridGaussian, "release", exact)


@pytest.mark.usefixtures("silent")
def test_it_sends_what_the_mechanism_of_the_product_sent():
    """The numbers of ``mechanism="noisy-admm"`` with the noise off, from before it was taken out, and its event."""
    run = trained(labels_public=True, max_iter=3, rho=0.5, score_bound=1.0, norm_bound=4.0)
    assert [scores[:3].tolist() for scores in run.sent] == [
        pytest.approx(scores, abs=1e-9)
        for scores in (
            [0.07481490075588226, 0.07628966867923737, 0.9020292610030],
            [0.33880555629730225, -0.21997618675231934, 0.23282982409000397],
            [0.11597418785095215, 0.11601473391056061, 1.0],
            [0.5006816685199738, -0.30524013936519623, 0.3500462770462036],
            [0.1311463862657547, 0.12968195974826813, 1.0],
            [0.5795305967330933, -0.34249410033226013, 0.40842993557453156],
        )
    ]
    assert run.x[0] == pytest.approx([3.157384925182969, -0.14064429976006923, -0.003991809792585288], abs=1e-9)
    assert run.x[1] == pytest.approx([3.31009930992965, -2.071841905585328], abs=1e-9)
    message = RepeatedEvent(GaussianEvent(4.88382313464436), 3)
    assert run.event == compose(message, message)


@pytest.mark.parametrize("labels_public", [False, True])
@pytest.mark.parametrize("rounds", [1, 3])
def test_events_add_up_to_the_promise_and_scale_the_noise(labels_public, rounds, monkeypatch):
    used, release = [], GridGaussian.release
    monkeypatch.setattr(GridGaussian, "release", lambda self, *given: (used.append(self), release(self, *given))[1])
    run = trained(labels_public=labels_public, max_iter=rounds)
    spent = accountant_for(run.event).epsilon(run.event, 1e-5)
    assert 2.0 * (1.0 - 1e-6) < spent <= 2.0
    assert len(used) == len(run.sent) == 2 * rounds
    (multiplier,) = {each.noise_multiplier for each in used}
    messages = [RepeatedEvent(GaussianEvent(multiplier), rounds)] * 2
    assert run.event == compose(NothingReleased() if labels_public else RandomizedResponseEvent(1.5), *messages)
    assert all(each.l2_sensitivity >= 2.0 for each in used)


def test_what_is_sent_follows_from_released_labels(monkeypatch):
    """With the released labels held fast, true labels change nothing."""
    monkeypatch.setattr(RandomizedResponse, "release", lambda self, labels, generator: (Y, self.event))
    one = trained(max_iter=2)
    other = noisy_admm(
        BLOCKS, -Y, l2=1e-2 * N, epsilon=2.0, delta=1e-5, data_norm=3.0, max_iter=2, rng=np.random.default_rng(5)
    )
    np.testing.assert_array_equal(one.sent, other.sent)


def test_the_next_targets_come_from_the_noisy_message():
    """From the exact scores they would differ between neighbours, and the rounds would not compose."""
    rng = np.random.default_rng(1)
    rows = BLOCKS[1] / np.maximum(3.0, np.linalg.norm(BLOCKS[1], axis=1, keepdims=True))
    block = NoisyBlock(BLOCKS[1] / 3.0, score_release(N, 2, 2.0 / 9.0, 0.5, 1.0, 100.0, 3.0, 1.0))
    first, second = rng.normal(size=(2, N))
    block.update(first)
    sent = block.send(rng)
    block.update(second)
    targets = np.clip(sent + first + 2.0 * second, -3.0, 3.0)
    expected = np.linalg.solve(0.5 * rows.T @ rows + 2.0 / 9.0 * np.eye(2), 0.5 * rows.T @ targets)
    np.testing.assert_allclose(block.weights, expected, rtol=1e-8)


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Squared()], ids=lambda loss: loss.name)
def test_without_noise_and_with_wide_bounds_it_is_admm(loss):
    """Scores of 300 rounds against sharing ADMM, whose parties have the same penalties."""
    wide = {"score_bound": 1e3, "norm_bound": 1e3, "target_bound": 1e6, "rho": 0.5}
    run = trained(loss=loss, labels_public=True, max_iter=300, epsilon=50.0, data_norm=10.0, **wide)
    scores = sum(block @ x / 10.0 for block, x in zip(BLOCKS, run.x, strict=True))
    other = admm(BLOCKS, loss, Y, penalty=Penalty(1e-2 * N), rho=0.5, max_iter=2000, tol=1e-9)
    expected = sum(block @ x for block, x in zip(BLOCKS, other.x, strict=True))
    np.testing.assert_allclose(scores, expected, atol=2e-2 * np.abs(expected).max())


@pytest.mark.usefixtures("silent")
def test_bounds_hold():
    run = trained(labels_public=True, score_bound=0.05, norm_bound=0.2, l2=1e-6 * N)
    assert np.abs(run.sent).max() == pytest.approx(0.05)
    assert all(0.0 < np.linalg.norm(x) <= 0.2 * (1.0 + 1e-12) for x in run.x)


def test_without_messages_nothing_but_labels_is_spent():
    assert trained(max_iter=0, labels_public=True).event == NothingReleased()
    assert trained(max_iter=0).event == RandomizedResponseEvent(1.5)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"l2": 0.0}, "penalty must be"),
        ({"rho": math.nan}, "rho must be"),
        ({"score_bound": 0.0}, "score_bound must be"),
        ({"norm_bound": math.inf}, "norm_bound must be"),
        ({"target_bound": -1.0}, "target_bound must be"),
        ({"loss": Squared()}, "secret labels need the logistic loss"),
        ({"l2": 1e45, "score_bound": 1e-10, "norm_bound": 1e10}, "too far apart for 200 rows"),
    ],
)
def test_bad_parameters_are_refused(changed, match):
    with pytest.raises(ParameterError, match=match):
        trained(**changed)


def constant(blocks, loss, penalty, rho):
    return rate_constant(theorem_1_conditions(blocks, loss, penalty=penalty, rho=rho), coupling(blocks))


def test_coupling_by_hand():
    axes = np.eye(6)
    assert coupling([axes[:, :2]]) == 0.0
    assert coupling([axes[:, :2], 3.0 * axes[:, 2:4]]) == 0.0
    for n_parties in (2, 3, 5):  # the largest there can be: (M - 1) |column|^2
        assert coupling([2.0 * axes[:, :1]] * n_parties) == pytest.approx(4.0 * (n_parties - 1))


def test_constant_by_hand():
    axes = np.eye(6)
    # gamma_m = 2, kappa = 2: 4 / 1; the coordinator's part: 5 / 4 over 1 - 1/2
    assert constant([axes[:, :1], axes[:, 1:2]], Squared(), Penalty(), 2.0) == pytest.approx(4.0)
    # eigenvalue 1/4: gamma_m = 1.5, kappa = 1.5: 2.25 / 0.75 = 3; the coordinator's part as before
    assert constant([0.5 * axes[:, :1]], Squared(), Penalty(1.0), 2.0) == pytest.approx(3.0)
    # a heavy penalty leaves the coordinator's part: 1.25 / 0.5
    assert constant([0.5 * axes[:, :1]], Squared(), Penalty(50.0), 2.0) == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("blocks", "loss", "rho"),
    [
        ([np.eye(4)[:, :1]] * 3, Squared(), 2.0),  # all published conditions hold, and the run diverges
        ([np.eye(4)[:, :1]] * 2, Squared(), 3.0),  # gamma_m = rho theta: on the edge
        ([np.eye(4)[:, :1], np.eye(4)[:, 1:2]], Squared(), 1.4),  # 2 (c)
        ([np.eye(4)[:, :1], np.eye(4)[:, 1:2]], SigmoidLoss(), 2.0 * SigmoidLoss().smoothness),
    ],
)
def test_no_constant_where_the_plan_fails(blocks, loss, rho):
    assert constant(blocks, loss, Penalty(), rho) == math.inf


@pytest.mark.parametrize("loss", [Logistic(), Squared(), SigmoidLoss()], ids=lambda loss: loss.name)
def test_start_value_is_the_augmented_lagrangian(loss):
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(12) < 0.5, -1.0, 1.0)
    problem = ScoreProblem(loss, labels)
    z = problem.minimise(np.zeros(12), 1.5)
    dual = loss.derivative(labels, z)  # y^1 by the optimality of (7)
    expected = problem.value(z) - dual @ z + 0.75 * z @ z
    assert start_value(loss, labels, 1.5) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "penalty", "n_parties"),
    by_pairs([Logistic(), SigmoidLoss(), Squared()], [Penalty(), Penalty(5.0), Penalty(1.0, 0.5)], [1, 2, 3]),
)
def test_the_bound_holds_at_every_round(loss, penalty, n_parties):
    """Separable labels: without a penalty no least objective is attained, and V falls as slowly as it ever does."""
    rng = np.random.default_rng(n_parties)
    blocks = [rng.normal(size=(150, 2)) for _ in range(n_parties)]
    y = np.sign(np.hstack(blocks) @ rng.normal(size=2 * n_parties))
    rho = 2.2 * loss.smoothness
    report = theorem_1_conditions(blocks, loss, penalty=penalty, rho=rho)
    bound = rate_constant(report, coupling(blocks)) * start_value(loss, y, rho)
    assert math.isfinite(bound)
    V = admm(blocks, loss, y, penalty=penalty, rho=rho, form="printed", max_iter=120, tol=0.0).stationarity
    sums = np.cumsum(V[1:])
    assert sums[-1] <= bound
    assert (
        np.minimum.accumulate(V[1:]) * np.arange(1, len(V)) <= sums * (1.0 + 1e-12)
    ).all()  # so least V <= bound / t
    assert sums[-1] >= 1e-4 * bound  # not an empty promise
