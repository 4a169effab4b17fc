"""What the other parties' columns are worth: the label holder's own model beside the joint one, on the same people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["Comparison"]

_HIGHER_IS_BETTER: Final = ("accuracy", "R^2")  # the others are losses


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

    @property
    def improved(self) -> tuple[str, ...]:
        """The measures in which the joint model is better."""
        signs = {name: 1.0 if name in _HIGHER_IS_BETTER else -1.0 for name in self.local}
        return tuple(name for name, sign in signs.items() if sign * self.joint[name] > sign * self.local[name])

    def __str__(self) -> str:
        lines = [f"on {self.n_samples} people           local     joint"]
        lines += [f"{name:<20} {self.local[name]:>9.4f} {self.joint[name]:>9.4f}" for name in self.local]
        return "\n".join(lines)
