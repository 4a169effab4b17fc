"""Columns released once, with noise."""

from sottovoce.vertical.protocol import Answer, Protocol
from sottovoce.vertical.protocols.noisy_features.party import SendFeaturesHandler
from sottovoce.vertical.protocols.noisy_features.plan import NoisyFeaturesPlan

__all__ = ["PROTOCOL"]

PROTOCOL = Protocol(
    Answer("noisy-features", "send its columns once, with noise", private=True),
    handlers=(SendFeaturesHandler,),
    plan=NoisyFeaturesPlan,
)
