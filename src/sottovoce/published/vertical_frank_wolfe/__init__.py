"""Distributed Frank-Wolfe with the noise of Lou and Cheung (2018), and why it protects less than it says."""

from sottovoce.published.answer import PUBLISHED
from sottovoce.published.vertical_frank_wolfe.party import PublishedBallStartHandler, PublishedBallStepHandler
from sottovoce.vertical.protocol import Protocol

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(PUBLISHED, handlers=(PublishedBallStartHandler, PublishedBallStepHandler))
