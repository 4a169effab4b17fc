"""FLARE's waits, cut short: a short run waited for the next look of some loop longer than it computed.

FLARE looks each second or so whether something has happened that happens once: a line is there, a job is to be started,
a process has ended. Its modules get a clock whose sleep ends earlier; what they look at, and what a site may do, stays
as it is.
"""

import atexit
import itertools
import math
import os
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Final, NoReturn

COMMAND, RUN = "a command", "a run that has begun"
OF_FLARE: Final = tuple(f"nvflare.private.fed.app.{name}" for name in (
    "client.client_train", "client.worker_process", "server.server_train", "server.runner_process",
))  # fmt: skip
"""What a process may be: a command, a run, or a module of FLARE that it runs."""


def sleepers(what: str) -> dict[ModuleType, tuple[float, float]]:
    """Return whose sleep takes at most so many seconds, for so many times, in such a process."""
    if what in (COMMAND, OF_FLARE[0]):
        from nvflare.private.fed import authenticator

        # the coordinator may be away for days, and each look is a line in the log: only the first are soon
        return {authenticator: (0.1, 20)}
    if what == OF_FLARE[1]:
        from nvflare.private.fed.client import client_app_runner

        return {client_app_runner: (0.05, math.inf)}  # whether the line with its site is there
    if what == OF_FLARE[2]:
        from nvflare.private.fed.server import job_runner

        return {job_runner: (0.5, math.inf)}  # whether a job waits, or has ended: it reads files
    if what == OF_FLARE[3]:
        from nvflare.private.fed.server import fed_server

        return {fed_server: (0.25, math.inf)}  # whether the run has ended; each look is a message
    if what == RUN:  # one that a site refuses goes FLARE's pace: where the first process ends, all end unheard
        from nvflare.fuel.f3 import mpm
        from nvflare.private.fed.app import utils

        # whether its site is there, before it ends itself; and for nothing: all lines are closed before
        return {utils: (0.1, math.inf), mpm: (0.1, math.inf)}
    return {}


def _clock(longest: float, times: float) -> SimpleNamespace:
    """Return the module `time` with a sleep that takes at most so long, for so many times."""
    looks = itertools.count()

    def sleep(seconds: float) -> None:
        time.sleep(min(seconds, longest) if next(looks) < times else seconds)

    return SimpleNamespace(**{**vars(time), "sleep": sleep})


def look_often(what: str) -> None:
    """Let FLARE look often in this process, which is a command's or a run's, or runs that module of FLARE."""
    for module, how in sleepers(what).items():
        vars(module).update(time=_clock(*how))


def leave(code: object) -> NoReturn:
    """End this process as ``sys.exit`` does when its work is done; Python would take all modules apart, for seconds."""
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)
