r"""Accelerated full-batch DP-SCD for many classes at once: a row's step for all of them is clipped as one vector.

One multinomial logistic model of K classes in place of K models, each class against the rest: with rows |x_i| <= 1,
dual vectors a_i in R^K, V = sum_i a_i x_i' and W = V / (alpha n), of shape K x d, pass t = 0, 1, ... does

1. extrapolate with beta_t = t / (t + 3): a_i <- a_i + beta_t (a_i - a_i^before), likewise V;
2. for each row zeta_i = d (e_y - softmax(W x_i) - a_i), shortened to |zeta_i| |x_i| <= C; a_i <- a_i + zeta_i;
3. release V + sum_i zeta_i x_i' + N(0, (s C)^2) in every entry, s = sqrt(T) / mu.

That is `sottovoce.central.solvers.accelerated` with a vector for a memory. A row's term is zeta_i x_i', of norm
|zeta_i| |x_i| <= C in all its K d entries together: a person pays once, not once a class, where K models pay sqrt(K)
times the noise. d = 1 / (1 + lambda_max / (2 alpha)), since the softmax loss has second derivatives of at most 1 / 2. C
is a share of the first step, d sqrt(1 - 1/K).

The model is the average of the last W's, times a length that is fitted with 3 % of mu^2
(`sottovoce.central.sums.last_factors`); W itself where the budget hardly is any.

So it is for two classes, for persons of several rows, and with a penalty that shortens the weights. Else full-batch
steps take the place of passes, and how far they reach follows from public facts (`sottovoce.central.solvers.descent`).

The entries of a_i add up to 0, so the rows of V do, and what the noise adds to their sum is taken off after each
release. For two classes the rule is, by a rotation, that of the binary model.

Privacy: ``docs/privacy/dp_scd.md``, Theorem 1 and Proposition 5. Memory: 2 n K doubles for the dual vectors.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.optimize import minimize

from sottovoce._numerics import Vector
from sottovoce._validation import whole_number
from sottovoce.central.core import Asked, Release, Tell
from sottovoce.central.data.labels import BeginModel
from sottovoce.central.data.part import Part, Rows
from sottovoce.central.data.row_memory import DUAL, DUAL_BEFORE, TARGET
from sottovoce.central.plan import HARDLY_ANY_NOISE, Plan, Solution, Takes
from sottovoce.central.solvers.accelerated import damping_for, passes_by_rule, person_sum, wanted_passes
from sottovoce.central.solvers.descent import far_steps, pays, steps_for
from sottovoce.central.solvers.without_noise import Exact, UnprotectedPlan
from sottovoce.central.split import Scales, Split, State, averaged, unshortened
from sottovoce.central.sums.last_factors import PASSES, score_length
from sottovoce.central.sums.passes import JointPass
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, Multinomial
from sottovoce.privacy.calibration import gaussian_mu

# chosen on digits and on made-up tables of 3 and 20 classes (benchmarks/central/classes.py)
_SHARE: Final = 0.4  # the clip, over the first step
_FACTOR: Final = 7.0  # in the number of passes
_AVERAGED: Final = 0.35  # share of the passes, the last ones
_AFTER_PASSES: Final = (
    "the weights of all classes after every pass (the model is an average of them)",
    "the number of passes",
)
_LENGTH_SHARE: Final = 0.03  # of mu^2, for the length of the scores
_FEW, _SHORTER = 250.0, 0.3  # mu n below which steps are likely to leave them too long, by that power of what lacks


@dataclass(frozen=True, kw_only=True)
class MultinomialPlan(Plan):
    """Plan of accelerated full-batch DP-SCD on the multinomial logistic loss."""

    solver = "multinomial-scd"
    losses = (Logistic, Multinomial)
    mechanism = (
        "accelerated full-batch DP-SCD with secret dual vectors, all classes jointly: adaptive composition of Gaussian "
        "mechanisms on a grid, no subsampling"
    )
    joint = True
    takes, cuts_persons = Takes.SUMS, True

    n_passes: int | None = None  # public number of passes; None follows the rule `passes_for`
    # Whether steps (`sottovoce.central.solvers.descent`) take the place of passes; None follows public facts.
    steps: bool | None = None

    def check(self) -> None:
        self.check_given(whole_number, "n_passes", at_least=1, at_most=10**6)
        if not (self.steps is None or isinstance(self.steps, bool)):
            raise ParameterError(f"steps must be True, False or None; got {self.steps!r}.")
        if self.steps and (self.n_passes is not None or self.max_rows_per_group is not None):
            raise ParameterError(
                "steps must be False or None with n_passes, which is a number of passes, and with max_rows_per_group: "
                "steps have no proof for persons of several rows; got True."
            )

    @cached_property
    def split(self) -> Split:
        """How the budget is divided; of what is left for the steps, `mu_steps` leaves some to the length."""
        return Split(facts=self.facts, shortens=True, eigenvalue=not self.walks)

    @cached_property
    def mu_length(self) -> float:
        return self.split.whole * math.sqrt(_LENGTH_SHARE) if self.split.is_noisy else 0.0

    @cached_property
    def mu_steps(self) -> float:
        left = self.split.steps
        return math.sqrt(left * left - self.mu_length * self.mu_length)

    def details(self) -> dict[str, object]:
        split = self.split
        return {
            "mu (Gaussian DP) of the whole run": split.whole,
            "mu for the length of rows": split.norm,
            "mu for lambda_max": 0.0 if self.walks else split.scale,
            f"mu for the {'steps' if self.walks else 'passes'}, which train all classes jointly": self.mu_steps,
            **({"mu for the length of the scores": self.mu_length} if split.is_noisy else {}),
        }

    def summary(self) -> dict[str, object]:
        most = {"steps": self.n_steps} if self.walks else {"passes, at most": self.passes_for(1.0)}
        return {**super().summary(), **most}

    @property
    def n_steps(self) -> int:
        return steps_for(self.facts, self.mu_steps)

    @cached_property
    def walks(self) -> bool:
        """Whether steps take the place of passes (`sottovoce.central.solvers.descent`)."""
        by_rule = self.n_passes is None and pays(self.facts)
        is_noisy = gaussian_mu(self.epsilon, self.delta) <= HARDLY_ANY_NOISE
        return is_noisy and (by_rule if self.steps is None else self.steps)

    def passes_for(self, eigenvalue: float) -> int:
        """Return the number of passes for a (noisy) largest eigenvalue."""
        if self.n_passes is not None:
            return self.n_passes
        return passes_by_rule(self.facts, self._wanted(eigenvalue), eigenvalue)

    def _wanted(self, eigenvalue: float) -> float:
        return wanted_passes(self.facts, self.mu_steps, eigenvalue, _FACTOR)

    def clip_for(self, scales: Scales) -> float:
        """Return C, the bound on a step (a vector) times the norm of its row: a share of the first step."""
        # the product of clip and passes is how far a row can go: with fewer passes than wanted they go in longer steps
        wanted, passes = math.floor(self._wanted(scales.eigenvalue)), self.passes_for(scales.eigenvalue)
        share = _SHARE * max(1.0, wanted / passes) if self.n_passes is None else _SHARE
        return min(1.0, share) * damping_for(self.facts, scales.eigenvalue) * math.sqrt(1.0 - 1.0 / self.n_models)

    def train(self) -> Asked[Solution]:
        split = self.split
        scales = yield from split.scales()
        weights = yield from far_steps(self.facts, self.mu_steps) if self.walks else self._passes(scales)
        if split.is_noisy:
            likely = -_SHORTER * math.log(max(1.0, _FEW / split.whole / self.n_units)) if self.walks else PASSES
            weights = weights * (yield from score_length(weights, self.neighbours, self.mu_length, likely))
        weights = unshortened(weights, scales.norm, self.n_features)
        passes = self.n_steps if self.walks else self.passes_for(scales.eigenvalue)
        return self.solution([weights], passes, offset=scales.location)

    def _passes(self, scales: Scales) -> Asked[Vector]:
        """Do the passes, and return weights for shortened rows."""
        n_classes, unit = self.n_models, self.alpha_scaled * self.n_samples
        passes, damping = self.passes_for(scales.eigenvalue), damping_for(self.facts, scales.eigenvalue)
        sums = person_sum(self.facts, self.clip_for(scales), math.sqrt(passes) / self.mu_steps)
        yield Tell("passes", passes)
        yield Tell("noise multiplier of a pass", sums.mechanism.noise_multiplier)
        yield BeginModel(0, scales.location, ((DUAL, n_classes), (DUAL_BEFORE, n_classes)))
        ticks = sums.ticks_per_unit

        def step(number: int, state: State, done: tuple[int, int]) -> Asked[State]:
            v, before = state
            momentum = number / (number + 3.0)
            v, before = v + momentum * (v - before), v
            one_pass = JointPass(v / unit, momentum, damping, sums.clip, ticks)
            noisy = yield Release(_AFTER_PASSES, one_pass, sums.mechanism, done)
            return v + noisy - noisy.mean(axis=0), before  # the exact sums of the rows of V are 0: that is noise

        zeros = np.zeros((n_classes, 1))
        return (yield from averaged(step, (zeros, zeros), passes, _AVERAGED, unit=unit))


@dataclass(frozen=True, kw_only=True)
class NonPrivateMultinomialPlan(UnprotectedPlan):
    """Plan of L-BFGS on the multinomial logistic loss, without privacy."""

    solver = "multinomial L-BFGS (no privacy)"
    losses = (Multinomial,)
    mechanism = "L-BFGS on the multinomial logistic loss without noise"
    joint = True

    def exact(self, part: Part) -> Exact:
        rows, y = part.rows, part.memory.whole(TARGET)
        shape, done = (self.n_models, rows.n_weights), 0

        def objective(w: Vector) -> tuple[float, Vector]:
            return self._objective(rows, y, w.reshape(shape))

        def relative_gap(w: Vector) -> float:
            # with a_i = e_y - p_i, feasible, the gap between primal and dual is |gradient|^2 / (2 alpha)
            value, gradient = objective(w)
            return float(gradient @ gradient) / (2.0 * self.alpha_scaled) / max(value, 1e-300)

        w, gap, wanted = np.zeros(shape).ravel(), math.inf, 1e-4
        while gap > self.tol and done < self.max_iter:
            found = minimize(
                objective, w, jac=True, method="L-BFGS-B",
                options={"maxiter": self.max_iter - done, "maxfun": 10**9, "gtol": wanted, "ftol": 0.0, "maxcor": 20},
            )  # fmt: skip
            stuck = wanted < 1e-14
            w, done, gap, wanted = found.x, done + int(found.nit), relative_gap(found.x), wanted / 10.0
            part.progress(done, self.max_iter)
            if stuck:
                break
        return Exact(w.reshape(shape), done, gap)

    def _objective(self, rows: Rows, y: Vector, w: Vector) -> tuple[float, Vector]:
        value, gradient, lo = 0.0, np.zeros(w.shape), 0
        for piece in rows.scaled_pieces():
            labels = y[lo : lo + piece.shape[0]]
            scores = piece @ w[:, : piece.shape[1]].T
            if rows.constant > 0.0:
                scores = scores + rows.constant * w[:, -1]
            value += float(self.loss.value(labels, scores).sum())
            slopes = self.loss.derivative(labels, scores)
            gradient[:, : piece.shape[1]] += (piece.T @ slopes).T
            if rows.constant > 0.0:
                gradient[:, -1] += rows.constant * slopes.sum(axis=0)
            lo += piece.shape[0]
        penalty = 0.5 * self.alpha_scaled * float((w * w).sum())
        return value / lo + penalty, (gradient / lo + self.alpha_scaled * w).ravel()
