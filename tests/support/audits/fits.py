"""Audits of whole fits by the solvers that are chosen by default, from what the strongest adversary sees of them.

The canary is as long as a row may be and the other rows pull the other way, so that its prediction stays wrong and its
step clipped: it moves every release as far as it can. The adversary follows both tables' dual variables through what
was released, and scores a run by its exact log-likelihood ratio.
"""

import math
from functools import partial

import numpy as np
from scipy.special import softmax

import sottovoce as sv
from sottovoce.central import calibration
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.newton_schedule import Curvature
from sottovoce.central.parallel import Team
from sottovoce.central.solvers import momentum, sgd
from sottovoce.central.solvers import one_step as one_step_module
from sottovoce.central.solvers.descent import log_odds
from sottovoce.central.solvers.sgd import Walk
from sottovoce.central.split import Scales
from sottovoce.central.sums import shared_counts
from sottovoce.central.sums.passes import ClippedSlopes, JointSlopes
from sottovoce.central.sums.shared_counts import design_for
from sottovoce.central.sums.whole_gram import coordinate_factors, gram, symmetric
from sottovoce.randomness import Streams
from support.asking import trained
from support.audits.audit import DELTA, SLOW, Audit, Scores, note_releases
from support.audits.row_norm import bound_and_score, shortened

TEAM = Team(1, None)
FAR = 40.0  # a margin at which a slope is that of the corner
PUBLIC = {"epsilon": 1.0, "delta": DELTA, "data_norm": 1.0, "fit_intercept": False}


def scores_of_fits(seen, fits, n_runs, score):
    """Return the score of each fit with a seed, on the one table and on the other; ``seen`` holds what it released."""
    found = []
    for fit in fits:
        scores = []
        for seed in range(n_runs):
            seen.clear()
            fit(seed)
            scores.append(score(seen))
        found.append(np.array(scores))
    return Scores(*found)


def of_eigenvalue(release, n, others, moved):
    """Return the log-ratio of the noisy lambda_max, which the canary moves so far, and the upper bound made of it."""
    value, std, *_ = release
    score = ((value[0] - others) ** 2 - (value[0] - others - moved) ** 2) / (2 * std**2)
    return score, min(1.0, max(0.5, (value[0] + 2.0 * std) / n))


def followed(passes, plan, n, damping, clip, people):
    """Return the log-likelihood ratio of full passes with momentum, and the points that they went through.

    ``people`` holds for the others, and then for the canary: label, norm of a row, rows that are cut together, and how
    many such people there are.
    """
    score = v = v_before = 0.0
    memories, points = ([0.0, 0.0], [0.0, 0.0]), []  # dual variable of a row, and the one before
    n_others = people[0][-1]
    for step, (value, std, *_) in enumerate(passes):
        momentum = min(step / (step + 3.0), 1.0 - 1.6 / math.sqrt(plan.split.model * n))
        v, v_before = v + momentum * (v - v_before), v
        w, moves = v / (plan.alpha * n), []
        for memory, (label, x, rows, _) in zip(memories, people, strict=True):
            centre = memory[0] + momentum * (memory[0] - memory[1])
            zeta = -damping * (-label / (1.0 + math.exp(label * x * w)) + centre)
            zeta = min(max(zeta, -clip / (rows * x)), clip / (rows * x))
            memory[0], memory[1] = centre + zeta, memory[0]
            moves.append(rows * zeta * x)
        score += ((value[0] - n_others * moves[0]) * moves[1] - 0.5 * moves[1] ** 2) / std**2
        v += value[0]
        points.append(v)
    return score, points


