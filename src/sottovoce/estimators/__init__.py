"""The scikit-learn layer: thin estimators over the solvers, one family a file."""

from sottovoce.estimators.linear_svc import DPLinearSVC
from sottovoce.estimators.logistic_regression import DPLogisticRegression
from sottovoce.estimators.ridge import DPRidge
from sottovoce.estimators.search import DPSearchCV

__all__ = ["DPLinearSVC", "DPLogisticRegression", "DPRidge", "DPSearchCV"]
