"""Boxes {x : low <= x <= high}."""

from typing import Final

import numpy as np

from sottovoce._validation import whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, vector

__all__ = ["Box"]

_MOST: Final = 20  # coordinates whose 2^20 corners may be listed


class Box:
    """{x : low <= x <= high}, coordinate by coordinate.

    Parameters
    ----------
    low, high : float or array-like of shape (size,)
        Finite bounds, low <= high.
    size : int or None
        Number of coordinates where both bounds are numbers; None: as many as the longer of the two, or one.

    Examples
    --------
    >>> import numpy as np
    >>> Box(-1, 1, size=3).oracle(np.array([2.0, -1.0, 0.5]))
    array([-1.,  1., -1.])
    """

    def __init__(self, low: object, high: object, *, size: int | None = None) -> None:
        n = max(np.size(low), np.size(high)) if size is None else whole_number("size", size, at_least=1)  # type: ignore[arg-type]
        self.low: Array = vector("low", low, size=n)
        self.high: Array = vector("high", high, size=n)
        self.size = n
        if n == 0 or not (self.low <= self.high).all():
            raise ParameterError(f"low must be at most high in every coordinate; got low={low!r}, high={high!r}.")

    @property
    def diameter(self) -> float:
        """Length of the diagonal."""
        return float(np.linalg.norm(self.high - self.low))

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for equal boxes."""
        return ("box", self.low.tobytes(), self.high.tobytes())

    @property
    def n_extreme_differences(self) -> int | None:
        """Corners of the box of differences."""
        return int(2**self.size)

    def oracle(self, gradient: Array) -> Array:
        """Return the corner against the gradient (``low`` where the gradient is 0)."""
        return np.where(gradient < 0.0, self.high, self.low)

    def start(self) -> Array:
        """Return the centre."""
        return 0.5 * (self.low + self.high)

    def contains(self, x: Array, tolerance: float = 1e-9) -> bool:
        """Tell whether x is in the box."""
        return bool((x >= self.low - tolerance).all() and (x <= self.high + tolerance).all())

    def vertices(self) -> Array:
        """Return all 2^size corners."""
        return np.where(self._signs() > 0.0, self.high, self.low)

    def extreme_differences(self) -> Array:
        """Return all (+-width_1, ..., +-width_size)."""
        return self._signs() * (self.high - self.low)

    def _signs(self) -> Array:
        if self.size > _MOST:
            raise ParameterError(f"a box of {self.size} coordinates has too many corners; at most {_MOST} are listed.")
        bits = np.arange(2**self.size)[:, None] >> np.arange(self.size)
        out: Array = np.where(bits & 1, 1.0, -1.0)
        return out
