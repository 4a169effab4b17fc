"""What the other parties' columns are worth: the label holder's own model beside the joint one, on the same people."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Comparison"]


@dataclass(frozen=True)
class Comparison:
    """Measures of the local and of the joint model.

    Attributes
    ----------
    n_samples : int
    local, joint : dict
        By the name of the measure, such as ``"accuracy"`` or ``"log loss"``.
    """

    n_samples: int
    local: Mapping[str, float]
    joint: Mapping[str, float]

    def __str__(self) -> str:
        lines = [f"on {self.n_samples} people           local     joint"]
        lines += [f"{name:<20} {self.local[name]:>9.4f} {self.joint[name]:>9.4f}" for name in self.local]
        return "\n".join(lines)
