"""Differentially private linear models, trained wherever the data lives."""

from sottovoce.central.plan import Plan
from sottovoce.estimators import (
    DPLasso,
    DPLinearSVC,
    DPLogisticRegression,
    DPRidge,
    DPSearchCV,
    DPSparseLogisticRegression,
)
from sottovoce.ledger import Ledger
from sottovoce.planning import plan
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.tables.parquet import ParquetTable

__all__ = [
    "DPLasso",
    "DPLinearSVC",
    "DPLogisticRegression",
    "DPRidge",
    "DPSearchCV",
    "DPSparseLogisticRegression",
    "Guarantee",
    "Ledger",
    "ParquetTable",
    "Plan",
    "plan",
]
