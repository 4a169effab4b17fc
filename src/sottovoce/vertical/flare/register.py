"""What a site was asked: one line a request, in a file of its own that survives restarts. No data is in it.

Sizes, kinds of messages and reasons are written down, never what was in a message. What a coordinator used over all
runs is added up here, so that its caps hold whatever is restarted.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.flare.site_file import Caps

__all__ = ["Entry", "Register", "Refusals", "RunSummary", "Usage"]

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    run TEXT NOT NULL,
    coordinator TEXT NOT NULL,
    purpose TEXT NOT NULL,
    caller TEXT NOT NULL,
    session TEXT NOT NULL,
    step INTEGER NOT NULL,
    kind TEXT NOT NULL,
    bytes_in INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL,
    times INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_coordinator ON requests (coordinator);
"""
_MOST_TEXT: Final = 1000  # letters of a reason or of a name that somebody else made up
_MOST_KINDS: Final = 200  # different refusals at the door that one run fills the file with; the rest is one line

# outcomes
BEGUN, ANSWERED, REFUSED, TURNED_AWAY = "begun", "answered", "refused", "turned away"


@dataclass(frozen=True)
class Usage:
    """What a coordinator used in all.

    Attributes
    ----------
    rounds : int
        Requests that reached the party, refused ones too.
    bytes : int
        In both directions.
    """

    rounds: int
    bytes: int


@dataclass(frozen=True)
class Entry:
    """One line of the register.

    Attributes
    ----------
    time : float
        Seconds since 1970.
    run, coordinator, purpose, caller : str
    session : str
        Hexadecimal.
    step : int
    kind : str
        Of the message.
    bytes_in, bytes_out : int
    outcome : {"begun", "answered", "refused", "turned away"}
        "begun": the process ended before the answer. "turned away": the request did not reach the party.
    reason : str
    times : int
        How often the same was turned away in a row of requests.
    """

    time: float
    run: str
    coordinator: str
    purpose: str
    caller: str
    session: str
    step: int
    kind: str
    bytes_in: int
    bytes_out: int
    outcome: str
    reason: str
    times: int


@dataclass(frozen=True)
class RunSummary:
    """What one run asked.

    Attributes
    ----------
    run, coordinator, purpose : str
    first, last : float
        Seconds since 1970.
    rounds, bytes_in, bytes_out, refusals : int
    """

    run: str
    coordinator: str
    purpose: str
    first: float
    last: float
    rounds: int
    bytes_in: int
    bytes_out: int
    refusals: int


@dataclass(frozen=True)
class Refusals:
    """One reason for which something was not done.

    Attributes
    ----------
    reason : str
    times : int
    last : float
        Seconds since 1970.
    last_run : str
    """

    reason: str
    times: int
    last: float
    last_run: str


