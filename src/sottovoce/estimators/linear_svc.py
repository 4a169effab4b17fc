"""Linear support vector classification."""

from typing import Any, NoReturn

from sottovoce._parameters import estimator, parameter
from sottovoce.estimators.penalised import options_text, solver_text
from sottovoce.estimators.penalised_classifier import DPPenalisedClassifier
from sottovoce.losses import Hinge, Loss

__all__ = ["DPLinearSVC"]


@estimator
class DPLinearSVC(DPPenalisedClassifier):
    r"""Linear support vector classification with differential privacy.

    Minimises, over rows divided by ``data_norm`` and labels -1 and +1,
    :math:`\frac1n \sum_i \max(0, 1 - y_i (x_i^\top w + b)) + \frac\alpha2 (|w|^2 + b^2 / s^2)`
    with s = ``intercept_scaling``, by accelerated full-batch DP-SCD [1]_. Nothing has to be tuned. More than two
    classes are trained one-vs-rest: each model spends an equal part of the budget, mu / sqrt(n_classes) in terms of
    Gaussian DP.

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

    alpha: float | str = parameter(default=1e-5)
    solver: Any = parameter(
        default="auto",
        text=solver_text(
            """``"scd"``: accelerated full-batch DP-SCD; ``"objective"``: objective perturbation, one noisy minimiser of
            the smoothed hinge (what ``"auto"`` takes where mu n < 500)."""
        ),
    )
    solver_options: Any = parameter(
        default=None, text=options_text('``penalty``, ``smoothing`` and ``tolerance`` for ``"objective"``')
    )

    def _make_loss(self) -> Loss:
        return Hinge()

    @property
    def predict_proba(self) -> NoReturn:
        """Not there: the hinge loss has no honest probabilities."""
        raise AttributeError(
            "DPLinearSVC has no predict_proba: the hinge loss says on which side a row is, not how likely. Use "
            "DPLogisticRegression for probabilities, or decision_function for scores."
        )
