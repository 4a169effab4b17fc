"""Audit of whole fits by refinement; the adversary knows all other rows and sees every release.

The other rows are nearly empty, the canary is as long as a row may be, and its label so far off that every pass clips
its residual: it moves every release as far as it can. The exact log-likelihood ratio of the two tables follows from
what was released. At the planned noise the lower bound on epsilon must stay below the receipt's; at 0.7 of it, not.
"""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.audit import gaussian_lower_bound
from support.noise import Recorder
from support.row_norm import bound_and_score, shortened

pytestmark = pytest.mark.filterwarnings("ignore:delta=:sottovoce.exceptions.PrivacyWarning")
EPSILON, DELTA = 1.0, 0.05
SHORT, ALPHA = 1e-3, 1e-3


def tables():
    canary = np.full((30, 1), SHORT)
    canary[-1] = 1.0
    y = np.zeros(30)
    y[-1] = 1.0
    return {"in": (canary, y), "out": (canary[:-1], y[:-1])}


@pytest.mark.parametrize(
    "factor",
    [*(pytest.param(factor, marks=pytest.mark.slow) for factor in (1.0, 0.7)), 0.5],
    ids=lambda factor: f"noise x {factor}",
)
def test_audit(factor, monkeypatch):
    recorder = Recorder(factor, [])
    recorder.install(monkeypatch)
    scores = {"in": [], "out": []}
    for name, (X, y) in tables().items():
        for seed in range(5000 if factor > 0.5 else 800):
            recorder.releases.clear()
            sv.DPRidge(
                epsilon=EPSILON, delta=DELTA, data_norm=1.0, label_bounds=(-1.0, 1.0), fit_intercept=False,
                adjacency="add-remove", n_public=30, alpha=ALPHA, solver="refinement",
                solver_options={"n_passes": 10}, random_state=seed,
            ).fit(X, y)  # fmt: skip
            scores[name].append(_likelihood(recorder.releases))
    bound = gaussian_lower_bound(np.array(scores["in"]), np.array(scores["out"]), delta=DELTA)
    print(f"noise x {factor}: epsilon >= {bound:.3f} at delta = {DELTA} ({len(scores['in'])} runs a table)")
    if factor == 1.0:
        assert 0.5 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON


def _likelihood(releases):
    """Matrix, histogram, one pass, histogram, nine passes; each by the shift that the canary makes."""
    bound, score, (matrix, first, *rest) = bound_and_score(releases, n=30, others=29, inside=SHORT, zeroed=False)
    short = shortened(SHORT, bound)
    passes = [rest[0], *rest[2:]]
    assert len(passes) == 10
    value, std, _ = matrix
    score += ((value[0] - 29 * short**2) - 0.5) / std**2
    score += _of_counts(first, 1.0, 1.0)
    penalty, edge = ALPHA * 30, np.sqrt(2.0) * std
    divisor = max(value[0], 0.0) + penalty + edge
    point = before = 0.0
    for step, (moved, noise, sensitivity) in enumerate(passes):
        clip = sensitivity / (1.0 + 2.0**-20)
        if step == 1:
            score += _of_counts(rest[1], abs(1.0 - point), 2.0, above=point < 1.0)
        ahead = point + step / (step + 3.0) * (point - before)
        others = 29 * short * np.clip(short * ahead, -clip / short, clip / short)  # of the gradient, m - y
        shift = np.clip(ahead - 1.0, -clip, clip)
        score += ((moved[0] - others) * shift - 0.5 * shift**2) / noise**2
        point, before = ahead + (-moved[0] - penalty * ahead) / divisor, point
    return score


def _of_counts(release, size, widest, *, above=True):
    """Return the log-ratio of a histogram: the canary is in its bin, or missing."""
    value, std, _ = release
    edges = widest * 2.0 ** -np.arange(11.0, -1.0, -1.0)
    own = int(np.searchsorted(edges, min(size, widest))) + 12 * above
    difference = np.zeros(24)
    difference[own] += 1.0
    common = np.zeros(24)
    common[0] = 29.0  # nearly no distance: not above
    return (float((value - common) @ difference) - 0.5) / std**2
