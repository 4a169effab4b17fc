"""Workers as processes of this machine that are killed, hung and repeated at random, behind the pool of a cluster.

No engine is in between: a keeper is a forked process at the end of a pipe. So a thousand deaths take minutes, and calls
can be lost, repeated and answered late at will. Linux only: whoever outlives its driver is ended by the kernel.
"""

import ctypes
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import numpy as np

from sottovoce.cluster.keeper import Answer, Keeper
from sottovoce.cluster.pool import Call, Lost, Pool, Worker

_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Rates(NamedTuple):
    """How likely a keeper meets each fault in one call."""

    killed: float = 0.0  # SIGKILL at a random moment of the call
    deaf: float = 0.0  # its answer is lost on the way, and so it is held to be lost
    hung: float = 0.0  # SIGSTOP before the call; held to be lost; later it goes on, does it and answers
    twice: float = 0.0  # an operation is delivered twice, at once
    late: float = 0.0  # the operation before is delivered once more, after this call


class Faults:
    """Which faults are done, and how many were."""

    def __init__(self, rates: Rates, seed: int) -> None:
        self.rates = rates
        self._rng = np.random.default_rng(seed)
        self.counts: Counter[str] = Counter()

    def drawn(self) -> set[str]:
        """Return the faults of one call of one keeper."""
        return {name for name, rate in self.rates._asdict().items() if self._rng.random() < rate}

    def moment(self, longest: float) -> float:
        return float(self._rng.random() * longest)

    def note(self, what: str) -> None:
        self.counts[what] += 1


class _Process(NamedTuple):
    pid: int
    pipe: Connection


class KilledPool(Pool):
    """Keepers as processes.

    Parameters
    ----------
    n_workers : int
    faults : Faults
    """

    def __init__(self, n_workers: int, faults: Faults) -> None:
        self.faults = faults
        self._names = [f"worker-{i}" for i in range(n_workers)]
        self._keepers: dict[str, _Process] = {}
        self._leavers: list[_Process] = []  # held to be lost, and still at work
        self._last: dict[str, Call] = {}
        self._late: set[int] = set()  # what was repeated late
        self._n_started = self._n_sent = 0
        self._usual = 0.01

    def workers(self) -> list[Worker]:
        """Return all: where a keeper was killed, another one can be started."""
        return [Worker(name, 1) for name in self._names]

    def start(self, worker: str) -> str:
        """Fork a keeper."""
        self._n_started += 1
        name = f"{worker}/{self._n_started}"
        here, there = Pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
            if os.getppid() == parent:
                for process in (*self._keepers.values(), *self._leavers):
                    process.pipe.close()
                here.close()
                _serve(there)
            os._exit(0)
        there.close()
        self._keepers[name] = _Process(pid, here)
        return name

    def call(self, calls: Mapping[str, Call]) -> dict[str, Answer | Lost]:
        """Call several keepers at once, and do to them what is drawn."""
        begun, deadlines, numbers, answers = time.monotonic(), dict[str, float](), dict[str, int](), {}
        drawn = {keeper: self.faults.drawn() for keeper in calls}
        for keeper, call in calls.items():
            process, faults = self._keepers[keeper], drawn[keeper]
            if "hung" in faults:
                self.faults.note("hung")
                os.kill(process.pid, signal.SIGSTOP)
            numbers[keeper] = self._send(keeper, call)
            if "twice" in faults and call.method == "do":
                self.faults.note("twice")
                self._send(keeper, call)
            if "late" in faults and self._last.get(keeper, call).method == "do":
                self.faults.note("late")
                self._late.add(self._send(keeper, self._last[keeper]))
            self._last[keeper] = call
            if "hung" in faults:
                answers[keeper] = Lost("it hangs")
            elif "killed" in faults:
                deadlines[keeper] = begun + self.faults.moment(2.0 * self._usual)
        while open_ := [keeper for keeper in calls if keeper not in answers]:
            due = min((deadlines[keeper] for keeper in open_ if keeper in deadlines), default=begun + 60.0)
            ready = wait([self._keepers[keeper].pipe for keeper in open_], max(0.0, due - time.monotonic()))
            for keeper in open_:
                if keeper in deadlines and time.monotonic() >= deadlines[keeper]:
                    self.faults.note("killed")
                    os.kill(self._keepers[keeper].pid, signal.SIGKILL)
                    del deadlines[keeper]
                if self._keepers[keeper].pipe in ready:
                    answer = self._heard(keeper, numbers[keeper])
                    if answer is not None:
                        answers[keeper] = answer
            assert time.monotonic() < begun + 60.0, "a keeper does not answer"
        self._usual = 0.9 * self._usual + 0.1 * (time.monotonic() - begun)
        for keeper, faults in drawn.items():
            if keeper in deadlines and isinstance(answers[keeper], Answer):  # after its answer
                self.faults.note("killed")
                os.kill(self._keepers[keeper].pid, signal.SIGKILL)
            if "deaf" in faults and isinstance(answers[keeper], Answer):
                self.faults.note("deaf")
                answers[keeper] = Lost("its answer was lost")
        return {keeper: answers[keeper] for keeper in calls}

    def forget(self, keeper: str) -> None:
        """Let go of a keeper; one that hangs goes on at once, and what it says is heard by nobody."""
        process = self._keepers.pop(keeper)
        self._last.pop(keeper, None)
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        self._leavers.append(process)
        while len(self._leavers) > 4:
            _end(self._leavers.pop(0))

    def close(self) -> None:
        """End all processes."""
        for process in (*self._keepers.values(), *self._leavers):
            _end(process)
        self._keepers, self._leavers = {}, []

    def _send(self, keeper: str, call: Call) -> int:
        self._n_sent += 1
        with suppress(OSError):
            self._keepers[keeper].pipe.send((self._n_sent, call))
        return self._n_sent

    def _heard(self, keeper: str, number: int) -> Answer | Lost | None:
        """Return what came, if it is the answer to this call."""
        try:
            which, answer = self._keepers[keeper].pipe.recv()
        except (OSError, EOFError) as error:
            return Lost(f"it is gone: {error!r}")
        if which in self._late:
            self._late.remove(which)
            refused = isinstance(answer, Exception) and "out of order" in str(answer)
            assert refused or isinstance(answer, Answer), answer
            self.faults.note("refused" if refused else "given again")
        if which != number:
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(pipe: Connection) -> None:
    keeper, lock = Keeper(1), threading.Lock()

    def one(number: int, call: Call) -> None:
        try:
            answer: Any = getattr(keeper, call.method)(*call.arguments)
        except Exception as error:
            answer = error
        with lock:
            try:
                pipe.send((number, answer))
            except OSError:
                os._exit(0)

    try:
        while True:
            threading.Thread(target=one, args=pipe.recv()).start()  # an engine may run two calls at once
    except (EOFError, OSError):
        os._exit(0)


def _end(process: _Process) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    os.waitpid(process.pid, 0)
    process.pipe.close()
