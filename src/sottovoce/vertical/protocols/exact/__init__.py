"""Training without noise, by L-BFGS."""

from sottovoce.vertical.protocol import Protocol
from sottovoce.vertical.protocols.exact.party import (
    EXACT,
    LbfgsDirectionHandler,
    LbfgsGradientHandler,
    LbfgsMoveHandler,
    LbfgsStartHandler,
)
from sottovoce.vertical.protocols.general.party import KeepHandler, PrepareHandler

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(
    EXACT,
    handlers=(
        PrepareHandler,
        LbfgsStartHandler,
        LbfgsGradientHandler,
        LbfgsDirectionHandler,
        LbfgsMoveHandler,
        KeepHandler,
    ),
)
