"""Audits of whole fits by the solvers that others published or are compared with; the adversary is that of `fits`.

Epsilon is 4 for three of them, because these methods are judged on fewer runs: the error of an audit in mu is the same.
Where a row's step depends on secret coins, the likelihood is the sum over all of them.
"""

import itertools
import math
from functools import partial

import numpy as np

import sottovoce as sv
from sottovoce._compiling import njit
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team
from sottovoce.losses import Hinge, Logistic, Squared, dual_step, slope
from sottovoce.papers.dp_scd import Minibatch, Primal, Published, Sequential
from sottovoce.randomness import Purpose, Streams
from support.asking import trained
from support.audits.audit import SLOW, Audit, Scores, note_releases
from support.audits.fits import PUBLIC, scores_of_fits

LOSSES = {"squared": Squared(), "logistic": Logistic(), "hinge": Hinge()}
KINDS = {"logistic": sv.DPLogisticRegression, "hinge": sv.DPLinearSVC}
ALPHA, EPSILON, RUNS = 0.01, 4.0, 1200
TEAM = Team(1, None)


def model_of(loss, **changed):
    facts = {**PUBLIC, "epsilon": EPSILON, "alpha": ALPHA, **changed}
    if loss == "squared":
        return sv.DPRidge(label_bounds=(-1.0, 1.0), **facts)
    return KINDS[loss](classes=[-1, 1], **facts)


def tables(n):
    """Return two neighbours: others along the first axis, the canary of norm 1 along the second, or zeroed out."""
    without = np.zeros((n, 2))
    without[:-1, 0] = np.linspace(-0.1, 0.1, n - 1)
    present = without.copy()
    present[-1, 1] = 1.0
    return present, without, np.where((np.arange(n) % 3 == 0) | (np.arange(n) == n - 1), 1.0, -1.0)


def judged(model, seen, pairs, n_runs, score, **promised):
    """Score fits with seeds on two tables; a score may need the seed too, from which public batches follow."""
    last = []

    def fit_on(X, y):
        return lambda seed: last.append((model.set_params(random_state=seed).fit(X, y), seed))

    found = scores_of_fits(seen, [fit_on(*pair) for pair in pairs], n_runs, lambda seen: score(seen, *last.pop()))
    return Scores(found.first, found.second, **promised)


def clipped(value, clip):
    return min(max(value, -clip), clip)


def sgd(loss, sampled, factor, patch):
    """Every step the clip binds; the adversary knows the sampling rate and not the coins, which are fresh each step."""
    n, clip, rate, steps, seen = 40, 0.2, 1.0, 6, note_releases(patch, factor)
    size = 16.0 if sampled else 40.0
    options = {"batch_size": size, "epochs": size / n * steps, "clipping_norm": clip, "learning_rate": rate}
    present, without, y = tables(n)

    def score(releases, model, _):
        assert model.n_iter_ == steps
        w = score = 0.0
        for value, std, sensitivity, _ in releases:
            u = clipped(slope(LOSSES[loss], 1.0, w), clip)
            assert math.isclose(abs(u), sensitivity, rel_tol=1e-5)
            ratio = (value[1] * u - 0.5 * u * u) / std**2
            score += math.log1p(size / n * math.expm1(ratio)) if sampled else ratio
            w = (w - rate / size * value[1]) / (1.0 + rate * ALPHA)
        return score

    return judged(
        model_of(loss, solver="sgd", solver_options=options), seen, [(present, y), (without, y)],
        5 * RUNS if sampled else RUNS, score, epsilon=EPSILON, gaussian=not sampled,
    )  # fmt: skip


def primal(loss, factor, patch):
    """Two blocks of one feature; the canary has its length in both, and every partial gradient of it is clipped."""
    n, clip, rate, epochs, seen = 30, 0.2, 1.0, 3, note_releases(patch, factor)
    present, without, y = tables(n)
    present[-1] = math.sqrt(0.5)
    solver = Primal(block_size=1, epochs=epochs, clipping_norm=clip, learning_rate=rate)

    def score(releases, _, seed):
        blocks = Streams(seed).generator(Purpose.SHUFFLING)
        order = np.concatenate([blocks.permutation(2) for _ in range(epochs)])
        w, score = np.zeros(2), 0.0
        for k, (value, std, sensitivity, _) in zip(order, releases, strict=True):
            m = without[:-1] @ w
            gradients = np.array([slope(LOSSES[loss], b, at) for b, at in zip(y[:-1], m, strict=True)])
            others = float(np.sum(np.clip(gradients * without[:-1, k], -clip, clip)))
            u = clipped(slope(LOSSES[loss], 1.0, math.sqrt(0.5) * w.sum()) * math.sqrt(0.5), clip)
            assert math.isclose(abs(u), sensitivity, rel_tol=1e-5)
            score += ((value[0] - others) * u - 0.5 * u * u) / std**2
            w[k] = (w[k] - rate / n * value[0]) / (1.0 + rate * ALPHA)
        return score

    pairs = [(present, y), (without, y)]
    return judged(model_of(loss, solver=solver), seen, pairs, RUNS, score, epsilon=EPSILON)


