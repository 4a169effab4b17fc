"""A party whose disk fills up at any byte or any write: after the repair each step has one charge and one answer.

The law: a step that failed because of the machine, and not because of the request, is not used up. After the repair the
same request is answered, by the same process or, in another session, by a new one, with the bytes of a party whose disk
was never full; until then nothing leaves that is not charged and on record.
"""

import logging
import resource
from contextlib import contextmanager

import pytest

from sottovoce.exceptions import LedgerError, StorageError
from sottovoce.ledger import Ledger
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.requests.general import Afford, Describe
from sottovoce.vertical.wire import Refused
from support.clinic import clinic, new_ledger, shift
from support.interrupted import draws_by_place
from support.noisy_rounds import RoundsKeep, RoundsStep
from support.party import Line, decode

MESSAGES = [
    Describe(),
    Afford('{"kind": "gaussian", "noise_multiplier": 50.0}'),
    RoundsStep(shift(0.0)),
    RoundsStep(shift(0.1)),
    RoundsKeep("m", shift(0.1)),
]
CHARGED = [2, 3]  # their places


class Site:
    """A party with its disk, and its process, which can be started anew."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True)
        self.ledger = new_ledger(folder)
        self.start()

    def start(self):
        self.party = clinic(self.folder, self.ledger)
        self.journal, self.line = self.party._journal, Line(self.party)

    def restart(self):
        self.journal.close()
        self.start()

    def n_charged(self):
        return len(Ledger(self.ledger.url).history("people"))

    def on_disk(self):
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file() and _lasts(path)}

    def put_back(self, files):
        """Bring the disk of another moment back, before anything is opened: one prefix serves many cases."""
        self.journal.close()
        for path in self.folder.rglob("*"):
            if path.is_file() and path.name != "lock" and path not in files:
                path.unlink()
        for path, content in files.items():
            path.write_bytes(content)
        self.start()


def _lasts(path):
    """Tell whether a file is more than what SQLite makes again from the others."""
    return path.name != "lock" and not path.name.endswith("-shm")


@pytest.fixture(scope="module", autouse=True)
def _the_same_draws():
    with pytest.MonkeyPatch.context() as patch:
        draws_by_place(patch)
        yield


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("clinic") / "site")


@pytest.fixture(scope="module")
def whole(site):
    """The answers, and the disk before each of them, of a party whose disk is never full."""
    disks, answers = [], []
    for message in MESSAGES:
        disks.append(site.on_disk())
        answers.append(site.party.handle(site.line.frame(message)))
    assert not any(is_refused(answer) for answer in answers)
    assert site.n_charged() == len(CHARGED)
    disks.append(site.on_disk())
    return disks, answers


def is_refused(answer):
    return isinstance(decode(answer), Refused)


def check(site, place, answers, failing, *, restarts):
    """Ask one step while the disk fails, twice, then after the repair, and all later steps."""
    first, raw = None, site.line.frame(MESSAGES[place])
    with failing:
        for _ in range(2):
            answer = site.party.handle(raw)
            if not is_refused(answer):
                first = answer
                assert site.n_charged() == sum(each <= place for each in CHARGED)
    if restarts:
        site.restart()
        raw = site.line.frame(MESSAGES[place])
    for later in range(place, len(MESSAGES)):
        answer = site.party.handle(raw if later == place else site.line.frame(MESSAGES[later]))
        assert answer == answers[later], decode(answer)
        assert first in (None, answer) or later > place
    assert site.n_charged() == len(CHARGED)
    assert Ledger(site.ledger.url).verify().ok


@contextmanager
def largest_file(size):
    """Let the system refuse every byte of a file beyond this size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def room(disk):
    """Sizes at which something of the next step does not fit: pages of the journal's log, and of the ledger."""
    journal = sum(len(content) for path, content in disk.items() if path.name == "releases.db-wal")
    ledger = len(disk[next(path for path in disk if path.name == "ledger.db")])
    return sorted({*range(journal, journal + 13_000, 2060), *range(512, ledger + 8192 + 1, 4096)})


@pytest.mark.parametrize(
    ("place", "restarts"),
    [
        pytest.param(
            k, restarts, id=f"{type(message).__name__}-{restarts}", marks=[pytest.mark.slow] * ((k + restarts) % 2)
        )
        for k, message in enumerate(MESSAGES)
        for restarts in (False, True)
    ],
)
def test_at_every_size_that_a_file_may_have(site, whole, place, restarts):
    disks, answers = whole
    for size in room(disks[place]):
        site.put_back(disks[place])
        check(site, place, answers, largest_file(size), restarts=restarts)


class Failing:
    """Lets the k-th write of journal and ledger fail, before it is done or after, and all that follow.

    ``alone``: those that follow of the same disk; journal and ledger may lie on two.
    """

    WRITES = ((Journal, "keep"), (Ledger, "_append"))

    def __init__(self, k, *, done=False, alone=False):
        self.k, self.done, self.alone, self.n_writes, self.full = k, done, alone, 0, None

    def __enter__(self):
        self._kept = [(owner, name, getattr(owner, name)) for owner, name in self.WRITES]
        for owner, name, write in self._kept:
            setattr(owner, name, self._failing(owner, write))
        return self

    def __exit__(self, *_):
        for owner, name, write in self._kept:
            setattr(owner, name, write)

    def _failing(self, owner, write):
        def failing(*given):
            self.n_writes += 1
            if self.n_writes == self.k:
                self.full = owner
                if self.done:
                    write(*given)
            if self.full is None or (self.alone and self.full is not owner):
                return write(*given)
            raise (LedgerError if owner is Ledger else StorageError)("No space left on device")

        return failing


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("how", [{}, {"done": True}, {"alone": True}], ids=["before", "after", "alone"])
@pytest.mark.parametrize("place", range(len(MESSAGES)), ids=[type(message).__name__ for message in MESSAGES])
def test_at_every_write(site, whole, place, how, restarts):
    """Also a charge of which nobody was told that it is made."""
    disks, answers = whole
    site.put_back(disks[place])
    with Failing(10**6) as counting:
        site.party.handle(site.line.frame(MESSAGES[place]))
    assert counting.n_writes == (3 if place in CHARGED else 0)
    for k in range(1, counting.n_writes + 1):
        site.put_back(disks[place])
        check(site, place, answers, Failing(k, **how), restarts=restarts)


def test_another_request_after_a_step_that_was_given_back(site, whole):
    """It is as if the first had never been asked: the other one is answered, once, and charged for."""
    disks, answers = whole
    place, other = CHARGED[0], RoundsStep(shift(0.7))
    for restarts in (False, True):
        site.put_back(disks[place])
        raw = site.line.frame(MESSAGES[place])
        with Failing(1):
            assert is_refused(site.party.handle(raw))
        if restarts:
            site.restart()
        answer = site.party.handle((Line(site.party) if restarts else site.line).frame(other))
        assert not is_refused(answer)
        assert answer != answers[place]
        site.restart()
        assert site.party.handle(site.line.frame(other)) == answer
        assert site.n_charged() == 1
