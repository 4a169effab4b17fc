"""Two drivers on one log, whose lock was removed by hand: nothing is released twice, however their steps interleave.

A driver is a thread that stops before each step: at each call of the file system in its log, before it draws and before
it uses a value. A schedule says whose step is next, so each run can be had again. A driver may also be killed at any
step: it does nothing any more, not even clean up.
"""

import itertools
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce import DPLinearSVC
from sottovoce.central.data.operation import Change
from sottovoce.central.data.part import Part
from sottovoce.cluster.log import Log
from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams
from support.parts_pool import PartsPool
from support.pooled_table import PooledTable

MECHANISM = GridGaussian(1.0, 1.0, 2.0**-10)
FACTS = {"number of rows": 100}


@dataclass(frozen=True)
class Question(Change):
    """Asks for nothing of the rows."""

    step: int

    def on(self, part: Part) -> None:
        raise NotImplementedError


class Killed(BaseException):
    """The process is gone: what would follow does not happen."""


class Stepped:
    """A driver that goes on when it is told to, to its next step.

    Parameters
    ----------
    run : callable
        What it does; it gets the function that waits for the next turn.
    """

    def __init__(self, run: Callable[[Callable[[], None]], None]) -> None:
        self.go, self.stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.ended, self.killed, self.error = False, False, None
        self._thread = threading.Thread(target=self._work, args=(run,), daemon=True)
        _DRIVERS[self._thread] = self
        self._thread.start()
        self.stopped.acquire()

    def _work(self, run: Callable[[Callable[[], None]], None]) -> None:
        try:
            self.turn()
            run(self.turn)
        except Killed:
            pass
        except Exception as error:
            self.error = error
        self.ended = True
        self.stopped.release()

    def turn(self) -> None:
        """Wait for the next turn."""
        if self.killed:
            raise Killed
        self.stopped.release()
        self.go.acquire()
        if self.killed:
            raise Killed

    def step(self) -> None:
        """Let it do one step."""
        if not self.ended:
            self.go.release()
            self.stopped.acquire()

    def kill(self) -> None:
        """Let it do nothing any more."""
        self.killed = True
        self.step()


_DRIVERS: dict[threading.Thread, Stepped] = {}


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let drivers stop before each call of the file system that changes something."""

    link = os.link

    def stopping(function: Callable[..., Any], waits: bool) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            driver = _DRIVERS.get(threading.current_thread())
            probes = function is link and Path(args[1]).name.startswith("new-")
            if driver is not None and ((waits and not probes) or driver.killed):
                driver.turn()
            return function(*args, **options)

        return call

    monkeypatch.setattr(os, "link", stopping(os.link, True))
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # the disk is not what is tried here
    for name in ("unlink", "glob"):
        monkeypatch.setattr(Path, name, stopping(getattr(Path, name), name == "glob"))
    yield
    _DRIVERS.clear()


@dataclass
class World:
    """A folder, and all that was used of each release by anybody."""

    folder: Path
    n_releases: int
    used: dict[int, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    drawn: int = 0

    def driver(self, turn: Callable[[], None]) -> None:
        """Do what a fit does with its log, in a folder whose lock is gone."""
        (self.folder / "lock").unlink(missing_ok=True)
        log = Log(self.folder)
        try:
            self.fit(log, turn)
        finally:
            log.close()

    def fit(self, log: Log, turn: Callable[[], None]) -> None:
        """Release one value after the other."""
        stream = Streams(None).generator(Purpose.NOISE)
        log.begin(FACTS)
        for number in range(self.n_releases):
            values = log.stored(number, Question(number), MECHANISM, stream)
            if values is None:
                self.drawn += 1
                values = MECHANISM.release(np.zeros(1, np.int64), stream)[0]
                log.released(number, Question(number), MECHANISM, stream, values)
            turn()
            self.used[number].add(values.tobytes())


def checked(world: World, drivers: list[Stepped]) -> None:
    """Nobody has used another value than the one that a third driver finds, and who ended in an error says so."""
    for driver in drivers:
        assert driver.error is None or isinstance(driver.error, StorageError), driver.error
        if driver.error is not None:
            assert "not used" in str(driver.error) or "lacks a release" in str(driver.error)
    before = {number: set(values) for number, values in world.used.items()}
    assert all(len(values) == 1 for values in before.values()), "two values of one release were used"
    world.driver(lambda: None)
    assert all(world.used[number] == values for number, values in before.items())
    assert len(world.used) == world.n_releases
    assert not list(world.folder.glob("new-*"))  # nor is anything left that was drawn and not used


def count_steps(folder: Path, n_releases: int) -> int:
    driver = Stepped(World(folder, n_releases).driver)
    steps = 0
    while not driver.ended:
        driver.step()
        steps += 1
    return steps


@pytest.mark.usefixtures("stepped")
def test_all_interleavings_of_two_drivers(tmp_path: Path) -> None:
    """Each way to mix the steps of two drivers, of one release after the facts."""
    n_steps, seen = count_steps(tmp_path / "alone", 1), set[tuple[bool, bool, int]]()
    assert n_steps == 6  # the start, two looks into the folder, the facts, the release, its use
    for k, first in enumerate(itertools.combinations(range(2 * n_steps), n_steps)):
        world = World(tmp_path / str(k), 1)
        drivers = [Stepped(world.driver), Stepped(world.driver)]
        for at in range(2 * n_steps):
            drivers[at not in first].step()
        assert all(driver.ended for driver in drivers)
        checked(world, drivers)
        seen.add((drivers[0].error is None, drivers[1].error is None, world.drawn))
    # both end, one after the other; one of them ends, and the other one has drawn for nothing or not at all
    assert {(True, True, 1), (True, False, 2), (False, True, 2)} <= seen


@pytest.mark.usefixtures("stepped")
def test_random_interleavings_of_longer_fits_with_deaths(tmp_path: Path) -> None:
    """Three drivers of four releases; each may be killed at any step, without cleaning up."""
    rng, dead, refused = np.random.default_rng(0), 0, 0
    for k in range(300):
        world = World(tmp_path / str(k), 4)
        drivers = [Stepped(world.driver) for _ in range(3)]
        while any(not driver.ended for driver in drivers):
            driver = drivers[rng.integers(3)]
            if rng.random() < 0.02 and not driver.ended:
                driver.kill()
                dead += 1
            driver.step()
        checked(world, drivers)
        refused += sum(driver.error is not None for driver in drivers)
    assert dead > 100 and refused > 100


@pytest.mark.usefixtures("stepped")
def test_the_interleavings_find_a_log_that_writes_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above sees the fault: files are replaced, as whoever comes last wants it."""

    def over(new: Path, path: Path) -> None:
        driver = _DRIVERS.get(threading.current_thread())
        if driver is not None:
            driver.turn()
        new.replace(path)

    monkeypatch.setattr(os, "link", over)
    monkeypatch.setattr(Log, "_refuse_other_stores", lambda log: None)
    world = World(tmp_path / "log", 1)
    drivers = [Stepped(world.driver), Stepped(world.driver)]
    while any(not driver.ended for driver in drivers):
        for driver in drivers:
            driver.step()
    with pytest.raises(AssertionError, match="two values of one release were used"):
        checked(world, drivers)


