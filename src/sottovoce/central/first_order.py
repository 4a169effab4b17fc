r"""What DP-SGD and primal coordinate descent share: public rules for clip and steps, labels centred for squared loss.

With n rows, d weights and the Gaussian-DP parameter mu of one model, steps of learning rate eta on gradients clipped to
C add noise of norm about H C sqrt(d) / (mu n) to the weights, where H = eta T is the *horizon* of T steps, however H is
divided into steps. So H = c mu n / sqrt(d), with c measured once on public data: more noise, a shorter way.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sottovoce._validation import magnitude
from sottovoce.central.scaled_plan import ScaledPlan, Scales
from sottovoce.privacy.events import Event

__all__ = ["FirstOrderPlan"]

_HORIZON: Final = 8.0  # c, for losses with a bound on |l'|
_HORIZON_SQUARED: Final = 4.0  # c, for squared loss


@dataclass(frozen=True, kw_only=True)
class FirstOrderPlan(ScaledPlan):
    """Plan of a solver that follows clipped noisy gradients.

    Parameters
    ----------
    learning_rate : float or None
        Step eta on the gradient of the mean loss, for rows scaled to norm 1; None follows a public rule.
    clipping_norm : float or None
        Bound C on the norm of a row's gradient, for squared loss in units of the label bound. None takes the bound on
        |l'|, or, for squared loss, location and scale of the labels are released with 2 % of the budget, the labels
        are centred, and C is their scale.
    """

    learning_rate: float | None = None
    clipping_norm: float | None = None

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            magnitude("learning_rate", self.learning_rate)
        if self.clipping_norm is not None:
            magnitude("clipping_norm", self.clipping_norm)

    @property
    def estimates_eigenvalue(self) -> bool:
        """No step needs it."""
        return False

    @property
    def estimates_labels(self) -> bool:
        """True for losses without a Lipschitz bound, unless the clip is given."""
        return self.clipping_norm is None and not math.isfinite(self.loss.lipschitz)

    @property
    def mu_model(self) -> float:
        """Gaussian-DP parameter that is left for the steps of each model."""
        return self.mu_steps / math.sqrt(self.n_models)

    @property
    def horizon(self) -> float:
        """Learning rate times number of steps, by rule; ten time constants of the L2 term are enough."""
        factor = _HORIZON if math.isfinite(self.loss.lipschitz) else _HORIZON_SQUARED
        return min(factor * self.mu_model * self.n_samples / math.sqrt(self.n_weights), 10.0 / self.alpha_scaled)

    @property
    def safe_rate(self) -> float:
        """Learning rate that converges for rows of norm at most 1."""
        smoothness = self.loss.smoothness if math.isfinite(self.loss.smoothness) else 1.0
        return 1.0 / (smoothness + self.alpha_scaled)

    def clip_for(self, scales: Scales) -> float:
        """Return C."""
        if self.clipping_norm is not None:
            return self.clipping_norm * (self.label_bound or 1.0)
        return self.loss.lipschitz if math.isfinite(self.loss.lipschitz) else scales.label

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return the event of the plan, the scales and the clip; see `Plan.run`."""
        return self.with_counts(self.event), self.chosen(self.scales_of(released))

    def chosen(self, scales: Scales) -> dict[str, object]:
        """Return the released values, and what follows from them, for the receipt."""
        out: dict[str, object] = {"clipping norm": self.clip_for(scales)}
        if self.estimates_labels:
            out["label location, from the middle of the bounds (noisy)"] = scales.location
            out["label scale (noisy)"] = scales.label
        return out
