"""Talk to one party as a coordinator does, message by message: refusals come back as they are."""

import weakref

from sottovoce.vertical import (
    mechanisms,  # noqa: F401  every message is known then
    wire,
)
from sottovoce.vertical.wire import Frame, new_session


def kinds(of=wire.Message):
    """Return all kinds of messages that there are."""
    below = [kind for each in of.__subclasses__() for kind in (each, *kinds(each))]
    return [kind for kind in dict.fromkeys(below) if kind.code]


_KINDS = {}  # by code; a test may bring kinds of its own


def decode(raw):
    code = wire.code_of(raw)
    if code not in _KINDS:
        _KINDS.update({kind.code: kind for kind in reversed(kinds())})
    return wire.decode(raw, [_KINDS[code]] if code in _KINDS else [])


class Line:
    """One session with a party.

    Parameters
    ----------
    party : anything with ``handle``
    """

    def __init__(self, party):
        self.party, self.name = party, new_session()

    def frame(self, message):
        """Return a request as bytes."""
        return Frame(self.name, message.encode()).encode()

    def ask(self, message):
        """Return the reply to the next request."""
        return decode(self.party.handle(self.frame(message)))


_LINES = weakref.WeakKeyDictionary()


def request(party, message):
    """Return the reply to a message in the one session that this test has with the party."""
    return _LINES.setdefault(party, Line(party)).ask(message)


def last_session(party):
    """Return the session that was last asked something."""
    return next(reversed(party._sessions.values()))


def worker_of(party):
    """Return what the party holds of the training that was last asked about."""
    return last_session(party).worker


def asked(raw):
    return decode(Frame.read(raw).body)


def instead(raw, message):
    """Return another request in the same place."""
    frame = Frame.read(raw)
    return Frame(frame.session, message.encode()).encode()
