"""Real processes of SPU among strangers, and what they leave behind; how sessions end: `test_joint_training.py`."""

import contextlib
import gc
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.process import _Child
from sottovoce.vertical.engines.programs import CrossProduct, Mask
from support.joint import both, free_addresses, processes_of
from support.session_certificates import session_certificates
from support.waiting import until

pytest.importorskip("cryptography")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("spu") is None, reason="SPU has a wheel for Python 3.11 on Linux x86-64 alone"),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return [session_certificates(tmp_path_factory.mktemp(name), 3) for name in ("these", "others")]


def gone(pid):
    """Wait until a process is gone, and no zombie of this one."""
    until(lambda: not Path(f"/proc/{pid}").exists(), 5, f"the end of process {pid}")


def test_partners_with_certificates_compute_among_strangers_who_send_garbage(folders, capfd, monkeypatch):
    """Nothing of the engine's talk is shown, little of the environment is given to it, and nothing stays of it."""
    monkeypatch.setenv("SOTTOVOCE_SECRET", "hunter2")
    engines = processes_of("spu", 3, tls=folders[0])
    try:
        both(engines, lambda engine: engine.start())
        addresses, stop = engines[0]._task["addresses"], threading.Event()

        def garbage():
            numbers = np.random.default_rng(0)
            while not stop.wait(0.02):
                for address in addresses:
                    host, port = address.split(":")
                    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1) as end:
                        end.sendall(numbers.bytes(1 << 14))
                        end.sendall(b"PRPC" + numbers.bytes(1000))

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
        pids, folders_of = [engine.pid for engine in engines], [engine._child._folder for engine in engines]
        assert all(folder.stat().st_mode & 0o777 == 0o700 for folder in folders_of)
        given = Path(f"/proc/{pids[0]}/environ").read_bytes()
        assert b"hunter2" not in given and b"JAX_PLATFORMS=cpu" in given and tempfile.gettempdir().encode() in given
    finally:
        engines.clear()  # nobody uses them any more
        gc.collect()
    for pid in pids:
        gone(pid)
    assert not any(folder.exists() for folder in folders_of)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("who", ["another certificate", "no TLS", "trusts another"])
def test_a_stranger_gets_nowhere(folders, tmp_path, who):
    tls, other = [list(each) for each in folders]
    if who == "no TLS":
        tls[2] = None
    else:
        mixed = shutil.copytree(tls[2] if who == "trusts another" else other[2], tmp_path / "mixed")
        shutil.copy((other if who == "trusts another" else tls)[2] / "partners.pem", mixed)
        tls[2] = mixed
    engines = processes_of("spu", 3, timeout=8.0, tls=tls)

    def start(engine):
        with pytest.raises(EngineError, match=r"took longer than 8 s|a partner is gone"):
            engine.start()

    began = time.monotonic()
    both(engines, start)
    assert time.monotonic() - began < 11
    for engine in engines:
        gone(engine.pid)


@pytest.mark.parametrize("end", ["sys.exit()", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_child_does_not_outlive_its_parent(end):
    """Not even one that ends without a word, while the engine waits for partners that never come."""
    script = (
        "import contextlib, os, signal, sys, threading, time\n"
        "from sottovoce.vertical.engines.process import EngineProcess\n"
        f"engine = EngineProcess('spu', 0, {free_addresses(3)!r}, timeout=60)\n"
        "def start():\n"
        "    with contextlib.suppress(Exception):\n"
        "        engine.start()\n"
        "threading.Thread(target=start, daemon=True).start()\n"
        "while engine.pid is None:\n"
        "    time.sleep(.05)\n"
        "print(engine.pid, engine._child._folder, flush=True)\n"
        f"time.sleep(3)\n{end}\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.returncode) == ("", 0 if "exit" in end else -signal.SIGKILL)
    pid, folder = done.stdout.split()
    gone(int(pid))
    assert Path(folder).exists() == ("kill" in end)
    shutil.rmtree(folder, ignore_errors=True)


def test_threads_that_end_a_child_at_once_close_its_line_once():
    """A number that is closed twice may be another file's by then: exit, and a thread whose child exit has killed."""
    for _ in range(50):
        child, gate = _Child(), threading.Barrier(3)

        def leave(child=child, gate=gate):
            gate.wait(timeout=10)
            return child.leave()

        with ThreadPoolExecutor(3) as threads:
            assert list(threads.map(lambda go: go(), [leave] * 3)) == [None] * 3
