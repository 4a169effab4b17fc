"""Private Frank-Wolfe on the l1 ball."""

from sottovoce.vertical.protocols.frank_wolfe.party import PROTOCOLS

__all__ = ["PROTOCOLS"]
