"""Losses: one file each; a loss knows no solver."""

from sottovoce.losses.base import Loss, SmoothLoss, dual_step, slope
from sottovoce.losses.hinge import Hinge
from sottovoce.losses.logistic import Logistic
from sottovoce.losses.multinomial import Multinomial
from sottovoce.losses.smoothed_hinge import SmoothedHinge
from sottovoce.losses.squared import Squared

__all__ = [
    "Hinge", "Logistic", "Loss", "Multinomial", "SmoothLoss", "SmoothedHinge",
    "Squared", "dual_step", "slope",
]  # fmt: skip
