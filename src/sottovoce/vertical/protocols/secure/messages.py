"""Joint training inside secure computation: a plan, cards, a meeting, a start, what was opened."""

from sottovoce.vertical.wire import Count, Message, Vector

__all__ = [
    "Card", "Connect", "Invite", "Join", "KeepJoint", "Opened", "Poll",
]  # fmt: skip


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


class Poll(Message, code=102):
    """Ask how far the party is with what it does in the background, the meeting or the training."""


class Opened(Message, code=103):
    """How far it is: ``n_steps`` have been done, and ``ready`` is 1 where nothing is under way any more.

    ``values`` are then the noisy numbers that all parties saw, of all steps in their order, in the unit of the plan.
    """

    n_steps: Count
    ready: Count
    values: Vector


class Join(Message, code=94):
    """Begin: the whole training is charged, then the party goes through all its steps with the partners by itself.

    ``labels`` is for the label holder alone and empty for the others.
    """

    labels: Vector


class KeepJoint(Message, code=99):
    """End the joint training and keep this party's part of the model, which follows from what was opened."""

    model: str
