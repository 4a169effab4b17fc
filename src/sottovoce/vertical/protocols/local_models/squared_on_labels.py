"""Squared loss on labels that are not secret: adaptive ridge from noisy moments, see its module in `central`."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from sottovoce.central.data.rows import Rows
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Solution
from sottovoce.central.sums.whole_gram import MAX_WEIGHTS
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Loss, Squared
from sottovoce.privacy.events import Event
from sottovoce.vertical.protocols.local_models.released_labels import ReleasedLabelsPlan, Vector

__all__ = ["SquaredOnLabelsPlan"]

_GRAM_SHARE: Final = 0.3  # of mu^2


@dataclass(frozen=True, kw_only=True)
class SquaredOnLabelsPlan(ReleasedLabelsPlan):
    """One release, and what follows from it."""

    loss: ClassVar[Loss] = Squared()
    unit: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_weights > MAX_WEIGHTS:
            raise ParameterError(
                f"the squared loss takes at most {MAX_WEIGHTS} weights here, because its moments grow with their "
                f"square; got n_features = {self.n_features}. Use Logistic() for labels -1 and +1."
            )

    @property
    def releases_gram(self) -> bool:
        return True

    @property
    def shares(self) -> tuple[float, float, float]:
        return _GRAM_SHARE, 1.0 - _GRAM_SHARE, 0.0

    @property
    def event(self) -> Event:
        return self.moments_mechanism().event

    def _train(self, rows: Rows, soft: Vector, noise: np.random.Generator, team: Team) -> Solution:
        moments, event = self._release_matrix(rows, soft, noise, team)
        weights, penalty = moments.ridge(self.alpha_scaled * self.n_samples)
        return Solution(weights[None, :], 1, event, {"alpha after AdaSSP's rule": penalty / self.n_samples})
