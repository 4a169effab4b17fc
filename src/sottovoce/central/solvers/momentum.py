r"""Noisy gradient descent with momentum: for two classes where there is more to learn than a base rate, and not plenty.

Full-batch steps whose reach follows from mu n and the number of weights (`sottovoce.central.reach`), then a slope and a
shift (`sottovoce.central.calibration`). Many short clips make the loss a robust one: rows that the model cannot fit,
and rows far longer than most, pull no more than others. Beside passes with dual variables the weights end with less
noise, and beside Newton steps no matrix is needed, which is mostly noise where mu n is some hundred.

Privacy: ``docs/privacy/dp_sgd.md``, Corollary 2. Rules: ``benchmarks/central/rules.py``.
"""

from dataclasses import dataclass
from functools import cached_property

from sottovoce.central.calibration import share_by_rule
from sottovoce.central.core import Asked
from sottovoce.central.plan import Plan, Solution
from sottovoce.central.reach import far_steps, reach_for, steps_for
from sottovoce.central.split import Split, unshortened
from sottovoce.losses import Logistic, Loss


@dataclass(frozen=True, kw_only=True)
class MomentumPlan(Plan):
    """Plan of noisy gradient descent with momentum; it has no options."""

    solver = "momentum"
    mechanism = (
        "full-batch noisy gradient descent with momentum: adaptive composition of Gaussian mechanisms on a grid, no "
        "sampling"
    )
    proof = "docs/privacy/dp_sgd.md"
    in_order = True
    takes_persons = True
    takes_released_norm = True

    @classmethod
    def serves(cls, loss: Loss) -> bool:
        return isinstance(loss, Logistic)

    def check(self) -> None:
        self.refuse_all_but_odds_of_two("multinomial-scd")

    @cached_property
    def split(self) -> Split:
        """How the budget is divided; lambda_max says what slope is likely."""
        calibration = share_by_rule(None, self.facts)
        return Split(facts=self.facts, shortens=True, eigenvalue=calibration > 0.0, calibration=calibration)

    @property
    def n_steps(self) -> int:
        return steps_for(self.facts, self.split.model)

    def details(self) -> dict[str, object]:
        split = self.split
        return {
            "mu (Gaussian DP) of the whole run": split.whole,
            "mu for the length of rows": split.norm,
            "mu for lambda_max": split.scale if split.eigenvalue else 0.0,
            "mu for the steps": split.model,
            "mu for slope and shift": split.slopes,
            "steps": self.n_steps,
            "reach of the steps": reach_for(self.facts, split.model),
        }

    def train(self) -> Asked[Solution]:
        scales = yield from self.split.scales()
        found = yield from far_steps(self.facts, self.split.model)
        found = yield from self.split.calibrated(found, scales, 0)
        return self.solution([unshortened(found, scales.norm, self.n_features)], self.n_steps)
