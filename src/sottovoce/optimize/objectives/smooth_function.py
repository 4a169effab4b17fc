"""Any convex differentiable function, given as two callables."""

from collections.abc import Callable

import numpy as np

from sottovoce._validation import whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices
from sottovoce.optimize.objectives._kept import KeptPosition, Segment, convex_step

__all__ = ["SmoothFunction"]


class SmoothFunction:
    """A convex differentiable function of x.

    Parameters
    ----------
    value : callable
        ``value(x)`` returns f(x).
    gradient : callable
        ``gradient(x)`` returns all partial derivatives; or give ``partial_gradient`` in its place.
    n_coordinates : int
    partial_gradient : callable or None
        ``partial_gradient(x, coordinates)`` returns those of the coordinates only (an array of them, or a slice of
        all): what makes steps of few blocks cheap.

    Examples
    --------
    >>> f = SmoothFunction(lambda x: float(np.exp(x).sum()), np.exp, 3)
    >>> f.at(np.zeros(3)).gradient(np.array([1]))
    array([1.])
    """

    def __init__(
        self,
        value: Callable[[Array], float],
        gradient: Callable[[Array], Array] | None,
        n_coordinates: int,
        *,
        partial_gradient: Callable[[Array, Indices | slice], Array] | None = None,
    ) -> None:
        if not callable(value) or not (callable(gradient) or callable(partial_gradient)):
            raise ParameterError("value and gradient (or partial_gradient) must be callables.")
        self.n_coordinates = whole_number("n_coordinates", n_coordinates, at_least=1)
        self.value = value
        self._gradient = gradient
        self._partial = partial_gradient

    def derivatives(self, x: Array, coordinates: Indices | slice) -> Array:
        """Return the partial derivatives at x; NaN and wrong shapes are refused."""
        if self._partial is not None:
            out = np.asarray(self._partial(x, coordinates), dtype=np.float64)
        else:
            assert self._gradient is not None
            full = np.asarray(self._gradient(x), dtype=np.float64)
            if full.shape != x.shape:
                raise ParameterError(f"gradient(x) must return {len(x)} numbers; got shape {full.shape}.")
            out = full[coordinates]
        if out.shape != x[coordinates].shape or not np.isfinite(out).all():
            raise ParameterError(
                f"the gradient must return finite partial derivatives; got shape {out.shape}: {out!r}."
            )
        return out

    def at(self, x: Array) -> "FunctionPosition":
        """Return a position at x."""
        return FunctionPosition(self, x)


class FunctionPosition(KeptPosition):
    """A point."""

    problem: SmoothFunction

    def image_of(self, part: Array, coordinates: Indices | slice) -> Array:
        """Return nothing: nothing is kept."""
        return np.empty(0)

    def value(self) -> float:
        """Return f(x)."""
        out = float(self.problem.value(self.x))
        if not np.isfinite(out):
            raise ParameterError(f"value(x) must return a finite number; got {out!r}.")
        return out

    def gradient(self, coordinates: Indices | slice) -> Array:
        """Return the partial derivatives."""
        return self.problem.derivatives(self.x, coordinates)

    def best_step(self, segment: Segment) -> float:
        """Return the best step, by bracketing the zero of the derivative."""

        def slope(step: float) -> float:
            x = self.x.copy()
            x[segment.coordinates] += step * segment.direction
            return float(self.problem.derivatives(x, segment.coordinates) @ segment.direction)

        return convex_step(slope)
