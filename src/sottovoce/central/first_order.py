r"""What DP-SGD and primal coordinate descent share: public rules for clip and steps, labels centred for squared loss.

With n rows, d weights and the Gaussian-DP parameter mu of one model, steps of learning rate eta on gradients clipped to
C add noise of norm about H C sqrt(d) / (mu n) to the weights, where H = eta T is the *horizon* of T steps, however H is
divided into steps. So H = c mu n / sqrt(d), with c measured once on public data: more noise, a shorter way.
"""

import math
from dataclasses import dataclass
from typing import Final

from sottovoce._validation import magnitude
from sottovoce.central.scaled_plan import Scales
from sottovoce.central.stepped_plan import SteppedPlan

__all__ = ["FirstOrderPlan"]

_HORIZON: Final = 8.0  # c, for losses with a bound on |l'|
_HORIZON_SQUARED: Final = 4.0  # c, for squared loss


@dataclass(frozen=True, kw_only=True)
class FirstOrderPlan(SteppedPlan):
    """Plan of a solver that follows clipped noisy gradients."""

    estimates_eigenvalue = False
    unit = 1.0

    # Step eta on the gradient of the mean loss, for rows scaled to norm 1; None follows a public rule.
    learning_rate: float | None = None
    # Bound C on the norm of a row's gradient, for squared loss in units of the label bound. None takes the bound on
    # |l'|, or, for squared loss, location and scale of the labels are released with 2 % of the budget, the labels are
    # centred, and C is their scale.
    clipping_norm: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_given(magnitude, "learning_rate", "clipping_norm")

    @property
    def estimates_labels(self) -> bool:
        """True for losses without a Lipschitz bound, unless the clip is given."""
        return self.clipping_norm is None and not math.isfinite(self.loss.lipschitz)

    @property
    def horizon(self) -> float:
        """Learning rate times number of steps, by rule; ten time constants of the L2 term are enough."""
        factor = _HORIZON if math.isfinite(self.loss.lipschitz) else _HORIZON_SQUARED
        return min(factor * self.mu_model * self.n_units / math.sqrt(self.n_weights), 10.0 / self.alpha_scaled)

    @property
    def spread(self) -> float:
        """Share of a row's length that a step may see."""
        return 1.0

    @property
    def safe_rate(self) -> float:
        """Learning rate that converges for rows of norm at most 1."""
        smoothness = self.loss.smoothness if math.isfinite(self.loss.smoothness) else 1.0
        return 1.0 / (smoothness * self.spread**2 + self.alpha_scaled)

    def clip_for(self, scales: Scales) -> float:
        if self.clipping_norm is not None:
            return self.clipping_norm * (self.label_bound or 1.0)
        return self.spread * (self.loss.lipschitz if math.isfinite(self.loss.lipschitz) else scales.label)

    def chosen(self, scales: Scales) -> dict[str, object]:
        return {"clipping norm": self.clip_for(scales), **super().chosen(scales)}
