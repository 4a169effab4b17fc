"""Training without noise, by L-BFGS or ADMM sharing."""

from sottovoce.vertical.protocol import Protocol
from sottovoce.vertical.protocols.exact.party import (
    EXACT,
    AdmmStartHandler,
    AdmmStepHandler,
    LbfgsDirectionHandler,
    LbfgsGradientHandler,
    LbfgsMoveHandler,
    LbfgsStartHandler,
    SpectrumHandler,
    StructureHandler,
)
from sottovoce.vertical.protocols.general.party import KeepHandler, PrepareHandler

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(
    EXACT,
    handlers=(
        PrepareHandler,
        StructureHandler,
        AdmmStartHandler,
        AdmmStepHandler,
        LbfgsStartHandler,
        LbfgsGradientHandler,
        LbfgsDirectionHandler,
        LbfgsMoveHandler,
        SpectrumHandler,
        KeepHandler,
    ),
)
