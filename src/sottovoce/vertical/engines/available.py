"""Which engines of secure computation are installed here, without importing them."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from sottovoce._version import __version__

__all__ = ["IN_PROCESS", "available_engines"]

IN_PROCESS: Final = "in-process"
"""The engine of parties that share a process; it is always there."""

_MADE_OF: Final = {"spu": ("spu", "jax", "jaxlib"), "mpyc": ("mpyc",)}
"""Packages of each engine. jax compiles the programs that SPU runs, so its version matters as much."""


def available_engines() -> dict[str, str]:
    """Return the engines that this site can use, by name, with their versions; partners need the same versions."""
    found = {}
    for name, packages in _MADE_OF.items():
        try:
            if all(find_spec(package) is not None for package in packages):
                found[name] = ", ".join(f"{package} {version(package)}" for package in packages)
        except PackageNotFoundError:
            continue  # a folder of that name, not the package
    found[IN_PROCESS] = f"sottovoce {__version__}"
    return found
