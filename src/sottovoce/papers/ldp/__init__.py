"""Bernstein reports: the published non-interactive algorithms for linear models, as printed and in a sound form.

`algorithm` is the listing, the rest is the form whose noise keeps its promise; ``python -m
sottovoce.papers.ldp.reproduce`` prints the paper's claims beside what is measured.
"""

from sottovoce.papers.ldp.bounds import RiskBound, TheoremChoice, risk_bound, theorem_choice
from sottovoce.papers.ldp.report import BernsteinProtocol, bernstein_reports
from sottovoce.papers.ldp.server import BernsteinModel, fit_reports, verify_receipt

__all__ = [
    "BernsteinModel", "BernsteinProtocol", "RiskBound", "TheoremChoice", "bernstein_reports", "fit_reports",
    "risk_bound", "theorem_choice", "verify_receipt",
]  # fmt: skip