def default_fit(factor, patch):
    """Every pass moves by the whole clip along the canary, and lambda_max as far as it can.

    The weights at the end are a function of what was released, and with them the canary's column in the sums that slope
    and shift are made of: the adversary sees these, and what is made of them is post-processing.
    """
    n, short, seen = 100, 0.1, note_releases(patch, factor)
    X = np.zeros((n, 2))
    X[:-1, 0], X[-1, 0] = short, 1.0
    y = np.where(np.arange(n) == n - 1, 1, -1)
    patch.setattr(calibration, "_fit", lambda *_: (1.0, 0.0))
    model = sv.DPLogisticRegression(classes=[-1, 1], adjacency="add-remove", n_public=n, solver="scd", **PUBLIC)
    plan = sv.plan(model, n, 2)

    def score(releases):
        bound, first, releases = bound_and_score(releases, n=n, others=n - 1, inside=short, zeroed=False)
        x = shortened(short, bound)
        second, eigenvalue = of_eigenvalue(releases[0], n, (n - 1) * x**2, 1.0)
        clip = releases[1].sensitivity
        assert math.isclose(clip, plan.clip_for(Scales(eigenvalue=eigenvalue)), rel_tol=1e-5)  # the solver's algebra
        people = ((-1.0, x, 1, n - 1), (1.0, 1.0, 1, 1))
        damping = 1.0 / (1.0 + 0.25 * eigenvalue / plan.alpha)
        third, points = followed(releases[1:-1], plan, n, damping, clip, people)
        w = np.mean(points[-round(plan.averaged * len(points)) :]) / (plan.alpha * n)
        return first + second + third + of_calibration(releases[-1], plan, eigenvalue, w, n, x)

    fits = [lambda seed, k=k: model.set_params(random_state=seed).fit(X[:k], y[:k]) for k in (n, n - 1)]
    return scores_of_fits(seen, fits, 4000, score)


def of_calibration(release, plan, eigenvalue, w, n, short):
    """Score the noisy sums: the others hold their label -1 at w short, the canary its label +1 at w."""
    value, std, *_ = release
    design = design_for(calibration.prior_for(plan.split.model * n, plan.facts, eigenvalue, plan.split.scale * n))

    def column(label, prediction):
        nodes = shared_counts._NODES
        weights = [np.interp(prediction, nodes, unit) for unit in np.eye(len(nodes))]
        whole = np.zeros((2, len(nodes)))
        whole[label] = np.floor(np.array(weights) * 2**10 + 0.5) / 2**10
        return design.matrix @ whole.ravel() / 2**14

    others, canary = (n - 1) * column(0, w * short), column(1, w)
    return float((value - others) @ canary - 0.5 * canary @ canary) / std**2


# --- persons ----------------------------------------------------------------------------------------------------------

OWN = 3  # rows of the person, all of whom are there or not; they keep their places
RUNS_OF_PERSONS = {1.0: 2000, 0.7: 4000}


def fits_of_persons(model, X, y, groups):
    without = np.where(groups == groups[-1], np.nan, groups)
    return [lambda seed, mine=mine: model.set_params(random_state=seed).fit(X, y, groups=mine)
            for mine in (groups, without)]  # fmt: skip


def default_fit_of_a_person(factor, patch):
    """The person's three rows are alike, and their steps together are cut in every pass."""
    n, short, seen = 100, 0.1, note_releases(patch, factor)
    others = n - OWN
    X = np.zeros((n, 2))
    X[:others, 0], X[others:, 0] = short, 1.0
    y, groups = np.where(np.arange(n) < others, -1, 1), np.minimum(np.arange(n), others).astype(float)
    model = sv.DPLogisticRegression(
        classes=[-1, 1], solver="scd", solver_options={"calibration_share": 0.0, "n_passes": 6}, max_rows_per_group=OWN,
        **PUBLIC,
    )  # fmt: skip
    plan = sv.plan(model, n, 2)

    def score(releases):
        bound, first, releases = bound_and_score(releases, n=n, others=others, inside=short, zeroed=False)
        x = shortened(short, bound)
        assert math.isclose(releases[0].sensitivity, OWN, rel_tol=1e-4)
        second, eigenvalue = of_eigenvalue(releases[0], n, others * x**2, OWN)
        clip = releases[1].sensitivity
        assert math.isclose(clip, OWN**0.25 * plan.clip_for(Scales(eigenvalue=eigenvalue)), rel_tol=1e-5)
        people = ((-1.0, x, 1, others), (1.0, 1.0, OWN, 1))
        damping = 1.0 / (1.0 + 0.25 * eigenvalue / plan.alpha)
        return first + second + followed(releases[1:], plan, n, damping, clip, people)[0]

    return scores_of_fits(seen, fits_of_persons(model, X, y, groups), RUNS_OF_PERSONS[factor], score)


