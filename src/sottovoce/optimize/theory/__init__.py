"""What is proved of block-coordinate Frank-Wolfe, to compute and to try: curvature, bounds, errors that are allowed.

Statement and proofs: ``docs/papers/block_frank_wolfe.md``.
"""

from sottovoce.optimize.algorithm import universal_step
from sottovoce.optimize.theory.adversarial import AdversarialGradient, AdversarialOracle
from sottovoce.optimize.theory.convergence import gap_bound, inexactness, serial_bound, sharp_bound, theorem_1_bound
from sottovoce.optimize.theory.curvature import (
    block_curvatures,
    expected_curvature,
    expected_set_curvature,
    global_curvature,
    product_curvature,
)
from sottovoce.optimize.theory.curvature_bounds import (
    curvature_bound,
    pairwise_bound,
    proposition_1_bound,
    proposition_3_bound,
    proposition_4_bound,
    spectral_bound,
)

__all__ = [
    "AdversarialGradient",
    "AdversarialOracle",
    "block_curvatures",
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
    "serial_bound",
    "sharp_bound",
    "spectral_bound",
    "theorem_1_bound",
    "universal_step",
]
