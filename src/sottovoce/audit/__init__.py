"""Empirical lower bounds on epsilon: evidence that a guarantee is not violated, and proof when it is."""

from sottovoce.audit.estimators import AuditReport, audit_estimator
from sottovoce.audit.one_run import OneRun, canary_table, one_run_lower_bound
from sottovoce.audit.pairs import Pair, worst_case_pairs
from sottovoce.audit.power import detectable_epsilon
from sottovoce.audit.replay import GreyBox, grey_box, recording, replaying
from sottovoce.audit.threshold import epsilon_lower_bound, gaussian_lower_bound

__all__ = [
    "AuditReport",
    "GreyBox",
    "OneRun",
    "Pair",
    "audit_estimator",
    "canary_table",
    "detectable_epsilon",
    "epsilon_lower_bound",
    "gaussian_lower_bound",
    "grey_box",
    "one_run_lower_bound",
    "recording",
    "replaying",
    "worst_case_pairs",
]
