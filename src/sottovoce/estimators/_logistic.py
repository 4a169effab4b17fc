"""Probabilities of the classes, for the classifiers with the logistic loss."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sottovoce.estimators._classifier import DPLinearClassifier

__all__ = ["LogisticClassifier"]


class LogisticClassifier(DPLinearClassifier):
    """Base of the classifiers with the logistic loss, whose scores are logarithms of odds."""

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class (columns in the order of ``classes_``).

        With more than two classes the one-vs-rest probabilities are scaled to sum to one.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = expit(scores)
            return np.column_stack([1.0 - positive, positive])
        each = expit(scores)
        total = each.sum(axis=1, keepdims=True)
        return np.where(total > 0.0, each / np.where(total > 0.0, total, 1.0), 1.0 / each.shape[1])

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
