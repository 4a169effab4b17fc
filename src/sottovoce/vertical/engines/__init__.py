"""Engines of secure computation: sums over columns that several organisations hold, and nobody sees but the result.

Here is where a party computes jointly: what its owner says of it, and the engines that are installed.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sottovoce._version import __version__

ENGINES: Final = ("spu", "shamir")
"""Engines between processes; "in-process" is the third, for parties that share a process."""


@dataclass(frozen=True, kw_only=True)
class ComputeSite:
    """A party's place in joint computations; without one a party computes with those of its own process alone.

    Parameters
    ----------
    partners : collection of str or None
        Names of parties that it computes with; None for any, which only a trial on one machine may say.
    host : str
        Where partners reach it.
    ports : (first, last)
        It listens on one of them in each session; (0, 0) takes any that is free.
    engines : collection of str
        Those that it agrees to, of `ENGINES`.
    identity : Path or None
        Folder with ``certificate.pem``, ``key.pem`` and ``authority.pem``, by which partners know it; None only for a
        trial on one machine, without TLS.
    fingerprints : dict or None
        SHA-256 of the partners' certificates, where their owners told each other.
    timeout : float
        Seconds that a partner may take for anything.
    """

    partners: Collection[str] | None = None
    host: str = "127.0.0.1"
    ports: tuple[int, int] = (0, 0)
    engines: Collection[str] = ENGINES
    identity: Path | None = None
    fingerprints: dict[str, str] | None = None
    timeout: float = 600.0


IN_PROCESS: Final = "in-process"
"""The engine of parties that share a process; it is always there."""

_SPU: Final = ("spu", "jax", "jaxlib")
"""Its packages. jax compiles the programs that SPU runs, so its version matters as much."""


def available_engines() -> dict[str, str]:
    """Return the engines that this site can use, by name, with their versions; partners need the same versions."""
    found = {}
    with suppress(PackageNotFoundError):  # a folder of that name, not the package
        if all(find_spec(package) is not None for package in _SPU):
            found["spu"] = ", ".join(f"{package} {version(package)}" for package in _SPU)
    return found | dict.fromkeys(("shamir", IN_PROCESS), f"sottovoce {__version__}")
