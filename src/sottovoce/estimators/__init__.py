"""The scikit-learn layer: thin estimators over the solvers, one family a file."""

from sottovoce.estimators.l1_ball import DPLasso, DPSparseLogisticRegression
from sottovoce.estimators.penalised_classifiers import DPLinearSVC, DPLogisticRegression
from sottovoce.estimators.pipeline import DPPipeline
from sottovoce.estimators.ridge import DPRidge
from sottovoce.estimators.scaler import DPScaler
from sottovoce.estimators.search import DPSearchCV

__all__ = [
    "DPLasso", "DPLinearSVC", "DPLogisticRegression", "DPPipeline", "DPRidge", "DPScaler", "DPSearchCV",
    "DPSparseLogisticRegression",
]  # fmt: skip
