"""Which kind of joint training a text plans."""

from typing import Final

from sottovoce.vertical.protocols.secure.agreed_plan import AgreedPlan, read_text
from sottovoce.vertical.protocols.secure.column_plan import ColumnPlan
from sottovoce.vertical.protocols.secure.joint_plan import JointPlan

__all__ = ["plan_from_text"]

_KINDS: Final[tuple[type[AgreedPlan], ...]] = (JointPlan, ColumnPlan)


def plan_from_text(text: str) -> AgreedPlan:
    """Read a plan of any kind; the text must be exactly that of a plan.

    Raises
    ------
    ParameterError
        If it is not, or the plan is none that can be run.
    """
    data = read_text(text)
    kind = next((kind for kind in _KINDS if kind.has_fields(data)), JointPlan)
    return kind.from_text(text)
