"""One thing that was looked at when a file was verified."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Check"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes
    ----------
    name : str
    passed : bool
    detail : str
    """

    name: str
    passed: bool
    detail: str
