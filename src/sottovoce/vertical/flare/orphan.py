"""A job's process ends with the site that started it.

FLARE puts each job in a process of its own session, which outlives a site that is killed: it would go on answering the
coordinator, and nobody could stop it but by its number.
"""

import os
import threading
import time
from collections.abc import Callable

__all__ = ["end_with_parent"]

_SECONDS = 1.0


def end_with_parent(end: Callable[[int], object] = os._exit) -> None:
    """End this process, at once and without tidying up, soon after the one that started it is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS)
        end(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
