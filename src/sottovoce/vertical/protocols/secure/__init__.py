"""Joint training inside secure computation: noisy sums over all parties' columns, and nothing else, are opened."""

from sottovoce.vertical.protocol import Answer, Protocol
from sottovoce.vertical.protocols.secure.party import HANDLERS
from sottovoce.vertical.protocols.secure.plan import SecurePlan

__all__ = ["PROTOCOLS"]

PROTOCOLS = (
    Protocol(
        Answer(
            "secure",
            "compute noisy sums over all parties' columns with the partners that its owner named, by an engine of "
            "secure computation, and keep its part of the model that follows from them",
            private=True,
        ),
        handlers=HANDLERS,
        plan=SecurePlan,
    ),
)
