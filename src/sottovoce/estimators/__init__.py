"""The scikit-learn layer: thin estimators over the solvers, one family a file."""

from sottovoce.estimators.lasso import DPLasso
from sottovoce.estimators.linear_svc import DPLinearSVC
from sottovoce.estimators.logistic_regression import DPLogisticRegression
from sottovoce.estimators.pipeline import DPPipeline
from sottovoce.estimators.ridge import DPRidge
from sottovoce.estimators.scaler import DPScaler
from sottovoce.estimators.search.search import DPSearchCV
from sottovoce.estimators.sparse_logistic_regression import DPSparseLogisticRegression

__all__ = [
    "DPLasso", "DPLinearSVC", "DPLogisticRegression", "DPPipeline", "DPRidge", "DPScaler", "DPSearchCV",
    "DPSparseLogisticRegression",
]  # fmt: skip
