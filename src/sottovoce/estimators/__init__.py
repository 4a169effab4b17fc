"""The scikit-learn layer: thin estimators over the solvers, one family a file, loaded when they are first used."""

from typing import TYPE_CHECKING, Final

from sottovoce._lazy import lazy_names

if TYPE_CHECKING:
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

_HOMES: Final = {
    **dict.fromkeys(("DPLasso", "DPSparseLogisticRegression"), "l1_ball"),
    **dict.fromkeys(("DPLinearSVC", "DPLogisticRegression"), "penalised_classifiers"),
    "DPPipeline": "pipeline",
    "DPRidge": "ridge",
    "DPScaler": "scaler",
    "DPSearchCV": "search",
}
__getattr__ = lazy_names(__name__, _HOMES)
