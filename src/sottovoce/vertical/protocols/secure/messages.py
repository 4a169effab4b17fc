"""Joint training inside secure computation: who can compute, cards, a start, steps, and what they opened."""

from sottovoce.vertical.wire import Count, Message, Vector

__all__ = [
    "AskEngines",
    "Card",
    "Engines",
    "Invite",
    "Join",
    "KeepJoint",
    "Opened",
    "StepJointly",
    "TakeOpened",
    "Working",
]


class AskEngines(Message, code=90):
    """Ask which engines a party can use, and whether it is a helper."""


class Engines(Message, code=91):
    """Engines by name and version, as JSON; ``helper`` is 1 for a party without a table."""

    engines: str
    helper: Count


class Invite(Message, code=92):
    """Propose a joint training: the whole plan, as canonical JSON. Nothing is charged or shared yet."""

    plan: str


class Card(Message, code=93):
    """What a party tells its partners before any of them shares data, signed (`sottovoce.vertical.engines`)."""

    card: str


class Join(Message, code=94):
    """Begin: the cards of all, as JSON, in the order of the plan.

    The whole training is charged now, then data are shared and the second moments computed in the background.
    ``labels`` is for the label holder alone and empty for the others.
    """

    cards: str
    labels: Vector


class StepJointly(Message, code=95):
    """Begin pass ``step`` at this party's part ``point`` of the released weights."""

    step: Count
    point: Vector


class TakeOpened(Message, code=96):
    """Ask for what the step under way opened; `Working` where it goes on."""

    step: Count


class Working(Message, code=97):
    """Not yet: ask again. ``note`` says what is under way, in public words."""

    note: str


class Opened(Message, code=98):
    """The noisy sums that all parties see, in the unit of the plan; 0 is the step of the second moments."""

    step: Count
    values: Vector


class KeepJoint(Message, code=99):
    """End the joint training and keep this party's part of the released model under the name ``model``."""

    model: str
    coef: Vector
    intercept: float
