"""Waiting for what happens, however slow the machine is."""

import time
from collections.abc import Callable
from typing import Any


def until(happens: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait until ``happens`` returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while not (got := happens()):
        assert time.monotonic() < deadline, f"it has not happened within {seconds:g} s"
        time.sleep(0.05)
    return got
