"""Lasso and sparse logistic regression over columns at several parties, by Frank-Wolfe on the l1 ball."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._validation import choice, in_full, magnitude, number
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.coordinator.frank_wolfe import BallPlan, ExactBallPlan, LocalBallPlan
from sottovoce.vertical.coordinator.plan import VerticalPlan, VerticalSolution
from sottovoce.vertical.coordinator.secure import SecureBallPlan
from sottovoce.vertical.estimators.base import VerticalEstimator
from sottovoce.vertical.estimators.choices import CHOICES, engine_for
from sottovoce.vertical.estimators.tasks import VerticalLogisticModel, VerticalRegressor


# First among the bases of an estimator: the parameters that it declares again then go before those of its own base.
@estimator
class _BallEstimator(VerticalEstimator):
    """Base of both: public facts to plan, solution to coefficients."""

    aggregation: str = parameter(
        '{"local", "secure"}',
        default="local",
        text="""``"local"``: K balls of a share of ``radius`` each, every party by itself; nothing crosses but some
        bytes of column numbers. ``"secure"``: one ball, and the column of a step is chosen inside secure computation:
        as good as one table, the labels stay secret, and every party needs an engine. Without noise, ``epsilon=inf``,
        both are one ball in the clear.""",
    )
    engine: str = parameter(
        '{"auto", "spu", "in-process"}',
        default="auto",
        text="""For ``aggregation="secure"``: what computes. ``"auto"``: SPU where two or three parties compute and all
        have it, in the clear where all parties live in this process.""",
    )
    radius: float | None = parameter(
        "float, in [1e-50, 1e50]",
        default=None,
        text="Bound on the l1 norm of the coefficients, in the unit of y divided by that of the columns.",
    )
    radius_shares: Mapping[str, float] | None = parameter(
        "dict or None", default=None, text="""By party, for ``"local"``; None for equal shares."""
    )
    label_share: float = parameter(
        "float, in (0, 1)",
        default=0.5,
        text="Share of epsilon for secret labels, which are released once by randomised response.",
    )
    n_steps: int | None = parameter(
        "int or None",
        default=None,
        text="Steps of each party (rounds); None follows a measured rule from public facts.",
    )
    fit_intercept: bool = parameter(
        "bool",
        default=True,
        text="""A column at the label holder, of the value of its ``data_bound``. Its weight counts in the norm.""",
    )
    max_iter: int = parameter("int", default=1000, text="Steps at most, without noise.")
    tol: float = parameter(
        "float, > 0",
        default=1e-3,
        text="""Without noise: duality gap at which to stop, relative to the mean loss of the model without columns.""",
    )

    coef_: Vector = attribute("ndarray", "Of all parties' columns, in the order of the parties.")
    intercept_: float = attribute("float")
    n_nonzero_: int = attribute("int", "Coefficients that are not zero.")

    def _residual_bound(self) -> float | None:
        return None

    def _check_parameters(self) -> None:
        choice("aggregation", self.aggregation, ("local", SecureBallPlan.name))
        choice("engine", self.engine, CHOICES)
        is_secure = self.aggregation == SecureBallPlan.name
        if self.engine != "auto" and not is_secure:
            raise ParameterError(
                f"engine={self.engine!r} is for aggregation='secure'; the aggregation is {self.aggregation!r}. Leave "
                "it out."
            )
        if self.radius_shares is not None and (is_secure or math.isinf(self.epsilon or 0.0)):
            one = "aggregation='secure'" if is_secure else "a training without noise"
            raise ParameterError(f"radius_shares are for several balls; {one} has one. Leave them out.")
        number("tol", self.tol, above=0.0)
        number("label_share", in_full(self.label_share), above=0.0, below=1.0)
        super()._check_parameters()
        self._radius()

    def _radius(self) -> float:
        return magnitude(
            "radius", self.radius,
            remedy="It bounds the sum of the absolute coefficients: small is sparse, large fits closely. Choose it "
            "from public knowledge.",
        )  # fmt: skip

    def _own_facts(self, n_samples: int) -> dict[str, Any]:
        return {"radius": self._radius()}

    def _make_plan(self, **facts: Any) -> VerticalPlan:
        if math.isinf(facts["epsilon"]):
            return ExactBallPlan(**facts, max_iter=self.max_iter, tol=self.tol)
        facts |= self._own_options()
        if self.aggregation == SecureBallPlan.name:
            return SecureBallPlan(**facts, engine=engine_for(self.engine, facts["facts"].engines, only=("spu",)))
        return LocalBallPlan(**facts, label_share=in_full(self.label_share), radius_shares=self.radius_shares)

    def _own_options(self) -> dict[str, Any]:
        return {"n_steps_given": in_full(self.n_steps), "residual_bound": self._residual_bound()}

    def _asks_engines(self, epsilon: float) -> bool:
        return math.isfinite(epsilon) and self.aggregation == SecureBallPlan.name

    def _take(self, plan: VerticalPlan, solution: VerticalSolution, model: str) -> None:
        super()._take(plan, solution, model)
        assert solution.weights is not None
        assert isinstance(plan, BallPlan)
        parts = [solution.weights[name] for name in plan.facts.names]
        self.coef_ = np.concatenate([coefficients for coefficients, _ in parts])
        self.intercept_ = plan.middle + math.fsum(intercept for _, intercept in parts)
        self.n_nonzero_ = int(np.count_nonzero(self.coef_))

    def local_decision_function(self, parties: Any) -> Vector:
        """Not offered: this training makes no exact model of the label holder's own columns.

        Raises
        ------
        ParameterError
            Always.
        """
        raise ParameterError(
            f"{type(self).__name__} trains no model of the label holder alone; fit one with a list of that party only."
        )


@estimator
class VerticalLasso(_BallEstimator, VerticalRegressor):
    r"""Least squares with few coefficients, over columns that several parties hold of the same people.

    Minimises :math:`\frac1n \sum_i \frac12 (y_i - \sum_k x_{i,k}^\top w_k - b)^2` over
    :math:`\|w\|_1 + |b - m| / B \le` ``radius``, where m is the middle of ``label_bounds`` and B the label holder's
    ``data_bound``, by private Frank-Wolfe [1]_ [2]_. The noise grows with the logarithm of the number of columns only.
    The model is a function of what was released: it is public, and each party keeps its part too.

    References
    ----------
    .. [1] Lou, Cheung (2018). Uplink Communication Efficient Differentially Private Sparse Optimization With
       Feature-Wise Distributed Data. AAAI 2018; Algorithm 2, with the changes and the proof in
       ``docs/privacy/vertical_frank_wolfe.md``.
    .. [2] Talwar, Thakurta, Zhang (2015). Nearly Optimal Private LASSO. NIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import VerticalLasso, split_columns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 300))
    >>> y = np.clip(X[:, 7] - X[:, 242], -1, 1)
    >>> parties = split_columns(X, {"clinic": range(150), "bank": range(150, 300)}, data_bound={"clinic": 1, "bank": 1})
    >>> model = VerticalLasso(
    ...     epsilon=1.0, delta=1e-6, label_bounds=(-1, 1), radius=2.0, labels_public=True, random_state=0
    ... ).fit(parties, y)
    >>> np.flatnonzero(np.abs(model.coef_) > 0.3)
    array([  7, 242])
    >>> model.uplink_bytes_ < 200
    True
    """

    residual_bound: float | None = parameter(
        "float or None",
        default=None,
        text="""Public bound on a residual, in the unit of y; larger ones are clipped. None is half of the width of
        ``label_bounds``. Where most residuals are known to be far smaller, a smaller bound means as much less noise.
        """,
    )

    def _residual_bound(self) -> float | None:
        return self.residual_bound


@estimator
class VerticalSparseLogisticRegression(_BallEstimator, VerticalLogisticModel):
    r"""Logistic regression with few coefficients, over columns that several parties hold of the same people.

    Minimises :math:`\frac1n \sum_i \log(1 + e^{-y_i (\sum_k x_{i,k}^\top w_k + b)})` over
    :math:`\|w\|_1 + |b| / B \le` ``radius``, as `VerticalLasso` does.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import VerticalSparseLogisticRegression, split_columns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 300))
    >>> y = np.where(X[:, 7] - X[:, 242] > 0, 1, 0)
    >>> parties = split_columns(X, {"clinic": range(150), "bank": range(150, 300)}, data_bound={"clinic": 1, "bank": 1})
    >>> model = VerticalSparseLogisticRegression(
    ...     epsilon=1.0, delta=1e-6, classes=[0, 1], radius=5.0, labels_public=True, random_state=0
    ... ).fit(parties, y)
    >>> model.score(parties, y) > 0.9
    True
    """
