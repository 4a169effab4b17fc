"""Empirical lower bounds on epsilon: evidence that a guarantee is not violated, and proof when it is."""

from sottovoce.audit.threshold import epsilon_lower_bound, gaussian_lower_bound

__all__ = ["epsilon_lower_bound", "gaussian_lower_bound"]
