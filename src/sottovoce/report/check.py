"""One thing that was looked at when a file was verified."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    passed: bool
    detail: str


def compared(name: str, passed: bool, right: str, wrong: str) -> Check:
    """Return what a comparison found, in the words for how it ended."""
    return Check(name, passed, right if passed else wrong)
