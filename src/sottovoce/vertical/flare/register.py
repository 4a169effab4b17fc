"""What a site was asked, and what it will do: one line a request, in a file that survives restarts. No data is in it.

Sizes, kinds of messages and reasons are written down, never what was in a message. What a coordinator used over all
runs is added up here, so that its caps hold whatever is restarted.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from sottovoce._kept import private_database
from sottovoce.exceptions import ParameterError
from sottovoce.ledger import Ledger
from sottovoce.privacy.filters import PrivacyFilter
from sottovoce.tables import Schema
from sottovoce.vertical.engines import ComputeSite, available_engines
from sottovoce.vertical.flare.site import Caps, Site
from sottovoce.vertical.mechanisms import ANSWERS

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    run TEXT NOT NULL, coordinator TEXT NOT NULL, purpose TEXT NOT NULL, caller TEXT NOT NULL,
    session TEXT NOT NULL, step INTEGER NOT NULL, kind TEXT NOT NULL,
    bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL,
    outcome TEXT NOT NULL, reason TEXT NOT NULL, times INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_coordinator ON requests (coordinator);
CREATE TABLE IF NOT EXISTS begun (run TEXT PRIMARY KEY);
"""
_EMPTY: Final[dict[str, str | int]] = {  # session and step: of files that earlier versions made
    **dict.fromkeys(("run", "coordinator", "purpose", "caller", "session", "kind", "outcome", "reason"), ""),
    **dict.fromkeys(("step", "bytes_in", "bytes_out"), 0),
    "times": 1,
}
_MOST_TEXT: Final = 1000  # letters of a reason or of a name that somebody else made up
_MOST_KINDS: Final = 200  # different refusals at the door that one run fills the file with; the rest is one line

# outcomes
BEGUN, ANSWERED, REFUSED, TURNED_AWAY = "begun", "answered", "refused", "turned away"


class Register:
    """The register of a site: a SQLite file, which is made, readable for its owner only, where it is not there.

    ``read_only`` is for looking at it while a run is under way. A file that cannot be opened, or is something else, is
    a `ParameterError`.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._used: dict[str, list[int]] = {}  # requests and bytes in both directions, by coordinator
        self._at_the_door: dict[tuple[str, ...], int] = {}
        try:
            if read_only:
                where = f"{self.path.absolute().as_uri()}?mode=ro"
                self._file = sqlite3.connect(where, uri=True, timeout=10.0)
            else:  # a power cut loses the last lines, a crash none
                self._file = private_database(self.path, _TABLES)
            self._file.row_factory = sqlite3.Row
            self._file.execute("SELECT times FROM requests LIMIT 1").fetchone()
        except (OSError, sqlite3.Error) as error:
            raise ParameterError(f"{self.path}: the register cannot be used: {error}. Move the file away.") from None

    def settle(self) -> None:
        with self._lock:
            self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        self._file.close()

    # ------------------------------------------------------------------ caps

    def used(self, coordinator: str) -> tuple[int, int]:
        """Return the requests that reached the party, refused ones too, and their bytes in both directions.

        Over all runs; other processes are not asked again.
        """
        with self._lock:
            n_requests, n_bytes = self._usage(coordinator)
            return n_requests, n_bytes

    def _usage(self, coordinator: str) -> list[int]:
        if coordinator not in self._used:
            self._used[coordinator] = list(self._file.execute(
                "SELECT COUNT(*), COALESCE(SUM(bytes_in + bytes_out), 0) FROM requests "
                "WHERE coordinator = ? AND outcome != ?", (coordinator, TURNED_AWAY),
            ).fetchone())  # fmt: skip
        return self._used[coordinator]

    # ------------------------------------------------------------------ writing

    def begin(self, run: str) -> bool:
        """Write down that a run begins; return False where it began before, in whatever process, asked or not."""
        with self._lock:
            self._file.execute("PRAGMA synchronous=FULL")  # after a power cut it began, too, whoever reads meanwhile
            is_new = self._file.execute(
                "INSERT OR IGNORE INTO begun SELECT :run WHERE NOT EXISTS (SELECT 1 FROM requests WHERE run = :run)",
                {"run": run},  # of runs before this table was there the requests alone tell
            ).rowcount == 1  # fmt: skip
            self._file.execute("PRAGMA synchronous=NORMAL")
            if is_new:  # whoever sends again what once began one brings no new lines
                self._at_the_door.clear()
            return is_new

    def enter(self, caps: Caps, coordinator: str, n_bytes: int, **facts: str | int) -> tuple[int, str]:
        """Write a request down before it is answered; return a number for `answered`, and a shortage.

        That says in words which cap does not allow it, and then it uses nothing and is to be turned away; it is empty
        if none. A process that ends before the answer leaves the request "begun".
        """
        with self._lock:
            used = self._usage(coordinator)
            shortage = _over(caps, used[0], used[1], n_bytes)
            if shortage:
                return 0, shortage
            used[0] += 1
            used[1] += n_bytes
            return self._insert(coordinator=coordinator, bytes_in=n_bytes, outcome=BEGUN, **facts), ""

    def answered(self, number: int, coordinator: str, n_bytes: int, reason: str) -> None:
        """Write down what became of a request; ``reason`` says why it was refused, empty if it was not."""
        with self._lock:
            self._usage(coordinator)[1] += n_bytes
            self._file.execute(
                "UPDATE requests SET bytes_out = ?, outcome = ?, reason = ? WHERE id = ?",
                (n_bytes, REFUSED if reason else ANSWERED, reason[:_MOST_TEXT], number),
            )

    def turn_away(
        self, reason: str, *, run: str = "", coordinator: str = "", purpose: str = "", caller: str = "",
        kind: str = "", n_bytes: int = 0,
    ) -> None:  # fmt: skip
        """Write down what did not reach the party.

        The same again counts on the same line in this process, so that nobody fills the disk with it.
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
                return
            self._at_the_door[same] = self._insert(
                run=run, coordinator=coordinator, purpose=purpose, caller=same[2], kind=same[3], bytes_in=n_bytes,
                outcome=TURNED_AWAY, reason=same[0],
            )  # fmt: skip

    def _insert(self, **facts: str | int) -> int:
        values = {**_EMPTY, "time": time.time(), **facts}
        done = self._file.execute(
            f"INSERT INTO requests ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
            [value[:_MOST_TEXT] if isinstance(value, str) else value for value in values.values()],
        )
        assert done.lastrowid is not None
        return done.lastrowid

    # ------------------------------------------------------------------ reading

    def runs(self) -> list[dict[str, Any]]:
        """Return what each run asked, in the order in which they began: from when to when, counts, and who."""
        return self._found(
            "SELECT run, MAX(coordinator) coordinator, MAX(purpose) purpose, MIN(time) first, MAX(time) last, "
            "SUM(outcome != :away) rounds, SUM(bytes_in) bytes_in, SUM(bytes_out) bytes_out, "
            "SUM((outcome = :refused OR outcome = :away) * times) refusals FROM requests GROUP BY run ORDER BY MIN(id)"
        )

    def refusals(self) -> list[dict[str, Any]]:
        """Return for which reasons something was not done, how often, and in which run last; the last ones first."""
        return self._found(
            "SELECT reason, SUM(times) times, MAX(time) last, run last_run FROM requests "
            "WHERE outcome IN (:away, :refused) GROUP BY reason ORDER BY MAX(time) DESC LIMIT 100"
        )

    def _found(self, query: str) -> list[dict[str, Any]]:
        with self._lock:
            return [dict(row) for row in self._file.execute(query, {"away": TURNED_AWAY, "refused": REFUSED})]


