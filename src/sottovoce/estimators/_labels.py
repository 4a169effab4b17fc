"""Labels of regressions: numbers within public bounds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.exceptions import DataError

__all__ = ["bounded_labels"]


def bounded_labels(y: Any, label_bounds: tuple[float, float], owner: str) -> NDArray[np.float64]:
    """Return the labels as doubles; NaN and labels outside the bounds are refused."""
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"y must hold numbers for {owner}: {error}.") from error
    low, high = label_bounds
    bad = np.flatnonzero(~((values >= low) & (values <= high)))
    if bad.size:
        value = values[bad[0]]
        what = "NaN" if np.isnan(value) else ("infinity" if np.isinf(value) else f"{value:g}")
        raise DataError(
            f"Input y contains {what}, outside label_bounds=({low:g}, {high:g}): row {int(bad[0])} ({bad.size} row(s) "
            "in all). Widen the bounds from public knowledge, or clip y to them before fit."
        )
    return values
