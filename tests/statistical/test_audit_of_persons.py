"""Audits of whole fits for persons: the tables differ in a person with three rows, all of them.

The adversary is that of `test_audit_of_fits`: he knows everybody else and sees every release. One fit cuts the steps of
a person's rows together (DP-SCD), one is made for three times a row's sensitivity (second moments).
"""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.audit import gaussian_lower_bound
from sottovoce.central.split import Scales
from support.noise import Recorder
from support.row_norm import bound_and_score, shortened

pytestmark = [
    pytest.mark.filterwarnings("ignore:delta=:sottovoce.exceptions.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore:groups is an array of float64"),
]

EPSILON, DELTA, OWN = 1.0, 0.05, 3
RUNS = {1.0: 2000, 0.7: 4000, 0.5: 800}  # on each table
PUBLIC = {
    "epsilon": EPSILON, "delta": DELTA, "data_norm": 1.0, "fit_intercept": False, "max_rows_per_group": OWN,
}  # fmt: skip


@pytest.fixture(
    params=[*(pytest.param(factor, marks=pytest.mark.slow) for factor in (1.0, 0.7)), 0.5],
    ids=lambda factor: f"noise x {factor}",
)
def recorder(request, monkeypatch):
    recorder = Recorder(request.param, [])
    recorder.install(monkeypatch)
    return recorder


def judged(recorder, model, X, y, groups, score):
    """Fit with and without the person, whose rows keep their places, and hold the bound to the promise."""
    scores = []
    for mine in (groups, np.where(groups == groups[-1], np.nan, groups)):
        found = []
        for seed in range(RUNS[recorder.factor]):
            recorder.releases.clear()
            model.set_params(random_state=seed).fit(X, y, groups=mine)
            found.append(score(recorder.releases))
        scores.append(np.array(found))
    bound = gaussian_lower_bound(*scores, delta=DELTA)
    print(f"noise x {recorder.factor}: epsilon >= {bound:.3f} at delta = {DELTA} ({len(found)} runs a table)")
    if recorder.factor == 1.0:
        assert 0.3 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON


def test_default_fit(recorder):
    """The person's three rows are alike, and their steps together are cut in every pass."""
    n, short = 100, 0.1
    others = n - OWN
    X = np.zeros((n, 2))
    X[:others, 0], X[others:, 0] = short, 1.0
    y, groups = np.where(np.arange(n) < others, -1, 1), np.minimum(np.arange(n), others).astype(float)
    model = sv.DPLogisticRegression(
        classes=[-1, 1], solver="scd", solver_options={"calibration_share": 0.0, "n_passes": 6}, **PUBLIC
    )  # fmt: skip
    plan = sv.plan(model, n, 2)
    judged(recorder, model, X, y, groups, lambda releases: likelihood(releases, plan, n, short))


def likelihood(releases, plan, n, short):
    """Return the exact log-likelihood ratio of the two tables."""
    alpha, others = plan.alpha, n - OWN
    bound, score, releases = bound_and_score(releases, n=n, others=others, inside=short, zeroed=False)
    short = shortened(short, bound)
    value, std, sensitivity = releases[0]
    assert sensitivity == pytest.approx(OWN, rel=1e-4)
    without = others * short**2
    score += ((value[0] - without) ** 2 - (value[0] - without - OWN) ** 2) / (2 * std**2)
    eigenvalue = min(1.0, max(0.5, (value[0] + 2.0 * std) / n))
    damping = 1.0 / (1.0 + 0.25 * eigenvalue / alpha)
    clip = releases[1][2]
    assert clip == pytest.approx(OWN**0.25 * plan.clip_for(Scales(eigenvalue=eigenvalue)), rel=1e-5)
    v = v_before = 0.0
    other, mine = [0.0, 0.0], [0.0, 0.0]  # dual variable of a row, and the one before
    for step, (value, std, _) in enumerate(releases[1:]):
        momentum = min(step / (step + 3.0), 1.0 - 1.6 / math.sqrt(plan.split.model * n))
        v, v_before = v + momentum * (v - v_before), v
        moves = []
        for memory, label, x, rows in ((other, -1.0, short, 1), (mine, 1.0, 1.0, OWN)):
            centre = memory[0] + momentum * (memory[0] - memory[1])
            zeta = -damping * (-label / (1.0 + math.exp(label * x * v / (alpha * n))) + centre)
            zeta = min(max(zeta, -clip / (rows * x)), clip / (rows * x))
            memory[0], memory[1] = centre + zeta, memory[0]
            moves.append(rows * zeta * x)
        score += ((value[0] - others * moves[0]) * moves[1] - 0.5 * moves[1] ** 2) / std**2
        v += value[0]
    return score


def test_second_moments(recorder):
    """A person whose rows are alike moves all moments three times as far as one row."""
    n = 30
    others = n - OWN
    X, y = np.zeros((n, 1)), np.zeros(n)
    X[others:], y[others:] = 1.0, 1.0
    groups = np.minimum(np.arange(n), others).astype(float)
    model = sv.DPRidge(label_bounds=(-1, 1), solver="adassp", solver_options={"clip_labels": False}, **PUBLIC)
    u = np.array([1.0, math.sqrt(0.5)])
    moved = OWN * np.array([u[0] ** 2, math.sqrt(2.0) * u[0] * u[1], u[1] ** 2])

    def score(releases):
        ((value, std, _),) = releases
        return float(value @ moved - 0.5 * moved @ moved) / std**2

    judged(recorder, model, X, y, groups, score)