_RNG = np.random.default_rng(5)
_X = _RNG.standard_normal((60, 3))
_Y = (_X[:, 0] > 0).astype(float)


def fit(log: Log) -> Any:
    model = DPLinearSVC(
        epsilon=1.0, delta=1e-4, data_norm=2.0, classes=[0.0, 1.0], solver="scd", solver_options={"n_passes": 4}
    )
    return model.fit(PooledTable(PartsPool(2), _X, _Y, (20,), log))


class At(Log):
    """Does something before a release is written."""

    def __init__(self, folder: Path, number: int, event: Callable[[], None]) -> None:
        super().__init__(folder)
        self._number, self._event = number, event

    def released(self, number: int, *given: Any) -> None:
        """Have it happen."""
        if number == self._number:
            self._event()
        super().released(number, *given)


@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.PrivacyWarning")
@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_second_fit_after_the_lock_was_removed_ends_the_first_one(tmp_path: Path, number: int) -> None:
    """Whole fits: the second one overtakes, and ends; the first one's value of that number is not used."""
    models = list[Any]()

    def overtake() -> None:
        (tmp_path / "log" / "lock").unlink()
        second = Log(tmp_path / "log")
        models.append(fit(second))
        second.close()

    with pytest.raises(StorageError, match=f"another driver has made release {number} of .* was not used"):
        fit(At(tmp_path / "log", number, overtake))
    again = Log(tmp_path / "log")
    assert np.array_equal(fit(again).coef_, models[0].coef_)
    again.close()


@pytest.mark.parametrize("left", [(1,), (0, 2), (2,)])
def test_a_log_that_lacks_a_release_is_refused(tmp_path: Path, left: tuple[int, ...]) -> None:
    world = World(tmp_path / "log", 3)
    world.driver(lambda: None)
    for number in {0, 1, 2} - set(left):
        (tmp_path / "log" / f"release-{number:09d}").unlink()
    with pytest.raises(StorageError, match="lacks a release before release-00000000"):
        Log(tmp_path / "log")


def test_a_file_system_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(StorageError, match=r"Operation not permitted\..* on a disk with hard links"):
        Log(tmp_path / "log")
    assert [file.name for file in (tmp_path / "log").iterdir()] == ["lock"]


def test_a_file_system_that_writes_over_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", lambda new, path: path.write_bytes(new.read_bytes()))
    with pytest.raises(StorageError, match="lets two drivers make the same file"):
        Log(tmp_path / "log")
    assert [file.name for file in (tmp_path / "log").iterdir()] == ["lock"]


@pytest.mark.parametrize("address", ["s3://bucket/log", "memory://log", "gs://b/l", "file:///tmp/log", "hdfs://h:1/l"])
@pytest.mark.parametrize("kind", [str, Path])
def test_an_address_is_refused(address: str, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of objects is no folder; a local one of its name would be made without a word."""
    from sottovoce.cluster.log import open_log

    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match="log must be the path of a folder of this machine"):
        open_log(kind(address))
    assert not list(tmp_path.iterdir())
