"""ADMM sharing with the noise of Hu et al. (2019), and why it protects nobody."""

from sottovoce.published.answer import PUBLISHED
from sottovoce.published.vertical_admm.party import PublishedStartHandler
from sottovoce.published.vertical_admm.plan import PublishedPlan
from sottovoce.vertical.protocol import Protocol
from sottovoce.vertical.protocols.exact.party import AdmmStartHandler, AdmmStepHandler
from sottovoce.vertical.protocols.general.party import KeepHandler, PrepareHandler

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(
    PUBLISHED,
    handlers=(PrepareHandler, PublishedStartHandler, AdmmStartHandler, AdmmStepHandler, KeepHandler),
    plan=PublishedPlan,
)
