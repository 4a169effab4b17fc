"""The party's side: its rows and their Gram matrix, once, with noise."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import ROUNDING_SLACK
from sottovoce.privacy.events import Event, GaussianEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below
from sottovoce.vertical.coordinator.charges import LARGEST_MU, SMALLEST_MU, event_text
from sottovoce.vertical.protocol import Desk, Handler, PartyFacts, Training, within
from sottovoce.vertical.protocols.noisy_features.messages import Features, SendFeatures
from sottovoce.vertical.table.bounded import bounded_pieces
from sottovoce.vertical.wire import Vector

__all__ = ["FeatureRelease", "SendFeaturesHandler"]

_GRAM_SHARE: Final = 0.09  # of mu^2, for the Gram matrix of non-negative rows
_FREE_GRAM: Final = 0.25  # of mu^2, which the Gram matrix of rows of any sign has without cost
_FINEST_ROWS: Final = 2.0**-18  # so that sums of products of 8,192 rows are exact in double precision


@dataclass(frozen=True)
class FeatureRelease:
    """How a party releases its rows and their Gram matrix: one Gaussian release of both together.

    Parameters
    ----------
    mu : float, > 0
        Mean shift that a replaced row may cause.
    nonnegative : bool
        Public fact that no entry is negative.

    Notes
    -----
    Rows are rounded toward zero to whole ticks; their Gram matrix is then exact. With rows u, v of norm at most 1,
    (|u - v| / s_D)^2 + (|uu' - vv'| / s_G)^2 <= mu^2. For non-negative rows both squares above the bars are at most 2,
    and the parts share mu^2 as 91 : 9. For rows of any sign s_D = 2 / mu, and s_G = sqrt(8) / mu costs nothing more,
    because the row that moves D most, v = -u, does not move the Gram matrix.
    """

    mu: float
    nonnegative: bool

    @property
    def event(self) -> Event:
        """What the release costs, rows and Gram matrix together."""
        return GaussianEvent(1.0 / self.mu)

    @property
    def rows_noise_std(self) -> float:
        """Standard deviation of the noise of an entry of a row."""
        largest = math.sqrt(2.0 / (1.0 - _GRAM_SHARE)) if self.nonnegative else 2.0
        return largest * ROUNDING_SLACK / self.mu

    @property
    def gram_noise_std(self) -> float:
        """Standard deviation of the noise of an entry of the diagonal of the Gram matrix; others: by sqrt(2) less."""
        return math.sqrt(2.0 / (_GRAM_SHARE if self.nonnegative else _FREE_GRAM)) * ROUNDING_SLACK**2 / self.mu

    @cached_property
    def tick(self) -> float:
        """Step of the grid of the rows; that of the Gram matrix is its square."""
        return max(power_of_two_below(math.sqrt(self.gram_noise_std)) * 2.0**-19, _FINEST_ROWS)

    def check(self) -> None:
        """Make every mechanism once: what they refuse is refused before anything is charged.

        Raises
        ------
        ParameterError
            If the noise is too small for the grid.
        """
        for std, tick in (
            (self.rows_noise_std, self.tick),
            (self.gram_noise_std, self.tick**2),
            (self.gram_noise_std / math.sqrt(2.0), self.tick**2),
        ):
            GridGaussian(1.0, std, tick)

    def release(self, table: Any, data_norm: float, noise: np.random.Generator) -> Features:
        """Return the noisy rows and Gram matrix, in units of ``data_norm`` and of its square, with the event."""
        n, d = table.shape
        ticks = np.empty((n, d), dtype=np.int64)
        gram = np.zeros((d, d), dtype=np.int64)
        for place, rows in bounded_pieces(table, data_norm):
            whole = np.trunc(rows / self.tick)
            ticks[place] = whole
            gram += (whole.T @ whole).astype(np.int64)  # exact: whole numbers below 2^49
        beside = np.triu_indices(d, 1)
        noisy = np.empty((d, d))
        noisy[beside] = _with_noise(gram[beside], self.gram_noise_std / math.sqrt(2.0), self.tick**2, noise)
        noisy.T[beside] = noisy[beside]
        diagonal = np.diag_indices(d)
        noisy[diagonal] = _with_noise(gram[diagonal], self.gram_noise_std, self.tick**2, noise)
        rows = _with_noise(ticks.ravel(), self.rows_noise_std, self.tick, noise)
        return Features(rows, noisy.ravel(), self.rows_noise_std, self.gram_noise_std, event_text(self.event))


def _with_noise(ticks: NDArray[np.int64], std: float, tick: float, noise: np.random.Generator) -> Vector:
    # the event of the whole release is FeatureRelease.event; a single part has no sensitivity of its own
    return GridGaussian(1.0, std, tick).release(ticks, noise)[0]


class SendFeaturesHandler(Handler[SendFeatures]):
    """One release of the columns."""

    request = SendFeatures

    def plan(self, facts: PartyFacts, training: Training, request: SendFeatures) -> Event:
        self._row_bound = facts.row_bound
        self._release = FeatureRelease(within("mu", request.mu, SMALLEST_MU, LARGEST_MU), facts.nonnegative)
        self._release.check()
        return self._release.event

    def run(self, desk: Desk, request: SendFeatures) -> Features:
        return self._release.release(desk.table, self._row_bound, desk.noise())
