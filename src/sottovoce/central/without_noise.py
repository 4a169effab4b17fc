"""What solvers share that train without noise, for ``epsilon=inf``: what the private ones approach."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.core import Asked, Keep, Release, Unprotected
from sottovoce.central.data.operation import AtHome
from sottovoce.central.data.part import Part
from sottovoce.central.data.targets import BeginModel
from sottovoce.central.plan import Plan, Solution


class Exact(NamedTuple):
    """What a training without noise ends with."""

    weights: Vector
    n_steps: int
    gap: float = 0.0  # the bound on the distance to the optimum that was reached


@dataclass(frozen=True, kw_only=True)
class UnprotectedPlan(Plan):
    """Plan of a run without noise: the whole training is one question to rows in memory, and its answer is exact."""

    takes_persons = True
    takes_released_norm = True
    proof = "none: this run is not private"
    words: ClassVar[str] = "the weights, unprotected"

    @abstractmethod
    def exact(self, part: Part) -> Exact:
        """Train one model on the targets of the rows."""

    def train(self) -> Asked[Solution]:
        found = []
        for model in range(1 if self.joint else self.n_models):
            yield BeginModel(model)
            found.append((yield Release(self.words, ExactTraining(self), Unprotected())))
        yield from self.tell(found)
        return self.solution([one.weights for one in found], max(one.n_steps for one in found))

    def tell(self, found: Sequence[Exact]) -> Asked[None]:
        """Tell what a receipt says of the runs."""
        yield from ()


@dataclass(frozen=True)
class ExactTraining(AtHome[Exact]):
    """The training of one model."""

    plan: UnprotectedPlan

    def on(self, part: Part) -> Exact:
        return self.plan.exact(part)

    def blank(self) -> Any:
        return Exact(np.zeros(1), 0)


@dataclass(frozen=True, kw_only=True)
class GapPlan(UnprotectedPlan):
    """Plan of a run that ends when a bound on the distance to the optimum is small."""

    # Name of the gap in the receipt, and the least number that it can be.
    gap: ClassVar[str] = "duality gap / objective"
    least_gap: ClassVar[float | None] = 0.0
    measure: ClassVar[str] = "duality gap"
    unit: ClassVar[str] = "iterations"
    remedy: ClassVar[str] = "Raise max_iter, alpha or tol."

    tol: float  # stop when the gap is at most this share of the objective
    max_iter: int  # cap on the number of iterations

    def tell(self, found: Sequence[Exact]) -> Asked[None]:
        for one in found:
            if not one.gap <= self.tol:
                warnings.warn(
                    f"no convergence in max_iter={self.max_iter} {self.unit}: the {self.measure} is {one.gap:.2g} of "
                    f"the objective, above tol={self.tol:g}. {self.remedy}",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        yield Keep(self.gap, max(one.gap for one in found), partial(number, at_least=self.least_gap), 0.0)