def second_moments_of_a_person(factor, patch):
    """A person whose rows are alike moves all moments three times as far as one row."""
    n, seen = 30, note_releases(patch, factor)
    others = n - OWN
    X, y = np.zeros((n, 1)), np.zeros(n)
    X[others:], y[others:] = 1.0, 1.0
    groups = np.minimum(np.arange(n), others).astype(float)
    model = sv.DPRidge(
        label_bounds=(-1, 1), solver="adassp", solver_options={"clip_labels": False}, max_rows_per_group=OWN, **PUBLIC
    )
    u = np.array([1.0, math.sqrt(0.5)])
    moved = OWN * np.array([u[0] ** 2, math.sqrt(2.0) * u[0] * u[1], u[1] ** 2])

    def score(releases):
        ((value, std, *_),) = releases
        return float(value @ moved - 0.5 * moved @ moved) / std**2

    return scores_of_fits(seen, fits_of_persons(model, X, y, groups), RUNS_OF_PERSONS[factor], score)


# --- several classes --------------------------------------------------------------------------------------------------


def all_classes_jointly(factor, patch):
    """The other rows are the canary's but for the class; its term is a vector over the classes, at the clip as a whole.

    An attack on one class alone would be weaker, and noise for one class alone too little. The adversary makes nothing
    of the length of the scores, which gets 3 % of mu^2.
    """
    n, n_classes, alpha, seen = 100, 4, 5e-5, note_releases(patch, factor)
    without = np.zeros((n, 2))
    without[:-1, 0] = 1.0
    present = without.copy()
    present[-1, 0] = 1.0
    y = np.where(np.arange(n) == n - 1, 2, 0)
    model = sv.DPLogisticRegression(
        classes=list(range(n_classes)), alpha=alpha, solver="multinomial-scd", solver_options={"steps": False},
        **PUBLIC,
    )  # fmt: skip

    def score(releases):
        passes = [one.value.ndim == 2 for one in releases]
        assert sum(passes) == model.n_iter_
        first, *releases = releases[passes.index(True) - 1 : -2]
        score, eigenvalue = of_eigenvalue(first, n, n - 1.0, 1.0)
        damping, clip = 1.0 / (1.0 + 0.5 * eigenvalue / alpha), releases[0].sensitivity
        assert math.isclose(clip, 0.4 * damping * math.sqrt(1.0 - 1.0 / n_classes), rel_tol=1e-5)
        v, v_before = np.zeros((2, n_classes, 2))
        other, canary = np.zeros((2, n_classes)), np.zeros((2, n_classes))  # dual vector, and the one before
        for step, (value, std, *_) in enumerate(releases):
            momentum = step / (step + 3.0)
            v, v_before = v + momentum * (v - v_before), v
            moves = []
            for memory, label in ((other, 0), (canary, 2)):
                centre = memory[0] + momentum * (memory[0] - memory[1])
                zeta = damping * (np.eye(n_classes)[label] - softmax(v[:, 0] / (alpha * n)) - centre)
                zeta *= min(1.0, clip / np.linalg.norm(zeta))
                memory[1], memory[0] = memory[0].copy(), centre + zeta
                moves.append(zeta)
            shown = value[:, 0] - (n - 1) * moves[0]
            score += float(shown @ moves[1] - 0.5 * moves[1] @ moves[1]) / std**2
            v = v + value - value.mean(axis=0)
        return score

    fits = [lambda seed, X=X: model.set_params(random_state=seed).fit(X, y) for X in (present, without)]
    return scores_of_fits(seen, fits, 4000, score)


