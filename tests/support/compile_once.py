"""Kernels are compiled by one worker of a run, and read from disk by the others."""

import fcntl
import os
import tempfile
import time
from pathlib import Path


def compile_once() -> None:
    """Let a worker that needs a kernel wait while another one compiles it; to be called before any kernel is made."""
    from numba.core.compiler_lock import global_compiler_lock

    from sottovoce import _compiling

    if _compiling.FOLDER is None:
        return
    locks = Path(tempfile.gettempdir()) / f"{_compiling.FOLDER.name}-{os.getuid()}"
    locks.mkdir(exist_ok=True)
    without_collector = _compiling.without_collector

    def by_one(compile_):
        quickly, kernel = without_collector()(compile_), compile_.__self__.py_func

        def compiled(signature):
            # numba's own lock first: a thread that has it may be on its way to this kernel
            with global_compiler_lock, (locks / f"{kernel.__module__}.{kernel.__name__}").open("w") as lock:
                _take(lock)
                return quickly(signature)

        return compiled

    _compiling.without_collector = lambda: by_one


def _take(lock) -> None:
    """Wait for a lock, but not for somebody who was stopped: then a kernel is compiled twice."""
    ends = time.monotonic() + 60.0
    while time.monotonic() < ends:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.02)
