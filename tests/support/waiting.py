"""Waiting for what happens, however slow the machine is."""

import time
from collections.abc import Callable
from typing import Any

SECONDS = 180  # that anything may take before a test fails, beside whatever else the machine does


def until(happens: Callable[[], Any], seconds: float = SECONDS, what: str = "it") -> Any:
    """Wait until ``happens`` returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while not (got := happens()):
        assert time.monotonic() < deadline, f"{what} has not happened within {seconds:g} s"
        time.sleep(0.05)
    return got
