"""Differentially private linear models, trained wherever the data lives.

Names are loaded when they are first used: a device that only sends reports (`sottovoce.local`) never loads the solvers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sottovoce import audit as audit
    from sottovoce import ledger as ledger
    from sottovoce import local as local
    from sottovoce import vertical as vertical
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

_HOMES: Final = {
    **dict.fromkeys([name for name in __all__ if name.startswith("DP")], "sottovoce.estimators"),
    "Guarantee": "sottovoce.privacy.guarantee",
    "Ledger": "sottovoce.ledger",
    "ParquetTable": "sottovoce.tables.parquet",
    "Plan": "sottovoce.central.plan",
    "plan": "sottovoce.planning",
}
_PACKAGES: Final = ("audit", "ledger", "local", "vertical")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        return import_module(f"sottovoce.{name}")
    raise AttributeError(f"module 'sottovoce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
