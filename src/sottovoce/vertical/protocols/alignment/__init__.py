"""Which people all parties hold, by private set intersection, and whose rows a party trains on from then on."""

from sottovoce.vertical.protocol import Answer, Protocol
from sottovoce.vertical.protocols.alignment.party import (
    AlignAgainHandler,
    AlignRespondHandler,
    AlignSetupHandler,
    AlignToHandler,
    AllRowsHandler,
)

__all__ = ["ALIGNMENT", "ALL_ROWS"]

ALL_ROWS = Protocol(answer=None, handlers=(AllRowsHandler,))
ALIGNMENT = Protocol(
    Answer(
        "alignment",
        "tell which of the people whom it is asked about it holds, and how many it holds; take those in common",
        public=True,
    ),
    handlers=(AlignSetupHandler, AlignRespondHandler, AlignToHandler, AlignAgainHandler),
)
