"""Differentially private linear models, trained wherever the data lives."""

from sottovoce.central.plan import Plan
from sottovoce.estimators import DPLinearSVC, DPLogisticRegression, DPRidge, DPSearchCV
from sottovoce.planning import plan
from sottovoce.privacy.guarantee import Guarantee

__all__ = ["DPLinearSVC", "DPLogisticRegression", "DPRidge", "DPSearchCV", "Guarantee", "Plan", "plan"]
