"""What the owner of a party says about joint computations: with whom, by which engine, and where it is reached."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ENGINES", "ComputeSite", "TlsFiles"]

ENGINES: Final = ("spu", "mpyc")
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


@dataclass(frozen=True)
class TlsFiles:
    """A party's certificate of one session and what it trusts in that session.

    Parameters
    ----------
    certificate, key : Path
        The own session certificate, which signs itself, and its key (PEM).
    partners : Path
        The session certificates of exactly the partners (PEM): nobody else gets a connection.
    """

    certificate: Path
    key: Path
    partners: Path
