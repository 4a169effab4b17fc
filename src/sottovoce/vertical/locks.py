"""A lock that belongs to one process and to one object: a copy gets one of its own, and so does a child of a fork."""

import os
import threading
import weakref
from types import TracebackType
from typing import Final

__all__ = ["OwnLock"]


class OwnLock:
    """A lock for ``with``; it never travels.

    A thread that held it when the process forked does not exist in the child, so nobody would ever open it there: the
    child starts with an open one. What it guards must not be taken over from the parent half done, see
    `sottovoce.vertical.sessions`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _LIVE.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["OwnLock"], tuple[()]]:
        return OwnLock, ()

    def renew(self) -> None:
        """Open it, whoever holds it; for a process in which the holder does not exist."""
        self._lock = threading.Lock()


_LIVE: Final[weakref.WeakSet[OwnLock]] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_LIVE):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
