"""Joint training in a simulation: engines as processes of this machine, and helpers."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sottovoce.cli._echo import echo
from sottovoce.exceptions import ParameterError
from sottovoce.vertical import ComputeSite, Helper, Party
from sottovoce.vertical.engines.site import ENGINES, IN_PROCESS, available_engines
from sottovoce.vertical.protocols.secure.plan import SecureBallPlan, SecurePlan

_WORKER: Final = logging.getLogger("sottovoce.vertical.protocols.secure.worker")


def joined(parties: Sequence[Party], helpers: Sequence[str], estimator: Any) -> list[Party]:
    """Return the parties, each with a place to compute at, and the helpers.

    With an engine that is installed each party computes in a process of its own, over loopback; else, and with
    ``engine="in-process"``, in this one.
    """
    engine = getattr(estimator, "engine", IN_PROCESS)
    if engine in ENGINES and engine not in available_engines():
        raise ParameterError(f"--engine {engine}: it is not installed. pip install 'sottovoce[secure]'.")
    joint = {getattr(estimator, "mechanism", ""), getattr(estimator, "aggregation", "")} & {"secure", "auto"}
    enough = "spu" in available_engines() or len(parties) + len(helpers) > 2
    site = ComputeSite() if joint and engine != IN_PROCESS and enough else None
    for party in parties:
        party.computing = site
    return [*parties, *(Helper(name, computing=site) for name in helpers)]


@contextmanager
def engines_shown() -> Iterator["Engines"]:
    """Say which process computes for whom, as soon as it does."""
    level, shown = _WORKER.level, Engines()
    _WORKER.addHandler(shown)
    _WORKER.setLevel(logging.INFO)
    try:
        yield shown
    finally:
        shown.seconds = time.monotonic() - shown.begun
        _WORKER.removeHandler(shown)
        _WORKER.setLevel(level)


class Engines(logging.Handler):
    """Takes down which process is whose."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.processes: dict[str, int] = {}
        self.begun, self.seconds = time.monotonic(), 0.0

    def emit(self, record: logging.LogRecord) -> None:
        party, pid = getattr(record, "party", None), getattr(record, "pid", None)
        if party is not None and pid is not None and party not in self.processes:
            echo(f"note: process {pid} computes for {party}", err=True)
            self.processes[party] = pid

    def print(self, plan: Any) -> None:
        """Say what computed a joint training, where it was one."""
        if not isinstance(plan, (SecurePlan, SecureBallPlan)):
            return
        if self.processes:
            echo(f"Engine {plan.joint.engine}, {plan.joint.protocol}: a process a party, {self.seconds:.1f} s in all.")
        else:
            echo(f"Computed in this process, in {self.seconds:.1f} s: nothing is hidden from whoever runs it.")
