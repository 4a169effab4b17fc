"""One opening: whole numbers that all parties see with everybody's noise added, and how large that noise is."""

from dataclasses import dataclass

import numpy as np

from sottovoce.privacy.mechanisms.discrete_gaussian import SharedGaussian
from sottovoce.privacy.mechanisms.exact_coins import whole_gaussian
from sottovoce.vertical.engines.engine import Whole

__all__ = ["Opening", "even"]


@dataclass(frozen=True)
class Opening:
    """A secret variable that is opened.

    Attributes
    ----------
    name : str
    scales : ndarray of int64
        Scale of one party's share of the noise, entry by entry; its shape is that of the variable.
    """

    name: str
    scales: Whole

    def share(self, noise: np.random.Generator) -> Whole:
        """Draw one party's share."""
        drawn = np.zeros(self.scales.shape, np.int64)
        for scale in np.unique(self.scales):
            place = self.scales == scale
            drawn[place] = whole_gaussian(int(scale), int(np.count_nonzero(place)), noise)
        return drawn


def even(name: str, shape: tuple[int, ...], mechanism: SharedGaussian, weight: int = 1) -> Opening:
    """Return an opening with the same noise everywhere."""
    return Opening(name, np.full(shape, mechanism.scale(weight), np.int64))
