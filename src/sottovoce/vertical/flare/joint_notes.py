"""Where a joint computation is, in words, from the requests of the coordinator: its steps take longer than others."""

from sottovoce.exceptions import MessageError
from sottovoce.vertical.frames import Frame
from sottovoce.vertical.protocols.secure.column_plan import ColumnPlan
from sottovoce.vertical.protocols.secure.messages import (
    AskConnected,
    Connect,
    Invite,
    Join,
    KeepJoint,
    StepJointly,
    TakeOpened,
)
from sottovoce.vertical.protocols.secure.party import plan_from_text
from sottovoce.vertical.wire import decode

__all__ = ["JointNotes"]

_KINDS = (Invite, Connect, AskConnected, Join, StepJointly, TakeOpened, KeepJoint)


class JointNotes:
    """Follows the requests of one run.

    Attributes
    ----------
    note : str or None
        What goes on; None where it is no joint computation.
    """

    def __init__(self) -> None:
        self.note: str | None = None
        self._n_steps, self._first = 0, ""

    def asked(self, raw: bytes) -> None:
        """Look at a framed request of the coordinator's own."""
        try:
            request = decode(Frame.read(raw).body, _KINDS)
        except MessageError:  # of another protocol
            self.note = None
            return
        match request:
            case Invite(plan=text):
                plan = plan_from_text(text)
                self._n_steps = plan.n_steps
                self._first = "the first column" if isinstance(plan, ColumnPlan) else "second moments"
                self._say("sites are invited")
            case Connect() | AskConnected():
                self._say("the sites' engines meet")
            case Join() | TakeOpened(step=0):
                self._say(self._first)
            case StepJointly(step=step) | TakeOpened(step=step):
                self._say(f"pass {step} of {self._n_steps}")
            case _:
                self._say("the model is kept")

    def _say(self, what: str) -> None:
        self.note = f"joint computation: {what}"
