"""One report a device, under local differential privacy, to a collector that nobody has to trust.

The device's side (`Protocol`, features, `Randomizer`) loads numpy and nothing else.
"""

from sottovoce.local.features import CategoricalFeature, NumericFeature
from sottovoce.local.protocol import Protocol
from sottovoce.local.randomizer import Randomizer

__all__ = ["CategoricalFeature", "NumericFeature", "Protocol", "Randomizer"]
