"""One report a device, under local differential privacy, to a collector that nobody has to trust.

The device's side (`Protocol`, features, `Randomizer`) loads numpy and nothing else; the server's (`Aggregator`,
`LocalModel`) is loaded when it is first used.

The modules stand in rooms, each of which imports itself and what stands before it here, at the top of a module or
inside of a function:

1. the floor: protocol, features, wire, odds, candidates, cap: what all sides agree on;
2. ``device``: a record in, a report out; the page of a survey;
3. ``fits``: models from sums over reports;
4. ``server``: reports in, sums out, and their files;
5. ``planning``: what a collection will be worth;
6. ``collector``: the HTTP service, with packages of its own: it imports the floor alone, and nothing imports it.
"""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazy_names
from sottovoce.local.device.randomizer import Randomizer
from sottovoce.local.features import CategoricalFeature, NumericFeature
from sottovoce.local.protocol import Protocol

if TYPE_CHECKING:
    from sottovoce.local.fits.model import LocalModel
    from sottovoce.local.planning import plan_collection, predict_accuracy_range
    from sottovoce.local.server.aggregator import Aggregator

__all__ = [
    "Aggregator", "CategoricalFeature", "LocalModel", "NumericFeature", "Protocol", "Randomizer",
    "plan_collection", "predict_accuracy_range",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "Aggregator": "server.aggregator",
        "LocalModel": "fits.model",
        "plan_collection": "planning",
        "predict_accuracy_range": "planning",
    },
)
