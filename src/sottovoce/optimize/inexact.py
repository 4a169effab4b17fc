"""Inexact gradients and oracles: what may be supplied in place of exact ones.

What is promised (Theorem 1) needs that an answer for a block depends on the iterate and on earlier steps only, never on
which other blocks were drawn with it: the expectation over the sampling is taken with the answers fixed.
"""

from typing import Protocol

from sottovoce.optimize._arrays import Array, Indices
from sottovoce.optimize.objectives import Position

__all__ = ["InexactGradient", "InexactOracle"]


class InexactGradient(Protocol):
    """Supplies partial gradients in place of the objective's own."""

    def __call__(self, position: Position, blocks: Indices, coordinates: Indices | slice, step: float) -> Array:
        """Return the partial gradient in ``coordinates``, those of ``blocks``; ``step`` is the universal step."""
        ...


class InexactOracle(Protocol):
    """Supplies points of the blocks in place of the domain's own oracle."""

    def __call__(self, gradient: Array, blocks: Indices, step: float) -> Array:
        """Return a point of each of the blocks, given the (inexact) gradient there, in the same coordinates."""
        ...
