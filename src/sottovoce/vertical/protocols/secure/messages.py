"""Joint training inside secure computation: who can compute, cards, a meeting, a start, steps, what they opened."""

from sottovoce.vertical.wire import Count, Message, Vector

__all__ = [
    "AskConnected", "AskEngines", "Card", "Connect", "Connected", "Engines", "Invite", "Join", "KeepJoint",
    "Opened", "StepJointly", "TakeOpened",
]  # fmt: skip


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


class Connect(Message, code=97):
    """Meet the partners: the cards of all, as JSON, in the order of the plan. Nothing is charged or shared yet.

    The party checks the cards, connects in the background, and tests that the session computes what it should.
    """

    cards: str


class AskConnected(Message, code=100):
    """Ask whether the partners have met."""


class Connected(Message, code=101):
    """``ready`` is 1 if they have; 0: ask again."""

    ready: Count


class Join(Message, code=94):
    """Begin: the whole training is charged, then data are shared and the second moments computed in the background.

    ``labels`` is for the label holder alone and empty for the others.
    """

    labels: Vector


class StepJointly(Message, code=95):
    """Begin pass ``step``, at the weights that follow from what was opened so far."""

    step: Count


class TakeOpened(Message, code=96):
    """Ask for what the step under way opened; 0 is the step of the second moments."""

    step: Count


class Opened(Message, code=98):
    """The noisy sums that all parties see, in the unit of the plan; while ``ready`` is 0 there are none: ask again."""

    step: Count
    ready: Count
    values: Vector


class KeepJoint(Message, code=99):
    """End the joint training and keep this party's part of the model, which follows from what was opened."""

    model: str
