r"""Private Frank-Wolfe on the l1 ball or a part of it (Talwar, Thakurta, Zhang 2015), without the shrinking.

Minimises the mean loss over \|w\|_1 <= R for rows with entries in [-1, 1]. Each step takes one vertex +-R e_j of the
ball: the one along which the loss falls fastest, chosen by the exponential mechanism among all 2 d signed columns by
the scores -+ sum_i l'(m_i) x_ij, the slopes clipped to [-c, c]. One row moves a score by at most c in either direction.

The paper's iterate is w <- (1 - 1/T) w + v / T. Here it is w <- w + v / T: after T steps the model is the mean of T
vertices, which is in the ball. It is as private, because only the choice of v reads the data. With the best T for each
it was level with the shrinking forms or better (excess risk .0016 / .0012 / .0004 at epsilon 0.5 / 1 / 2 against .0019
/ .0012 / .0008 for the better one of two; ``benchmarks/central/frank_wolfe.py``, part "steps"). And a step changes the
predictions of the rows that hold column j and of no others, on which the scores of sparse rows rest
(`sottovoce.central.sums.selection`). Where coefficients move in one direction only, it follows the path of the lasso,
as forward stagewise regression does [3]_. No rate of convergence is claimed for it: the published ones are for the
shrinking form.

With other corners than all +-R e_j the candidates are those corners: upward columns for the simplex, and a step that
moves nothing beside them for the non-negative part of the ball (`sottovoce.central.coefficient_sets`).

Privacy: ``docs/privacy/frank_wolfe.md``.

References
----------
.. [1] Talwar, Thakurta, Zhang (2015). Nearly Optimal Private LASSO. NIPS 2015; Algorithm 2 (private Frank-Wolfe).
.. [2] Frank, Wolfe (1956). An algorithm for quadratic programming. Naval Research Logistics Quarterly 3.
.. [3] Hastie, Taylor, Tibshirani, Walther (2007). Forward stagewise regression and the monotone lasso. EJS 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sottovoce._numerics import ROUNDING_SLACK
from sottovoce._validation import number, whole_number
from sottovoce.central.coefficient_sets import L1, CoefficientSet, coefficient_set
from sottovoce.central.core import Asked, Release, Steps
from sottovoce.central.data.labels import BeginModel
from sottovoce.central.plan import Plan, Solution, Takes
from sottovoce.central.sums.selection import TICKS, BeginScores, ColumnChoice, MoveAlong, Scores
from sottovoce.privacy.calibration import bounded_range, gaussian_mu
from sottovoce.privacy.mechanisms.noisy_max import LEAST_EPSILON, ExponentialMechanism

_WORDS: Final = "the signed column that every step takes, in order (the model is a function of them)"
_STEPS: Final = 0.75  # times (b R n mu / (f log(2 d)))^(2/3), measured
_FEWEST: Final = 4
_MOST: Final = 2000


@dataclass(frozen=True, kw_only=True)
class PlanInSet(Plan):
    """Plan of steps within a set of coefficients, for rows with entries in [-1, 1]."""

    radius: float  # > 0; l1 norm of the ball, the intercept's column of ones included
    constraint: str = L1  # one of "l1", "nonnegative", "simplex"; the set of coefficients

    def check(self) -> None:
        number("radius", self.radius, above=0.0)
        self.set  # noqa: B018  refuses a wrong name

    @cached_property
    def set(self) -> CoefficientSet:
        return coefficient_set(self.constraint, self.radius, self.n_weights, has_intercept=self.intercept > 0.0)

    def details(self) -> dict[str, object]:
        kind = {} if self.constraint == L1 else {"set of coefficients": self.set.words}
        return {"radius of the l1 ball (scaled)": self.radius, **kind}


@dataclass(frozen=True, kw_only=True)
class FrankWolfePlan(PlanInSet):
    """Plan of private Frank-Wolfe; labels of squared loss are within [-1, 1]."""

    solver = "frank-wolfe"
    proof = "docs/privacy/frank_wolfe.md"
    takes = Takes.PERSONS

    n_steps_given: int | None = None  # number of steps; None follows a public rule

    def check(self) -> None:
        super().check()
        if self.n_steps_given is not None:
            whole_number("n_steps", self.n_steps_given, at_least=1, at_most=1_000_000)

    @property
    def mechanism(self) -> str:
        words, candidates = self.set.words, self.set.candidates
        return f"Frank-Wolfe on {words}: adaptive composition of exponential mechanisms over {candidates}"

    @property
    def clip(self) -> float:
        """Bound c on a row's slope: the loss's own, or 1 for squared loss, whose labels are within [-1, 1]."""
        return float(min(1.0, self.loss.lipschitz))

    @cached_property
    def n_steps(self) -> int:
        """Steps of each model: many make the steps short, few leave each selection more of the budget.

        The excess risk is about b R^2 / T + f R sqrt(T) log(2 d) / (n mu) [1]_ for a loss of smoothness b and noise
        that is f times as large for replace-one; it is least at a T like this one.
        """
        if self.n_steps_given is not None:
            return self.n_steps_given
        mu = gaussian_mu(self.epsilon, self.delta) / math.sqrt(self.n_models)
        noise = self.neighbours.sum_factor * math.log(2.0 * self.n_weights + 1.0)
        information = self.radius * self.loss.smoothness * self.n_samples * mu / noise
        return round(min(_MOST, max(_FEWEST, _STEPS * math.pow(information, 2.0 / 3.0))))

    @cached_property
    def selection_range(self) -> float:
        spent = bounded_range(self.epsilon, self.delta, self.n_steps * self.n_models)
        words = f"the share of epsilon that each of {self.n_steps * self.n_models} selections may spend"
        remedy = "Give a larger epsilon, or fewer n_steps."
        return number(words, spent, at_least=LEAST_EPSILON, infinite=True, remedy=remedy)

    def details(self) -> dict[str, object]:
        return {
            **super().details(),
            "steps of each model": self.n_steps,
            "bounded range of a selection": self.selection_range,
            "clip of a row's slope": self.clip,
        }

    def selection(self) -> ExponentialMechanism:
        """Return the mechanism of one step: a row moves two columns, or both signs of one, by 2 c apart."""
        width = 2.0 * self.neighbours.sum_factor * TICKS * ROUNDING_SLACK
        return ExponentialMechanism(self.selection_range, width)

    def train(self) -> Asked[Solution]:
        mechanism = ColumnChoice(self.selection(), self.set if self.constraint != L1 else None)
        taken, length = np.zeros((self.n_models, self.n_weights), np.int64), self.radius / self.n_steps

        def step(number: int) -> Asked[None]:
            column, sign = yield Release(_WORDS, Scores(), mechanism, (number + 1, self.n_steps * self.n_models))
            taken[number // self.n_steps, column] += sign
            if sign:
                yield MoveAlong(column, sign * length)

        for model in range(self.n_models):
            yield BeginModel(model)
            yield BeginScores(self.loss, self.clip)
            yield Steps(range(model * self.n_steps, (model + 1) * self.n_steps), step)
        return self.solution(list(taken * length), self.n_steps)
