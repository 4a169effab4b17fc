"""Every message between a coordinator and its parties, as it is rebuilt from the bytes that cross."""

from contextlib import contextmanager, suppress
from dataclasses import dataclass

from sottovoce.exceptions import MessageError
from sottovoce.vertical.wire import Frame, Message
from support.party import decode


@dataclass(frozen=True)
class Crossing:
    """One message that crossed."""

    party: str  # the party at the other end of the coordinator's line
    uplink: bool  # True from the party to the coordinator
    message: Message
    n_bytes: int  # the frame of a request included


@contextmanager
def recorded(parties):
    """Record every message that crosses inside the ``with`` block, in order; what is no message is left out."""
    record, send = [], parties._send

    def take(name, uplink, raw, body):
        with suppress(MessageError):
            record.append(Crossing(name, uplink, decode(body), len(raw)))

    def sending(requests):
        for name, raw in requests.items():
            take(name, False, raw, Frame.read(raw).body)
        answers = send(requests)
        for name, raw in answers.items():
            take(name, True, raw, raw)
        return answers

    parties._send = sending
    try:
        yield record
    finally:
        parties._send = send
