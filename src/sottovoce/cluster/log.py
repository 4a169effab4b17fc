"""The driver's log: what was released is on disk before it is used, so that another driver can go on where one ended.

A fit is a function of what was released to it. A new driver executes it again from its start: what is in the log it
takes from there, and asks the rows from where the log ends. Released values only are kept, which the guarantee covers:
no exact sum, and nothing that noise could be drawn again from.

A value that was drawn and did not come into the log whole was seen by nobody, and is drawn anew. So what is in the
folder is for the driver's eyes until the fit has ended, and a copy of an unfinished log must not be taken up as well.

Statement and proof: ``docs/privacy/cluster.md``.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from sottovoce._files import write_whole
from sottovoce._kept import PrivateFolder, RecordFile
from sottovoce._numerics import Vector
from sottovoce.central.data.operation import Operation
from sottovoce.cluster.questions import question_digest
from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import is_repeatable

__all__ = ["FolderLog", "Log", "NoLog", "open_log"]

_RELEASE: Final = 1
_REMEDY: Final = "Go on with what it was begun with, or give this fit a new folder."


class Log(ABC):
    """What was released in one fit, by number, from 0 on.

    A holder asks `stored` first. If that is None it asks the rows, draws the noise, and hands the values to `released`
    before anybody else sees them.
    """

    @abstractmethod
    def begin(self, facts: Mapping[str, object]) -> None:
        """Say what the fit is about: digest of the table, sizes, versions; plain JSON.

        Raises
        ------
        ParameterError
            If the log is about something else; the message names it.
        """

    @abstractmethod
    def stored(
        self, number: int, operation: Operation[Any], mechanism: GridGaussian, noise: np.random.Generator
    ) -> Vector | None:
        """Return what release ``number`` gave in an earlier run of the same fit, or None if it was not reached.

        Nothing is drawn from ``noise``; only whether a seed is behind it counts.

        Raises
        ------
        ParameterError
            If something else was released under this number, or with other noise.
        """

    @abstractmethod
    def released(
        self,
        number: int,
        operation: Operation[Any],
        mechanism: GridGaussian,
        noise: np.random.Generator,
        values: Vector,
    ) -> None:
        """Write down a release that is not stored; it is on disk when this returns, and only then is it used or sent.

        Raises
        ------
        StorageError
            If it cannot be written: the values must not be used.
        """

    def close(self) -> None:  # noqa: B027 - what keeps nothing has nothing to let go
        """Let another driver have it."""


class NoLog(Log):
    """Nothing is kept: a fit whose driver ends begins anew, as a new fit."""

    def begin(self, facts: Mapping[str, object]) -> None:
        """Do nothing."""

    def stored(
        self, number: int, operation: Operation[Any], mechanism: GridGaussian, noise: np.random.Generator
    ) -> None:
        """Return None."""

    def released(
        self,
        number: int,
        operation: Operation[Any],
        mechanism: GridGaussian,
        noise: np.random.Generator,
        values: Vector,
    ) -> None:
        """Do nothing."""


class FolderLog(Log):
    """A log in a private folder that one driver has at a time.

    Parameters
    ----------
    folder : str or Path
        Of one fit alone; made where it is missing.

    Attributes
    ----------
    is_resumed : bool
        Whether the fit had been begun before.
    n_kept : int
        Releases that are on disk.

    Raises
    ------
    StorageError
        If another process has the folder, or what is in it is damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = PrivateFolder(folder, "the log")
        try:
            self.is_resumed = (self._folder.path / "releases").exists()
            self._records = RecordFile(self._folder.path / "releases")
            self._folder.sync()
            self._places = [at for _, at in self._records.places()]
        except BaseException:
            self._folder.close()
            raise

    @property
    def n_kept(self) -> int:
        """Releases that are on disk."""
        return len(self._places)

    def begin(self, facts: Mapping[str, object]) -> None:
        """Keep the facts, or compare them with those that are kept."""
        self._check_held()
        path, plain = self._folder.path / "facts.json", json.loads(json.dumps(dict(facts)))
        if path.exists():
            before = json.loads(path.read_text())
            for name in sorted({*before, *plain}):
                if before.get(name) != plain.get(name):
                    raise ParameterError(
                        f"{name} is {plain.get(name)!r}, and the fit in the log {self._folder.path} was begun with "
                        f"{before.get(name)!r}. {_REMEDY}"
                    )
        elif self._places:
            raise StorageError(f"{path} is missing: the fit cannot be taken up again. Give it a new folder.")
        else:
            write_whole(path, json.dumps(plain, indent=2, sort_keys=True))
            self._folder.sync()

    def stored(
        self, number: int, operation: Operation[Any], mechanism: GridGaussian, noise: np.random.Generator
    ) -> Vector | None:
        """Return what was released under this number from disk, or None where the log ends."""
        self._check_held()
        if number >= len(self._places):
            return None
        head, values = self._read(self._places[number])
        for name, now in _head(number, operation, mechanism, noise, values).items():
            if head.get(name) != now:
                raise ParameterError(
                    f"release {number} of this fit differs in its {name} from that in the log {self._folder.path}, of "
                    f"{head.get('operation')}: it is another estimator, has other parameters, or its driver runs on "
                    f"another kind of processor. {_REMEDY}"
                )
        return values

    def released(
        self,
        number: int,
        operation: Operation[Any],
        mechanism: GridGaussian,
        noise: np.random.Generator,
        values: Vector,
    ) -> None:
        """Write a release, and bring it to the disk."""
        self._check_held()
        if number != len(self._places):
            raise StorageError(
                f"the log {self._folder.path} holds {len(self._places)} releases, so release {number} cannot be the "
                f"next one. {_REMEDY}"
            )
        head = json.dumps(_head(number, operation, mechanism, noise, values)).encode()
        whole = np.ascontiguousarray(values, "<f8")
        try:
            at = self._records.append(_RELEASE, [len(head).to_bytes(4, "little"), head, whole.tobytes()])
            self._records.sync()
        except OSError as error:
            self.close()  # what is on disk is known when it is opened again
            raise StorageError(
                f"the log {self._folder.path} cannot be written: {error.strerror}. Release {number} was not used. Make "
                "room, and start the fit again with this log: it goes on from there."
            ) from error
        self._places.append(at)

    def close(self) -> None:
        """Let another driver go on; what is kept stays."""
        if self._folder.is_held:
            self._records.close()
            self._folder.close()

    def _check_held(self) -> None:
        if not self._folder.is_held:
            raise StorageError(f"the log {self._folder.path} is closed, or another process's.")

    def _read(self, at: int) -> tuple[dict[str, Any], Vector]:
        kind, body = self._records.read(at)
        if kind != _RELEASE:
            raise StorageError(f"{self._records.path} holds a record of kind {kind}: it is another version's.")
        start = 4 + int.from_bytes(body[:4], "little")
        head: dict[str, Any] = json.loads(body[4:start])
        return head, np.frombuffer(body, "<f8", offset=start).reshape(head["shape"]).astype(np.float64)


def open_log(log: Log | str | Path | None) -> Log:
    """Return the log that is meant: one that is given, one in a folder, or none.

    Raises
    ------
    ParameterError
        If it is something else.
    StorageError
        If the folder cannot be used.
    """
    if log is None:
        return NoLog()
    if isinstance(log, Log):
        return log
    if not isinstance(log, (str, Path)):
        raise ParameterError(f"log must be the path of a folder, which is made where it is missing; got {log!r}.")
    return FolderLog(log)


def _head(
    number: int, operation: Operation[Any], mechanism: GridGaussian, noise: np.random.Generator, values: Vector
) -> dict[str, object]:
    return {
        "number": number,
        "operation": type(operation).__name__,
        "shape": list(values.shape),
        "seed": "given" if is_repeatable(noise) else "none",
        "noise": question_digest(mechanism),
        "question": question_digest(operation),
    }
