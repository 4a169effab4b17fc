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
from sottovoce.central.plan import Plan, TrainingFacts, plan_of
from sottovoce.central.solvers.frank_wolfe import FrankWolfePlan
from sottovoce.central.solvers.projected import ProjectedGradientPlan
from sottovoce.estimators.classifier import DPLinearClassifier
from sottovoce.estimators.linear import Bound
from sottovoce.estimators.regressor import DPLinearRegressor
from sottovoce.exceptions import ParameterError, SottovoceWarning
from sottovoce.losses import Logistic, Squared

DATA_BOUND: Final[Any] = parameter(
    "float, in [1e-50, 1e50]",
    default=None,
    text="""Public bound on the absolute value of every entry, in the unit of X. Larger entries are clipped to it in
    training. Columns of very different units should be scaled by public factors first.""",
)
RADIUS: Final[Any] = parameter(
    "float, in [1e-50, 1e50]",
    default=None,
    text="""Bound on the l1 norm of the coefficients of a model, in the unit of y (none for classes) divided by that
    of X.""",
)
CONSTRAINT: Final[Any] = parameter(
    '{"l1", "nonnegative", "simplex"}',
    default="l1",
    text="""What coefficients may be. ``"l1"``: the sum of their absolute values is at most ``radius``.
    ``"nonnegative"``: none is below 0 besides. ``"simplex"``: none is below 0 and their sum is ``radius``, as in a
    mixture of the columns; with ``fit_intercept=False``.""",
)
N_STEPS: Final[Any] = parameter(
    "int or None",
    default=None,
    text="""Number of steps of each model; more cost more noise each. None follows a measured rule from public
    facts.""",
)
FIT_INTERCEPT: Final[Any] = parameter(
    default=True, text="Add a column of the value ``data_bound``. Its weight counts in the norm."
)
MAX_ITER: Final[Any] = parameter(
    default=10_000, text="Cap on the steps of a run with ``epsilon=inf``, which follows projected gradients."
)
TOL: Final[Any] = parameter(default=1e-6, text="Relative Frank-Wolfe gap at which a run with ``epsilon=inf`` stops.")
_NEARLY_CONSTANT: Final = 0.01  # of the labels' reach
STEPS_TEXT: Final = "Steps of each model; follows from public facts."


class Ball(Bound):
    """A bound on entries, and a radius in place of a penalty; trained by Frank-Wolfe."""

    rows = ("data_bound", "entries beyond were clipped to it")

    def facts(self, model: Any, n_samples: int, *, private: bool) -> dict[str, Any]:
        return {"alpha": 0.0, "constant": 1.0 if model.fit_intercept else 0.0}

    def make_plan(self, model: Any, facts: TrainingFacts, *, tol: float, max_iter: int) -> Plan:
        bound = _entry(model)
        radius = magnitude(
            "radius", model.radius,
            remedy="It bounds the sum of the absolute coefficients: small is sparse, large fits closely. Choose it "
            "from public knowledge.",
        )  # fmt: skip
        if model.n_steps is not None:
            whole_number("n_steps", model.n_steps, at_least=1, at_most=1_000_000)
        choice("constraint", model.constraint, SETS)
        if model.constraint == SIMPLEX and model.fit_intercept:
            raise ParameterError(
                "constraint='simplex' fixes the sum of the coefficients, in which an intercept has no part: give "
                "fit_intercept=False."
            )
        unit = model._label_unit()
        if isinstance(model, DPLasso) and radius * bound < _NEARLY_CONSTANT * unit:
            warn_caller(
                f"radius = {radius:g} moves predictions by at most {radius * bound:g}, and labels reach {unit:g} to "
                "either side: the model is nearly a constant. radius is in the unit of y divided by that of X.",
                SottovoceWarning,
            )
        given = {"radius": radius * bound / unit, "constraint": model.constraint}
        if facts.is_private:
            return plan_of(FrankWolfePlan, facts, n_steps_given=model.n_steps, **given)
        return ProjectedGradientPlan(facts=facts, tol=tol, max_iter=max_iter, **given)

    def penalty(self, model: Any, plan: Plan) -> dict[str, object]:
        kind = {} if model.constraint == L1 else {"constraint": model.constraint}
        return {"radius": encode(model.radius), **kind, "fit_intercept": bool(model.fit_intercept)}

    def scaling(self, model: Any, plan: Plan, norm: float | None) -> Change:
        return BoundEntries(_entry(model), plan.intercept)

    def unscaled(self, model: Any, plan: Plan, weights: Vector) -> tuple[Vector, Vector]:
        unit = model._label_unit()
        coef = weights[:, : plan.n_features] * (unit / _entry(model))
        return coef, unit * weights[:, -1] if plan.intercept > 0.0 else np.zeros(len(weights))


@estimator
class DPLasso(DPLinearRegressor):
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

    data_bound: float | None = DATA_BOUND
    radius: float | None = RADIUS
    constraint: str = CONSTRAINT
    n_steps: int | None = N_STEPS
    fit_intercept: bool = FIT_INTERCEPT
    max_iter: int = MAX_ITER
    tol: float = TOL

    n_iter_: int = attribute(text=STEPS_TEXT)

    _loss, _bound = Squared(), Ball()

    def _label_unit(self) -> float:
        return super()._label_bound()

    def _label_bound(self) -> float:
        return 1.0


@estimator
class DPSparseLogisticRegression(DPLinearClassifier):
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

    data_bound: float | None = DATA_BOUND
    radius: float | None = RADIUS
    constraint: str = CONSTRAINT
    n_steps: int | None = N_STEPS
    fit_intercept: bool = FIT_INTERCEPT
    max_iter: int = MAX_ITER
    tol: float = TOL

    n_iter_: int = attribute(text=STEPS_TEXT)

    _loss, _bound = Logistic(), Ball()


def _entry(model: Any) -> float:
    return magnitude(
        "data_bound", model.data_bound,
        remedy="It is a public bound on the absolute value of every entry of X; never compute it from the data. "
        "Larger entries are clipped to it.",
    )  # fmt: skip
