"""Losses: one file each; a loss knows no solver."""

from sottovoce.losses.base import Loss, dual_step, slope
from sottovoce.losses.hinge import Hinge
from sottovoce.losses.logistic import Logistic
from sottovoce.losses.smoothed_hinge import SmoothedHinge
from sottovoce.losses.squared import Squared
from sottovoce.losses.tilted import TiltedLogistic

__all__ = ["Hinge", "Logistic", "Loss", "SmoothedHinge", "Squared", "TiltedLogistic", "dual_step", "slope"]
