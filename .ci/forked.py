"""Run tests in forks of one process that has imported all libraries: ``python .ci/forked.py KEPT TEST...``.

Reads from standard input how many seconds of processor time a run may take, a line a run. Writes what pytest returns
(0: all passed), or the negative number of the signal that ended it, and how many seconds it took. Modules of the
checkout it runs in are imported anew in each fork, so that a run sees its files as they are then. KEPT is 1 where they
change in nothing that is compiled: machine code is then kept although other files have changed, which ours asks by
itself (`sottovoce._compiling`). `.ci/mutants.py` asks it.
"""

import importlib
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

OPTIONS = [
    "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow and not federation",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # plugins are imported before
]  # fmt: skip
MOST_MEMORY = 4 * 2**30  # a loop without an end may fill a list
LIBRARIES, COMPILED = Path("libraries.txt"), Path("compiled.txt")


def collected(tests: list[str]) -> int:
    """Collect the tests, and write down which modules of others they imported."""
    code = pytest.main([*OPTIONS, "--collect-only", *tests])
    ours = str(Path.cwd())
    named = {name: str(getattr(module, "__file__", None) or "") for name, module in sys.modules.items()}
    LIBRARIES.write_text("\n".join(name for name, file in named.items() if file and not file.startswith(ours)))
    COMPILED.write_text(str(importlib.import_module("sottovoce._compiling").FOLDER))
    return int(code)


def ran(tests: list[str], compiled: Path | None) -> int:
    """Run the tests, with machine code from a folder whatever the sources are."""
    if compiled is not None:
        importlib.import_module("sottovoce._compiling").FOLDER = compiled  # type: ignore[attr-defined]
    return int(pytest.main([*OPTIONS, *tests]))


def in_fork(log: str, seconds: int, run: Callable[[], int]) -> tuple[int, float]:
    """Return what a function returns in a fork, which prints to a file, and how long it took."""
    fork = os.fork()
    if not fork:
        os.setsid()
        signal.alarm(60 + 10 * seconds)  # whoever waits for what never comes takes no time of the processor
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os._exit(run())
    _, status, used = os.wait4(fork, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def main(kept: str, tests: list[str]) -> None:
    """Import what the tests need of others, and answer."""
    code, _ = in_fork("collected.log", 600, lambda: collected(tests))
    if code:
        sys.exit(f"the tests cannot be collected (pytest returned {code}): see collected.log.")
    for name in LIBRARIES.read_text().splitlines():
        with suppress(Exception):  # parts of a library that only itself can import
            importlib.import_module(name)
    compiled = Path(COMPILED.read_text()) if kept == "1" else None
    print("ready", flush=True)
    for line in sys.stdin:
        print(*in_fork("run.log", int(line), lambda: ran(tests, compiled)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
