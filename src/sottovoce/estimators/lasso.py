"""Private lasso."""

from sottovoce._parameters import estimator
from sottovoce.estimators.l1_ball import DPBallEstimator
from sottovoce.estimators.regressor import DPLinearRegressor

__all__ = ["DPLasso"]


@estimator
class DPLasso(DPBallEstimator, DPLinearRegressor):
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
    (`sottovoce.central.fast_frank_wolfe`).

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

    def _target_unit(self) -> float:
        return super()._label_bound()

    def _label_bound(self) -> float:
        return 1.0

    def _label_unit(self) -> float:
        return self._target_unit()
