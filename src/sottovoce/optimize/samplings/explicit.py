"""Any law over sets of blocks, given set by set."""

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices, vector, whole_numbers
from sottovoce.optimize.samplings.base import Sampling

__all__ = ["ExplicitSampling"]

_ROUNDING: Final = 1e-9


class ExplicitSampling(Sampling):
    """Set number r of a list comes with the probability number r.

    Parameters
    ----------
    n_blocks : int
    sets : iterable of iterables of int
        May hold the empty set; every block must be in a set of positive probability.
    probabilities : array-like of shape (number of sets,), >= 0, of sum 1

    Examples
    --------
    >>> sampling = ExplicitSampling(3, [[0], [1, 2], [0, 1, 2]], [0.5, 0.25, 0.25])
    >>> sampling.probabilities, sampling.expected_size
    (array([0.75, 0.5 , 0.5 ]), 1.75)
    """

    def __init__(self, n_blocks: int, sets: Iterable[Iterable[int]], probabilities: object) -> None:
        super().__init__(n_blocks)
        try:
            listed = [list(chosen) for chosen in sets]
        except TypeError:
            raise ParameterError(f"sets must be a list of lists of blocks; got {sets!r}.") from None
        self.sets: list[Indices] = [
            whole_numbers(f"sets[{r}]", chosen, below=self.n_blocks) for r, chosen in enumerate(listed)
        ]
        self._chances = vector("probabilities", probabilities, size=len(listed) if np.ndim(probabilities) else None)  # type: ignore[arg-type]
        total = math.fsum(self._chances)
        if not (self._chances >= 0.0).all() or not abs(total - 1.0) <= _ROUNDING:
            raise ParameterError(f"probabilities must be >= 0 and add up to 1; they add up to {total!r}.")
        self._inside = np.zeros((len(listed), self.n_blocks))
        for r, chosen in enumerate(self.sets):
            self._inside[r, chosen] = 1.0
        self.name = "explicit"
        self.probabilities = self._chances @ self._inside
        if not self.is_proper:
            never = np.flatnonzero(self.probabilities <= 0.0).tolist()
            raise ParameterError(
                f"blocks {never} are in no set of positive probability: they would never move. Leave them out of the "
                "problem instead."
            )
        self.largest_size = max(len(chosen) for chosen, _ in self.support())
        self._edges = np.cumsum(self._chances)
        self._edges[self._edges >= self._edges[-1]] = 1.0  # no draw falls behind the last set that can come

    def draw(self, rng: np.random.Generator) -> Indices:
        """Return one set."""
        return self.sets[int(np.searchsorted(self._edges, rng.random(), side="right"))]

    def _pairs(self) -> Array:
        out: Array = (self._inside.T * self._chances) @ self._inside
        return out

    def support(self) -> list[tuple[Indices, float]]:
        """Return the sets of positive probability."""
        return [(s, float(c)) for s, c in zip(self.sets, self._chances, strict=True) if c > 0.0]
