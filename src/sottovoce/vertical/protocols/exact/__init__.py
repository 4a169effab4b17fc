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
)
from sottovoce.vertical.protocols.general.party import KeepHandler, PrepareHandler

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(
    EXACT,
    handlers=(
        PrepareHandler,
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
