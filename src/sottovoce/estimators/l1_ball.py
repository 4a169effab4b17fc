"""The estimators on the l1 ball: bounds on entries in place of norms, a radius in place of a penalty."""

from typing import Any, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._plain_data import encode
from sottovoce._validation import choice, magnitude, whole_number
from sottovoce._warnings import warn_caller
from sottovoce.central.coefficient_sets import L1, SETS, SIMPLEX
from sottovoce.central.data.lengths import BoundEntries
from sottovoce.central.data.operation import Change
from sottovoce.central.plan import Plan, TrainingFacts
from sottovoce.central.solvers.frank_wolfe import FrankWolfePlan
from sottovoce.central.solvers.projected import ProjectedGradientPlan
from sottovoce.estimators.classifier import DPLinearClassifier
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.regressor import DPLinearRegressor
from sottovoce.exceptions import ParameterError, SottovoceWarning
from sottovoce.losses import Logistic, Squared

_NEARLY_CONSTANT: Final = 0.01  # of the labels' reach


@estimator
class OnBall(DPLinearEstimator):
    """Base of those that bound entries: a radius in place of a penalty, and Frank-Wolfe."""

    data_bound: float | None = parameter(
        "float, in [1e-50, 1e50]",
        default=None,
        text="""Public bound on the absolute value of every entry, in the unit of X. Larger entries are clipped to it in
        training. Columns of very different units should be scaled by public factors first.""",
    )
    radius: float | None = parameter(
        "float, in [1e-50, 1e50]",
        default=None,
        text="""Bound on the l1 norm of the coefficients of a model, in the unit of y (none for classes) divided by that
        of X.""",
    )
    constraint: str = parameter(
        '{"l1", "nonnegative", "simplex"}',
        default="l1",
        text="""What coefficients may be. ``"l1"``: the sum of their absolute values is at most ``radius``.
        ``"nonnegative"``: none is below 0 besides. ``"simplex"``: none is below 0 and their sum is ``radius``, as in a
        mixture of the columns; with ``fit_intercept=False``.""",
    )
    n_steps: int | None = parameter(
        "int or None",
        default=None,
        text="""Number of steps of each model; more cost more noise each. None follows a measured rule from public
        facts.""",
    )
    fit_intercept: bool = parameter(
        default=True, text="Add a column of the value ``data_bound``. Its weight counts in the norm."
    )
    max_iter: int = parameter(
        default=10_000, text="Cap on the steps of a run with ``epsilon=inf``, which follows projected gradients."
    )
    tol: float = parameter(default=1e-6, text="Relative Frank-Wolfe gap at which a run with ``epsilon=inf`` stops.")

    n_iter_: int = attribute("int", "Steps of each model; follows from public facts.")

    plan_follows_from_arguments = False  # it may warn, in each fit
    _rows = ("data_bound", "entries beyond were clipped to it")

    def _facts(self, n_samples: int, *, private: bool) -> dict[str, Any]:
        return {"alpha": 0.0, "constant": 1.0 if self.fit_intercept else 0.0}

    def _make_plan(self, facts: TrainingFacts, *, tol: float, max_iter: int) -> Plan:
        bound = self._entry()
        radius = magnitude(
            "radius", self.radius,
            remedy="It bounds the sum of the absolute coefficients: small is sparse, large fits closely. Choose it "
            "from public knowledge.",
        )  # fmt: skip
        if self.n_steps is not None:
            whole_number("n_steps", self.n_steps, at_least=1, at_most=1_000_000)
        choice("constraint", self.constraint, SETS)
        if self.constraint == SIMPLEX and self.fit_intercept:
            raise ParameterError(
                "constraint='simplex' fixes the sum of the coefficients, in which an intercept has no part: give "
                "fit_intercept=False."
            )
        unit = self._label_unit()
        if isinstance(self, DPLasso) and radius * bound < _NEARLY_CONSTANT * unit:
            warn_caller(
                f"radius = {radius:g} moves predictions by at most {radius * bound:g}, and labels reach {unit:g} to "
                "either side: the model is nearly a constant. radius is in the unit of y divided by that of X.",
                SottovoceWarning,
            )
        given: dict[str, Any] = {"radius": radius * bound / unit, "constraint": self.constraint}
        if facts.is_private:
            return FrankWolfePlan(facts=facts, n_steps_given=self.n_steps, **given)
        return ProjectedGradientPlan(facts=facts, tol=tol, max_iter=max_iter, **given)

    def _penalty(self, plan: Plan) -> dict[str, object]:
        kind = {} if self.constraint == L1 else {"constraint": self.constraint}
        return {"radius": encode(self.radius), **kind, "fit_intercept": bool(self.fit_intercept)}

    def _scaling(self, plan: Plan, norm: float | None) -> Change:
        return BoundEntries(self._entry(), plan.intercept)

    def _unscaled(self, plan: Plan, weights: Vector) -> tuple[Vector, Vector]:
        unit = self._label_unit()
        coef = weights[:, : plan.n_features] * (unit / self._entry())
        return coef, unit * weights[:, -1] if plan.intercept > 0.0 else np.zeros(len(weights))

    def _entry(self) -> float:
        return magnitude(
            "data_bound", self.data_bound,
            remedy="It is a public bound on the absolute value of every entry of X; never compute it from the data. "
            "Larger entries are clipped to it.",
        )  # fmt: skip