class Register:
    """The register of a site.

    Parameters
    ----------
    path : Path
        A SQLite file; it is made, readable for its owner only, where it is not there.
    read_only : bool, default=False
        For looking at it while a run is under way.

    Raises
    ------
    ParameterError
        If the file cannot be opened, or is something else.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._used: dict[str, Usage] = {}
        self._at_the_door: dict[tuple[str, ...], int] = {}
        try:
            if not read_only:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            where = f"{self.path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
            self._file = sqlite3.connect(where, uri=True, check_same_thread=False, isolation_level=None, timeout=10.0)
            if not read_only:
                self._file.execute("PRAGMA journal_mode=WAL")
                self._file.execute("PRAGMA synchronous=NORMAL")  # a power cut loses the last lines, a crash none
                self._file.executescript(_TABLES)
            self._file.execute("SELECT times FROM requests LIMIT 1").fetchone()
        except (OSError, sqlite3.Error) as error:
            raise ParameterError(f"{self.path}: the register cannot be used: {error}. Move the file away.") from None

    def settle(self) -> None:
        """Bring all lines into the one file."""
        with self._lock:
            self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        self._file.close()

    # ------------------------------------------------------------------ caps

    def used(self, coordinator: str) -> Usage:
        """Return what a coordinator used, over all runs; other processes are not asked again."""
        with self._lock:
            return self._usage(coordinator)

    def _usage(self, coordinator: str) -> Usage:
        if coordinator not in self._used:
            self._used[coordinator] = Usage(*self._file.execute(
                "SELECT COUNT(*), COALESCE(SUM(bytes_in + bytes_out), 0) FROM requests "
                "WHERE coordinator = ? AND outcome != ?", (coordinator, TURNED_AWAY),
            ).fetchone())  # fmt: skip
        return self._used[coordinator]

    # ------------------------------------------------------------------ writing

    @contextmanager
    def entered(
        self, *, caps: Caps, run: str, coordinator: str, purpose: str, caller: str, session: str, step: int, kind: str,
        n_bytes: int,
    ) -> Iterator["Line"]:  # fmt: skip
        """Write a request down before it is answered, and what became of it afterwards.

        Yields
        ------
        Line
            Its ``shortage`` says which cap does not allow the request; it is turned away then, and uses nothing.
        """
        with self._lock:
            used = self._usage(coordinator)
            line = Line(_over(caps, used, n_bytes))
            if not line.shortage:
                self._used[coordinator] = Usage(used.rounds + 1, used.bytes + n_bytes)
                number = self._insert(
                    run, coordinator, purpose, caller, session, step, kind, n_bytes, 0, BEGUN, ""
                )  # fmt: skip
        if line.shortage:
            self.turn_away(
                line.shortage, run=run, coordinator=coordinator, purpose=purpose, caller=caller, kind=kind,
                n_bytes=n_bytes,
            )  # fmt: skip
            yield line
            return
        yield line
        with self._lock:
            used = self._usage(coordinator)
            self._used[coordinator] = Usage(used.rounds, used.bytes + line.bytes_out)
            self._file.execute(
                "UPDATE requests SET bytes_out = ?, outcome = ?, reason = ? WHERE id = ?",
                (line.bytes_out, REFUSED if line.reason else ANSWERED, line.reason[:_MOST_TEXT], number),
            )

    def turn_away(
        self, reason: str, *, run: str = "", coordinator: str = "", purpose: str = "", caller: str = "",
        kind: str = "", n_bytes: int = 0,
    ) -> bool:  # fmt: skip
        """Write down what did not reach the party; return whether this is the first of its kind in this process.

        The same again counts on the same line, so that nobody fills the disk with it.
        """
        same = (reason[:_MOST_TEXT], run, caller[:_MOST_TEXT], kind)
        with self._lock:
            if same not in self._at_the_door and len(self._at_the_door) >= _MOST_KINDS:
                same = ("more was turned away", run, "", "")
            if same in self._at_the_door:
                self._file.execute(
                    "UPDATE requests SET times = times + 1, time = ?, bytes_in = bytes_in + ? WHERE id = ?",
                    (time.time(), n_bytes, self._at_the_door[same]),
                )
                return False
            self._at_the_door[same] = self._insert(
                run, coordinator, purpose, same[2], "", 0, same[3], n_bytes, 0, TURNED_AWAY, same[0]
            )  # fmt: skip
            return True

    def _insert(self, *values: Any) -> int:
        done = self._file.execute(
            "INSERT INTO requests (time, run, coordinator, purpose, caller, session, step, kind, bytes_in, bytes_out, "
            "outcome, reason, times) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
            (time.time(), *(value[:_MOST_TEXT] if isinstance(value, str) else value for value in values)),
        )
        assert done.lastrowid is not None
        return done.lastrowid

    # ------------------------------------------------------------------ reading

    def entries(self) -> list[Entry]:
        """Return all lines, in order."""
        rows = self._file.execute(
            "SELECT time, run, coordinator, purpose, caller, session, step, kind, bytes_in, bytes_out, outcome, "
            "reason, times FROM requests ORDER BY id"
        )
        return [Entry(*row) for row in rows]

    def runs(self) -> list[RunSummary]:
        """Return what each run asked, in the order in which they began."""
        rows = self._file.execute(
            "SELECT run, MAX(coordinator), MAX(purpose), MIN(time), MAX(time), SUM(outcome != :away), "
            "SUM(bytes_in), SUM(bytes_out), SUM((outcome = :refused OR outcome = :away) * times) "
            "FROM requests GROUP BY run ORDER BY MIN(id)",
            {"away": TURNED_AWAY, "refused": REFUSED},
        )
        return [RunSummary(*row) for row in rows]

    def refusals(self, *, most: int = 100) -> list[Refusals]:
        """Return why something was not done, the last first."""
        rows = self._file.execute(
            "SELECT reason, SUM(times), MAX(time), run FROM requests WHERE outcome IN (?, ?) "
            "GROUP BY reason ORDER BY MAX(time) DESC LIMIT ?",
            (TURNED_AWAY, REFUSED, most),
        )
        return [Refusals(*row) for row in rows]


@dataclass
class Line:
    """What becomes of one request: fill it in.

    Attributes
    ----------
    shortage : str
        The cap that does not allow it, in words; empty if none.
    bytes_out : int
    reason : str
        Why it was refused; empty if it was not.
    """

    shortage: str = ""
    bytes_out: int = 0
    reason: str = ""


def _over(caps: Caps, used: Usage, n_bytes: int) -> str:
    """Return which cap a request would go beyond; from what was asked alone."""
    if caps.rounds is not None and used.rounds >= caps.rounds:
        return f"its owner allows this coordinator {caps.rounds:,} requests in all, and all of them are used"
    if caps.bytes is not None and used.bytes + n_bytes > caps.bytes:
        left = max(caps.bytes - used.bytes, 0)
        return (
            f"its owner allows this coordinator {caps.bytes:,} bytes in all; {left:,} are left, and the request has "
            f"{n_bytes:,}"
        )
    return ""
