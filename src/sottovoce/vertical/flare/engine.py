"""NVIDIA FLARE, where it is installed: the one place that asks for it, and the classes that a run is made of."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from sottovoce.exceptions import ParameterError

__all__ = ["CONTROLLER", "COORDINATOR_SITE", "EXECUTOR", "LEAD", "PARTY_SITE", "require_engine"]

PARTY_SITE: Final = "sottovoce.vertical.flare.party.PartySite"
COORDINATOR_SITE: Final = "sottovoce.vertical.flare.coordinator.CoordinatorSite"
EXECUTOR: Final = "nvflare.collab.runtime.executor.CollabExecutor"
CONTROLLER: Final = "nvflare.collab.runtime.controller.CollabController"
LEAD: Final = "lead@coordinator.invalid"
"""The only user of a federation, at the coordinator: FLARE wants the shape of an address, nothing is sent there."""

_LEAST: Final = (2, 9)  # before: CVE-2026-24178, CVE-2026-24186


def require_engine() -> None:
    """Refuse to go on where FLARE is missing or has known holes.

    Raises
    ------
    ParameterError
        It names the remedy.
    """
    try:
        import fcntl  # noqa: F401
    except ImportError:
        raise ParameterError(
            "Parties at several organisations need Linux or another POSIX system: they lock files and watch processes "
            "as such systems do. `sottovoce vertical simulate` and training in one process need neither."
        ) from None
    remedy = "Install the extra: pip install 'sottovoce[vertical]'."
    try:
        found = version("nvflare")
    except PackageNotFoundError:
        raise ParameterError(f"Parties at several organisations need NVIDIA FLARE (nvflare>=2.9). {remedy}") from None
    if tuple(int(part) for part in found.split(".")[:2]) < _LEAST:
        raise ParameterError(f"nvflare {found} has known holes; 2.9 or later is needed. {remedy}")
