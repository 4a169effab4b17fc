"""Objectives: functions of margins, quadratics, and any convex differentiable function."""

from sottovoce.optimize.objectives.base import HasUpperHessian, Line, Objective, Position
from sottovoce.optimize.objectives.linear import GeneralizedLinear, LeastSquares
from sottovoce.optimize.objectives.quadratic import Quadratic
from sottovoce.optimize.objectives.smooth_function import SmoothFunction

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
