"""ADMM on clipped, noisy scores."""

from sottovoce.vertical.protocol import Answer, Protocol
from sottovoce.vertical.protocols.general.party import KeepHandler, PrepareHandler
from sottovoce.vertical.protocols.noisy_admm.party import NoisyStartHandler, NoisyStepHandler
from sottovoce.vertical.protocols.noisy_admm.plan import NoisyAdmmPlan

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(
    Answer("noisy-admm", "send clipped scores, with noise; what stays with it is exact", charged=True),
    handlers=(PrepareHandler, NoisyStartHandler, NoisyStepHandler, KeepHandler),
    plan=NoisyAdmmPlan,
)
