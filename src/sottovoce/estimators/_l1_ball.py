"""What the estimators on the l1 ball share: bounds on entries in place of norms, a radius in place of a penalty."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._plain_data import encode
from sottovoce._validation import magnitude, number, whole_number
from sottovoce.central.facts import TrainingFacts
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Plan
from sottovoce.central.rows import Rows, make_bounded_rows
from sottovoce.central.solvers.frank_wolfe import FrankWolfePlan
from sottovoce.central.solvers.projected import ProjectedGradientPlan
from sottovoce.central.streamed import StreamedTable
from sottovoce.estimators._base import DPLinearEstimator
from sottovoce.exceptions import ParameterError

__all__ = ["DPBallEstimator"]


class DPBallEstimator(DPLinearEstimator):
    """Base of the estimators that train by Frank-Wolfe on the l1 ball."""

    data_bound: float | None
    radius: float | None
    n_steps: int | None

    def _target_unit(self) -> float:
        """Return what a label of size 1 means in the unit of y."""
        return 1.0

    def _plan(self, n_samples: int, n_features: int, n_models: int) -> Plan:
        epsilon, delta = self._budget(n_samples, n_features)
        bound = magnitude(
            "data_bound", self.data_bound,
            remedy="It is a public bound on the absolute value of every entry of X; never compute it from the data. "
            "Larger entries are clipped to it.",
        )  # fmt: skip
        radius = magnitude(
            "radius", self.radius,
            remedy="It bounds the sum of the absolute coefficients: small is sparse, large fits closely. Choose it "
            "from public knowledge.",
        )  # fmt: skip
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise ParameterError(f"fit_intercept must be True or False; got {self.fit_intercept!r}.")
        if self.n_steps is not None:
            whole_number("n_steps", self.n_steps, at_least=1, at_most=1_000_000)
        tol, max_iter = number("tol", self.tol, above=0.0), whole_number("max_iter", self.max_iter, at_least=1)
        adjacency, n_samples = self._neighbours(n_samples, private=math.isfinite(epsilon))
        facts = TrainingFacts(
            loss=self._make_loss(),
            n_samples=int(n_samples),
            n_features=int(n_features),
            n_models=n_models,
            alpha=0.0,
            constant=1.0 if self.fit_intercept else 0.0,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            label_bound=self._label_bound(),
        )
        scaled = radius * bound / self._target_unit()
        if facts.is_private:
            return FrankWolfePlan(facts=facts, radius=scaled, n_steps_given=self.n_steps)
        return ProjectedGradientPlan(facts=facts, radius=scaled, tol=tol, max_iter=max_iter)

    def _read_rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        if isinstance(X, StreamedTable):
            raise ParameterError(
                f"{type(self).__name__} takes columns one by one, which a table read from disk in blocks does not "
                "offer. Convert the table once with its method to_npy, and give the memory map that it returns."
            )
        return super()._read_rows(X, y)

    def _scaled_rows(self, X: Any, plan: Plan, names: list[str] | None, threads: Team) -> Rows:
        assert self.data_bound is not None
        bound = float(self.data_bound)
        return make_bounded_rows(X, data_bound=bound, constant=plan.intercept, names=names, team=threads)

    def _unscaled(self, plan: Plan, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        assert self.data_bound is not None
        unit = self._target_unit()
        coef = weights[:, : plan.n_features] * (unit / float(self.data_bound))
        return coef, unit * weights[:, -1] if plan.intercept > 0.0 else np.zeros(len(weights))

    def _bound_assumption(self) -> str:
        return f"data_bound = {encode(self.data_bound)} (entries beyond were clipped to it)"

    def _penalty(self, plan: Plan) -> dict[str, object]:
        return {"radius": encode(self.radius), "fit_intercept": bool(self.fit_intercept)}
