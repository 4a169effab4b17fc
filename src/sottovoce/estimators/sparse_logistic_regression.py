"""Logistic regression on the l1 ball."""

from sottovoce._parameters import estimator
from sottovoce.estimators.classifier import LogisticClassifier
from sottovoce.estimators.l1_ball import DPBallEstimator

__all__ = ["DPSparseLogisticRegression"]


@estimator
class DPSparseLogisticRegression(DPBallEstimator, LogisticClassifier):
    r"""Logistic regression with few coefficients, with differential privacy.

    Minimises, over labels -1 and +1, :math:`\frac1n \sum_i \log(1 + e^{-y_i (x_i^\top w + b)})` over
    :math:`\|w\|_1 + |b| / B \le` ``radius``, where B = ``data_bound``, by private Frank-Wolfe [1]_. The noise grows
    with the logarithm of the number of columns only. At most ``n_iter_`` coefficients of a model are not zero. More
    than two classes are trained one-vs-rest, with as many selections for each model.

    Notes
    -----
    A sparse X is trained by steps that cost far less than a pass over it (`sottovoce.central.fast_frank_wolfe`), except
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
