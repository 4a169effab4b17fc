"""The vertical estimators: ridge, logistic regression, linear SVM over columns at several parties."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._parameters import estimator, parameter
from sottovoce._validation import choice, magnitude, number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.losses import SmoothedHinge, Squared
from sottovoce.vertical.coordinator.exact import ExactPlan
from sottovoce.vertical.coordinator.plan import PublicFacts, VerticalPlan
from sottovoce.vertical.coordinator.secure import SecurePlan
from sottovoce.vertical.estimators.base import VerticalEstimator
from sottovoce.vertical.estimators.choices import (
    CHOICES,
    MECHANISMS,
    choose_engine,
    choose_mechanism,
    engine_for,
    given_options,
    known_options,
)
from sottovoce.vertical.estimators.tasks import VerticalClassifier, VerticalLogisticModel, VerticalRegressor

_AUTO: Final = "auto"


def _mechanism_text() -> str:
    """Return what each mechanism does, as its plan says it."""
    listed = " ".join(f'``"{name}"``: {plan.about}.' for name, plan in MECHANISMS.items())
    return f"""With a finite epsilon. {listed} ``"auto"``: ``"secure"`` where every party has an engine of secure
    computation and the people are enough for the columns, else ``"local-models"``; by public facts alone, and the
    receipt says why."""


def _options_text() -> str:
    listed = []
    for name, plan in MECHANISMS.items():
        defaults = {field.name: field.default for field in dataclasses.fields(plan)}
        listed.append(f'``"{name}"``: ' + ", ".join(f"``{option}`` ({defaults[option]})" for option in plan.options))
    return "; ".join(listed) + "."


# First among the bases of an estimator: the parameters that it declares again then go before those of its own base.
@estimator
class _PenalisedEstimator(VerticalEstimator):
    """Base of all three: a penalty, a solver without noise, mechanisms with noise."""

    mechanism: str = parameter(
        "{" + ", ".join(f'"{name}"' for name in (*MECHANISMS, _AUTO)) + "}",
        default="local-models",
        text=_mechanism_text(),
    )
    mechanism_options: Mapping[str, Any] | None = parameter("dict or None", default=None, text=_options_text())
    engine: str = parameter(
        "{" + ", ".join(f'"{name}"' for name in CHOICES) + "}",
        default="auto",
        text="""For ``mechanism="secure"``: what computes the sums. ``"auto"``: SPU where two or three parties compute
        and all have it, Shamir's shares where three or more do, in the clear where all live in this process.""",
    )
    alpha: float | str = parameter(
        'float, > 0, or "auto"',
        default="auto",
        text="""Strength of the penalty. ``"auto"`` is 1 / n_samples, scikit-learn's C = 1.""",
    )
    tol: float = parameter(
        "float, > 0",
        default=1e-6,
        text="Without noise: see `sottovoce.vertical.coordinator.exact.minimise`.",
    )

    def _check_parameters(self) -> None:
        choice("mechanism", self.mechanism, (*MECHANISMS, _AUTO))
        choice("engine", self.engine, CHOICES)
        number("tol", self.tol, above=0.0)
        super()._check_parameters()

    def _own_facts(self, n_samples: int) -> dict[str, Any]:
        if isinstance(self.alpha, str) and self.alpha == "auto":
            return {"alpha": 1.0 / n_samples}
        return {"alpha": magnitude("alpha", self.alpha, remedy="Or give 'auto', which is 1 / n_samples.")}

    def _make_plan(self, **facts: Any) -> VerticalPlan:
        if math.isinf(facts["epsilon"]):
            given_options("mechanism_options", self.mechanism_options)
            return ExactPlan(**facts, max_iter=self.max_iter, tol=self.tol)
        mechanism, why = self._chosen(facts["facts"], facts["epsilon"], facts["delta"])
        kind = MECHANISMS[mechanism]
        place = f" for mechanism={self.mechanism!r}"
        known = kind.options
        if self.mechanism == _AUTO:
            known = (*MECHANISMS["local-models"].options, *SecurePlan.options)
        options = known_options("mechanism_options", self.mechanism_options, known, place=place)
        options = {name: value for name, value in options.items() if name in kind.options}
        if kind is SecurePlan:
            options["engine"] = engine_for(self.engine, facts["facts"].engines)
        elif self.engine != "auto":
            raise ParameterError(
                f"engine={self.engine!r} is for mechanism='secure'; the mechanism is {mechanism!r}. Leave it out."
            )
        return kind(**facts, **options, why_chosen=why)

    def _asks_engines(self, epsilon: float) -> bool:
        return math.isfinite(epsilon) and self.mechanism in (SecurePlan.name, _AUTO)

    def _chosen(self, facts: PublicFacts, epsilon: float, delta: float) -> tuple[str, str]:
        if self.mechanism != _AUTO:
            return self.mechanism, ""
        if self.engine != "auto":
            return SecurePlan.name, f"engine={self.engine!r} was named"
        unbounded = [name for name, each in facts.descriptions.items() if math.isinf(each.data_norm)]
        if unbounded:
            return "local-models", f"party {unbounded[0]!r} declared no data_norm, which joint sums need of every party"
        return choose_mechanism(
            n_samples=facts.n_samples,
            n_features=sum(each.n_features for each in facts.descriptions.values()),
            epsilon=epsilon,
            delta=delta,
            engine=choose_engine(facts.engines),
            engines=facts.engines,
            is_classification=self._make_loss().is_classification,
            colluding=whole_number(
                "mechanism_options['colluding']",
                given_options("mechanism_options", self.mechanism_options).get("colluding", 1),
                at_least=1,
            ),
        )


