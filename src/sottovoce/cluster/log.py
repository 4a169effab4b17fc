"""The driver's log: what was released, written before it is used, so that a new driver can go on."""

from abc import ABC, abstractmethod
from typing import Any

from sottovoce._numerics import Vector
from sottovoce.central.operation import Operation

__all__ = ["Log", "NoLog"]


class Log(ABC):
    """Released values by their number, from 0 on. Exact sums and random states never come here."""

    @abstractmethod
    def stored(self, number: int, operation: Operation[Any]) -> Vector | None:
        """Return what release ``number`` gave in a former run of the same fit, or None if it was not reached.

        Raises
        ------
        SottovoceError
            If what was released under this number came from another operation.
        """

    @abstractmethod
    def released(self, number: int, operation: Operation[Any], values: Vector) -> None:
        """Keep a release; returns when it is safe, and only then are the values used or sent."""


class NoLog(Log):
    """Keeps nothing: with its driver a fit is gone."""

    def stored(self, number: int, operation: Operation[Any]) -> Vector | None:
        """Return None."""
        return None

    def released(self, number: int, operation: Operation[Any], values: Vector) -> None:
        """Do nothing."""
