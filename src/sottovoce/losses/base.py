r"""What a loss is: a function of one prediction, with what solvers and privacy proofs need to know of it.

All are convex (`Loss`). What one that is smooth and not convex offers is less (`SmoothLoss`).

A loss is a small named tuple, so that the same object works in numpy and, without boxing, inside compiled kernels; its
fields are its public parameters. It knows no solver, no penalty and no data.

Conventions, for one record with label y and prediction m = x.w:

* ``value(y, m)`` is l(y, m); ``derivative(y, m)`` is dl/dm.
* The dual variable of the record is a, with a = -l'(m) at the optimum. ``conjugate(y, a)`` is
  l*(-a) = sup_m (-a m - l(y, m)), infinite outside the domain. Fenchel-Young: l(y, m) + l*(-a) + a m >= 0, with
  equality exactly when a = -l'(m).
* ``dual_step(loss, a, y, m, r)`` (compiled) is the zeta that minimises l*(-(a + zeta)) + m zeta + r zeta^2 / 2: the
  exact coordinate step of stochastic dual coordinate ascent [1]_ when r = |x|^2 / (alpha n), and its parallel form when
  r carries an aggregation constant [2]_. For any centre a, also an infeasible one, a + zeta lies in the domain.
* ``slope(loss, y, m)`` (compiled) is the derivative of one record, for steps that move a toward -l'(y, m).

References
----------
.. [1] Shalev-Shwartz, Zhang (2013). Stochastic Dual Coordinate Ascent Methods for Regularized Loss Minimization.
   JMLR 14; Section 6.
.. [2] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Eq. (8).
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sottovoce._lazy import Later, jitted

Array = NDArray[np.float64]


class SmoothLoss(Protocol):
    """What every loss offers, convex or not; see the module docstring for the conventions."""

    @property
    def name(self) -> str:
        """Name for receipts."""
        ...

    @property
    def lipschitz(self) -> float:
        """Bound on ``|l'|`` over all labels and predictions; ``inf`` when there is none."""
        ...

    @property
    def smoothness(self) -> float:
        """Bound on l'' over all labels and predictions; ``inf`` when the derivative jumps."""
        ...

    @property
    def is_classification(self) -> bool:
        """True when labels are -1 and +1, False when they are numbers."""
        ...

    def value(self, y: Array, m: Array) -> Array:
        """Return the loss of each record."""
        ...

    def derivative(self, y: Array, m: Array) -> Array:
        """Return the derivative of each loss in its prediction (a subgradient where it jumps)."""
        ...

    def curvature(self, y: Array, m: Array) -> Array:
        """Return the second derivative of each loss in its prediction (0 where the first jumps)."""
        ...


@runtime_checkable
class Loss(SmoothLoss, Protocol):
    """A convex loss: what it says of its conjugate is what dual solvers and privacy proofs need."""

    def conjugate(self, y: Array, a: Array) -> Array:
        """Return the conjugate at -a of each record; ``inf`` outside the domain."""
        ...

    def nearest_feasible(self, y: Array, a: Array) -> Array:
        """Return the nearest dual variable inside the domain of the conjugate."""
        ...


# 1 / (1 + exp(-u)), for compiled code
sigmoid: Callable[[float], float] = Later(lambda: import_module("sottovoce.losses._compiled").sigmoid)


class NoParameters(NamedTuple):
    """What a loss without parameters is made from: its constants are attributes of the class, and not fields."""


STEPS: dict[type, Any] = {}
SLOPES: dict[type, Any] = {}


def provides_dual_step(loss: type, inline: str = "always") -> Callable[[Callable[..., float]], Any]:
    """Register a scalar function ``step(loss, a, y, m, r)`` as the compiled dual step of the class ``loss``."""
    return lambda step: STEPS.setdefault(loss, jitted(inline=inline)(step))


def provides_slope(loss: type) -> Callable[[Callable[..., float]], Any]:
    """Register a scalar function ``slope(loss, y, m)`` as the compiled derivative of the class ``loss``."""
    return lambda function: SLOPES.setdefault(loss, jitted(inline="always")(function))


def dual_step(loss: Any, a: float, y: float, m: float, r: float) -> float:
    """Return the exact coordinate step of one record; in compiled code the loss is resolved while compiling."""
    return float(STEPS[type(loss)](loss, a, y, m, r))


def slope(loss: Any, y: float, m: float) -> float:
    """Return the derivative of one record's loss; in compiled code the loss is resolved while compiling."""
    return float(SLOPES[type(loss)](loss, y, m))
