"""One block a step, blocks of large curvature more often."""

import math
from typing import Self

import numpy as np

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices, vector
from sottovoce.optimize.samplings.base import Sampling

__all__ = ["ImportanceSampling"]

_ROUNDING = 1e-9


class ImportanceSampling(Sampling):
    r"""Block i alone, with its own probability p_i.

    Take ``step="balanced"`` or ``"line-search"`` with it. Under the universal step, one size for all blocks, no serial
    sampling has a better bound than the uniform one (``docs/papers/block_frank_wolfe.md``, "Unequal blocks").

    Parameters
    ----------
    probabilities : array-like of shape (n_blocks,), > 0, of sum 1

    Examples
    --------
    >>> sampling = ImportanceSampling.from_curvatures([9.0, 1.0, 1.0], mix=0.0)
    >>> sampling.probabilities
    array([0.6, 0.2, 0.2])
    """

    def __init__(self, probabilities: object) -> None:
        p = vector("probabilities", probabilities)
        super().__init__(len(p))
        total = math.fsum(p)
        if not (p > 0.0).all() or not abs(total - 1.0) <= _ROUNDING:
            raise ParameterError(
                f"probabilities must be > 0 and add up to 1; the least is {p.min()!r}, they add up to {total!r}."
            )
        self.name = "importance"
        self.largest_size = 1
        self.probabilities = p
        self._edges = np.cumsum(p)
        self._edges[-1] = 1.0  # no draw falls behind the last block

    @classmethod
    def from_curvatures(cls, curvatures: object, *, mix: float = 0.5) -> Self:
        r"""Draw blocks with the probabilities for which `sottovoce.optimize.theory.serial_bound` falls fastest.

        :math:`p_i = (1 - mix) \sqrt{C_i} / \sum_j \sqrt{C_j} + mix / n`.

        Parameters
        ----------
        curvatures : array-like of shape (n_blocks,), >= 0, not all 0
            C_i of each block, such as `sottovoce.optimize.theory.block_curvatures`, or upper bounds.
        mix : float, in [0, 1]
            The share that is drawn uniformly. It keeps blocks of little curvature from being rare. The constant of the
            bound is at most 1 / (1 - mix) times the least one, and 1 / mix times that of the uniform law. Positive
            where a curvature is 0.
        """
        C = vector("curvatures", curvatures)
        mix = number("mix", mix, at_least=0.0, at_most=1.0)
        if not (C >= 0.0).all() or not (C > 0.0).any():
            raise ParameterError(f"curvatures must be >= 0, and one of them > 0; got {C!r}.")
        if mix == 0.0 and not (C > 0.0).all():
            raise ParameterError("mix=0 would never draw blocks of curvature 0; give mix > 0.")
        roots = np.sqrt(C / C.max())
        return cls((1.0 - mix) * roots / roots.sum() + mix / len(C))

    def draw(self, rng: np.random.Generator) -> Indices:
        """Return one block."""
        return np.array([np.searchsorted(self._edges, rng.random(), side="right")], dtype=np.intp)

    def _pairs(self) -> Array:
        return np.zeros((self.n_blocks, self.n_blocks))

    def support(self) -> list[tuple[Indices, float]]:
        """Return every block."""
        return [(np.array([i], dtype=np.intp), float(p)) for i, p in enumerate(self.probabilities)]
