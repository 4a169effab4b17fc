"""FLARE's waits, cut short: a short run waited for the next look of some loop longer than it computed.

FLARE looks each second or so whether something has happened that happens once: a line is there, a job is to be started,
a process has ended. Its modules get a clock whose sleep ends earlier; what they look at, and what a site may do, stays
as it is.
"""

import atexit
import importlib
import os
import sys
import time
from typing import Any, Final, NoReturn

_OFTEN: Final = 20  # looks for a coordinator that may be away for days, of which each is a line in the log
COMMAND: Final = "sottovoce"
_WAITS: Final[dict[str, dict[str, tuple[float, float]]]] = {
    COMMAND: {"nvflare.private.fed.authenticator": (0.1, _OFTEN)},  # the line with the coordinator
    "nvflare.private.fed.app.client.client_train": {"nvflare.private.fed.authenticator": (0.1, _OFTEN)},
    "nvflare.private.fed.app.server.server_train": {
        "nvflare.private.fed.server.job_runner": (0.5, float("inf")),  # whether a job waits, or has ended: reads files
    },
    "nvflare.private.fed.app.server.runner_process": {
        "nvflare.private.fed.server.fed_server": (0.25, float("inf")),  # whether the run has ended, and a message
        "nvflare.private.fed.app.utils": (0.1, float("inf")),  # whether its parent is there, before it ends itself
        "nvflare.fuel.f3.mpm": (0.1, float("inf")),  # nothing: all lines are closed before
    },
    "nvflare.private.fed.app.client.worker_process": {
        "nvflare.private.fed.client.client_app_runner": (0.05, float("inf")),  # the line with its parent
        "nvflare.private.fed.app.utils": (0.1, float("inf")),
        "nvflare.fuel.f3.mpm": (0.1, float("inf")),
    },
}
"""For each module that is run, whose sleep takes at most so many seconds, for so many times, and what it waits for."""


class _Clock:
    """The module `time`, whose sleep takes at most so long, for so many times."""

    def __init__(self, longest: float, times: float) -> None:
        self._longest, self._times = longest, times

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        self._times -= 1
        time.sleep(seconds if self._times < 0 else min(seconds, self._longest))


def look_often(program: str) -> None:
    """Let FLARE look often in this process, which runs that module of it."""
    for name, how in _WAITS.get(program, {}).items():
        vars(importlib.import_module(name)).update(time=_Clock(*how))


def leave(code: object) -> NoReturn:
    """End this process as ``sys.exit`` does when its work is done; Python would take all modules apart, for seconds."""
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)
