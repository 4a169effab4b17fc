"""The estimators with an L2 penalty: a bound on the norm of a row, weights of rows, and a choice of solvers."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._plain_data import encode
from sottovoce._validation import magnitude
from sottovoce._whole_fit import whole_fit
from sottovoce.central.data.holder import Holder, LocalHolder
from sottovoce.central.data.labels import WeighRows
from sottovoce.central.data.lengths import ScaleRows
from sottovoce.central.data.row_memory import WEIGHT
from sottovoce.central.data.row_unit import RowUnit
from sottovoce.central.facts import TrainingFacts
from sottovoce.central.plan import Plan
from sottovoce.central.released_norm import ReleasedNorm
from sottovoce.estimators._solvers import accelerated_solver, automatic_alpha, make_plan
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.reading import refuse_shape
from sottovoce.estimators.weights import checked_sample_weights, largest_weight, weight_of_one
from sottovoce.exceptions import ParameterError
from sottovoce.randomness import Purpose, Streams

__all__ = ["DPPenalisedEstimator", "options_text", "solver_text"]


def solver_text(own: str) -> str:
    """Return the text of the parameter ``solver``: what an estimator's own solvers are, then the others."""
    return f"""{own} For comparison: ``"sgd"``: DP-SGD; or a solver object, such as those of
    `sottovoce.papers.dp_scd`. Where each wins: ``docs/guide/solvers.md``."""


def options_text(own: str) -> str:
    """Return the text of the parameter ``solver_options``, with those of an estimator's own solver."""
    return f"""Public parameters of the solver: ``n_passes`` and ``calibration_share`` for ``"scd"`` and ``"newton"``;
    ``proved`` (True takes clip, momentum and passes of the utility theorem) for ``"scd"``; ``batch_size``, ``epochs``,
    ``clipping_norm`` and ``learning_rate`` for ``"sgd"``{own and "; " + own}. None follows measured rules, and is what
    goes with a solver object."""