def _over(caps: Caps, n_requests: int, used: int, n_bytes: int) -> str:
    """Return which cap a request would go beyond; from what was asked alone."""
    if caps.rounds is not None and n_requests >= caps.rounds:
        return f"its owner allows this coordinator {caps.rounds:,} requests in all, and all of them are used"
    if caps.bytes is not None and used + n_bytes > caps.bytes:
        left = max(caps.bytes - used, 0)
        return (
            f"its owner allows this coordinator {caps.bytes:,} bytes in all; {left:,} are left, and the request has "
            f"{n_bytes:,}"
        )
    return ""


# ------------------------------------------------------------------ for the eyes of its owner


NEVER: Final = (
    "run code that comes from outside: a run brings its purpose, and ships nothing",
    "take a path, a table, a budget, a list of answers or a seed from a run: they stand in site.toml",
    "run shell commands, show files or logs, restart or change settings for anybody outside",
    "answer anybody but the coordinator, whose certificate is of this federation; another party is refused",
    "take part in two runs at once",
    "send names of columns, or its log",
)
"""What no coordinator gets a site to do, whatever it sends."""


Rows = Iterator[tuple[str, str]]
"""What, and what is said of it."""


def notice(site: Site) -> Rows:
    """Yield everything that the owner should know before the site is connected.

    The tables are read; a table, schema or ledger that cannot be used is an error.
    """
    kit, facts = site.kit, site.kit.federation
    train = site.allowed("train")
    score = site.allowed("score") if site.scoring_table is not None else frozenset()
    yield "coordinator", f"{facts.coordinator} at {facts.host}, port {facts.port}; this site connects to it"
    yield "connection", f"certificates on both sides, until {kit.expires:%Y-%m-%d}"
    if site.is_helper:
        yield "people", "none: a helper has no table, and sees random numbers only"
    else:
        yield "people", site.table_in_words("train")
    if site.scoring_table is not None:
        yield "people to be scored", site.table_in_words("score")
    if not site.is_helper:
        yield "always told", _told(site.schema)
    yield from _computing(site.computing)
    yield from ((f"will ({name})", ANSWERS[name].about) for name in sorted(train))
    yield from ((f"will, scoring ({name})", ANSWERS[name].about) for name in sorted(score))
    if not train and not score:
        yield "will", "answer nothing beyond that"
    yield from ((f"will not ({name})", ANSWERS[name].about) for name in sorted(set(ANSWERS) - train - score))
    yield from (("never", never) for never in NEVER)
    budget = budget_of(site)
    if not site.is_helper:
        yield from budget_rows(budget)
    yield from cap_rows(_asked(site)["caps"], budget, facts.coordinator)
    seeded = site.random_state is not None
    yield "trial", "the noise can be repeated: NOT PRIVATE" if seeded else "no: the noise is secret"
    yield "log", str(Path(kit.state) / "log.txt")
    yield "register", str(_register_of(site))
    yield "models", str(site.models_folder)


