"""FLARE's waits, cut short: a short run waited for the next look of some loop longer than it computed.

FLARE looks each second or so whether something has happened that happens once: a line is there, a job is to be started,
a process has ended. Its modules get a clock whose sleep ends earlier; what they look at, and what a site may do, stays
as it is.
"""

import atexit
import importlib
import itertools
import math
import os
import sys
import time
from types import SimpleNamespace
from typing import Final, NoReturn

_LINE: Final[dict[str, tuple[float, float]]] = {"nvflare.private.fed.authenticator": (0.1, 20)}
"""With the coordinator, which may be away for days: each look is a line in the log, so that only the first are soon."""

COMMAND, RUN = "a command", "a run that has begun"
_WAITS: Final[dict[str, dict[str, tuple[float, float]]]] = {
    COMMAND: _LINE,
    "nvflare.private.fed.app.client.client_train": _LINE,
    "nvflare.private.fed.app.server.server_train": {
        "nvflare.private.fed.server.job_runner": (0.5, math.inf),  # whether a job waits, or has ended: it reads files
    },
    "nvflare.private.fed.app.server.runner_process": {
        "nvflare.private.fed.server.fed_server": (0.25, math.inf),  # whether the run has ended; each look is a message
    },
    "nvflare.private.fed.app.client.worker_process": {
        "nvflare.private.fed.client.client_app_runner": (0.05, math.inf),  # whether the line with its site is there
    },
    RUN: {  # one that a site refuses goes FLARE's pace: where the first process ends, all others are ended unheard
        "nvflare.private.fed.app.utils": (0.1, math.inf),  # whether its site is there, before it ends itself
        "nvflare.fuel.f3.mpm": (0.1, math.inf),  # for nothing: all lines are closed before
    },
}
"""Whose sleep takes at most so many seconds, for so many times, by the module that is run, and what it waits for."""


def _clock(longest: float, times: float) -> SimpleNamespace:
    """Return the module `time` with a sleep that takes at most so long, for so many times."""
    looks = itertools.count()

    def sleep(seconds: float) -> None:
        time.sleep(min(seconds, longest) if next(looks) < times else seconds)

    return SimpleNamespace(**{**vars(time), "sleep": sleep})


def look_often(what: str) -> None:
    """Let FLARE look often in this process, which is a command's or a run's, or runs that module of FLARE."""
    for name, how in _WAITS.get(what, {}).items():
        vars(importlib.import_module(name)).update(time=_clock(*how))


def leave(code: object) -> NoReturn:
    """End this process as ``sys.exit`` does when its work is done; Python would take all modules apart, for seconds."""
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)
