"""What FLARE reads at a site, with what is unsafe by default closed: ``kit_files/flare.toml`` says what, and why.

A job may use the library's own two classes and FLARE's two that call them, exactly; it can ship no code. The lead,
whose key is at the coordinator, submits jobs, follows and aborts them; nobody else may do anything.
"""

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.flare.federation import Federation

PURPOSES: Final = ("train", "score")
LEAD: Final = "lead@coordinator.invalid"
"""The only user of a federation, at the coordinator: FLARE wants the shape of an address, nothing is sent there."""


def settings(kind: str, name: str, federation: Federation, state: Path) -> dict[str, dict[str, Any]]:
    """Return all files that FLARE reads at a site, beside its certificates, by their places in the kit.

    ``state`` is where the coordinator keeps its jobs, absolute.
    """
    host, port = federation.host, federation.port
    facts = {
        "federation": federation.name, "name": name, "lead": LEAD, "host": host, "port": port,
        "reached": f"{host}:{port}", "listens": f"{federation.listens_at}:{port}",
        "jobs": str(state / "jobs"), "snapshots": str(state / "snapshots"),
    }  # fmt: skip
    files: dict[str, dict[str, Any]] = _filled(_written()["both"] | _written()[kind], facts)
    return files


def job_text(end: str, **arguments: str) -> str:
    """Return the configuration of a job at one end, ``server`` or ``client``: two classes, and what ours is told."""
    return json.dumps(_filled(_written()["job"][end], arguments))


@cache
def _written() -> dict[str, Any]:
    path = Path(__file__).parent.with_name("kit_files") / "flare.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _filled(value: Any, facts: Mapping[str, object]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, facts) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, facts) for each in value]
    return facts[value[1:]] if isinstance(value, str) and value.startswith("$") else value


# ------------------------------------------------------------------ FLARE itself


_LEAST: Final = (2, 9)  # before: CVE-2026-24178, CVE-2026-24186


def require_engine() -> None:
    """Refuse to go on where FLARE is missing or has known holes."""
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
