"""Numbers that computations of every trust model share."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["PIECE", "ROUNDING_SLACK", "Vector"]

Vector = NDArray[np.float64]

PIECE: Final = 8192  # rows that are in double precision at a time

# Sensitivities are multiplied by this: it covers the rounding of norms, factors and products, each below 2^-22
# relative.
ROUNDING_SLACK: Final = 1.0 + 2.0**-20
