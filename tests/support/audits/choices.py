"""Audits of private choices: the adversary counts how often the canary's side is taken, which is all there is to know.

The canary's residual stays clipped, so that with it two candidates are a worst-case window apart, and without it all
are alike.
"""

import math
from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.stats import norm

import sottovoce as sv
from sottovoce.privacy.accounting import SelectionAccountant
from sottovoce.privacy.events import GaussianEvent, RepeatAndSelectEvent
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.privacy.mechanisms.whole_gumbel import whole_gumbel
from sottovoce.privacy.trials import TrialCount
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.secure.agreed_plan import Block
from sottovoce.vertical.secure.column_plan import ColumnPlan
from support.audits.audit import DELTA, SLOW, Answers, Audit, Scores, Steps, scale_choices

# on each table: a break is seen with probability 0.97, and a bound above half of the promise nearly always
STEPS, FITS = 12, {1.0: 1600, 0.7: 1200}


def exponential_mechanism(factor, patch):
    """One of 40 candidates moves by the whole range: its probability grows by nearly e^epsilon."""
    scale_choices(patch, factor)
    mechanism, scores = ExponentialMechanism(2.0, 10.0), np.zeros(40, np.int64)
    found = []
    for seed, score in enumerate((10, 0)):
        scores[7], noise = score, Streams(seed).generator(Purpose.NOISE)
        found.append([float(mechanism.select(scores, noise)[0] == 7) for _ in range(15_000)])
    return Scores(*found, epsilon=2.0, delta=0.0, gaussian=False)


def frank_wolfe(canary, n_rows, sparse, constraint, factor, patch):
    """Whole fits: the two signs of one column, or the first and the second half of forty.

    The ball is so small that the residual stays at its clip: steps are alike. On the simplex and on the non-negative
    part of the ball the candidate that moves nothing hardly counts.
    """
    scale_choices(patch, factor)
    taken = []
    for row in (canary, 0.0 * canary):
        table = np.zeros((n_rows, len(canary)))
        table[-1] = row
        X, upward = sp.csr_array(table) if sparse else table, 0.0
        for seed in range(FITS[factor]):
            model = sv.DPLasso(
                label_bounds=(-1.0, 1.0), radius=1e-3, random_state=seed, constraint=constraint, epsilon=1.0,
                delta=DELTA, data_bound=1.0, n_steps=STEPS, fit_intercept=False,
            ).fit(X, np.ones(n_rows))  # fmt: skip
            moved = float(model.coef_[canary > 0.0].sum()) / (1e-3 / STEPS)
            upward += (moved + STEPS) / 2.0 if constraint == "l1" else moved
        taken.append(round(upward))
        assert math.isclose(upward, taken[-1], abs_tol=1e-3)
    return Steps(*taken, FITS[factor], STEPS)


# --- the best of many trials ------------------------------------------------------------------------------------------


def slope(law, worse):
    """f'(F), written out again."""
    return law.mean * (law.gamma / (law.gamma + (1 - law.gamma) * (1 - worse))) ** 2


def is_best(z, turn):
    """Score of an output y = z of one trial, N(mu, 1) or N(0, 1): above the turn all beat those below; both fall."""
    return np.where(z > turn, 100.0 - z, -z)


def worse_than(z, mean, turn):
    """Probability that one trial scores below z."""
    top = norm.cdf(turn - mean)
    return np.where(z > turn, top + norm.sf(z - mean), top - norm.cdf(z - mean))


def search(factor, patch):
    """A simulated search, with the library's draws of K; the score is the exact likelihood ratio."""
    mean, mu, runs = 10.0, 0.7, 60_000
    law, rng = TrialCount(mean), np.random.default_rng(3)
    claimed = SelectionAccountant().epsilon(RepeatAndSelectEvent(GaussianEvent(1 / mu), mean), DELTA)
    real = mu / factor
    turn = real / 2 + 1.0
    ratios = []
    for centre in (real, 0.0):
        best = np.empty(runs)
        for run in range(runs):
            outputs = centre + rng.standard_normal(law.draw(rng))
            best[run] = outputs[np.argmax(is_best(outputs, turn))]
        ratios.append(
            np.log(slope(law, worse_than(best, real, turn)) / slope(law, worse_than(best, 0.0, turn)))
            + real * best
            - real**2 / 2
        )
    return Scores(*ratios, claimed, gaussian=False)


# --- inside secure computation ----------------------------------------------------------------------------------------

LABELS = {"squared": {"label_bounds": (-1.0, 1.0)}, "logistic": {}}


def secure_choice(loss, known, factor, patch):
    """Whole rows, the plan's noise, the listed programs; ``known`` parties of three show the adversary their noise.

    He picks the replaced row, whose slope stays at its bound on opposite sides. Noise that is known may be anything,
    and is none here.
    """
    plan = ColumnPlan(
        n_samples=2, blocks=(Block("a", 1, 1.0), Block("b", 1, 1.0)), helpers=("h",), label_holder="a", loss=loss,
        radius=1e-9, epsilon=1.0, delta=DELTA, engine="in-process", n_steps_given=STEPS, fit_intercept=False,
        **LABELS[loss],
    )  # fmt: skip
    noise, right, draws = Streams(0).generator(Purpose.NOISE), 0, 6_000  # see a break with probability 0.99
    for entry, wanted in ((1.0, 0), (-1.0, 2)):
        rows = [plan.rows("a", np.array([[entry], [0.0]])), plan.rows("b", np.zeros((2, 1)))]
        label, z = plan.whole_labels(np.ones(2)), np.zeros(2, np.int64)
        if loss == "logistic":  # such a slope needs a margin that is wrong by far: a coordinator may ask for it
            z = plan.margins("a", rows[0], np.array([-entry * 1e6]))
        nothing = [np.zeros(1, np.int64)] * 3
        *sums, total = plan.scores.in_clear(label, *nothing, z, np.zeros(2, np.int64), *rows)
        assert abs(int(sums[0][0])) == plan.scores.largest * 2**14
        for _ in range(draws):
            drawn = np.zeros((3, 4), np.int64)
            for party in range(3 - known):
                drawn[party] = whole_gumbel(round(factor * plan.scale), 4, noise)
            drawn[0, [1, 3]] -= 2**60  # the other party's column is none: candidates are the two signs
            (place,) = plan.choice.in_clear(*sums, total, *drawn)
            right += int(place[0]) == wanted
    return Answers(right, draws, STEPS)


HALVES = np.repeat([1.0, -1.0], 20)
AUDITS = (
    Audit("exponential mechanism", exponential_mechanism, least=0.7),
    *(
        Audit(f"Frank-Wolfe, {'sparse' if sparse else 'dense'}",
              partial(frank_wolfe, np.ones(1), 3, sparse, "l1"), **SLOW)
        for sparse in (False, True)
    ),
    *(
        Audit(f"Frank-Wolfe, {one}", partial(frank_wolfe, HALVES, 2, False, one), least=0.4, **SLOW)
        for one in ("nonnegative", "simplex")
    ),
    Audit("search: the best trial", search, least=0.6),
    *(
        Audit(f"secure choice, {loss}, others known", partial(secure_choice, loss, 2), least=0.4, **rest)
        for loss, rest in zip(LABELS, ({}, SLOW), strict=True)
    ),
)  # fmt: skip
