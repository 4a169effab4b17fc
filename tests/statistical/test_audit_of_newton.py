"""Audit of whole runs of `solver="newton"`: the adversary knows all other rows and sees every release.

The canary is long, and the other rows pull the other way, so that its prediction stays wrong and every pass moves its
dual variable by the whole clip. The adversary follows both tables' memories through the released history, and scores a
run by its exact log-likelihood ratio. At the planned noise the lower bound on epsilon stays below the receipt's; at
0.7 times that noise it must not.
"""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.audit import gaussian_lower_bound
from sottovoce.central.data.rows import make_rows
from sottovoce.central.newton_schedule import Curvature
from sottovoce.central.parallel import Team
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Streams
from support.asking import trained
from support.noise import Scaled
from support.row_norm import bound_and_score, shortened

# an audit has more power at a large delta; the tables are made up
pytestmark = pytest.mark.filterwarnings("ignore:delta=:sottovoce.exceptions.PrivacyWarning")

EPSILON, DELTA = 1.0, 0.05
RUNS = {1.0: 4000, 0.7: 4000, 0.5: 1000}  # on each table
TEAM = Team(1, None)
N, SHORT = 250, 0.3


# the estimator, the bound on l'', and -l' of a label 1 at a margin
LOSSES = {
    "logistic": (sv.DPLogisticRegression, 0.25, lambda z: 1.0 / (1.0 + np.exp(z))),
    "hinge": (sv.DPLinearSVC, 0.5, lambda z: min(max(0.5 * (1.0 - z), 0.0), 1.0)),  # smoothed over 2
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "factor",
    [*(pytest.param(factor, marks=pytest.mark.slow) for factor in (1.0, 0.7)), 0.5],
    ids=lambda factor: f"noise x {factor}",
)
def test_audit(factor, loss, monkeypatch):
    without = np.zeros((N, 2))
    without[:-1, 0] = SHORT
    present = without.copy()
    present[-1, 0] = 1.0
    y = np.where(np.arange(N) == N - 1, 1.0, -1.0)
    released = []
    original = GridGaussian.release

    def release(self, ticks, noise):
        value, event = original(self, ticks, Scaled(noise, factor))
        released.append((value, self.noise_std))
        return value, event

    monkeypatch.setattr(GridGaussian, "release", release)
    kind, smoothness, pull = LOSSES[loss]
    model = kind(
        epsilon=EPSILON, delta=DELTA, accept_delta=DELTA, data_norm=1.0, classes=[-1, 1], fit_intercept=False,
        solver="newton", solver_options={"calibration_share": 0.0},
    )  # fmt: skip
    plan = sv.plan(model, N, 2)
    scores = {}
    for name, X in (("in", present), ("out", without)):
        rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=TEAM)
        scores[name] = []
        for seed in range(RUNS[factor]):
            released.clear()
            solution = trained(plan, rows, [y], Streams(seed + RUNS[factor] * (name == "in")), TEAM).result
            score, w = _likelihood(plan, released, smoothness, pull)
            np.testing.assert_allclose(
                solution.weights[0], w, rtol=1e-6, atol=1e-12
            )  # the adversary's algebra is the solver's
            scores[name].append(score)
    bound = gaussian_lower_bound(np.array(scores["in"]), np.array(scores["out"]), delta=DELTA)
    print(f"{loss}, noise x {factor}: epsilon >= {bound:.3f} at delta = {DELTA} ({RUNS[factor]} runs a table)")
    if factor == 1.0:
        assert 0.5 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON


def _likelihood(plan, released, smoothness, pull):
    """Return the log-likelihood ratio of the canary's presence, and the model, from the releases alone."""
    bound, score, ((value, std), *passes) = bound_and_score(released, n=N, others=N - 1, inside=SHORT, zeroed=True)
    short = shortened(SHORT, bound)
    others = (N - 1) * np.trunc(short * 2**16) ** 2 / 2**32
    score += ((value[0] - others) ** 2 - (value[0] - others - 1.0) ** 2) / (2.0 * std**2)
    matrix = np.array([[value[0], value[1] / 2**0.5], [value[1] / 2**0.5, value[2]]])
    curvature = Curvature(matrix, plan.least_eigenvalue, plan.penalty)
    share = plan.schedule.clips[0] / pull(0.0)
    w = v = np.zeros(2)
    factor, last = 0.75 * smoothness, None
    other = canary = 0.0
    for step, ((value, std), clip) in enumerate(zip(passes, plan.schedule.clips, strict=True)):
        now = 1.0 if step else share
        moves = []
        for memory, label, x in ((other, -1.0, short), (canary, 1.0, 1.0)):
            zeta = now * label * pull(label * x * w[0]) - memory
            moves.append(min(max(zeta, -clip / x), clip / x))
        other, canary = other + moves[0], canary + moves[1]
        score += ((value[0] - (N - 1) * short * moves[0]) * moves[1] - 0.5 * moves[1] ** 2) / std**2
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
    return score, w / bound
