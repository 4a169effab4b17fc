"""Talk to one party as a coordinator does, message by message: refusals come back as they are."""

import weakref

from sottovoce.vertical.frames import Frame, new_session
from sottovoce.vertical.wire import decode


class Line:
    """One session with a party.

    Parameters
    ----------
    party : anything with ``handle``
    """

    def __init__(self, party):
        self.party, self.name, self.step = party, new_session(), 0

    def frame(self, message):
        """Return the next request as bytes; it counts as asked."""
        self.step += 1
        return Frame(self.name, self.step, message.encode()).encode()

    def ask(self, message):
        """Return the reply to the next request."""
        return decode(self.party.handle(self.frame(message)))


_LINES = weakref.WeakKeyDictionary()


def request(party, message):
    """Return the reply to a message in the one session that this test has with the party."""
    return _LINES.setdefault(party, Line(party)).ask(message)


def worker_of(party):
    """Return what the party holds of the training that was last asked about."""
    return party._sessions.last.training.worker


def training_of(party):
    """Return the training that was last asked about."""
    return party._sessions.last.training


def asked(raw):
    """Return the request in a frame."""
    return Frame.read(raw).message


def instead(raw, message):
    """Return another request in the same place."""
    frame = Frame.read(raw)
    return Frame(frame.session, frame.step, message.encode()).encode()
