"""The files of a session's TLS, the same for every engine."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["TlsFiles"]


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
