"""A table of public size whose values are read when a fit has paid for them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["UnreadTable"]


@dataclass(frozen=True, eq=False)
class UnreadTable:
    """What a fit takes in place of X and y where reading can fail over a value of the data.

    Such a failure is an answer about the data, so it may come only after the charge.

    Parameters
    ----------
    shape : (int, int)
        Public numbers of rows and of columns.
    read : callable
        Returns X and y.
    """

    shape: tuple[int, int]
    read: Callable[[], tuple[Any, Any]]
