"""The process of an engine, without an engine: commands in order, times, interruptions, what is not started."""

import contextlib
import os
import re
import socket
import struct
import threading
import time
from multiprocessing import Pipe

import numpy as np
import pytest

from sottovoce.vertical.engines import process
from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.process import EngineProcess, receive, send
from sottovoce.vertical.engines.programs import Add


class _Child:
    """A child that answers what a test says."""

    def __init__(self, answer):
        self.line, self._theirs = Pipe()
        self.commands, self.ended = [], 0
        self._thread = threading.Thread(target=self._serve, args=(answer,), daemon=True)
        self._thread.start()

    def _serve(self, answer):
        try:
            while True:
                command, arrays = receive(self._theirs)
                self.commands.append((command, arrays))
                answer(self._theirs, command)
        except (OSError, EOFError, ValueError):
            self._theirs.close()

    def end(self):
        self.ended += 1
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.line.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)  # as the end of a process does
        self._thread.join(5)

    def leave(self):
        self.end()
        self.line.close()


@pytest.fixture
def begun(monkeypatch):
    """Return a function that makes an engine whose child answers as given, after a good start."""
    with contextlib.ExitStack() as stack:

        def make(answer, timeout=5.0):
            def served(end, command):
                send(end, {}) if "kind" in command else answer(end, command)

            monkeypatch.setattr(process, "_Child", lambda: _Child(served))
            engine = EngineProcess("spu", 1, ["h:1", "h:2", "h:3"], timeout=timeout)
            engine.start()
            stack.callback(engine.close)
            return engine

        yield make


def _well(end, command):
    send(end, {}, [np.arange(3)] if command["do"] == "reveal" else ())


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (2, 3, 4)])
def test_commands_reach_the_child_with_numbers_of_any_shape(begun, shape):
    engine = begun(_well)
    assert (engine.rank, engine.n_parties) == (1, 3)
    numbers = np.arange(np.prod(shape)).reshape(shape)
    engine.put("a", 1, shape, numbers)
    engine.put("b", 0, shape, None)
    engine.run(Add(), ["a", "b"], ["c"])
    assert engine.reveal("c").tolist() == [0, 1, 2]
    engine.drop("a", "b")
    (task, _), (put, given), (_, nothing), (run, _), (reveal, _), (drop, _) = engine._child.commands
    assert task["addresses"] == ["h:1", "h:2", "h:3"]
    assert (put["name"], len(given), nothing) == ("a", 1, [])
    np.testing.assert_array_equal(given[0], numbers)
    assert (run["inputs"], run["outputs"]) == (["a", "b"], ["c"])
    assert (reveal["name"], drop["names"]) == ("c", ["a", "b"])


@pytest.mark.parametrize(
    ("answer", "timeout", "why"),
    [
        (lambda end, command: send(end, {"error": "a partner is late"}), 5.0, "a partner is late"),
        (lambda end, command: None, 0.3, r"longer than 0\.3 s"),
        # a large table that the other end does not read: the time counts for sending, too
        (lambda end, command: time.sleep(1.5), 0.4, r"longer than 0\.4 s"),
        (lambda end, command: end.close(), 5.0, "the engine's process ended"),
        (lambda end, command: end.send_bytes(b"no"), 5.0, "the engine's process ended"),
        (lambda end, command: os.write(end.fileno(), struct.pack("!i", process._HEADER + 1)), 5.0, "process ended"),
    ],
    ids=["error", "silence", "takes no numbers", "gone", "no header", "too long a header"],
)
def test_a_child_that_does_not_do_as_it_is_told_is_ended_in_time(begun, answer, timeout, why):
    engine = begun(answer, timeout)
    if timeout == 0.4:
        send(engine._child.line, {"do": "nothing"})  # the other end is busy with it
    before = time.monotonic()
    with pytest.raises(EngineError, match=why):
        engine.put("a", 1, (1 << 20,), np.zeros(1 << 20, np.int64))
    assert time.monotonic() - before < 3
    assert engine._child.ended
    with pytest.raises(EngineError, match="is over"):
        engine.drop("a")


def test_an_interruption_ends_the_child(begun, monkeypatch):
    """Else the next command would be given this one's answer."""
    engine = begun(_well)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(process, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.drop("a")
    with pytest.raises(EngineError, match="is over"):
        engine.reveal("b")


def test_a_close_frees_a_thread_that_waits(begun):
    engine = begun(lambda end, command: None, timeout=30)
    threading.Timer(0.2, engine.close).start()
    with pytest.raises(EngineError, match="is over"):
        engine.drop("a")


def test_it_is_started_once_and_first(begun):
    engine = begun(_well)
    with pytest.raises(EngineError, match="has been started before"):
        engine.start()
    fresh = EngineProcess("shamir", 0, ["h:1"])
    with pytest.raises(EngineError, match="has not been started"):
        fresh.drop("a")
    fresh.close()
    with pytest.raises(EngineError, match="has been started before"):
        fresh.start()


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RuntimeError("row 3 is 17.25"), r"the engine failed \(RuntimeError\)"),
        (ModuleNotFoundError("No module named 'spu'", name="spu"), "spu is not installed here; install sottovoce"),
        (MemoryError("row 3 is 17.25"), "not enough memory"),
    ],
)
def test_what_a_library_says_does_not_cross(error, why):
    """An engine's library may quote anything in its errors: their kind alone is told."""
    told = process._public(error)
    assert re.search(why, told)
    assert "17" not in told
