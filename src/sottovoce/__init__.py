"""Differentially private linear models, trained wherever the data lives."""

from sottovoce.central.plan import Plan
from sottovoce.estimators import DPLinearSVC, DPLogisticRegression, DPRidge, DPSearchCV
from sottovoce.planning import plan
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.tables.parquet import ParquetTable

__all__ = ["DPLinearSVC", "DPLogisticRegression", "DPRidge", "DPSearchCV", "Guarantee", "ParquetTable", "Plan", "plan"]
