"""Joint training in a simulation: engines as processes of this machine, helpers, and what they did."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sottovoce.cli._echo import echo
from sottovoce.cli._output import print_columns
from sottovoce.exceptions import ParameterError
from sottovoce.vertical import ComputeSite, Helper, Party
from sottovoce.vertical.engines.site import ENGINES, IN_PROCESS, available_engines
from sottovoce.vertical.protocols.secure.plan import SecureBallPlan, SecurePlan

_WORKER: Final = logging.getLogger("sottovoce.vertical.protocols.secure.worker")


class JointTrial:
    """One joint training on one machine.

    With an engine that is installed each party computes in a process of its own, over loopback; else, and with
    ``engine="in-process"``, in this one.
    """

    def __init__(self, helpers: Sequence[str], estimator: Any) -> None:
        self._helpers = helpers
        self._estimator = estimator
        engine = getattr(estimator, "engine", IN_PROCESS)
        if engine in ENGINES and engine not in available_engines():
            raise ParameterError(f"--engine {engine}: it is not installed. pip install 'sottovoce[secure]'.")
        joint = {getattr(estimator, "mechanism", ""), getattr(estimator, "aggregation", "")} & {"secure", "auto"}
        self._is_apart = bool(joint) and engine != IN_PROCESS
        self._log = _Log()
        self._seconds = 0.0

    def joined(self, parties: Sequence[Party]) -> list[Party]:
        """Return the parties, each with a place to compute at, and the helpers."""
        enough = "spu" in available_engines() or len(parties) + len(self._helpers) > 2
        site = ComputeSite() if self._is_apart and enough else None
        for party in parties:
            party.computing = site
        return [*parties, *(Helper(name, computing=site) for name in self._helpers)]

    @contextmanager
    def shown(self) -> Iterator[None]:
        level = _WORKER.level
        _WORKER.addHandler(self._log)
        _WORKER.setLevel(logging.INFO)
        begun = time.monotonic()
        try:
            yield
        finally:
            self._seconds = time.monotonic() - begun
            _WORKER.removeHandler(self._log)
            _WORKER.setLevel(level)

    def print(self) -> None:
        if not isinstance(self._estimator.plan_, (SecurePlan, SecureBallPlan)):
            return
        plan = self._estimator.plan_.joint
        if not self._log.processes:
            echo(f"Computed in this process, in {self._seconds:.1f} s: nothing is hidden from whoever runs it.")
            return
        print_columns(
            f"Engine {plan.engine}, {plan.protocol}: a process a party, {self._seconds:.1f} s in all",
            ["party", "process", "CPU seconds", "bytes written", "peak memory, MB"],
            [
                (name, str(self._log.processes.get(name, "-")), *self._log.used.get(name, ("-", "-", "-")))
                for name in plan.ranks
            ],
        )


class _Log(logging.Handler):
    """Takes down which process is whose, and what it has used when it ends."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.processes: dict[str, int] = {}
        self.used: dict[str, tuple[str, str, str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        party, pid = getattr(record, "party", None), getattr(record, "pid", None)
        if party is None or pid is None:
            return
        if party not in self.processes:
            echo(f"note: process {pid} computes for {party}", err=True)
        self.processes[party] = pid
        self.used[party] = _used(pid)


def _used(pid: int) -> tuple[str, str, str]:
    """Return CPU seconds, bytes written and peak memory of a process, where the system tells."""
    try:
        folder = Path("/proc") / str(pid)
        ticks = [int(each) for each in (folder / "stat").read_text().rsplit(")", 1)[1].split()[11:13]]
        written = next(line.split()[1] for line in (folder / "io").read_text().splitlines() if line.startswith("wchar"))
        peak = next(
            line.split()[1] for line in (folder / "status").read_text().splitlines() if line.startswith("VmHWM")
        )
    except (OSError, ValueError, IndexError, StopIteration):
        return "-", "-", "-"
    return f"{sum(ticks) / 100:.1f}", f"{int(written):,}", f"{int(peak) / 1024:,.0f}"
