"""Differentially private linear models, trained wherever the data lives.

Names are loaded when they are first used: a device that only sends reports (`sottovoce.local`) never loads the solvers.
"""

from typing import TYPE_CHECKING, Final

from sottovoce._lazy import lazy_names

if TYPE_CHECKING:
    from sottovoce import audit as audit
    from sottovoce import cluster as cluster
    from sottovoce import ledger as ledger
    from sottovoce import local as local
    from sottovoce import vertical as vertical
    from sottovoce._version import __version__ as __version__
    from sottovoce.central.plan import Plan
    from sottovoce.estimators.base import plan
    from sottovoce.estimators.l1_ball import DPLasso, DPSparseLogisticRegression
    from sottovoce.estimators.penalised_models import DPLinearSVC, DPLogisticRegression, DPRidge
    from sottovoce.estimators.persistence import load_model, save_model
    from sottovoce.estimators.pipeline import DPPipeline
    from sottovoce.estimators.scaler import DPScaler
    from sottovoce.estimators.search import DPSearchCV
    from sottovoce.evaluation import Evaluation, evaluate
    from sottovoce.forecasting.forecast import Forecast, forecast
    from sottovoce.ledger import Ledger
    from sottovoce.privacy.guarantee import Guarantee
    from sottovoce.tables.parquet import ParquetTable
    from sottovoce.tables.transformer import SchemaEncoder

__all__ = [
    "DPLasso", "DPLinearSVC", "DPLogisticRegression", "DPPipeline", "DPRidge", "DPScaler", "DPSearchCV",
    "DPSparseLogisticRegression", "Evaluation", "Forecast", "Guarantee", "Ledger", "ParquetTable", "Plan",
    "SchemaEncoder", "evaluate", "forecast", "load_model", "plan", "save_model",
]  # fmt: skip

_HOMES: Final = {
    **dict.fromkeys(("DPLasso", "DPSparseLogisticRegression"), "estimators.l1_ball"),
    **dict.fromkeys(("DPLinearSVC", "DPLogisticRegression", "DPRidge"), "estimators.penalised_models"),
    "DPPipeline": "estimators.pipeline",
    "DPScaler": "estimators.scaler",
    "DPSearchCV": "estimators.search",
    **dict.fromkeys(("Evaluation", "evaluate"), "evaluation"),
    **dict.fromkeys(("Forecast", "forecast"), "forecasting"),
    "Guarantee": "privacy.guarantee",
    "Ledger": "ledger",
    "ParquetTable": "tables.parquet",
    "Plan": "central.plan",
    "SchemaEncoder": "tables.transformer",
    **dict.fromkeys(("load_model", "save_model"), "estimators.persistence"),
    "plan": "estimators.base",
    "__version__": "_version",
    **dict.fromkeys(("audit", "cluster", "ledger", "local", "vertical"), ""),
}
__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES} - {"TYPE_CHECKING", "Final", "lazy_names"})
