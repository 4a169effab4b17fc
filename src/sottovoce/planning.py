"""What a fit would spend, before any data are read."""

from sottovoce.estimators.base import PlanT, PrivateEstimator
from sottovoce.exceptions import ParameterError


def plan(estimator: PrivateEstimator[PlanT], n_samples: int, n_features: int) -> PlanT:
    """Return the frozen plan that ``estimator.fit`` would follow on a table of this public size.

    Parameters
    ----------
    estimator : one of sottovoce's estimators, or DPSearchCV
        Its parameters are read, nothing else. For more than two classes, give it ``classes``.
    n_samples : int
        Public number of rows.
    n_features : int

    Returns
    -------
    Plan or SearchPlan
        ``.event`` is what would be accounted, ``.summary()`` the whole in words and numbers.

    Raises
    ------
    ParameterError
        If a parameter is missing, out of range or does not fit another one.

    Examples
    --------
    >>> from sottovoce import DPLogisticRegression, plan
    >>> model = DPLogisticRegression(epsilon=1.0, delta=1e-5, data_norm=1.0, classes=[0, 1])
    >>> plan(model, n_samples=10_000, n_features=20).summary()["adjacency"]
    'zero-out'
    """
    if not isinstance(estimator, PrivateEstimator):
        raise ParameterError(f"estimator must be one of sottovoce's estimators; got {type(estimator).__name__}.")
    return estimator.plan(n_samples, n_features)
