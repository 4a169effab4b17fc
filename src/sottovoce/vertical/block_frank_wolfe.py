"""The name of `sottovoce.optimize` before it moved, with all names that it had then."""

from sottovoce.optimize import *  # noqa: F403
from sottovoce.optimize import __all__ as _own
from sottovoce.optimize.domains import Block as Block
from sottovoce.optimize.inexact import InexactGradient as InexactGradient
from sottovoce.optimize.inexact import InexactOracle as InexactOracle
from sottovoce.optimize.objectives import HasUpperHessian as HasUpperHessian
from sottovoce.optimize.objectives import Line as Line
from sottovoce.optimize.objectives import Objective as Objective
from sottovoce.optimize.objectives import Position as Position
from sottovoce.optimize.result import BlockFrankWolfeHistory as BlockFrankWolfeHistory
from sottovoce.optimize.samplings import Sampling as Sampling
from sottovoce.optimize.theory import *  # noqa: F403
from sottovoce.optimize.theory import __all__ as _theory

__all__ = [
    "Block",
    "BlockFrankWolfeHistory",
    "HasUpperHessian",
    "InexactGradient",
    "InexactOracle",
    "Line",
    "Objective",
    "Position",
    "Sampling",
]
__all__ += _own
__all__ += _theory
