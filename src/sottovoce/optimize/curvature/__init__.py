"""Expected curvature: exact where it can be listed, bounds elsewhere, and the older constants beside it."""

from sottovoce.optimize.curvature.bounds import (
    curvature_bound,
    pairwise_bound,
    proposition_1_bound,
    proposition_3_bound,
    proposition_4_bound,
    spectral_bound,
)
from sottovoce.optimize.curvature.exact import (
    block_curvatures,
    expected_curvature,
    expected_set_curvature,
    global_curvature,
    product_curvature,
)

__all__ = [
    "block_curvatures",
    "curvature_bound",
    "expected_curvature",
    "expected_set_curvature",
    "global_curvature",
    "pairwise_bound",
    "product_curvature",
    "proposition_1_bound",
    "proposition_3_bound",
    "proposition_4_bound",
    "spectral_bound",
]
