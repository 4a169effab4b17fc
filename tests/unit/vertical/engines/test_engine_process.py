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

from sottovoce.vertical.engines import child, process
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
                self.commands.append(command)
                answer(self._theirs, command, arrays)
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
    engines = []

    def make(answer, timeout=5.0):
        def served(end, command, arrays):
            send(end, {}) if "kind" in command else answer(end, command, arrays)

        monkeypatch.setattr(process, "_Child", lambda: _Child(served))
        engine = EngineProcess("spu", 1, ["h:1", "h:2", "h:3"], timeout=timeout)
        engine.start()
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


def _well(end, command, arrays):
    send(end, {}, [np.arange(3)] if command["do"] == "reveal" else ())


def test_commands_reach_the_child(begun):
    engine = begun(_well)
    assert (engine.rank, engine.n_parties) == (1, 3)
    engine.put("a", 1, (2,), np.array([1, 2]))
    engine.put("b", 0, (2,), None)
    engine.run(Add(), ["a", "b"], ["c"])
    assert engine.reveal("c").tolist() == [0, 1, 2]
    engine.drop("a", "b")
    task, put, other, run, reveal, drop = engine._child.commands
    assert task["addresses"] == ["h:1", "h:2", "h:3"]
    assert (put["name"], put["shapes"]) == ("a", [[2]])
    assert other["shapes"] == []
    assert (run["inputs"], run["outputs"]) == (["a", "b"], ["c"])
    assert (reveal["name"], drop["names"]) == ("c", ["a", "b"])


def test_an_error_of_the_child_ends_it(begun):
    engine = begun(lambda end, command, arrays: send(end, {"error": "a partner is late"}))
    with pytest.raises(EngineError, match="a partner is late"):
        engine.drop("a")
    assert engine._child.ended
    with pytest.raises(EngineError, match="is over"):
        engine.drop("a")


def test_a_child_that_does_not_answer_in_time_is_ended(begun):
    engine = begun(lambda end, command, arrays: None, timeout=0.3)
    before = time.monotonic()
    with pytest.raises(EngineError, match=r"longer than 0\.3 s"):
        engine.drop("a")
    assert time.monotonic() - before < 2
    assert engine._child.ended


def test_a_child_that_takes_no_more_numbers_is_ended(begun):
    """A large table that the other end does not read: the time counts for sending, too."""
    engine = begun(lambda end, command, arrays: time.sleep(1.5), timeout=0.4)
    send(engine._child.line, {"do": "nothing"})
    with pytest.raises(EngineError, match=r"longer than 0\.4 s"):
        engine.put("a", 1, (1 << 20,), np.zeros(1 << 20, np.int64))


def test_a_child_that_is_gone_is_told(begun):
    engine = begun(lambda end, command, arrays: end.close())
    with pytest.raises(EngineError, match="the engine's process ended"):
        engine.drop("a")


def test_an_answer_that_is_none_is_the_end(begun):
    engine = begun(lambda end, command, arrays: end.send_bytes(b"no"))
    with pytest.raises(EngineError, match="the engine's process ended"):
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
    engine = begun(lambda end, command, arrays: None, timeout=30)
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


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (2, 3, 4)])
def test_frames_carry_any_shape(shape):
    mine, theirs = Pipe()
    with mine, theirs:
        send(mine, {"do": "x"}, [np.ones(shape, np.int64), np.arange(3)])
        header, (first, second) = receive(theirs)
        assert header["do"] == "x"
        assert first.shape == shape
        assert second.tolist() == [0, 1, 2]


def test_a_header_that_is_too_long_is_refused():
    mine, theirs = Pipe()
    os.write(mine.fileno(), struct.pack("!i", process._HEADER + 1))  # as a connection writes a length
    with mine, theirs, pytest.raises(OSError, match="bad message length"):
        receive(theirs)


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
    told = child._public(error)
    assert re.search(why, told)
    assert "17" not in told
