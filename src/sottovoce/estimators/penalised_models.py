"""The penalised models: ridge and logistic regression, and the linear support vector machine."""

from dataclasses import replace
from typing import Any, Final

from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._validation import choice
from sottovoce.central.plan import Plan, TrainingFacts
from sottovoce.estimators.base import absent
from sottovoce.estimators.classifier import DPLinearClassifier
from sottovoce.estimators.penalised import (
    STANDARD_ERRORS,
    Penalised,
    confidence_intervals,
    is_auto,
    options_parameter,
    solver_parameter,
)  # fmt: skip
from sottovoce.estimators.regressor import DPLinearRegressor
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Hinge, Logistic, Squared

_ALPHA: Final = 0.05  # over n: refinement reaches what the noise does not hide, and what is hidden has a penalty
_OBJECTIVES: Final = ("probability", "accuracy")
_ALPHA_OF_STEPS: Final = 1e-4  # smaller ones only ask for more passes (``docs/measured/data/solvers/notes.txt``)
CLASS_WEIGHT: Final[Any] = parameter(
    "dict or None",
    default=None,
    text="""Public weights of rows by their class, one for each class: ``{"no": 1, "yes": 3}``. ``"balanced"`` is
    refused: it would count rows. Weights need ``solver="scd"``, which ``"auto"`` then takes, one-vs-rest for more
    than two classes. Clip and noise are for a row of the largest weight, so weights far apart cost accuracy.""",
)


@estimator
class DPLogisticRegression(Penalised, DPLinearClassifier):
    r"""Logistic regression with differential privacy.

    Minimises, over rows divided by ``data_norm`` and labels -1 and +1,
    :math:`\frac1n \sum_i \log(1 + e^{-y_i (x_i^\top w + b)}) + \frac\alpha2 (|w|^2 + b^2 / s^2)`
    with s = ``intercept_scaling``, by Newton steps with a noisy matrix of second moments, or by accelerated full-batch
    DP-SCD [1]_ where rows are few or columns many. Nothing has to be tuned. For two classes a slope and a shift of the
    predictions are then fitted, without penalty, from one more noisy release: they keep probabilities honest
    (``docs/privacy/calibration.md``; not where alpha is above 1e-3). More than two classes are one multinomial model,
    the softmax of their scores, whose steps for a row are clipped jointly: a person pays once, not once a class.
    Solvers with a name of their own train one-vs-rest instead, and give each model an equal part of the budget, mu /
    sqrt(n_classes) in terms of Gaussian DP.

    With ``class_weight`` or ``max_sample_weight`` the loss of each row is multiplied by its weight, and the penalty
    stays; DP-SCD trains, one-vs-rest for more than two classes, and no slope and shift are fitted.

    References
    ----------
    .. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Algorithm 1, with
       the changes and the proof in ``docs/privacy/dp_scd.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce import DPLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 2))
    >>> y = np.where(X @ [1.0, -0.5] > 0, "yes", "no")
    >>> model = DPLogisticRegression(epsilon=1.0, delta=1e-6, data_norm=2**0.5, classes=["no", "yes"], random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    >>> model.guarantee_.epsilon
    1.0
    """

    objective: str = parameter(
        '{"probability", "accuracy"}',
        default="probability",
        text="""What predictions of two classes are for: honest probabilities, or as few errors as possible. With
        ``"accuracy"`` the intercept is moved to where the released counts behind slope and shift say that most rows
        are right, which costs no budget; `predict_proba` then says on which side a row is, not how likely. More
        classes, and models without slope and shift, stay as they are.""",
    )
    class_weight: Any = CLASS_WEIGHT
    solver: Any = solver_parameter(
        """``"newton"``: Newton steps with a noisy matrix of second moments, some 30 passes (what ``"auto"``
        takes for two classes unless rows are few or columns thousands); ``"scd"``: accelerated full-batch DP-SCD
        (what it takes elsewhere), one-vs-rest for more classes; ``"multinomial-scd"``: one model of all classes (what
        ``"auto"`` takes for more than two), by noisy steps that reach as far as mu n allows, or by passes; ``"gd"``:
        noisy gradient descent from a noisy base rate (what it takes for two classes and very few rows);
        ``"momentum"``: many short noisy steps with momentum (what it takes for two classes and some thousand rows);
        ``"one-step"``: two scoring steps with a noisy information matrix, for `confidence_intervals`."""
    )
    solver_options: Any = options_parameter('``n_passes`` and ``steps`` for ``"multinomial-scd"``')

    maximum_likelihood_: Vector | None = attribute(
        "ndarray of shape (n_features + 1,) or (n_features,), or None",
        """Unpenalised coefficients, the intercept last (where there is one); zeros where the noise hides them. None for
        other solvers than ``"one-step"``.""",
    )
    standard_errors_: Vector | None = STANDARD_ERRORS

    _loss, _estimates = Logistic(), "maximum_likelihood_"

    def _facts(self, n_samples: int, *, private: bool) -> dict[str, Any]:
        asked, found = choice("objective", self.objective, _OBJECTIVES), super()._facts(n_samples, private=private)
        if asked == "accuracy" and (found["weight_bound"] is not None or not found["constant"]):
            raise ParameterError(
                "objective='accuracy' moves the intercept to where most rows are right, each counted once: it needs "
                "fit_intercept=True and rows without weights. Or leave objective='probability'."
            )
        return {**found, "objective": asked}

    _interval_needs = (
        "the released information matrix",
        "solver='one-step' and a finite epsilon, for two classes and rows without weights",
    )
    confidence_intervals = confidence_intervals


