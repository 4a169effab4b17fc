"""The name of `sottovoce.optimize` before it moved."""

from sottovoce.optimize import *  # noqa: F403
from sottovoce.optimize import __all__ as __all__
