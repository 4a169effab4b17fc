"""Empirical lower bounds on epsilon: evidence that a guarantee is not violated, and proof when it is."""

from sottovoce.audit.estimators import AuditReport, audit_estimator
from sottovoce.audit.one_run import OneRun, canary_table, one_run_lower_bound
from sottovoce.audit.pairs import Pair, worst_case_pairs
from sottovoce.audit.threshold import detectable_epsilon, epsilon_lower_bound

__all__ = [
    "AuditReport", "OneRun", "Pair", "audit_estimator", "canary_table", "detectable_epsilon", "epsilon_lower_bound",
    "one_run_lower_bound", "worst_case_pairs",
]  # fmt: skip
