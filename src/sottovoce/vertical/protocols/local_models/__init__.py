"""Labels released once; a private model at each party."""

from sottovoce.vertical.protocol import Answer, Protocol
from sottovoce.vertical.protocols.general.party import KeepHandler
from sottovoce.vertical.protocols.local_models.party import TrainOnLabelsHandler
from sottovoce.vertical.protocols.local_models.plan import LocalModelsPlan

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(
    Answer("local-models", "train a private model of its columns on labels that it is sent, and keep it", private=True),
    handlers=(TrainOnLabelsHandler, KeepHandler),
    plan=LocalModelsPlan,
)
