"""Objectives: functions of margins, quadratics, and any convex differentiable function."""

from sottovoce.vertical.block_frank_wolfe.objectives.base import HasUpperHessian, Line, Objective, Position
from sottovoce.vertical.block_frank_wolfe.objectives.linear import GeneralizedLinear, LeastSquares
from sottovoce.vertical.block_frank_wolfe.objectives.quadratic import Quadratic
from sottovoce.vertical.block_frank_wolfe.objectives.smooth_function import SmoothFunction

__all__ = [
    "GeneralizedLinear",
    "HasUpperHessian",
    "LeastSquares",
    "Line",
    "Objective",
    "Position",
    "Quadratic",
    "SmoothFunction",
]
