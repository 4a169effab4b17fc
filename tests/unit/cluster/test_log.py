"""The driver's log: what was released is there once, what was not is not, and another fit is refused in words."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sottovoce.central.data.operation import Columns, Operation, Ticks
from sottovoce.central.data.part import Part
from sottovoce.cluster.log import Log, open_log
from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams

MECHANISM = GridGaussian(1.0, 1.0, 2.0**-10)
FACTS = {"table": "abc", "rows": 100}


@dataclass(frozen=True)
class Question(Operation[Ticks]):
    """Asks for nothing of the rows; here only what is written about it counts."""

    step: int

    def on(self, part: Part) -> Ticks:
        raise NotImplementedError

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        raise NotImplementedError


def noise(seed: int | None = 1) -> np.random.Generator:
    return Streams(seed).generator(Purpose.NOISE)


def fit(log: Log, n: int, seed: int | None = 1, died_at: int | None = None) -> list[list[float]]:
    """Release ``n`` values, as a holder does."""
    stream, out = noise(seed), []
    log.begin(FACTS)
    for step in range(n):
        values = log.stored(step, Question(step), MECHANISM, stream)
        if values is None:
            values = MECHANISM.release(np.array([step, 2 * step]), stream)[0]
            if step == died_at:
                break
            log.released(step, Question(step), MECHANISM, stream, values)
        else:
            MECHANISM.release(np.zeros(values.shape, np.int64), stream)
        out.append(values.tolist())
    log.close()
    return out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.mark.parametrize("lost", [0, 1, 8, 40])
def test_a_torn_release_is_as_if_it_had_never_been_drawn(folder: Path, lost: int) -> None:
    """A file has another name until it is whole and on the disk."""
    whole = fit(Log(folder), 3)
    last, torn = folder / "release-000000002", folder / "new-0123"
    torn.write_bytes(last.read_bytes()[: last.stat().st_size - lost])
    last.unlink()
    log = Log(folder)
    assert log.n_kept == 2
    assert not torn.exists()  # what is left of it is gone: nobody used it
    assert fit(log, 3) == whole


@pytest.mark.parametrize("at", [0, 31, 32, 40, -1])
def test_a_changed_release_is_refused(folder: Path, at: int) -> None:
    fit(Log(folder), 2)
    path = folder / "release-000000001"
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(bytes(raw))
    with pytest.raises(StorageError, match="release-000000001 was damaged"):
        fit(Log(folder), 2)


def test_one_driver_at_a_time(folder: Path) -> None:
    log = Log(folder)
    with pytest.raises(StorageError, match="is held by another process"):
        Log(folder)
    log.close()
    Log(folder).close()


def test_the_folder_is_for_its_owner_alone(folder: Path) -> None:
    fit(Log(folder), 1)
    assert folder.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())


def test_other_facts_are_refused(folder: Path) -> None:
    fit(Log(folder), 1)
    log = Log(folder)
    with pytest.raises(ParameterError, match=r"table is 'xyz', and the fit in the log .* was begun with 'abc'"):
        log.begin({**FACTS, "table": "xyz"})


CHANGES: dict[str, Callable[[Log], object]] = {
    "question": lambda log: log.stored(0, Question(7), MECHANISM, noise()),
    "noise": lambda log: log.stored(0, Question(0), GridGaussian(1.0, 0.7, 2.0**-10), noise()),
    "seed": lambda log: log.stored(0, Question(0), MECHANISM, noise(None)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_fit_is_refused(folder: Path, name: str) -> None:
    fit(Log(folder), 1)
    log = Log(folder)
    log.begin(FACTS)
    with pytest.raises(ParameterError, match=f"differs in its {name} from that in the log {re.escape(str(folder))}"):
        CHANGES[name](log)


def test_a_release_is_written_once(folder: Path) -> None:
    fit(Log(folder), 2)
    log = Log(folder)
    log.begin(FACTS)
    with pytest.raises(StorageError, match="holds 2 releases, so release 0 cannot be the next one"):
        log.released(0, Question(0), MECHANISM, noise(), np.zeros(2))


def test_values_that_cannot_be_written_are_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit(Log(folder.with_name("another")), 3)
    log = Log(folder)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    log.begin(FACTS)
    with (
        monkeypatch.context() as patched,
        pytest.raises(
            StorageError,
            match=r"No space left on device\. What was drawn for release-000000000 was not used\. Make room",
        ),
    ):
        patched.setattr(os, "fsync", full)
        log.released(0, Question(0), MECHANISM, noise(), np.zeros(2))
    with pytest.raises(StorageError, match="is closed"):
        fit(log, 3)
    assert sorted(file.name for file in folder.iterdir()) == ["facts.json", "lock"]
    again = Log(folder)
    assert fit(again, 3) == whole


def test_released_values_are_on_disk_before_they_are_handed_out(folder: Path) -> None:
    log = Log(folder)
    stream = noise()
    log.begin(FACTS)
    log.released(0, Question(0), MECHANISM, stream, np.array([1.5, -2.0]))
    raw = (folder / "release-000000000").read_bytes()  # by another handle, while the log is open
    assert raw.endswith(np.array([1.5, -2.0]).tobytes())


def test_a_log_is_given_as_a_path_or_as_itself(folder: Path) -> None:
    assert open_log(None) is None
    log = open_log(str(folder))
    assert isinstance(log, Log) and open_log(log) is log
    log.close()
    with pytest.raises(ParameterError, match=r"log must be the path of a folder of this machine.*; got 3"):
        open_log(3)  # type: ignore[arg-type]
