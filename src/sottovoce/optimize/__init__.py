"""Minimise a convex function over a product of simple sets, some blocks at a time: block-coordinate Frank-Wolfe.

A general solver. The sets are boxes, balls and simplices; every step moves the blocks that a sampling draws: one, some
or all of them, or those that happen to be there, as parties on a network are. It knows nothing of parties or privacy.

What is proved of it, with curvature constants and bounds to compute, is in `sottovoce.optimize.theory`. Guide, theorem
and proofs: ``docs/papers/block_frank_wolfe.md``.
"""

from sottovoce.optimize.algorithm import block_frank_wolfe
from sottovoce.optimize.domains import Box, L1Ball, L2Ball, ProductDomain, Simplex
from sottovoce.optimize.objectives import GeneralizedLinear, LeastSquares, Quadratic, SmoothFunction
from sottovoce.optimize.result import BlockFrankWolfeResult
from sottovoce.optimize.samplings import (
    DistributedSampling,
    ElementarySampling,
    ExplicitSampling,
    ImportanceSampling,
    IndependentSampling,
    NiceSampling,
    UniformSerialSampling,
)

__all__ = [
    "BlockFrankWolfeResult",
    "Box",
    "DistributedSampling",
    "ElementarySampling",
    "ExplicitSampling",
    "GeneralizedLinear",
    "ImportanceSampling",
    "IndependentSampling",
    "L1Ball",
    "L2Ball",
    "LeastSquares",
    "NiceSampling",
    "ProductDomain",
    "Quadratic",
    "Simplex",
    "SmoothFunction",
    "UniformSerialSampling",
    "block_frank_wolfe",
]
