"""Audits of whole fits through the public estimators, against the strongest adversary that the receipts promise.

The adversary knows every other row and sees everything that is listed under "releases": the noisy scales and the noisy
sum of every pass. He scores a run by its exact log-likelihood ratio for the two neighbouring tables. At the planned
noise the lower bound on epsilon must stay below the receipt's; at 0.7 and 0.5 times that noise, the same audit must
find the violation, or it proves nothing. All seeds are fixed, so the outcome is too.
"""

import itertools
import math

import numpy as np
import pytest
from numba import njit

import sottovoce as sv
from sottovoce.audit import epsilon_lower_bound, gaussian_lower_bound
from sottovoce.central import calibration
from sottovoce.central.split import Scales
from sottovoce.central.sums import shared_counts
from sottovoce.central.sums.shared_counts import design_for
from sottovoce.losses import Logistic, dual_step
from sottovoce.papers.dp_scd import Minibatch
from support.noise import Recorder
from support.row_norm import bound_and_score, shortened

# an audit has more power at a large delta; the tables are made up
pytestmark = pytest.mark.filterwarnings("ignore:delta=:sottovoce.exceptions.PrivacyWarning")

EPSILON, DELTA = 1.0, 0.05


@pytest.fixture(
    params=[*(pytest.param(factor, marks=pytest.mark.slow) for factor in (1.0, 0.7)), 0.5],
    ids=lambda factor: f"noise x {factor}",
)
def recorder(request, monkeypatch):
    recorder = Recorder(request.param, [])
    recorder.install(monkeypatch)
    return recorder


def verdict(recorder, bound_by, scores, neighbour_scores):
    bound = bound_by(np.array(scores), np.array(neighbour_scores), delta=DELTA)
    print(f"noise x {recorder.factor}: epsilon >= {bound:.3f} at delta = {DELTA} ({len(scores)} runs a table)")
    if recorder.factor == 1.0:
        # the attack is near the promise, so staying below it says something
        assert 0.5 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON


def test_default_fit(recorder, monkeypatch):
    """The default: every pass moves by the whole clip along the canary, and lambda_max as far as it can.

    The other rows are alike and pull the other way, so that the canary's prediction stays wrong and its step clipped.
    The adversary follows their memory and the canary's: both are functions of what was released. So are the weights at
    the end, and with them the canary's column in the sums that slope and shift are made of.
    """
    n, short = 100, 0.1
    X = np.zeros((n, 2))
    X[:-1, 0], X[-1, 0] = short, 1.0
    y = np.where(np.arange(n) == n - 1, 1, -1)
    # slope and shift are post-processing: the adversary sees what they are made of, and the runs are quicker
    monkeypatch.setattr(calibration, "_fit", lambda *_: (1.0, 0.0))
    model = sv.DPLogisticRegression(
        epsilon=EPSILON, delta=DELTA, data_norm=1.0, classes=[-1, 1], fit_intercept=False, adjacency="add-remove",
        n_public=n,
    )  # fmt: skip
    plan = sv.plan(model, n, 2)
    scores = {"in": [], "out": []}
    for name, rows in (("in", n), ("out", n - 1)):
        for seed in range(4000 if recorder.factor > 0.5 else 800):
            recorder.releases.clear()
            model.set_params(random_state=seed).fit(X[:rows], y[:rows])
            scores[name].append(_likelihood_of_default(recorder.releases, plan, n, short))
    # Gaussian mechanisms only, adaptively composed: the bound for those needs fewer runs
    verdict(recorder, gaussian_lower_bound, scores["in"], scores["out"])


def _likelihood_of_default(releases, plan, n, short):
    alpha = plan.alpha
    bound, score, releases = bound_and_score(releases, n=n, others=n - 1, inside=short, zeroed=False)
    short = shortened(short, bound)
    value, std, _ = releases[0]
    others = (n - 1) * short**2
    score += ((value[0] - others) ** 2 - (value[0] - others - 1.0) ** 2) / (2 * std**2)
    eigenvalue = min(1.0, max(0.5, (value[0] + 2.0 * std) / n))
    damping = 1.0 / (1.0 + 0.25 * eigenvalue / alpha)
    clip = releases[1][2]
    scales = Scales(eigenvalue=eigenvalue)
    assert clip == pytest.approx(plan.clip_for(scales), rel=1e-5)  # the adversary's algebra is the solver's
    v = v_before = 0.0
    points = []
    other, canary = [0.0, 0.0], [0.0, 0.0]  # dual variable, and the one before
    for step, (value, std, _) in enumerate(releases[1:-1]):
        momentum = min(step / (step + 3.0), 1.0 - 1.6 / math.sqrt(plan.split.model * n))
        v, v_before = v + momentum * (v - v_before), v
        w = v / (alpha * n)
        moves = []
        for memory, label, x in ((other, -1.0, short), (canary, 1.0, 1.0)):
            centre = memory[0] + momentum * (memory[0] - memory[1])
            zeta = -damping * (-label / (1.0 + math.exp(label * x * w)) + centre)
            zeta = min(max(zeta, -clip / x), clip / x)
            memory[0], memory[1] = centre + zeta, memory[0]
            moves.append(zeta * x)
        score += ((value[0] - (n - 1) * moves[0]) * moves[1] - 0.5 * moves[1] ** 2) / std**2
        v += value[0]
        points.append(v)
    w = np.mean(points[-round(plan.averaged * len(points)) :]) / (alpha * n)
    return score + _likelihood_of_calibration(releases[-1], plan, eigenvalue, w, n, short)


