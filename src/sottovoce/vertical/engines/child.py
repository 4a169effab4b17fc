"""The process of an engine: ``python -m sottovoce.vertical.engines.child``, started and commanded by `EngineProcess`.

Commands come over the socket that is its standard input. It ends with the process that started it. What the engine
prints goes where the starter has pointed its output, never to a user.
"""

import ctypes
import os
import queue
import resource
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sottovoce.vertical.engines.engine import Engine, EngineError, Whole
from sottovoce.vertical.engines.guarded import CHECKED, Guarded, self_check
from sottovoce.vertical.engines.process import Line, receive, send
from sottovoce.vertical.engines.programs import COMPARES, program_from

_DIE_WITH_PARENT = 1
_LOOK = 1.0  # seconds between two looks at who started it


def main() -> None:
    """Take the task, then serve commands until the starter is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)  # even while it is stopped
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    # no image of the memory is left on a disk, should a library abort
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    line = Line(os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    commands: queue.SimpleQueue[tuple[dict[str, Any], list[Whole]]] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(line, commands), daemon=True).start()
    task, _ = commands.get()
    engine: Engine | None = None
    while True:
        try:
            if engine is None:
                engine = _start(task)
                opened: Sequence[Whole] = ()
            else:
                command, arrays = commands.get()
                opened = _do(engine, command, arrays)
                del arrays
            answer = {}
        except EngineError as error:
            answer, opened = {"error": str(error)}, ()
        except Exception as error:
            # what an engine's library says may quote anything: its kind alone goes on
            answer, opened = {"error": _public(error)}, ()
        send(line, answer, opened)
        if "error" in answer:
            return


def _start(task: dict[str, Any]) -> Engine:
    tls = task["tls"] and Path(task["tls"])
    arguments = task["rank"], task["addresses"], task["listen"], tls, task["timeout"]
    engine: Guarded
    if task["kind"] == "spu":
        from sottovoce.vertical.engines.spu import SpuEngine

        engine, programs = SpuEngine(*arguments), CHECKED
    else:
        from sottovoce.vertical.engines.shamir import ShamirEngine

        engine = ShamirEngine(*arguments)
        programs = tuple(program for program in CHECKED if not isinstance(program, COMPARES))
    engine.start()
    # not of the addresses: parties may reach one another by different ones
    self_check(engine, len(task["addresses"]), programs)
    return engine


def _do(engine: Engine, command: dict[str, Any], arrays: list[Whole]) -> Sequence[Whole]:
    match command["do"]:
        case "put":
            value = arrays.pop() if arrays else None
            engine.put(command["name"], command["owner"], tuple(command["shape"]), value)
        case "run":
            engine.run(program_from(command["program"]), command["inputs"], command["outputs"])
        case "reveal":
            return (engine.reveal(command["name"]),)
        case "drop":
            engine.drop(*command["names"])
        case other:
            raise EngineError(f"an engine has no command {other!r}")
    return ()


def _public(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"{error.name} is not installed here; install sottovoce[secure]"
    if isinstance(error, MemoryError):
        return "the engine has not enough memory"
    return f"the engine failed ({type(error).__name__}): a partner is gone, is late, or is another one"


def _take(line: Line, commands: "queue.SimpleQueue[tuple[dict[str, Any], list[Whole]]]") -> None:
    """Read commands; when the starter is gone, end at once, whatever the engine is doing."""
    try:
        while True:
            commands.put(receive(line))
    except Exception:
        os.kill(os.getpid(), signal.SIGKILL)


def _end_with(parent: int) -> None:
    """End with the process that started this one, also where a fork of that one keeps the line open."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
    # without the clean-up of libraries, which may wait for partners that are gone
    os._exit(0)