@estimator
class VerticalLogisticRegression(_PenalisedEstimator, VerticalLogisticModel):
    r"""Logistic regression over columns that several parties hold of the same people.

    Minimises :math:`\frac1n \sum_i \log(1 + e^{-y_i (\sum_m x_{i,m}^\top w_m + b)}) + \frac\alpha2 |w|^2`, without
    noise by Newton's method, privately by one of several mechanisms. The model stays split: each party
    keeps its own coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import VerticalLogisticRegression, split_columns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> y = np.where(X.sum(axis=1) > 0, 1, 0)
    >>> parties = split_columns(X, [3, 2])
    >>> model = VerticalLogisticRegression(epsilon=np.inf).fit(parties, y)
    >>> model.score(parties, y) > 0.98
    True
    """


@estimator
class VerticalLinearSVC(_PenalisedEstimator, VerticalClassifier):
    r"""Linear SVM over columns that several parties hold of the same people.

    Minimises :math:`\frac1n \sum_i h(y_i (\sum_m x_{i,m}^\top w_m + b)) + \frac\alpha2 |w|^2` with the hinge loss h,
    its corner rounded over a width of ``smoothing``. With ``mechanism="local-models"`` the other parties fit the labels
    by least squares, whose scores are on the same scale as margins.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import VerticalLinearSVC, split_columns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> y = np.where(X.sum(axis=1) > 0, 1, 0)
    >>> parties = split_columns(X, [3, 2])
    >>> VerticalLinearSVC(epsilon=np.inf).fit(parties, y).score(parties, y) > 0.98
    True
    """

    smoothing: float = parameter(
        "float, > 0",
        default=0.5,
        text="""Width of the hinge's rounded corner. ``mechanism="secure"`` trains one of at least 1.""",
    )

    def _make_loss(self) -> SmoothedHinge:
        return SmoothedHinge(number("smoothing", self.smoothing, above=0.0))

    def _margin_loss(self, margins: Vector) -> dict[str, float]:
        return {"hinge loss": float(np.maximum(0.0, 1.0 - margins).mean())}


@estimator
class VerticalRidge(_PenalisedEstimator, VerticalRegressor):
    r"""Ridge regression over columns that several parties hold of the same people.

    Minimises :math:`\frac1{2n} \sum_i (y_i - \sum_m x_{i,m}^\top w_m - b)^2 + \frac\alpha2 |w|^2`.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import VerticalRidge, split_columns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> parties = split_columns(X, [3, 2])
    >>> VerticalRidge(epsilon=np.inf).fit(parties, X.sum(axis=1)).score(parties, X.sum(axis=1)) > 0.99
    True
    """

    def _make_loss(self) -> Squared:
        return Squared()