@estimator
class DPLasso(OnBall, DPLinearRegressor):
    r"""Least squares with few coefficients, with differential privacy.

    Minimises :math:`\frac1n \sum_i \frac12 (y_i - x_i^\top w - b)^2` over
    :math:`\|w\|_1 + |b - m| / B \le` ``radius``, where B = ``data_bound`` and m is the middle of ``label_bounds``, by
    private Frank-Wolfe [1]_. The noise grows with the logarithm of the number of columns only, so there may be many
    more columns than rows. At most ``n_iter_`` coefficients are not zero.

    Notes
    -----
    Residuals are clipped to half of the width of ``label_bounds`` (without an intercept, to the largest label in size).
    Which columns were taken is released and covered by the guarantee; that a column was taken is no proof that it
    matters. A sparse X is trained by steps that cost far less than a pass over it
    (`sottovoce.central.sums.selection`).

    References
    ----------
    .. [1] Talwar, Thakurta, Zhang (2015). Nearly Optimal Private LASSO. NIPS 2015; Algorithm 2, with the changes and
       the proof in ``docs/privacy/frank_wolfe.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce import DPLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 300))
    >>> y = np.clip(X[:, 7] - X[:, 42], -1, 1)
    >>> model = DPLasso(epsilon=1.0, delta=1e-6, data_bound=1.0, label_bounds=(-1, 1), radius=2.0, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    >>> np.flatnonzero(np.abs(model.coef_) > 0.3)
    array([ 7, 42])
    >>> model.guarantee_.epsilon
    1.0
    """

    _loss = Squared()

    def _label_unit(self) -> float:
        return super()._label_bound()

    def _label_bound(self) -> float:
        return 1.0


@estimator
class DPSparseLogisticRegression(OnBall, DPLinearClassifier):
    r"""Logistic regression with few coefficients, with differential privacy.

    Minimises, over labels -1 and +1, :math:`\frac1n \sum_i \log(1 + e^{-y_i (x_i^\top w + b)})` over
    :math:`\|w\|_1 + |b| / B \le` ``radius``, where B = ``data_bound``, by private Frank-Wolfe [1]_. The noise grows
    with the logarithm of the number of columns only. At most ``n_iter_`` coefficients of a model are not zero. More
    than two classes are trained one-vs-rest, with as many selections for each model.

    Notes
    -----
    A sparse X is trained by steps that cost far less than a pass over it (`sottovoce.central.sums.selection`), except
    those that take the intercept.

    References
    ----------
    .. [1] Talwar, Thakurta, Zhang (2015). Nearly Optimal Private LASSO. NIPS 2015; Algorithm 2, with the changes and
       the proof in ``docs/privacy/frank_wolfe.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce import DPSparseLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 300))
    >>> y = np.where(X[:, 7] - X[:, 42] > 0, "yes", "no")
    >>> model = DPSparseLogisticRegression(
    ...     epsilon=1.0, delta=1e-6, data_bound=1.0, radius=8.0, classes=["no", "yes"], random_state=0
    ... )
    >>> model.fit(X, y).score(X, y) > 0.85
    True
    >>> model.guarantee_.epsilon
    1.0
    """

    _loss = Logistic()