def _likelihood_of_calibration(release, plan, eigenvalue, w, n, short):
    """Score the noisy sums: the others hold their label -1 at w short, the canary its label +1 at w."""
    value, std, _ = release
    design = design_for(calibration.prior_for(plan.split.model * n, plan.facts, eigenvalue, plan.split.scale * n))

    def column(label, prediction):
        nodes = shared_counts._NODES
        weights = [np.interp(prediction, nodes, unit) for unit in np.eye(len(nodes))]
        whole = np.zeros((2, len(nodes)))
        whole[label] = np.floor(np.array(weights) * 2**10 + 0.5) / 2**10
        return design.matrix @ whole.ravel() / 2**14

    others, canary = (n - 1) * column(0, w * short), column(1, w)
    return float((value - others) @ canary - 0.5 * canary @ canary) / std**2


@pytest.mark.slow
def test_minibatch_fit_with_memory(recorder):
    """Secret duals under Poisson sampling: the exact likelihood sums over all secret coins of the canary.

    The step of a row depends on its own memory, that is on how often it was sampled before, which the adversary cannot
    see; he weighs every history by its probability. This is the adversary with memory of Theorem 2.
    """
    alpha, steps, size, n = 0.01, 6, 16.0, 40
    without = np.zeros((n, 2))
    without[:-1, 0] = np.linspace(-0.1, 0.1, n - 1)
    with_canary = without.copy()
    with_canary[-1, 1] = 1.0
    y = np.where((np.arange(n) % 3 == 0) | (np.arange(n) == n - 1), 1, -1)
    histories = np.array(list(itertools.product([0, 1], repeat=steps)), dtype=bool)
    scores = {"in": [], "out": []}
    for name, X in (("in", with_canary), ("out", without)):
        for seed in range(6000 if recorder.factor > 0.5 else 1500):
            recorder.releases.clear()
            model = sv.DPLogisticRegression(
                epsilon=EPSILON, delta=DELTA, data_norm=1.0, classes=[-1, 1], fit_intercept=False, alpha=alpha,
                solver=Minibatch(batch_size=size, epochs=size / n * steps),
                random_state=seed,
            ).fit(X, y)  # fmt: skip
            assert model.n_iter_ == steps
            scores[name].append(_likelihood_of_minibatch(recorder.releases, alpha, size, histories, with_canary))
    verdict(recorder, epsilon_lower_bound, scores["in"], scores["out"])


@njit
def _steps_of(memories, m, ratio, clip, loss):
    zeta = np.empty_like(memories)
    for k in range(len(memories)):
        zeta[k] = min(max(dual_step(loss, memories[k], 1.0, m, ratio), -clip), clip)
    return zeta


def _likelihood_of_minibatch(releases, alpha, size, histories, X):
    n, rate = len(X), size / len(X)
    value, std, _ = releases[0]
    alone, others = np.linalg.norm(X[:, 1]) ** 2, np.linalg.norm(X[:, 0]) ** 2
    score = ((value[0] - others) ** 2 - (value[0] - max(alone, others)) ** 2) / (2 * std**2)
    eigenvalue = min(1.0, max(0.5, (value[0] + 2.0 * std) / n))
    clip = releases[1][2]
    a, log_weight, v = np.zeros(len(histories)), np.zeros(len(histories)), 0.0
    for step, (value, std, _) in enumerate(releases[1:]):
        ratio = ((size - 1.0) * eigenvalue + 1.0) / (alpha * n)
        zeta = _steps_of(a, v / (alpha * n), ratio, clip, Logistic())
        coins = histories[:, step]
        log_weight += np.where(coins, np.log(rate), np.log1p(-rate))
        log_weight += np.where(coins, (value[1] * zeta - 0.5 * zeta**2) / std**2, 0.0)
        a = a + coins * zeta
        v += value[1]
    return score + float(np.log(np.sum(np.exp(log_weight))))
