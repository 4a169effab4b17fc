"""A party's end of one joint training: a thread that computes with the partners while the party answers others.

What goes on in the background is begun under the party's lock, after the charge, with a noise stream that was opened
there for it alone. Every step follows from the plan and from what was opened: nobody orders one. The thread ends with
the session, when a step fails, and when nobody asks for anything any more.
"""

import logging
import queue
import re
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.vertical.engines.engine import Engine, EngineError
from sottovoce.vertical.engines.seat import Seat
from sottovoce.vertical.protocols.secure.agreed_plan import AgreedPlan

_LOG: Final = logging.getLogger(__name__)
_FAILED: Final = "the joint computation failed there; the party's own log says more"


def named(text: str, names: Sequence[str]) -> str:
    """Return an engine's words about "party 1" with the names of parties, which are counted from 0."""

    def name(found: re.Match[str]) -> str:
        rank = int(found[1])
        return f"party {names[rank]!r}" if rank < len(names) else found[0]

    return re.sub(r"\bparty (\d{1,3})\b", name, text)


class JointWorker:
    """One joint training at one party, from the invitation to its end.

    ``plan``: public; nothing that comes later changes it.
    ``name``: the party's own.
    ``patience``: seconds after which it ends if nobody asks for anything.
    ``state``: {"invited", "connecting", "connected", "computing", "opened", "kept", "ended"}.
    ``reason``: why it ended, in public words.
    ``opened``: what each step opened so far.
    """

    def __init__(self, plan: AgreedPlan, name: str, seat: Seat, patience: float) -> None:
        self.plan, self.name = plan, name
        self.state, self.reason = "invited", ""
        self._seat = seat
        self._engine: Engine | None = None
        self.opened: list[Vector] = []
        self._fitting = plan.fitting()  # nobody tells a party what follows from the opened sums
        self._patience = patience
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._change = threading.Condition()
        # a daemon: a party's process need not wait for partners that do not answer
        self._thread = threading.Thread(target=self._work, name="sottovoce joint training", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether it holds anything but its memory."""
        return self.state != "ended"

    def connect(self, cards: list[str]) -> None:
        """Check the cards of all, and meet them in the background.

        Raises `EngineError` if a card is not what it should be: nobody was met then.
        """
        engine = self._seat.sit(cards, list(self.plan.ranks))
        self._engine = engine

        def task() -> None:
            engine.start()
            self._tell("has met its partners")

        self._begin("connecting", "connected", task)

    def begin(self, table: Any, labels: Vector | None, noise: np.random.Generator) -> None:
        """Share data and go through all steps, in the background; ``table`` is None for a helper."""
        engine, plan = self._engine, self.plan
        assert engine is not None

        def task() -> None:
            script = plan.script(self.name, engine, table, labels)
            points: dict[str, Vector] | None = {}
            while points is not None and self.is_open:
                step = len(self.opened)
                opened = script.open(step, points, plan.shares(step, self.name, noise))
                points = self._fitting.take(opened)
                self.opened.append(opened)

        self._begin("computing", "opened", task)

    def wait(self, seconds: float) -> bool:
        """Wait for what is under way, at most for so long; tell whether nothing is under way any more."""
        with self._change:
            return self._change.wait_for(lambda: self.state not in ("connecting", "computing"), seconds)

    @property
    def weights(self) -> tuple[Vector, float]:
        return self._fitting.weights[self.name]

    def end(self, reason: str) -> None:
        """End it: partners that wait for it learn that it has ended."""
        with self._change:
            if self.state == "ended":
                return
            self.state, self.reason = "ended", reason
            self._change.notify_all()
        self._tasks.put(None)
        if self._engine is not None:
            self._tell("ends")
            self._engine.close()
        self._seat.close()

    def close(self) -> None:
        self.end("the joint training was ended")

    def _tell(self, what: str) -> None:
        """Log which process computes for this party: for its owner, who may look how it does."""
        pid = getattr(self._engine, "pid", None)
        if pid is not None:
            told = {"party": self.name, "pid": pid, "what": what}
            _LOG.info("the engine of party %r, process %d, %s", self.name, pid, what, extra=told)

    # ------------------------------------------------------------------ in the background

    def _begin(self, state: str, after: str, task: Callable[[], None]) -> None:
        with self._change:
            if self.state == "ended":
                return
            self.state, self._after = state, after
        self._tasks.put(task)

    def _work(self) -> None:
        while True:
            try:
                task = self._tasks.get(timeout=self._patience)
            except queue.Empty:
                self.end(f"nobody asked for anything for {self._patience:g} seconds, so the joint training was ended")
                return
            if task is None:
                return
            try:
                task()
            except EngineError as error:
                self.end(named(str(error), self.plan.ranks))
                return
            except Exception as error:  # its message could quote a row
                places = "".join(traceback.format_tb(error.__traceback__))
                _LOG.error("a joint training of party %r failed with %s:\n%s", self.name, type(error).__name__, places)
                self.end(_FAILED)
                return
            with self._change:
                if self.state == "ended":
                    return
                self.state = self._after
                self._change.notify_all()
            del task
