"""Block-coordinate Frank-Wolfe under arbitrary sampling: convex functions over products of simple sets.

Knows nothing of parties or privacy. Guide, theorem and proofs: ``docs/guide/block_frank_wolfe.md``.
"""

from sottovoce.optimize.algorithm import block_frank_wolfe
from sottovoce.optimize.curvature import (
    block_curvatures,
    curvature_bound,
    expected_curvature,
    expected_set_curvature,
    global_curvature,
    pairwise_bound,
    product_curvature,
    proposition_1_bound,
    proposition_3_bound,
    proposition_4_bound,
    spectral_bound,
)
from sottovoce.optimize.domains import Block, Box, L1Ball, L2Ball, ProductDomain, Simplex
from sottovoce.optimize.inexact import (
    AdversarialGradient,
    AdversarialOracle,
    InexactGradient,
    InexactOracle,
)
from sottovoce.optimize.objectives import (
    GeneralizedLinear,
    HasUpperHessian,
    LeastSquares,
    Line,
    Objective,
    Position,
    Quadratic,
    SmoothFunction,
)
from sottovoce.optimize.result import BlockFrankWolfeHistory, BlockFrankWolfeResult
from sottovoce.optimize.samplings import (
    DistributedSampling,
    ElementarySampling,
    ExplicitSampling,
    IndependentSampling,
    NiceSampling,
    Sampling,
    UniformSerialSampling,
)
from sottovoce.optimize.theorem import (
    gap_bound,
    inexactness,
    sharp_bound,
    theorem_1_bound,
    universal_step,
)

__all__ = [
    "AdversarialGradient",
    "AdversarialOracle",
    "Block",
    "BlockFrankWolfeHistory",
    "BlockFrankWolfeResult",
    "Box",
    "DistributedSampling",
    "ElementarySampling",
    "ExplicitSampling",
    "GeneralizedLinear",
    "HasUpperHessian",
    "IndependentSampling",
    "InexactGradient",
    "InexactOracle",
    "L1Ball",
    "L2Ball",
    "LeastSquares",
    "Line",
    "NiceSampling",
    "Objective",
    "Position",
    "ProductDomain",
    "Quadratic",
    "Sampling",
    "Simplex",
    "SmoothFunction",
    "UniformSerialSampling",
    "block_curvatures",
    "block_frank_wolfe",
    "curvature_bound",
    "expected_curvature",
    "expected_set_curvature",
    "gap_bound",
    "global_curvature",
    "inexactness",
    "pairwise_bound",
    "product_curvature",
    "proposition_1_bound",
    "proposition_3_bound",
    "proposition_4_bound",
    "sharp_bound",
    "spectral_bound",
    "theorem_1_bound",
    "universal_step",
]
