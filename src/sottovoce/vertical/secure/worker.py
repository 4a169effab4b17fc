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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.vertical.engines.engine import Engine, EngineError, Whole
from sottovoce.vertical.engines.programs import CrossProduct, OverRows, Program
from sottovoce.vertical.engines.seat import Seat

if TYPE_CHECKING:
    from sottovoce.vertical.secure.agreed_plan import AgreedPlan
    from sottovoce.vertical.secure.whole_rows import SecondMoments

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

    def __init__(self, plan: "AgreedPlan", name: str, seat: Seat, patience: float) -> None:
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


# ------------------------------------------------------------------ what it does, command by command


class Script:
    """One party as the holder of its rows inside the computation: asked for a step, it opens what the plan says.

    ``rank``: the party's place among all that compute.
    ``engine``: started.
    ``table``: the party's columns; None for a helper.
    ``labels``: of the label holder; None for all others.
    """

    def __init__(self, plan: "AgreedPlan", name: str, engine: Engine, table: Any, labels: Vector | None) -> None:
        self.plan, self.name, self.engine, self.rank = plan, name, engine, plan.ranks.index(name)
        self.data_parties = range(len(plan.blocks))
        self.holder = plan.holder
        self.rows = None if table is None else plan.rows(name, table)
        self.labels = None if labels is None else plan.whole_labels(labels)

    def margins(self, points: Mapping[str, Vector]) -> Whole | None:
        """Return this party's margins at its part of the released weights; None for a helper."""
        return None if self.rows is None else self.plan.margins(self.name, self.rows, points[self.name])

    def open(self, step: int, points: Mapping[str, Vector], shares: Sequence[Whole]) -> Vector:
        """Do the next step, and return what it opens, one number after the other; step 0 shares the data first.

        ``points``: the weights to ask the rows at, by party; step 0 has none.
        ``shares``: this party's noise: `AgreedPlan.shares` of this step.
        """
        plan, sums = self.plan, list[str]()
        if step == 0:
            self._share()
        program = plan.program(step)
        if program is not None:
            # the first sums, where there are any before anything was opened, are for the model 0
            sums = self.add_up(program, self.margins(points) if step else np.zeros(plan.n_samples, np.int64))
        found = []
        for opening, share in zip(plan.openings(step), shares, strict=True):
            found.append(self.opened(opening.program, list(opening.names), share).astype(np.float64).ravel())
            sums = [name for name in sums if name not in opening.names]
        if sums:
            self.engine.drop(*sums)
        return np.concatenate(found)

    def add_up(self, program: OverRows, margins: Whole | None) -> list[str]:
        """Run a program on all pieces at a point, and return its sums: one for each party's columns, and the total.

        ``margins``, of shape (n_samples,) or None: this party's; None for a helper.
        """
        plan, engine = self.plan, self.engine
        sums = [*(f"sums{m}" for m in self.data_parties), "total"]
        for name, width in zip(sums, [*(block.n_features for block in plan.blocks), 1], strict=True):
            self.put_zeros(name, (width,))
        for p, place in enumerate(self.places()):
            z, tables = [f"z{m}.{p}" for m in self.data_parties], [f"rows{m}.{p}" for m in self.data_parties]
            for m, name in enumerate(z):
                self.put_piece(name, m, margins, place)
            rows = [f"a.{p}"] if program.n_kept else []
            engine.run(program, [*rows, f"y.{p}", *sums, *z, *tables], [*rows, *sums])
            engine.drop(*z)
        return sums

    def put_zeros(self, name: str, shape: tuple[int, ...]) -> None:
        """Make a variable of zeros, which all know."""
        self.engine.put(name, 0, shape, np.zeros(shape, np.int64) if self.rank == 0 else None)

    def put_piece(self, name: str, owner: int, whole: Whole | None, place: slice, *width: int) -> None:
        """Share a piece of what ``owner`` has of all rows."""
        mine = self.piece(whole, place) if self.rank == owner else None
        self.engine.put(name, owner, (self.plan.piece, *width), mine)

    def opened(self, program: Program, names: list[str], share: Whole) -> Whole:
        """Open variables as the program says, with the noise of all parties: nothing here is opened without.

        ``share``: this party's noise; that of the others has its shape.
        """
        noises = [f"noise{rank}" for rank in range(len(self.plan.ranks))]
        for rank, name in enumerate(noises):
            self.engine.put(name, rank, share.shape, share if rank == self.rank else None)
        self.engine.run(program, [*names, *noises], ["opened"])
        found = self.engine.reveal("opened")
        self.engine.drop("opened", *names, *noises)
        return found

    def places(self) -> Iterator[slice]:
        """Return the pieces of the rows, the last one filled up."""
        plan = self.plan
        return (slice(low, low + plan.piece) for low in range(0, plan.n_pieces * plan.piece, plan.piece))

    def piece(self, whole: Whole | None, place: slice) -> Whole:
        """Return a piece of rows, filled up with zeros."""
        assert whole is not None
        piece = whole[place]
        if len(piece) == self.plan.piece:
            return np.ascontiguousarray(piece)
        return np.concatenate([piece, np.zeros((self.plan.piece - len(piece), *whole.shape[1:]), np.int64)])

    # ------------------------------------------------------------------ step 0

    def _share(self) -> None:
        """Share what the steps run on, and compute what is opened of pairs of columns."""
        plan, moments = self.plan, self.plan.moments
        if moments is not None:
            self._add_moments(moments)
            return
        for p, place in enumerate(self.places()):
            for m, block in enumerate(plan.blocks):
                self.put_piece(f"rows{m}.{p}", m, self.rows, place, block.n_features)
            self.put_piece(f"y.{p}", self.holder, self.labels, place)

    def _add_moments(self, moments: "SecondMoments") -> None:
        plan, engine, with_labels = self.plan, self.engine, moments.with_labels
        own, pairs = moments.openings[: len(plan.blocks)], moments.openings[len(plan.blocks) :]
        for m, opening in enumerate(own):
            mine: Whole | None = None
            if self.rank == m:  # added up over pieces: no second copy of the table is made
                mine = np.sum([moments.own(self._columns(place, with_labels)) for place in self.places()], axis=0)
            engine.put(opening.names[0], m, opening.scales.shape, mine)
        for opening in pairs:
            self.put_zeros(opening.names[0], opening.scales.shape)
        # piece by piece: where no passes follow, the engine never holds more than one
        for p, place in enumerate(self.places()):
            # the label is a column of its holder's where second moments have it
            wide = [f"rows{m}.{p}" for m in self.data_parties]
            if with_labels:
                wide[self.holder] = f"rows and label.{p}"
            columns = None if self.rows is None else self._columns(place, with_labels)
            for m, width in enumerate(moments.widths):
                engine.put(wide[m], m, (plan.piece, width), columns if self.rank == m else None)
            for (a, b), opening in zip(moments.pairs, pairs, strict=True):
                engine.run(CrossProduct(), [*opening.names, wide[a], wide[b]], [*opening.names])
            if not plan.n_steps:
                engine.drop(*wide)
                continue
            if with_labels:
                engine.drop(wide[self.holder])
                width = plan.blocks[self.holder].n_features
                self.put_piece(f"rows{self.holder}.{p}", self.holder, self.rows, place, width)
            self.put_piece(f"y.{p}", self.holder, self.labels, place)
            program = plan.program(1)
            if program is not None and program.n_kept:
                self.put_zeros(f"a.{p}", (plan.piece,))

    def _columns(self, place: slice, with_labels: bool) -> Whole:
        """Return what second moments are made of, in one piece: this party's columns, the label's where it is one."""
        piece = self.piece(self.rows, place)
        if self.labels is None or not with_labels:
            return piece
        return np.column_stack([piece, self.piece(self.labels, place)])
