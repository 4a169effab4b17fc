"""The vertical estimators by the names of the command line."""

from collections.abc import Mapping
from typing import Final

from sottovoce.vertical.estimators.base import VerticalEstimator
from sottovoce.vertical.estimators.dense import VerticalLinearSVC, VerticalLogisticRegression, VerticalRidge
from sottovoce.vertical.estimators.sparse import VerticalLasso, VerticalSparseLogisticRegression

ESTIMATORS: Final[Mapping[str, type[VerticalEstimator]]] = {
    "logistic": VerticalLogisticRegression,
    "svm": VerticalLinearSVC,
    "ridge": VerticalRidge,
    "lasso": VerticalLasso,
    "sparse-logistic": VerticalSparseLogisticRegression,
}
