"""Labels of regressions: numbers, clipped to public bounds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.exceptions import DataError

__all__ = ["bounded_labels"]


def bounded_labels(y: Any, label_bounds: tuple[float, float], owner: str) -> NDArray[np.float64]:
    """Return the labels as doubles, those outside the bounds clipped to them; NaN and infinity are refused.

    A refusal of labels outside would answer an exact question about them, for an analyst who chooses the bounds.
    """
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"y must hold numbers for {owner}: {error}.") from error
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        what = "NaN" if np.isnan(values[bad[0]]) else "infinity"
        raise DataError(
            f"Input y contains {what}: row {int(bad[0])} ({bad.size} row(s) in all). Replace missing labels by a "
            "public constant, or drop those rows, before fit."
        )
    return np.clip(values, *label_bounds)