def _told(schema: Schema) -> str:
    return (
        f"the number of rows, and what the schema makes public: {schema.n_features} features, norm of a row at most "
        f"{schema.data_norm:.6g}, entries within 1" + (", none negative" if schema.nonnegative else "")
    )


def _computing(computing: ComputeSite | None) -> Rows:
    if computing is None:
        yield "joint computations", "none: no [secure] in site.toml"
        return
    first, last = computing.ports
    yield (
        "joint computations",
        f"with {', '.join(sorted(computing.partners or ()))}; they connect to {computing.host}, a port of {first} to "
        f"{last}, by certificates on both sides, while a run goes on; each may take {computing.timeout:g} s for "
        "anything",
    )
    found = available_engines()
    yield (
        "engines",
        ", ".join(
            f"{name} {found[name]}" if name in found
            else f"{name}: NOT INSTALLED here, pip install 'sottovoce[secure]'"
            for name in computing.engines
        ),
    )  # fmt: skip
    if computing.fingerprints:
        yield "known by fingerprint", ", ".join(sorted(computing.fingerprints))


def budget_rows(budget: Mapping[str, Any] | None) -> Rows:
    if budget is None:
        yield "budget", "NONE: what is allowed is answered however often, with or without noise"
        return
    yield (
        "budget",
        f"epsilon {budget['epsilon']:g} at delta {budget['delta']:g} for one person's row here, over all runs; "
        f"{budget['spent']:.6g} are spent, {budget['left']:.6g} are left ({budget['dataset']} in {budget['ledger']})",
    )


def cap_rows(caps: Mapping[str, Any], budget: Mapping[str, Any] | None, coordinator: str) -> Rows:
    if budget is not None:
        most = "no cap beside the budget" if budget["cap"] is None else f"at most {budget['cap']:g}"
        yield "cap, epsilon", f"{most}; {coordinator} has used {budget['spent_by_coordinator']:.6g}"
    for what in ("rounds", "bytes"):
        most = "no cap" if caps[what] is None else f"at most {caps[what]:,}"
        yield f"cap, {what}", f"{most}; {coordinator} has used {caps[f'used_{what}']:,}"
    if caps["people"] is not None:
        yield "cap, people", f"an alignment to fewer than {caps['people']:,} people is refused"


def site_history(site: Site) -> dict[str, Any]:
    """Return what a site was asked, and what is left; no table is read."""
    kit = site.kit
    return {
        "site": kit.name,
        "kind": kit.kind,
        "federation": kit.federation.name,
        "coordinator": kit.federation.coordinator,
        "helper": site.is_helper,
        **_asked(site),
        "budget": budget_of(site),
        "models": sorted(site.parts()),
    }


def _register_of(site: Site) -> Path:
    return Path(site.kit.state) / "register.db"


def _asked(site: Site) -> dict[str, Any]:
    """Return what the register has of runs and refusals, and what of the caps is used."""
    runs, refusals, (rounds, n_bytes) = list[Any](), list[Any](), (0, 0)
    if _register_of(site).exists():
        with closing(Register(_register_of(site), read_only=True)) as register:
            runs, refusals = [run for run in register.runs() if run["run"]], register.refusals()
            rounds, n_bytes = register.used(site.kit.federation.coordinator)
    caps = {**vars(site.caps), "used_rounds": rounds, "used_bytes": n_bytes}
    return {"runs": runs, "refusals": refusals, "caps": caps}


def budget_of(site: Site) -> dict[str, Any] | None:
    """Return the account of a site's data set, and what of it went to its coordinator; None without a budget."""
    if site.budget is None:
        return None
    site.account()  # says what is wrong with it
    book = Ledger(site.budget.ledger)
    known = book.datasets()[site.budget.dataset]
    spent, delta = book.spent(known.name)
    cap = site.caps.epsilon
    rule = known.filter if cap is None else PrivacyFilter(cap, delta, known.composition)  # as the account has it
    return {
        "ledger": site.budget.ledger,
        "dataset": known.name,
        "epsilon": known.epsilon,
        "delta": delta,
        "spent": spent,
        "left": max(known.epsilon - spent, 0.0),
        "spent_by_coordinator": book.would_spend(known.name, rule=rule, coordinator=site.kit.federation.coordinator),
        "cap": cap,
    }
