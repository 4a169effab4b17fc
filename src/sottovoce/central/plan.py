"""The frozen plan: made from public facts before any data are read; it scales the noise and it is accounted."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.parallel import Team
from sottovoce.central.rows import Rows
from sottovoce.losses import Loss
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event, describe
from sottovoce.randomness import Streams

__all__ = ["ROUNDING_SLACK", "LeastSquares", "Plan", "Progress", "Solution", "most_rows"]

Progress = Callable[[int, int], None]

# Sensitivities are multiplied by this: it covers the rounding of norms, factors and products, each below 2^-22
# relative.
ROUNDING_SLACK: Final = 1.0 + 2.0**-20

_MOST_ROWS: Final = 10  # the true number of rows over its public stand-in, up to which rounding errors are bounded


def most_rows(n_public: int, adjacency: Adjacency) -> int:
    """Return the number of rows for which rounding errors are bounded; under add-remove the true number is secret."""
    return n_public * (_MOST_ROWS if adjacency is Adjacency.ADD_REMOVE else 1)


@dataclass(frozen=True)
class LeastSquares:
    """Unpenalised coefficients with standard errors, made from released statistics alone.

    Attributes
    ----------
    estimates, standard_errors : ndarray of shape (n_weights,)
        For rows of norm at most 1, the intercept's weight last; infinite errors where the data cannot tell.
    """

    estimates: NDArray[np.float64]
    standard_errors: NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    """What a solver hands back; everything in it is released.

    Attributes
    ----------
    weights : ndarray of shape (n_models, n_weights)
        For rows of norm at most 1, the intercept's weight last.
    n_steps : int
        Noisy steps of one model (passes or mini-batches), or epochs of a run without noise.
    event : Event
        What the mechanisms emitted, composed.
    chosen : dict
        What public rules made of the noisy releases, for the receipt.
    offset : float
        Released location of the labels, to be added to every prediction.
    least_squares : LeastSquares or None
        For confidence intervals, from solvers that can tell.
    """

    weights: NDArray[np.float64]
    n_steps: int
    event: Event
    chosen: dict[str, object]
    offset: float = 0.0
    least_squares: LeastSquares | None = None


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """Public facts and privacy parameters of one training run; a subclass for each solver.

    Parameters
    ----------
    loss : Loss
    n_samples : int
        Public number of rows (a stand-in for it under add-remove adjacency).
    n_features : int
    n_models : int
        Binary models trained on the same rows (one-vs-rest); each gets an equal part of the budget.
    alpha : float
        L2 penalty for rows in units of ``data_norm``, the intercept's column included.
    intercept : float
        Value of the intercept's column in units of ``data_norm``; 0 for none.
    epsilon, delta : float
    adjacency : Adjacency
    label_bound : float or None
        Public bound on |y| after centring (squared loss).
    choice : str
        Why ``solver="auto"`` took this solver; empty when the user named it.
    """

    # Whether the solver visits rows in order, by `Rows.sweep` and `Rows.blocks` alone: then tables on disk will do.
    in_order: ClassVar[bool] = False

    loss: Loss
    n_samples: int
    n_features: int
    n_models: int
    alpha: float
    intercept: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    label_bound: float | None
    choice: str = ""

    @property
    @abstractmethod
    def event(self) -> Event:
        """What the run will cost at most; the run's own events are checked against it."""

    @abstractmethod
    def solve(
        self, rows: Rows, targets: list[NDArray[np.float64]], streams: Streams, team: Team, progress: Progress
    ) -> Solution:
        """Train one model for each target on ``rows`` as planned."""

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return event and `Solution.chosen` of a run that released these values: what a receipt is checked against.

        Parameters
        ----------
        released : dict
            `Solution.chosen` of that run. What follows from others of its values by a rule is computed again.

        Raises
        ------
        ParameterError
            If a value is missing, or is none that a run releases.
        """
        return self.event, {}

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""

    @property
    @abstractmethod
    def releases(self) -> tuple[str, ...]:
        """What the statement covers, for the receipt."""

    @property
    @abstractmethod
    def solver(self) -> str:
        """Name of the solver as users give it."""

    @property
    def proof(self) -> str:
        """Page with statement and proof."""
        return "docs/privacy/dp_scd.md"

    @property
    def is_private(self) -> bool:
        """False for a run without noise."""
        return math.isfinite(self.epsilon)

    @property
    def promised_epsilon(self) -> float:
        """Epsilon of the receipt; more than `epsilon` only for reproductions of methods whose claim does not hold."""
        return self.epsilon

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Further facts taken as public, for the receipt."""
        if self.adjacency is not Adjacency.ADD_REMOVE:
            return ()
        return (f"the table has at most {_MOST_ROWS} n_public rows (rounding errors are bounded for as many)",)

    @property
    def n_weights(self) -> int:
        """Weights of one model."""
        return self.n_features + (self.intercept > 0.0)

    @property
    def alpha_scaled(self) -> float:
        """L2 penalty for rows scaled to norm at most 1 together with the intercept's column."""
        return self.alpha / (1.0 + self.intercept**2)

    def details(self) -> dict[str, object]:
        """Return the solver's own parameters for summary and receipt."""
        return {}

    def summary(self) -> dict[str, object]:
        """Return the plan in plain words and numbers."""
        return {
            "solver": self.solver,
            **({"solver chosen by auto because": self.choice} if self.choice else {}),
            "loss": self.loss.name,
            "n_samples": self.n_samples,
            "n_features": self.n_features,
            "n_models": self.n_models,
            "alpha": self.alpha,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            **self.details(),
            "event": describe(self.event),
        }