@estimator
class DPPenalisedEstimator(DPLinearEstimator):
    """Base of the estimators with an L2 penalty."""

    data_norm: float | str | None = parameter(
        'float in [1e-50, 1e50] or "auto"',
        default="auto",
        text="""Public bound on the Euclidean norm of a row, in the unit of X. Longer rows are shortened to it in
        training. ``"auto"`` releases a bound that most rows keep, with noise, for 1 to 10 % of mu^2: give a number
        where one is known. Without privacy (``epsilon=inf``) it is the largest norm. See
        ``docs/guide/data_norm.md``.""",
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
    max_sample_weight: float | None = parameter(
        "float in [1e-6, 1e6] or None",
        default=None,
        text="""Public bound on the ``sample_weight`` of a row, needed where `fit` is given any. Weights are clipped to
        [0, max_sample_weight]. They need ``solver="scd"``, which ``"auto"`` then takes. Clip and noise are for a row of
        the largest weight: choose the bound no larger than weights are.""",
    )
    solver: Any = parameter("str or solver object", default="auto", text=solver_text(""))
    solver_options: Any = parameter("dict or None", default=None, text=options_text(""))

    data_norm_: float = attribute("float", "The bound that rows were shortened to: the public one, or a released one.")
    n_iter_: int = attribute(
        text="Passes over the data of each model; follows from public facts and noisy releases only."
    )

    _bound: ClassVar = ("data_norm", "longer rows were shortened to it")

    @whole_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train on X and y.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame, ParquetTable or DaskTable of shape (n_samples, n_features)
            Private. float32 and float64 are used as they are, without a copy. The last two need a solver that visits
            rows in order: ``"scd"``, ``"newton"``, ``"multinomial-scd"``, ``"refinement"`` or ``"adassp"``.
        y : array of shape (n_samples,)
            Private. Numbers, clipped to ``label_bounds``, or class labels, each in ``classes``. May be left out for a
            ParquetTable that names its target, and must be for a DaskTable.
        sample_weight : array of shape (n_samples,) or None, default None
            Private; what the loss of each row is multiplied by, clipped to [0, ``max_sample_weight``]. The penalty is
            for the mean over n_samples rows, whatever their weights add up to. None is a weight of 1.
        groups : array of shape (n_samples,) or None, default None
            Private. The person of each row, a number or a string: with ``max_rows_per_group`` the guarantee is for a
            person. Rows without one (None, NaN) are not used. Needs a table in memory, whose used rows are copied.

        Returns
        -------
        self

        Raises
        ------
        ParameterError
            Before any work: a parameter is missing, out of range or does not fit another one.
        DataError
            Before any noise is drawn: NaN or infinity in X, y or sample_weight, a label outside ``classes``, one class
            only.
        """
        if sample_weight is not None:
            if self.max_sample_weight is None:
                raise ParameterError(
                    "max_sample_weight is missing: with sample_weight (which bagging gives, too), noise is made for "
                    "the heaviest row that there can be. Give a public bound; larger weights are clipped to it."
                )
            refuse_shape("sample_weight", X, sample_weight)
        return self._fit(X, y, sample_weight, groups)

    def _class_weights(self) -> Mapping[Any, float] | None:
        return None

    def _shares_of_classes(self) -> tuple[float, ...] | None:
        """Return the weight of each class over the largest, or None where classes have none."""
        return None

    def _weight_bound(self) -> float | None:
        return largest_weight(self._class_weights(), self.max_sample_weight)

    def _weigh(self, holder: Holder, sample_weight: Any) -> bool:
        shares, constant = self._shares_of_classes(), None
        if self.max_sample_weight is None:
            constant = 1.0
        elif sample_weight is None:
            constant = weight_of_one(self.max_sample_weight)
        else:
            assert isinstance(holder, LocalHolder)
            given = checked_sample_weights(sample_weight, holder.n_samples, self.max_sample_weight)
            holder.part.memory.set(WEIGHT, given)
        if shares is None and self.max_sample_weight is None:
            return False
        holder.ask(WeighRows(constant, shares))
        return True

    def assumptions(self) -> tuple[str, ...]:
        return *super().assumptions(), *self._weight_assumptions()  # type: ignore[safe-super]

    def _weight_assumptions(self) -> tuple[str, ...]:
        most = self._weight_bound()
        if most is None:
            return ()
        clipped = (
            "max_sample_weight = "
            f"{encode(self.max_sample_weight)} (weights were clipped to [0, {encode(self.max_sample_weight)}]; where "
            "none were given each row has 1)",
        )
        return (
            *(clipped if self.max_sample_weight is not None else ()),
            f"no row has more than the weight {most!r}: clip and noise are made for such a row, so against what a row "
            f"of weight 1 adds the noise is about {most:g} times what it is without weights",
        )

    def _releases_norm(self) -> bool:
        return isinstance(self.data_norm, str) and self.data_norm == "auto"

    def _public_bound(self) -> tuple[str, ...]:
        return () if self._releases_norm() else super()._public_bound()

    def _given_norm(self) -> float:
        return magnitude(
            "data_norm", self.data_norm,
            remedy="It is a public bound on the Euclidean norm of a row; never compute it from the data. Longer rows "
            "are shortened to it. Or give 'auto', which releases a bound with noise.",
        )  # fmt: skip

    def _alpha_and_constant(self, n_samples: int, *, private: bool) -> tuple[float, float]:
        if not self._releases_norm():
            self._given_norm()
        remedy = "Or give 'auto', which follows the public number of rows."
        automatic = automatic_alpha(n_samples, private=private)
        alpha = automatic if self._has_auto_alpha else magnitude("alpha", self.alpha, remedy=remedy)
        return alpha, magnitude("intercept_scaling", self.intercept_scaling) if self.fit_intercept else 0.0

    def searched_solver(self, n_models: int) -> str:
        """Return what a search takes for ``solver="auto"``: the accelerated solver, whatever n and the budget are."""
        return "scd" if self._weight_bound() is not None else accelerated_solver(self._make_loss(), n_models)

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
            **({} if plan.weight_bound is None else {"largest weight of a row": plan.weight_bound}),
        }

    def _scale(self, holder: Holder, plan: Plan, streams: Streams) -> ReleasedNorm | None:
        found = None
        if self._releases_norm():
            found = plan.facts.release_norm(holder, lambda: streams.generator(Purpose.NOISE))
        self.data_norm_ = self._given_norm() if found is None else found.value
        holder.ask(ScaleRows(self.data_norm_, plan.intercept))
        return found

    def _unscaled(self, plan: Plan, weights: Vector) -> tuple[Vector, Vector]:
        return RowUnit(self.data_norm_, plan.intercept).to_user(weights)
