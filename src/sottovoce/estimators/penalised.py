"""The estimators with an L2 penalty: a bound on the norm of a row, and a choice of solvers."""

from typing import Any, ClassVar

from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._validation import magnitude
from sottovoce.central.facts import TrainingFacts
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Plan
from sottovoce.central.row_unit import RowUnit
from sottovoce.central.rows import Rows, make_rows
from sottovoce.estimators._solvers import accelerated_solver, automatic_alpha, make_plan
from sottovoce.estimators.linear import DPLinearEstimator

__all__ = ["DPPenalisedEstimator", "options_text", "solver_text"]


def solver_text(own: str) -> str:
    """Return the text of the parameter ``solver``: what an estimator's own solvers are, then the others."""
    return f"""{own} For comparison: ``"sgd"``: DP-SGD; ``"seq-scd"`` and ``"primal-scd"``: sequential and primal
    DP-SCD; ``"paper-scd"``: the published Algorithm 1, whose receipt states an epsilon that is larger than the one
    asked for. Where each wins: ``docs/guide/solvers.md``."""


def options_text(own: str) -> str:
    """Return the text of the parameter ``solver_options``, with those of an estimator's own solver."""
    return f"""Public parameters of the solver: ``n_passes`` and ``calibration_share`` for ``"scd"`` and ``"newton"``;
    ``batch_size`` and ``epochs`` for ``"minibatch-scd"``, these and ``clipping_norm`` for ``"paper-scd"`` and
    ``"seq-scd"``, these and ``learning_rate`` for ``"sgd"``; ``block_size``, ``epochs`` and ``clipping_norm`` for
    ``"primal-scd"``; {own}. None follows measured rules."""


@estimator
class DPPenalisedEstimator(DPLinearEstimator):
    """Base of the estimators with an L2 penalty."""

    data_norm: float | None = parameter(
        "float, in [1e-50, 1e50]",
        default=None,
        text="""Public bound on the Euclidean norm of a row, in the unit of X. Longer rows are shortened to it in
        training.""",
    )
    alpha: float | str = parameter(
        'float in [1e-50, 1e50] or "auto"',
        default=1e-4,
        text="""Strength of the L2 penalty for rows in units of ``data_norm``, or of the private bound that most rows
        keep where that is less than half of it. ``"auto"`` follows the public number of rows: 1 / (2 n), at most 1e-3
        and, with a finite epsilon, at least 1e-5.""",
    )
    fit_intercept: bool = parameter(
        default=True, text="Add a constant column. Its weight is penalised like the others, as in liblinear."
    )
    intercept_scaling: float = parameter(
        "float, in [1e-50, 1e50]",
        default=0.2,
        text="""Value of the constant column in units of ``data_norm``. Larger ones learn a large intercept faster and
        cost noise in every weight.""",
    )
    solver: str = parameter("str", default="auto", text=solver_text(""))
    solver_options: Any = parameter("dict or None", default=None, text=options_text(""))

    n_iter_: int = attribute(
        text="Passes over the data of each model; follows from public facts and noisy releases only."
    )

    _bound: ClassVar = ("data_norm", "longer rows were shortened to it")

    def _norm(self) -> float:
        return magnitude(
            "data_norm", self.data_norm,
            remedy="It is a public bound on the Euclidean norm of a row; never compute it from the data. Longer rows "
            "are shortened to it.",
        )  # fmt: skip

    def _alpha_and_constant(self, n_samples: int, *, private: bool) -> tuple[float, float]:
        self._norm()
        remedy = "Or give 'auto', which follows the public number of rows."
        automatic = automatic_alpha(n_samples, private=private)
        alpha = automatic if self._has_auto_alpha else magnitude("alpha", self.alpha, remedy=remedy)
        return alpha, magnitude("intercept_scaling", self.intercept_scaling) if self.fit_intercept else 0.0

    def searched_solver(self, n_models: int) -> str:
        """Return what a search takes for ``solver="auto"``: the accelerated solver, whatever n and the budget are."""
        return accelerated_solver(self._make_loss(), n_models)

    @property
    def _has_auto_alpha(self) -> bool:
        return isinstance(self.alpha, str) and self.alpha == "auto"

    def _make_plan(self, facts: TrainingFacts, *, tol: float, max_iter: int) -> Plan:
        return make_plan(self.solver, facts, self.solver_options, tol=tol, max_iter=max_iter)

    def _penalty(self, plan: Plan) -> dict[str, object]:
        return {
            "alpha": plan.alpha,
            **({"alpha chosen by auto from": "the number of rows"} if self._has_auto_alpha else {}),
            "intercept_scaling": plan.intercept,
        }

    def _scaled_rows(self, X: Any, plan: Plan, names: list[str] | None, threads: Team) -> Rows:
        return make_rows(X, data_norm=self._norm(), constant=plan.intercept, names=names, team=threads)

    def _unscaled(self, plan: Plan, weights: Vector) -> tuple[Vector, Vector]:
        return RowUnit(self._norm(), plan.intercept).to_user(weights)