def sequential(loss, factor, patch):
    """Batches of one row, where the bound is tight: another label turns the step around, seen on a and on v."""
    n, clip, epochs, seen = 6, 1e-3, 4, note_releases(patch, factor)
    present, _, y = tables(n)
    other = y.copy()
    other[-1] = -1.0
    solver = Sequential(batch_size=1, epochs=epochs, clipping_norm=clip)

    def score(releases, _, seed):
        shuffling = Streams(seed).generator(Purpose.SHUFFLING)
        order = np.concatenate([shuffling.permutation(n) for _ in range(epochs)])
        a = v = score = 0.0
        for k, (value, std, sensitivity, _) in zip(order, releases, strict=True):
            if k == n - 1:
                moves = [clipped(dual_step(LOSSES[loss], a, label, v / n, 1.0 / n), clip) for label in (1.0, -1.0)]
                # 2 C on each of the two, of the 2 sqrt(2) C that are accounted
                assert math.isclose(moves[0] - moves[1], sensitivity / math.sqrt(2), rel_tol=1e-5)
                for shown in (value[0], value[2]):
                    score += ((shown - moves[1]) ** 2 - (shown - moves[0]) ** 2) / (2 * std**2)
                a += value[0]
            v += value[2]
        return score

    model = model_of(loss, solver=solver, adjacency="replace-one", alpha=1.0)
    return judged(model, seen, [(present, y), (present, other)], RUNS, score, epsilon=EPSILON)


# --- secret duals under Poisson sampling ------------------------------------------------------------------------------


def minibatch(factor, patch):
    """The exact likelihood sums over all secret coins of the canary: the adversary with memory of Theorem 2.

    The step of a row depends on its own memory, that is on how often it was sampled before, which the adversary cannot
    see; he weighs every history by its probability.
    """
    steps, size, n, seen = 6, 16.0, 40, note_releases(patch, factor)
    present, without, y = tables(n)
    histories = np.array(list(itertools.product([0, 1], repeat=steps)), dtype=bool)
    solver = Minibatch(batch_size=size, epochs=size / n * steps)

    def score(releases, model, _):
        assert model.n_iter_ == steps
        return of_histories(releases, size, histories, present)

    return judged(
        model_of("logistic", solver=solver, epsilon=1.0), seen, [(present, y), (without, y)],
        6000 if factor > 0.5 else 1500, score, gaussian=False,
    )  # fmt: skip


@njit(cache=True)
def _steps_of(memories, m, ratio, clip, loss):
    zeta = np.empty_like(memories)
    for k in range(len(memories)):
        zeta[k] = min(max(dual_step(loss, memories[k], 1.0, m, ratio), -clip), clip)
    return zeta


def of_histories(releases, size, histories, X):
    n, rate = len(X), size / len(X)
    value, std, *_ = releases[0]
    alone, others = np.linalg.norm(X[:, 1]) ** 2, np.linalg.norm(X[:, 0]) ** 2
    score = ((value[0] - others) ** 2 - (value[0] - max(alone, others)) ** 2) / (2 * std**2)
    eigenvalue = min(1.0, max(0.5, (value[0] + 2.0 * std) / n))
    clip = releases[1].sensitivity
    a, log_weight, v = np.zeros(len(histories)), np.zeros(len(histories)), 0.0
    for step, (value, std, *_) in enumerate(releases[1:]):
        ratio = ((size - 1.0) * eigenvalue + 1.0) / (ALPHA * n)
        zeta = _steps_of(a, v / (ALPHA * n), ratio, clip, Logistic())
        coins = histories[:, step]
        log_weight += np.where(coins, np.log(rate), np.log1p(-rate))
        log_weight += np.where(coins, (value[1] * zeta - 0.5 * zeta**2) / std**2, 0.0)
        a = a + coins * zeta
        v += value[1]
    return score + float(np.log(np.sum(np.exp(log_weight))))


# --- as published -----------------------------------------------------------------------------------------------------


def published(factor, patch):
    """Batches of one row, another label: the receipt holds, and what the paper claims (epsilon = 1) does not."""
    n, clip, scores, seen, runs = 3, 1e-3, [], note_releases(patch, factor), 1200
    X = np.zeros((n, 2))
    X[-1, 0] = 1.0
    model = sv.DPRidge(
        label_bounds=(-1.0, 1.0), alpha=1.0, solver=Published(batch_size=1, epochs=4, clipping_norm=clip),
        adjacency="replace-one", **PUBLIC,
    )  # fmt: skip
    plan = sv.plan(model, *X.shape)
    rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=TEAM)
    for place, last in enumerate((1.0, -1.0)):
        y, found = np.append(np.zeros(n - 1), last), []
        for seed in range(place * runs, (place + 1) * runs):
            seen.clear()
            trained(plan, rows, [y], Streams(seed), TEAM)
            score = 0.0
            for value, std, _, exact in seen:
                if exact[1]:  # the canary's batch: with the other label all moves turn around
                    np.testing.assert_allclose(exact[:2], last * clip, rtol=1e-5)
                    score += 2.0 * clip * float(value[0] + value[1]) / std**2
            found.append(score)
        scores.append(found)
    found = Scores(*scores, plan.promised_epsilon)
    assert found.bound() > plan.epsilon == 1.0
    return found


AUDITS = (
    Audit("sgd, Poisson samples, hinge", partial(sgd, "hinge", True), **SLOW),
    Audit("sgd, all rows, squared", partial(sgd, "squared", False), **SLOW),
    Audit("sgd, all rows, logistic", partial(sgd, "logistic", False), **SLOW),
    *(Audit(f"Primal, {loss}", partial(primal, loss), **SLOW) for loss in LOSSES),
    *(Audit(f"Sequential, {loss}", partial(sequential, loss), **SLOW) for loss in LOSSES),
    Audit("Minibatch", minibatch, factors=(), slow=(1.0, 0.7, 0.5)),
    Audit("Published", published, least=0.4, **SLOW),
)
