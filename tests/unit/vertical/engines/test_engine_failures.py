"""Real engine processes that die, stall, are strangers, or do something else: an error in time, nothing left behind."""

import contextlib
import gc
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.process import EngineProcess, _Child
from sottovoce.vertical.engines.programs import CrossProduct, Mask
from support.joint import both, environment, free_addresses, processes_of
from support.session_certificates import session_certificates

pytest.importorskip("spu", reason="SPU has a wheel for Python 3.11 on Linux x86-64 alone")

pytestmark = pytest.mark.slow

# a loaded machine starts three processes in this time; commands after the start get less
START, COMMAND = 60.0, 4.0


@contextlib.contextmanager
def _session(n_parties=3, **others):
    engines = processes_of("spu", n_parties, timeout=START, **others)
    try:
        both(engines, lambda engine: engine.start())
        for engine in engines:
            engine._timeout = COMMAND
        del engine
        yield engines
    finally:
        for engine in engines:
            engine.close()


def _failure(engine, work):
    """Return the error's words and the seconds that it took."""
    began = time.monotonic()
    with pytest.raises(EngineError) as caught:
        work(engine)
    return str(caught.value), time.monotonic() - began


def _nothing_left(pid):
    """Whether a process is gone, and no zombie of this one."""
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.1)
    return False


def test_garbage_at_the_port_harms_nobody():
    """Bytes of a stranger at a party's port, before and while it computes."""
    with _session() as engines:
        addresses = engines[0]._task["addresses"]
        stop = threading.Event()

        def garbage():
            numbers = np.random.default_rng(0)
            while not stop.is_set():
                for address in addresses:
                    host, port = address.split(":")
                    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1) as end:
                        end.sendall(numbers.bytes(1 << 14))
                        end.sendall(b"PRPC" + numbers.bytes(1000))
                stop.wait(0.02)

        thrower = threading.Thread(target=garbage)
        thrower.start()

        def work(engine):
            rows = np.full((50, 3), 2)
            for owner, name in enumerate(("a", "b")):
                engine.put(name, owner, rows.shape, rows if engine.rank == owner else None)
            engine.put("s", 2, (3, 3), np.zeros((3, 3), np.int64) if engine.rank == 2 else None)
            for _ in range(20):
                engine.run(CrossProduct(), ["s", "a", "b"], ["s"])
            engine.run(Mask(), ["s"], ["m"])
            return engine.reveal("m")

        try:
            opened = both(engines, work)
        finally:
            stop.set()
            thrower.join()
        assert all(np.array_equal(each, np.full((3, 3), 20 * 50 * 4)) for each in opened)


@pytest.mark.parametrize("what", ["tells", "lies"])
def test_a_party_that_runs_another_program_gets_nothing(what):
    """If it says so, all end before anything runs; if it lies, what the others send it is not the answer it wants."""
    addresses = free_addresses(3)
    engines = [EngineProcess("spu", rank, addresses, timeout=START) for rank in (0, 1)]
    command = [sys.executable, "-m", "support.rogue_engine", "2", what, *addresses]
    rogue = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())

    def work(engine):
        engine.start()
        engine._timeout = COMMAND
        rows = np.full((50, 4), 3 + engine.rank)
        for owner in (0, 1):
            engine.put(f"x{owner}", owner, rows.shape, rows if engine.rank == owner else None)
        engine.run(Mask(), ["x0", "x1"], ["y"])
        return engine.reveal("y")

    try:
        ended = both(engines, lambda engine: _failure(engine, work))
        if what == "tells":
            assert all("party 2 has been given other commands" in why for why, _ in ended), ended
    finally:
        rogue.kill()
        rogue.wait()
        for engine in engines:
            engine.close()


def test_partners_with_the_session_s_certificates_compute(tmp_path):
    pytest.importorskip("cryptography")
    with _session(tls=session_certificates(tmp_path, 3)):
        pass


@pytest.mark.parametrize("who", ["another certificate", "no TLS", "trusts another"])
def test_a_stranger_gets_nowhere(tmp_path, who):
    pytest.importorskip("cryptography")
    tls, other = (session_certificates(tmp_path / name, 3) for name in ("these", "others"))
    if who == "trusts another":
        shutil.copy(other[2] / "partners.pem", tls[2])
    else:
        shutil.copy(tls[2] / "partners.pem", other[2])
        tls[2] = None if who == "no TLS" else other[2]
    engines = processes_of("spu", 3, timeout=8.0, tls=tls)
    for why, seconds in both(engines, lambda engine: _failure(engine, lambda each: each.start())):
        assert "took longer than 8 s" in why or "a partner is gone" in why
        assert seconds < 11
    assert all(_nothing_left(engine.pid) for engine in engines)


def test_an_engine_that_nobody_uses_any_more_ends_with_its_folder():
    with _session() as engines:
        pids = [engine.pid for engine in engines]
        folders = [engine._child._folder for engine in engines]
        assert all(folder.stat().st_mode & 0o777 == 0o700 for folder in folders)
        engines.clear()
        gc.collect()
        assert all(_nothing_left(pid) for pid in pids)
        assert not any(folder.exists() for folder in folders)


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_the_child_does_not_outlive_its_parent(how):
    """Not even one that ends without a word, while the engine waits for partners that never come."""
    script = (
        "import os, signal, sys, threading, time\n"
        "from sottovoce.vertical.engines.process import EngineProcess\n"
        f"engine = EngineProcess('spu', 0, {free_addresses(3)!r}, timeout=60)\n"
        "def start():\n"
        "    try:\n"
        "        engine.start()\n"
        "    except Exception:\n"
        "        pass\n"
        "threading.Thread(target=start, daemon=True).start()\n"
        "while engine.pid is None:\n"
        "    time.sleep(.05)\n"
        "print(engine.pid, engine._child._folder, flush=True)\n"
        "time.sleep(3)\n"
        f"{'sys.exit()' if how == 'exit' else 'os.kill(os.getpid(), signal.SIGKILL)'}\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    pid, folder = done.stdout.split()
    assert _nothing_left(int(pid))
    if how == "exit":
        assert not Path(folder).exists()
    elif Path(folder).exists():
        Path(folder).rmdir()


def test_threads_that_end_a_child_at_once_close_its_line_once():
    """A number that is closed twice may be another file's by then: exit, and a thread whose child exit has killed."""
    for _ in range(50):
        child, gate = _Child(), threading.Barrier(3)

        def leave(child=child, gate=gate):
            gate.wait(timeout=10)
            return child.leave()

        with ThreadPoolExecutor(3) as threads:
            assert list(threads.map(lambda go: go(), [leave] * 3)) == [None] * 3


def test_nothing_of_the_engine_s_talk_is_shown(capfd):
    with _session():
        pass
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err == ""


def test_the_child_is_given_little_of_the_environment(monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_SECRET", "hunter2")
    with _session(2) as engines:
        given = Path(f"/proc/{engines[0].pid}/environ").read_bytes()
        assert b"hunter2" not in given
        assert b"JAX_PLATFORMS=cpu" in given
        assert tempfile.gettempdir().encode() in given
