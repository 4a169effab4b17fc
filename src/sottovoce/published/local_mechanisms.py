"""Which mechanism a protocol is of: the closed list, for a program that is handed the text of a protocol.

All of them load numpy and nothing else here; the server sides are loaded by who needs them.
"""

from sottovoce.local.device.randomizer import Randomizer
from sottovoce.local.protocol import Protocol
from sottovoce.local.text import read_document
from sottovoce.published.bernstein.protocol import BernsteinProtocol
from sottovoce.published.bernstein.randomizer import BernsteinRandomizer

__all__ = ["randomizer_for", "read_protocol"]


def read_protocol(text: str) -> Protocol | BernsteinProtocol:
    """Return the protocol of a canonical text, of whatever mechanism.

    Raises
    ------
    ParameterError
        If the text is not a protocol that this version can read.
    """
    if read_document(text).get("mechanism") == "bernstein":
        return BernsteinProtocol.from_json(text)
    return Protocol.from_json(text)


def randomizer_for(
    protocol: Protocol | BernsteinProtocol, *, max_epsilon: float | None = None
) -> Randomizer | BernsteinRandomizer:
    """Return the device's side of a protocol; ``max_epsilon`` refuses one that asks for more."""
    if isinstance(protocol, BernsteinProtocol):
        return BernsteinRandomizer(protocol, max_epsilon=max_epsilon)
    return Randomizer(protocol, max_epsilon=max_epsilon)
