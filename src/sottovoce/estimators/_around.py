"""What estimators around a model share, a pipeline and a search: they predict and score as the model in them does."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from sottovoce._numerics import Vector

__all__ = ["AroundModel"]


def _model_has(name: str) -> Callable[["AroundModel"], bool]:
    def check(self: "AroundModel") -> bool:
        getattr(self._prototype(), name)  # its AttributeError says what is missing
        return True

    return check


class AroundModel(ABC):
    """Predicts with a fitted model."""

    @abstractmethod
    def _prototype(self) -> Any:
        """Return a model of the same kind, fitted or not: it tells which methods there are."""

    @abstractmethod
    def _model(self) -> Any:
        """Return the fitted model, or raise that there is none."""

    def _before_model(self, X: Any) -> Any:
        """Return the rows as the model takes them."""
        return X

    @property
    def classes_(self) -> NDArray[Any]:
        """The public list of classes."""
        found: NDArray[Any] = self._model().classes_
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with the model inside; see its ``predict``."""
        predicted: NDArray[Any] = self._model().predict(self._before_model(X))
        return predicted

    @available_if(_model_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Vector:
        """Return the scores of the model inside; see its ``decision_function``."""
        scores: Vector = self._model().decision_function(self._before_model(X))
        return scores

    @available_if(_model_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Vector:
        """Return the probabilities of the model inside; see its ``predict_proba``."""
        probabilities: Vector = self._model().predict_proba(self._before_model(X))
        return probabilities

    @available_if(_model_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Vector:
        """Return the logarithms of `predict_proba`."""
        logarithms: Vector = self._model().predict_log_proba(self._before_model(X))
        return logarithms

    def score(self, X: Any, y: Any) -> float:
        """Return accuracy or R^2 on X and y, without noise: not covered by the receipt."""
        return float(self._model().score(self._before_model(X), y))