@estimator
class DPLinearSVC(Penalised, DPLinearClassifier):
    r"""Linear support vector classification with differential privacy.

    Minimises, over rows divided by ``data_norm`` and labels -1 and +1,
    :math:`\frac1n \sum_i \max(0, 1 - y_i (x_i^\top w + b)) + \frac\alpha2 (|w|^2 + b^2 / s^2)`
    with s = ``intercept_scaling``; by default the corner of the hinge is a parabola of width 1 or 2, and Newton steps
    with secret dual variables, as those of DP-SCD [1]_, train it. Nothing has to be tuned. More than two classes are
    trained one-vs-rest: each model spends an equal part of the budget, mu / sqrt(n_classes) in terms of Gaussian DP.

    With ``class_weight`` or ``max_sample_weight`` the loss of each row is multiplied by its weight; the penalty stays.

    References
    ----------
    .. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Algorithm 1, with
       the changes and the proof in ``docs/privacy/dp_scd.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce import DPLinearSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 2))
    >>> y = np.where(X @ [1.0, -0.5] > 0, "yes", "no")
    >>> model = DPLinearSVC(epsilon=1.0, delta=1e-6, data_norm=2**0.5, classes=["no", "yes"], random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    >>> model.guarantee_.epsilon
    1.0
    """

    class_weight: Any = CLASS_WEIGHT
    solver: Any = solver_parameter(
        """``"newton"``: Newton steps with a noisy matrix of second moments, some ten passes on a smoothed hinge (what
        ``"auto"`` takes unless columns are thousands, or classes several and rows many); ``"scd"``: accelerated
        full-batch DP-SCD on the hinge itself (what ``"auto"`` takes elsewhere, smoothed where rows have no weights,
        each person has one, and there is noise)."""
    )

    _loss = Hinge()

    predict_proba = predict_log_proba = probabilities_of = absent(
        "DPLinearSVC has no predict_proba: the hinge loss says on which side a row is, not how likely. Use "
        "DPLogisticRegression for probabilities, or decision_function for scores."
    )


