"""What holds partitions in a worker: rows, what is remembered of each, and the number of what was done last."""

import pickle
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from sottovoce.central.data.operation import Operation
from sottovoce.central.data.part import Part
from sottovoce.central.data.streamed import StreamedTable
from sottovoce.central.parallel import Team, team
from sottovoce.cluster.sources import LoadedRows, Source, load
from sottovoce.exceptions import SottovoceError

Places = tuple[int, ...]


class Worker(NamedTuple):
    """A process that may hold partitions."""

    name: str
    threads: int
    memory_limit: int = 0  # bytes; 0 where there is none


class Call(NamedTuple):
    """A method of `Keeper`, and its arguments."""

    method: str
    arguments: tuple[Any, ...]


class Lost(Exception):  # noqa: N818 - it is no error: partitions are rebuilt elsewhere
    """A keeper is gone, or has not answered for so long that it is held to be gone. Its name is never used again."""


@dataclass(frozen=True)
class Answer:
    """What a keeper did: in which session, under which number, on which partitions."""

    session: str  # of the fit; empty for what belongs to none
    number: int  # of the operation
    places: Places  # the partitions that it is about
    # Of an operation: the answers of each run of consecutive partitions, merged, by its first partition. Otherwise what
    # the method says.
    value: Any = None
    # What it failed with at the first partition, in the order of rows, that failed. It is about the data, or a bug:
    # what goes wrong with a worker or on the way is never told in this way.
    error: Exception | None = None
    error_at: int = -1  # that partition


@dataclass
class _Held:
    """One partition."""

    loaded: LoadedRows
    part: Part | None = None
    session: str = ""
    done: int = 0  # operations done in this session: the next one has this number


class Keeper:
    """Some partitions of a table, in one process.

    Operations are numbered by whoever asks. A partition does each once: asked for the next one, it does it and keeps
    the answer; asked for the same once more, it gives the kept answer and touches nothing; anything else is refused.
    So a call may be repeated whenever its answer was lost on the way, and no row is ever counted twice.

    ``threads``: for one visit to the rows.
    ``scratch``: where private folders may be made.
    """

    def __init__(self, threads: int | None = None, scratch: Path | None = None) -> None:
        self._scratch = scratch
        self._held: dict[int, _Held] = {}
        self._kept: dict[Places, Answer] = {}
        self._lock = RLock()  # an engine may run two calls at once
        self._open = ExitStack()  # as long as the process
        self._team: Team = self._open.enter_context(team(threads))

    def load(self, sources: Mapping[int, Source]) -> Answer:
        """Read partitions, and hold them; return the digest of each: a secret like the rows."""
        with self._lock:
            digests: dict[int, str] = {}
            for place, source in sources.items():
                self._drop(place)
                try:
                    loaded = load(source, self._scratch)
                except Exception as error:
                    return Answer("", 0, tuple(sources), None, _portable(error), place)
                self._held[place] = _Held(loaded)
                digests[place] = loaded.digest
            return Answer("", 0, tuple(sources), digests)

    def replay(
        self, session: str, number: int, history: Sequence[Operation[Any]], first_rows: Mapping[int, int]
    ) -> Answer:
        """Begin a session anew on some partitions, and bring them where they are before operation ``number``.

        What is added up on the way is thrown away: nothing is released by it.

        ``number``: of the operation that comes next.
        ``history``: what changed something, in order.
        ``first_rows``: the partitions, each with the place of its first row in the whole table.
        """
        with self._lock:
            places = tuple(first_rows)
            for place, first_row in first_rows.items():
                held = self._held[place]
                self._end(held)
                try:
                    part = self._part(held.loaded, first_row)
                    held.part = part
                    for operation in history:
                        operation.on(part)
                except Exception as error:
                    return Answer(session, number, places, None, _portable(error), place)
                held.session, held.done = session, number
            return Answer(session, number, places)

    def do(self, session: str, number: int, operation: Operation[Any], places: Places) -> Answer:
        """Do an operation on some partitions, once; the answers are merged, the same call again gives the same one."""
        with self._lock:
            kept = self._kept.get(places)
            if kept is not None and (kept.session, kept.number) == (session, number):
                return kept
            for place in places:
                held = self._held[place]
                if (held.session, held.done) != (session, number):
                    raise RuntimeError(
                        f"partition {place} has done {held.done} operations of session {held.session!r}: operation "
                        f"{number} of session {session!r} is out of order"
                    )
            answer = self._done(session, number, operation, places)
            self._kept = {p: a for p, a in self._kept.items() if (a.session, a.number) == (session, number)}
            self._kept[places] = answer
            return answer

    def end(self, session: str) -> Answer:
        with self._lock:
            for held in self._held.values():
                if held.session == session:
                    self._end(held)
            self._kept = {}
            return Answer(session, 0, ())

    def _done(self, session: str, number: int, operation: Operation[Any], places: Places) -> Answer:
        values, error, error_at = dict[int, Any](), None, -1
        for place in places:
            held = self._held[place]
            assert held.part is not None
            held.done = number + 1
            try:
                values[place] = operation.on(held.part)
            except Exception as failure:
                if error is None:
                    error, error_at = _portable(failure), place
        if error is not None:
            return Answer(session, number, places, None, error, error_at)
        merged = {run[0]: operation.merged([values[place] for place in run]) for run in runs(places)}
        return Answer(session, number, places, merged)

    def _part(self, loaded: LoadedRows, first_row: int) -> Part:
        memory = loaded.raw.row_memory(loaded.n_rows) if isinstance(loaded.raw, StreamedTable) else None
        return Part(loaded.raw, self._team, memory, first_row=first_row, labels=loaded.labels)

    def _end(self, held: _Held) -> None:
        if held.part is not None:
            held.part.memory.close()
        held.part, held.session, held.done = None, "", 0

    def _drop(self, place: int) -> None:
        held = self._held.pop(place, None)
        if held is not None:
            self._end(held)
            held.loaded.close()


def raise_first(answers: Iterable[Answer]) -> None:
    """Raise what the first partition failed with, in the order of rows, if one did."""
    failed = [answer for answer in answers if answer.error is not None]
    if failed:
        error = min(failed, key=lambda answer: answer.error_at).error
        assert error is not None
        raise error


def runs(places: Places) -> list[Places]:
    """Return runs of consecutive places: answers are merged in the order of rows only."""
    grouped = groupby(enumerate(places), lambda found: found[1] - found[0])
    return [tuple(place for _, place in run) for _, run in grouped]


def _portable(error: Exception) -> Exception:
    if isinstance(error, SottovoceError):
        portable: Exception = error.with_traceback(None)
    else:
        portable = error
        portable.add_note("In a worker:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(portable))
    except Exception:  # some errors cannot be made from their own arguments
        return RuntimeError(f"{type(error).__name__}: {error}")
    return portable
