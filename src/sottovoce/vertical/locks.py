"""A lock that belongs to one process and to one object: a copy gets one of its own, and so does a child of a fork."""

import os
import threading
import weakref
from typing import Final


class OwnLock:
    """A lock that never travels: ``with own.lock:``.

    A thread that held it when the process forked does not exist in the child, so nobody would ever open it there: the
    child starts with an open one. What it guards must not be taken over from the parent half done, see
    `sottovoce.vertical.party.sessions`.

    ``lock``: itself, and not methods of ours around it: an interrupt at the entry of such a method would leave it
    closed.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        _LIVE.add(self)

    def __reduce__(self) -> tuple[type["OwnLock"], tuple[()]]:
        return OwnLock, ()


_LIVE: Final[weakref.WeakSet[OwnLock]] = weakref.WeakSet()


def _renew_all() -> None:
    for own in list(_LIVE):
        own.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