@estimator
class DPRidge(Penalised, DPLinearRegressor):
    r"""Ridge regression with differential privacy.

    Minimises, over rows divided by ``data_norm`` and labels y centred at a private median (without privacy: at the
    middle of ``label_bounds``),
    :math:`\frac1n \sum_i \frac12 (y_i - x_i^\top w - b)^2 + \frac\alpha2 (|w|^2 + b^2 / s^2)` with s =
    ``intercept_scaling``, by iterative refinement with a noisy Gram matrix [3]_ or, where the noise would hide most of
    it, by accelerated full-batch DP-SCD [1]_. Nothing has to be tuned.

    Predictions are cut to ``label_bounds``: that is free, and never worse for a label within them. ``coef_`` and
    ``intercept_`` are those of the linear function before.

    With ``max_sample_weight`` the loss of each row is multiplied by its weight, the penalty stays, and DP-SCD trains.

    References
    ----------
    .. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Algorithm 1, with
       the changes and the proof in ``docs/privacy/dp_scd.md``.
    .. [2] Wang (2018). Revisiting differentially private linear regression: optimal and adaptive prediction &
       estimation in unbounded domain. UAI 2018; algorithm AdaSSP, with the changes and the proof in
       ``docs/privacy/sufficient_statistics.md``.
    .. [3] Higham (2002). Accuracy and Stability of Numerical Algorithms. 2nd ed.; chapter 12, and the proof in
       ``docs/privacy/refinement.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce import DPRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 2))
    >>> y = np.clip(X @ [1.0, -0.5], -2, 2)
    >>> model = DPRidge(epsilon=1.0, delta=1e-6, data_norm=2**0.5, label_bounds=(-2, 2), random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.guarantee_.epsilon
    1.0
    """

    alpha: float | str = parameter(
        'float in [1e-50, 1e50] or "auto"',
        default="auto",
        text="""Strength of the L2 penalty for rows in units of ``data_norm``. ``"auto"`` follows the public number of
        rows: 1 / (20 n), within [1e-8, 1e-3]; but 1e-4 for solvers with noise other than ``"refinement"``.""",
    )
    solver: Any = solver_parameter(
        """``"auto"``: ``"refinement"``, a noisy X'X and then passes over clipped residuals [3]_, where mu n / d^1.5
        is at least 7, mu n 100 and weights at most 1,024, else ``"scd"``, accelerated full-batch DP-SCD, with a slope
        and a shift at the end; but with an intercept ``"momentum"``, many short noisy steps, where mu n is from 22
        and 6 sqrt(d) to 100, and ``"constant"``, a noisy mean of the labels, where it is below 22 or 10 sqrt(d): 60
        or 20 sqrt(d), and no steps, for persons of several rows or an alpha above .001; ``"adassp"``: noisy X'X and
        X'y with an adaptive ridge [2]_, for `confidence_intervals`."""
    )
    solver_options: Any = options_parameter(
        '``n_passes`` for ``"refinement"``; ``clip_labels`` (False uses the whole of ``label_bounds``) for ``"adassp"``'
    )

    least_squares_: Vector | None = attribute(
        "ndarray of shape (n_features + 1,) or (n_features,), or None",
        """Unpenalised coefficients, corrected for the noise, the intercept last (where there is one); zeros where the
        noise hides them. None for other solvers than ``"adassp"``.""",
    )
    standard_errors_: Vector | None = STANDARD_ERRORS

    _loss, _estimates = Squared(), "least_squares_"
    _interval_needs = (
        "the released second moments and the number of rows",
        "solver='adassp' and a finite epsilon, and for 'add-remove' also with an intercept and "
        "solver_options={'clip_labels': False}",
    )
    confidence_intervals = confidence_intervals

    def _make_plan(self, facts: TrainingFacts, *, tol: float, max_iter: int) -> Plan:
        plan: Plan = super()._make_plan(facts, tol=tol, max_iter=max_iter)
        if not is_auto(self.alpha) or not facts.is_private or plan.solver == "refinement":
            return plan
        return replace(plan, facts=replace(facts, alpha=_ALPHA_OF_STEPS))

    def _facts(self, n_samples: int, *, private: bool) -> dict[str, Any]:
        automatic = {"alpha": min(1e-3, max(_ALPHA / n_samples, 1e-8))} if is_auto(self.alpha) else {}
        return {**super()._facts(n_samples, private=private), **automatic}
