"""What every conversation with a party has, whatever the mechanism."""

from sottovoce.vertical.protocol import Protocol
from sottovoce.vertical.protocols.general.party import AffordHandler, CloseHandler, DescribeHandler

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(answer=None, handlers=(DescribeHandler, AffordHandler, CloseHandler))