def steps_of_classes(n_classes, factor, patch):
    """The adversary scores the steps, which have nearly all of mu^2, and makes nothing of the length of the scores.

    The other rows are zeros, which pull nowhere. At which weights rows are asked follows from what was released.
    """
    n, solver, asked, seen = 100, "multinomial-scd" if n_classes > 2 else "momentum", [], note_releases(patch, factor)

    def noted(weights):
        asked.append(np.array(weights))
        return weights

    patch.setattr(momentum, "JointSlopes", lambda weights, *rest: JointSlopes(noted(weights), *rest))
    patch.setattr(momentum, "ClippedSlopes", lambda loss, weights, *rest: ClippedSlopes(loss, noted(weights), *rest))
    steps = 8  # in place of 120 or more, at the same cut and rate: a run costs what its steps take
    patch.setattr(momentum, "_FEWEST", steps if n_classes > 2 else steps // momentum._OF_TWO)
    patch.setattr(momentum, "_PULL", steps * 0.15)
    patch.setattr(momentum, "_FARTHEST", 1.0 / 15.0)  # weights stay where the canary's pull is cut in every step
    X, y = np.zeros((n, 2)), np.full(n, 0)
    X[-1, 0], y[-1] = 1.0, n_classes // 2
    model = sv.DPLogisticRegression(
        classes=list(range(n_classes)), adjacency="add-remove", n_public=n, alpha=1.0, solver=solver,
        solver_options={"steps": True} if n_classes > 2 else None, **PUBLIC,
    )  # fmt: skip

    def score(releases):
        found, shape = 0.0, (n_classes, 2) if n_classes > 2 else (2,)
        steps = [one for one in releases if one.value.shape == shape]
        for (value, std, sensitivity, _), weights in zip(steps, asked, strict=False):  # a replay asks further ones
            if n_classes > 2:
                pull, value = np.eye(n_classes)[y[-1]] - softmax(weights[:, 0]), value[:, 0]
            else:
                pull, value = -np.ones(1) / (1.0 + np.exp(weights[0])), value[:1]
            moved = pull * min(1.0, sensitivity / np.linalg.norm(pull))
            found += float(value @ moved - 0.5 * moved @ moved) / std**2
        asked.clear()
        assert len(steps) == model.n_iter_
        return found

    fits = [lambda seed, k=k: model.set_params(random_state=seed).fit(X[:k], y[:k]) for k in (n, n - 1)]
    return scores_of_fits(seen, fits, 4000, score)


# --- descent from a base rate -----------------------------------------------------------------------------------------


def descent(factor, patch):
    """Every step moves by the whole clip along the canary, and the sum of the labels by one."""
    n, seen = 100, note_releases(patch, factor)
    patch.setattr(Walk, "rate", lambda self, n_steps: 1e-3)  # the canary stays far from its label
    patch.setattr(sgd, "_MIN_STEPS", 40)  # in place of 400 or more: what a step costs is the same
    patch.setattr(sgd, "_MAX_STEPS", 40)
    X, y = np.zeros((n, 1)), np.full(n, -1)
    X[-1], y[-1] = 1.0, 1
    model = sv.DPLogisticRegression(
        classes=[-1, 1], adjacency="add-remove", n_public=n, solver="gd", **{**PUBLIC, "fit_intercept": True}
    )
    plan = sv.plan(model, n, 1)
    entry, rate, last = plan.facts.entry, plan.walk.rate(plan.walk.n_steps), []
    rows = np.array([[0.0, entry], [math.sqrt(1.0 - entry**2), entry]])  # one of the others, and the canary

    def score(releases):
        (value, std, *_), *steps = releases
        found = float(value[0] + (n - 1) - 0.5) / std**2
        w = first = np.array([0.0, log_odds(value[0] / n, std / n) / entry])
        points = []
        for value, std, sensitivity, _ in steps:
            slopes = np.array([1.0, -1.0]) / (1.0 + np.exp(np.array([-1.0, 1.0]) * (rows @ w)))
            clips = sensitivity / np.linalg.norm(rows, axis=1)
            terms = np.clip(slopes, -clips, clips)[:, None] * rows
            found += float((value - (n - 1) * terms[0]) @ terms[1] - 0.5 * terms[1] @ terms[1]) / std**2
            w = (w - rate / n * value) / (1.0 + rate * plan.alpha_scaled)
            points.append(w)
        back = 0.35 * min(1.0, 60.0 / (plan.split.whole * n))
        last.append((1.0 - back) * np.mean(points[len(points) // 2 :], axis=0) + back * first)
        return found

    def fit(seed, k):
        model.set_params(random_state=seed).fit(X[:k], y[:k])

    found = scores_of_fits(seen, [partial(fit, k=k) for k in (n, n - 1)], 4000, score)
    # the algebra is the solver's
    assert math.isclose(model.coef_[0, 0], last[-1][0] * math.sqrt(1.0 - entry**2), rel_tol=1e-6)
    return found


# --- Newton steps -----------------------------------------------------------------------------------------------------

# the estimator, the bound on l'', and -l' of a label 1 at a margin
NEWTON = {
    "logistic": (sv.DPLogisticRegression, 0.25, lambda z: 1.0 / (1.0 + np.exp(z))),
    "hinge": (sv.DPLinearSVC, 0.5, lambda z: min(max(0.5 * (1.0 - z), 0.0), 1.0)),  # smoothed over 2
}


def newton(loss, factor, patch):
    """Every pass moves the canary's dual variable by the whole clip."""
    n, short, runs, seen = 250, 0.3, 4000, note_releases(patch, factor)
    without = np.zeros((n, 2))
    without[:-1, 0] = short
    present = without.copy()
    present[-1, 0] = 1.0
    y = np.where(np.arange(n) == n - 1, 1.0, -1.0)
    kind, smoothness, pull = NEWTON[loss]
    model = kind(accept_delta=DELTA, classes=[-1, 1], solver="newton", solver_options={"calibration_share": 0.0},
                 **PUBLIC)  # fmt: skip
    plan, last = sv.plan(model, n, 2), []

    def fit_on(X, first_seed):
        rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=TEAM)
        return lambda seed: last.append(trained(plan, rows, [y], Streams(first_seed + seed), TEAM).result)

    def score(releases):
        score, w = of_newton(plan, releases, n, short, smoothness, pull)
        np.testing.assert_allclose(last.pop().weights[0], w, rtol=1e-6, atol=1e-12)  # the algebra is the solver's
        return score

    return scores_of_fits(seen, [fit_on(present, runs), fit_on(without, 0)], runs, score)


def of_newton(plan, released, n, short, smoothness, pull):
    """Return the log-likelihood ratio of the canary's presence, and the model, from the releases alone."""
    bound, score, passes = bound_and_score(released, n=n, others=n - 1, inside=short, zeroed=True)
    more, w = of_passes(plan, passes, n, shortened(short, bound), smoothness, pull)
    return score + more, w / bound


def of_passes(plan, released, n, short, smoothness, pull):
    """Return the same of the noisy matrix and the passes, for rows of a length that nothing shortens."""
    matrix, *passes = released
    value = matrix.value
    score = of_eigenvalue(matrix, n, (n - 1) * np.trunc(short * 2**16) ** 2 / 2**32, 1.0)[0]
    matrix = symmetric(value / coordinate_factors(plan.n_weights), plan.n_weights)
    curvature = Curvature(matrix, plan.least_eigenvalue, plan.penalty)
    share = plan.schedule.clips[0] / pull(0.0)
    w = v = np.zeros(plan.n_weights)
    factor, last = 0.75 * smoothness, None
    other = canary = 0.0
    for step, ((value, std, *_), clip) in enumerate(zip(passes, plan.schedule.clips, strict=True)):
        now = 1.0 if step else share
        moves = []
        for memory, label, x in ((other, -1.0, short), (canary, 1.0, 1.0)):
            zeta = now * label * pull(label * x * w[0]) - memory
            moves.append(min(max(zeta, -clip / x), clip / x))
        other, canary = other + moves[0], canary + moves[1]
        score += ((value[0] - (n - 1) * short * moves[0]) * moves[1] - 0.5 * moves[1] ** 2) / std**2
        v = v + value
        if not step:
            w = curvature.solve(v / share, 0.55 * smoothness)
            continue
        gradient = v - plan.penalty * w
        if last is not None:
            seen = curvature.along(w - last[0], last[1] - gradient, std)
            least = plan.schedule.least_step(curvature.length(w))
            factor = min(max(seen, smoothness * least), 0.75 * smoothness)
        last = w, gradient
        w = w + curvature.solve(gradient, factor)
    return score, w


def one_step(factor, patch):
    """Where weights are is post-processing: the information is asked at 0, and the gradients far on the wrong side."""
    n, short, runs, seen = 250, 0.3, 4000 if factor > 0.5 else 1000, note_releases(patch, factor)
    patch.setattr(one_step_module, "gram", lambda mechanism, words, at: gram(mechanism, words, at=np.zeros(1)))
    patch.setattr(one_step_module, "ClippedSlopes", lambda loss, w, *rest: ClippedSlopes(loss, np.full(1, -FAR), *rest))
    present = np.full((n, 1), short)
    present[-1] = 1.0
    without, y = present.copy(), np.where(np.arange(n) == n - 1, 1.0, -1.0)
    without[-1] = 0.0
    model = sv.DPLogisticRegression(accept_delta=DELTA, classes=[-1, 1], solver="one-step", **PUBLIC)
    plan = sv.plan(model, n, 1)

    def fit_on(X, first_seed):
        rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=TEAM)
        return lambda seed: trained(plan, rows, [y], Streams(first_seed + seed), TEAM)

    def score(releases):
        *pilot, information, first, second = releases
        _, smoothness, pull = NEWTON["logistic"]
        score, _ = of_passes(plan, pilot, n, short, smoothness, pull)
        gradient = (n - 1) * short * pull(short * FAR)
        for (value, std, *_), others, shift in (
            (information, (n - 1) * short**2, 1.0), (first, gradient, -1.0), (second, gradient, -1.0),
        ):  # fmt: skip
            score += ((value[0] - others) * shift - 0.5) / std**2
        return score

    return scores_of_fits(seen, [fit_on(present, runs), fit_on(without, 0)], runs, score)


# --- refinement -------------------------------------------------------------------------------------------------------


def refinement(factor, patch):
    """The other rows are nearly empty, and the canary's label so far off that every pass clips its residual."""
    n, short, alpha, seen = 30, 1e-3, 1e-3, note_releases(patch, factor)
    X, y = np.full((n, 1), short), np.zeros(n)
    X[-1], y[-1] = 1.0, 1.0
    model = sv.DPRidge(
        label_bounds=(-1.0, 1.0), adjacency="add-remove", n_public=n, alpha=alpha, solver="refinement",
        solver_options={"n_passes": 10}, **PUBLIC,
    )  # fmt: skip
    fits = [lambda seed, k=k: model.set_params(random_state=seed).fit(X[:k], y[:k]) for k in (n, n - 1)]
    return scores_of_fits(seen, fits, 5000, partial(of_refinement, n, short, alpha))


def of_refinement(n, short, alpha, releases):
    """Score matrix, histogram, one pass, histogram, nine passes; each by the shift that the canary makes."""
    others = n - 1
    bound, score, (matrix, first, *rest) = bound_and_score(releases, n=n, others=others, inside=short, zeroed=False)
    short = shortened(short, bound)
    passes = [rest[0], *rest[2:]]
    assert len(passes) == 10
    value, std, *_ = matrix
    score += ((value[0] - others * short**2) - 0.5) / std**2
    score += of_counts(first, 1.0, 1.0, others)
    penalty, edge = alpha * n, np.sqrt(2.0) * std
    divisor = max(value[0], 0.0) + penalty + edge
    point = before = 0.0
    for step, (moved, noise, sensitivity, _) in enumerate(passes):
        clip = sensitivity / (1.0 + 2.0**-20)
        if step == 1:
            score += of_counts(rest[1], abs(1.0 - point), 2.0, others, above=point < 1.0)
        ahead = point + step / (step + 3.0) * (point - before)
        pull = others * short * np.clip(short * ahead, -clip / short, clip / short)  # of the gradient, m - y
        shift = np.clip(ahead - 1.0, -clip, clip)
        score += ((moved[0] - pull) * shift - 0.5 * shift**2) / noise**2
        point, before = ahead + (-moved[0] - penalty * ahead) / divisor, point
    return score


def of_counts(release, size, widest, others, *, above=True):
    """Return the log-ratio of a histogram: the canary is in its bin, or missing."""
    value, std, *_ = release
    edges = widest * 2.0 ** -np.arange(11.0, -1.0, -1.0)
    own = int(np.searchsorted(edges, min(size, widest))) + 12 * above
    difference, common = np.zeros(24), np.zeros(24)
    difference[own] += 1.0
    common[0] = others  # nearly no distance: not above
    return (float((value - common) @ difference) - 0.5) / std**2


AUDITS = (
    Audit("default fit", default_fit, **SLOW),
    Audit("default fit, a person", default_fit_of_a_person, least=0.3, **SLOW),
    Audit("adassp, a person", second_moments_of_a_person, least=0.3, **SLOW),
    # an attack on all classes that loses nothing gets .56 from so many runs: staying below the promise says something
    Audit("all classes jointly", all_classes_jointly, least=0.3, **SLOW),
    Audit("steps of several classes", partial(steps_of_classes, 4), least=0.3, **SLOW),
    Audit("steps of two classes", partial(steps_of_classes, 2), least=0.3, **SLOW),
    Audit("descent from a base rate", descent, least=0.3, **SLOW),
    *(Audit(f"newton, {loss}", partial(newton, loss), **SLOW) for loss in NEWTON),
    Audit("one step further", one_step, **SLOW),
    Audit("refinement", refinement, **SLOW),
)
