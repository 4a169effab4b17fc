"""What a training without noise saw round by round: for convergence plots and stopping, never for a private run."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class History:
    """One entry a round: every party sends one number a record once in it."""

    # sum of losses plus penalties at the coefficients of that round
    objective: list[float] = field(default_factory=list)
    # the stopping measure at the start of the round: the bound on the distance to the least objective
    stationarity: list[float] = field(default_factory=list)
    # everything that crossed since the start, the set-up included
    uplink_bytes: list[int] = field(default_factory=list)
    downlink_bytes: list[int] = field(default_factory=list)
    converged: bool = False  # False when the rounds ran out first

    def add(self, parties: Any, objective: float, stationarity: float) -> None:
        self.objective.append(objective)
        self.stationarity.append(stationarity)
        self.uplink_bytes.append(parties.uplink_bytes)
        self.downlink_bytes.append(parties.downlink_bytes)

    @property
    def n_rounds(self) -> int:
        return len(self.objective)
