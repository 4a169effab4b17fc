"""A run over parties with journals that is cut off at any step, and resumed from what is on disk in new objects."""

import hashlib
import threading
from pathlib import Path

import numpy as np
from randomgen import AESCounter

import sottovoce
from sottovoce.exceptions import PartyError
from sottovoce.ledger import Ledger
from sottovoce.randomness import Streams
from sottovoce.vertical import Party
from sottovoce.vertical.coordinator.checkpoint import Checkpoint
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.party.journal import Journal

HOME, OTHERS = "insurer", ("bank", "north")
BUDGET = {"epsilon": 50.0, "delta": 1e-5}


class Killed(BaseException):
    """The coordinator is gone."""


class Carrier(Parties):
    """One party at home, the others somewhere else.

    Parameters
    ----------
    home : Party
    others : list of Party
    checkpoint : Checkpoint
    cut : callable or None
        Called with the number of the exchange and "before", the party's name or "after"; it may raise.
    """

    def __init__(self, home, others, checkpoint, cut):
        self.checkpoint, self.here = checkpoint, {home.name: home}
        self._all = {party.name: party for party in (home, *others)}
        self._cut = cut or (lambda number, when: None)
        self.n_exchanges = 0
        super().__init__(list(self._all))

    def _send(self, requests):
        if set(requests) <= set(self.here):
            return {name: self._all[name].handle(raw) for name, raw in requests.items()}
        self.n_exchanges += 1
        self._cut(self.n_exchanges, "before")
        answers, lost = {}, None
        for name, raw in requests.items():
            try:
                self._cut(self.n_exchanges, name)
                answers[name] = self._all[name].handle(raw)
            except ConnectionError:
                lost = PartyError(f"party {name!r} is gone.")
        if lost is not None:
            raise lost
        self._cut(self.n_exchanges, "after")
        return answers


class Federation:
    """Three organisations with their disks, and their processes, which can be ended and started.

    Parameters
    ----------
    folder : Path
        The disks.
    tables : dict of ndarray
    options : dict
        Facts about every table, for `Party`.
    limited : bool
        Whether the parties beside the label holder have ledgers.
    """

    def __init__(self, folder: Path, tables, options, *, limited):
        self.folder, self.tables, self.options, self.limited = folder, tables, options, limited
        self.checkpoint = self.coordinator = None
        self.parties = {}
        self.models = {}  # what each site keeps of models; it is on disk before an answer leaves
        for name in ("run", *tables):  # the same keys in every federation
            path = folder / name / "key"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(hashlib.sha256(name.encode()).digest())
        self.ledger("labels")

    def ledger(self, name):
        """Return a ledger, made where it is missing."""
        path = self.folder / f"{name}.db"
        new, ledger = not path.exists(), Ledger(f"sqlite:///{path}")
        if new:
            ledger.create("people", adjacency="replace-one", **BUDGET)
        return ledger

    def charges(self):
        """Return what is charged in all ledgers."""
        names = ["labels", *(OTHERS if self.limited else ())]
        return {
            name: [(each.event, each.state, each.plan.get("run")) for each in self.ledger(name).history("people")]
            for name in names
        }

    def start(self, *, cut=None):
        """Start whoever is not there; return the coordinator's parties."""
        for name in OTHERS:
            if name not in self.parties:
                self.parties[name] = self.party(name)
        self.parties[HOME] = self.party(HOME)
        self.checkpoint = Checkpoint(self.folder / "run", {"rows": len(self.tables[HOME])})
        return Carrier(self.parties[HOME], [self.parties[name] for name in OTHERS], self.checkpoint, cut)

    def party(self, name):
        """Start a party."""
        budget = None
        if self.limited and name != HOME:
            budget = LedgerBudget(self.ledger(name), "people", name=name, coordinator=HOME)
        journal = Journal(self.folder / name)
        party = Party(self.tables[name], name=name, budget=budget, journal=journal, **self.options)
        for model, part in self.models.get(name, {}).items():
            party.adopt(model, part)
        return party

    def end(self, *names):
        """End processes: what is not on disk is lost."""
        for name in names:
            party = self.parties.pop(name)
            party._journal.close()
            self.models[name] = party._models
        if HOME in names and self.checkpoint is not None:
            self.checkpoint.close()
            self.checkpoint = None


def at(number, when, error):
    """Return a cut at one exchange."""

    def cut(now, place):
        if (now, place) == (number, when):
            raise error

    return cut


def tables(n=24, widths=(3, 2, 2), seed=5):
    """Return tables by party, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n, sum(widths)))
    y = np.sign(X @ rng.normal(size=sum(widths)) + 0.1)
    ends = np.cumsum(widths)
    parts = np.split(X, ends[:-1], axis=1)
    return dict(zip((HOME, *OTHERS), parts, strict=True)), y


class _Placed(Streams):
    """Private streams whose bits follow from a place: what a test can draw again, and the product cannot."""

    def __init__(self, place):
        super().__init__()
        self._place = place

    def _bits(self, purpose):
        bits = super()._bits(purpose)
        key = hashlib.sha256(self._place + bytes([purpose.value])).digest()[:16]
        placed = AESCounter(key=int.from_bytes(key, "little"))
        bits.state = {**placed.state, "bit_generator": type(bits).__name__}
        return bits


def draws_by_place(monkeypatch):
    """Let what is drawn follow from the request, so that two executions can be compared bit by bit."""
    answer, asked = Party._answer, threading.local()

    def answering(self, frame, session):
        asked.digest = frame.digest
        return answer(self, frame, session)

    def streams(seed=None):
        return _Placed(asked.digest) if seed is None else Streams(seed)

    def of_labels(seed):
        return _Placed(b"labels") if seed is None else Streams(seed)

    monkeypatch.setattr(Party, "_answer", answering)
    monkeypatch.setattr("sottovoce.vertical.party.party.Streams", streams)
    monkeypatch.setattr("sottovoce.vertical.estimators.base.Streams", of_labels)


def at_line(number, *files, error=Killed):
    """Return a tracer that counts the lines of the package which are executed, in these files, and fails at one."""
    executed, package = [0], str(Path(sottovoce.__file__).parent)  # a checkout, with all packages, may have its name

    def line(frame, event, arg):
        executed[0] += event == "line"
        if executed[0] == number:
            raise error
        return line

    def calls(frame, event, arg):
        name = frame.f_code.co_filename
        return line if name.startswith(package) and (not files or any(each in name for each in files)) else None

    return executed, calls
