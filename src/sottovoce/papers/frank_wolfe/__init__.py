"""Lou and Cheung (AAAI 2018): block-coordinate Frank-Wolfe, and private sparse models over columns at several parties.

`minimize` is their Algorithm 1, a general solver without privacy: it minimises a convex function over a product of
simple sets, some blocks at a time, and what is proved of it can be computed: curvatures, bounds. The listings as
printed are in `sottovoce.papers.frank_wolfe.algorithm`. What holds and what does not: ``docs/papers/frank_wolfe.md``.
"""

from sottovoce.papers.frank_wolfe.bounds import (
    Theorem3,
    balls_curvature,
    block_curvatures,
    curvature_bound,
    expected_curvature,
    expected_set_curvature,
    global_curvature,
    inexactness,
    proposition_1_bound,
    proposition_4_bound,
    serial_bound,
    theorem_1_bound,
    theorem_3,
    weight_cap,
)
from sottovoce.papers.frank_wolfe.domains import Block, Box, L1Ball, L2Ball, ProductDomain, Simplex
from sottovoce.papers.frank_wolfe.objectives import GeneralizedLinear, LeastSquares, Objective, Position, Quadratic
from sottovoce.papers.frank_wolfe.published import PROTOCOL, PublishedBallPlan, PublishedLasso
from sottovoce.papers.frank_wolfe.samplings import (
    DistributedSampling,
    ElementarySampling,
    ExplicitSampling,
    ImportanceSampling,
    IndependentSampling,
    NiceSampling,
    Sampling,
    UniformSerialSampling,
)
from sottovoce.papers.frank_wolfe.solver import BlockFrankWolfeResult, minimize

__all__ = [
    "Block", "BlockFrankWolfeResult", "Box", "DistributedSampling", "ElementarySampling", "ExplicitSampling",
    "GeneralizedLinear", "ImportanceSampling", "IndependentSampling", "L1Ball", "L2Ball", "LeastSquares",
    "NiceSampling", "Objective", "PROTOCOL", "Position", "ProductDomain", "PublishedBallPlan", "PublishedLasso",
    "Quadratic", "Sampling", "Simplex", "Theorem3", "UniformSerialSampling",
    "balls_curvature", "block_curvatures", "curvature_bound", "expected_curvature", "expected_set_curvature",
    "global_curvature", "inexactness", "minimize", "proposition_1_bound", "proposition_4_bound", "serial_bound",
    "theorem_1_bound", "theorem_3", "weight_cap",
]  # fmt: skip
