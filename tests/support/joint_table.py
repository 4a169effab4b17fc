"""A coordinator of a joint training whose requests are what it likes, with one session at all parties."""

import dataclasses
import json

import numpy as np

from sottovoce.vertical.protocols.general.messages import Close
from sottovoce.vertical.protocols.secure.messages import Card, Connect, Invite, Join, Opened, Poll
from sottovoce.vertical.wire import Done, Refused, new_session
from support.party import Line

NOTHING = np.zeros(0)


class Table:
    """The parties around one table; the first has the labels.

    Parameters
    ----------
    parties : sequence of Party and Helper
    plan : AgreedPlan
    labels : ndarray
        What an honest coordinator would send to the first party.
    """

    def __init__(self, parties, plan, labels):
        self.parties, self.plan, self.labels, self.cards = parties, plan, labels, "[]"
        self.lines = [Line(party) for party in parties]
        name = new_session()
        for line in self.lines:
            line.name = name

    def all(self, *messages):
        requests = messages if len(messages) > 1 else messages * len(self.lines)
        return [line.ask(message) for line, message in zip(self.lines, requests, strict=True)]

    def invite(self):
        cards = self.all(Invite(self.plan.text()))
        assert all(isinstance(each, Card) for each in cards)
        self.cards = json.dumps([each.card for each in cards])
        return self

    def connect(self):
        self.invite()
        assert all(isinstance(each, Done) for each in self.all(Connect(self.cards)))
        self.wait()
        return self

    def wait(self):
        """Ask until all are ready, and return what they say."""
        for _ in range(50):
            replies = self.all(Poll())
            assert all(isinstance(each, Opened) for each in replies), [getattr(each, "reason", "") for each in replies]
            if all(each.ready for each in replies):
                return replies
        raise AssertionError("it never ends")

    def join(self):
        """Begin, and wait for what is opened."""
        self.connect()
        starts = self.all(Join(self.labels), *[Join(NOTHING)] * (len(self.lines) - 1))
        assert all(isinstance(each, Done) for each in starts)
        self.opened = self.wait()
        return self

    def end(self):
        self.all(Close())


def block(plan, place, **changed):
    """Return the plan with another description of one party."""
    blocks = list(plan.blocks)
    blocks[place] = dataclasses.replace(blocks[place], **changed)
    return dataclasses.replace(plan, blocks=tuple(blocks))


def refused(reply, *words):
    """Check that a reply is a refusal in these words."""
    assert isinstance(reply, Refused), reply
    for word in words:
        assert word in reply.reason


def share_nothing_uncovered(make, table_of, plan):
    """An invitation beyond the budget is refused, and of two that it covers once the second training shares nothing."""
    refused(Line(make(budget=(0.01, 1e-6))[1]).ask(Invite(plan.text())), "budget")
    given = make(budget=(2.1, 1e-5))
    one, other = (table_of(given).connect() for _ in range(2))
    assert isinstance(one.lines[1].ask(Join(NOTHING)), Done)
    refused(other.lines[1].ask(Join(NOTHING)), "budget")
    assert other.lines[1].ask(Poll()).n_steps == 0
    assert given[1].spent == plan.event
    for table in (one, other):
        table.end()
