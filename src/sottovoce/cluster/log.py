"""The driver's log: what was released is on disk before it is used, so that another driver can go on where one ended.

A fit is a function of what was released to it. A new driver executes it again from its start: what is in the log it
takes from there, and asks the rows from where the log ends. Released values only are kept, which the guarantee covers:
no exact sum, and nothing that noise could be drawn again from.

A value that was drawn and did not come into the log whole was seen by nobody, and is drawn anew. So what is in the
folder is for the driver's eyes until the fit has ended, and a copy of an unfinished log must not be taken up as well.

Statement and proof: ``docs/privacy/cluster.md``.
"""

import hashlib
import json
import os
import re
import reprlib
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from sottovoce._kept import PrivateFolder
from sottovoce._numerics import Vector
from sottovoce._plain_data import canonical_text
from sottovoce.central.data.operation import Operation
from sottovoce.cluster.digest import question_digest
from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import is_repeatable

_FACTS: Final = "facts.json"
_NEW: Final = "new-"  # what a file is called before it is there
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # as `Path` leaves it, too
_ANEW: Final = "The fit cannot be taken up again: give it a new folder."
_REMEDY: Final = "Go on with what it was begun with, or give this fit a new folder."


class Log:
    """What was released in one fit, by number from 0 on: a private folder of this machine, for one driver at a time.

    A holder asks `stored` first. If that is None it asks the rows, draws the noise, and hands the values to `released`
    before anybody else sees them.

    Each release is a file that is made whole and once, by a hard link: the file system itself lets one driver alone
    have a number, also where two of them are at work because the file ``lock`` was removed. The other one's value is
    not used.

    ``folder``: of one fit alone; made where it is missing.
    ``n_kept``: releases that are on disk.

    Raises StorageError if another process has the folder, its file system cannot make a file once, or what is in it is
    damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = PrivateFolder(folder, "the log")
        try:
            for left in self._folder.path.glob(f"{_NEW}*"):  # drawn by a driver that died, and used by nobody
                left.unlink(missing_ok=True)
            self._refuse_other_stores()
            names = sorted(file.name for file in self._folder.path.glob("release-*"))
            self.n_kept = len(names)
            if names != [_name(number) for number in range(self.n_kept)]:
                raise StorageError(f"the log {self._folder.path} lacks a release before {names[-1]}. {_ANEW}")
        except BaseException:
            self._folder.close()
            raise

    def begin(self, facts: Mapping[str, object]) -> None:
        """Say what the fit is about: digest of the table, sizes, versions; plain JSON.

        Raises ParameterError if the log is about something else; the message names it.
        """
        self._check_held()
        path, plain = self._folder.path / _FACTS, json.loads(json.dumps(dict(facts)))
        if not path.exists() and self.n_kept:
            raise StorageError(f"{path} is missing. {_ANEW}")
        with suppress(FileExistsError):
            self._make(_FACTS, json.dumps(plain, indent=2, sort_keys=True).encode())
        before = json.loads(path.read_text())
        for name in sorted({*before, *plain}):
            if canonical_text(before.get(name)) != canonical_text(plain.get(name)):
                raise ParameterError(
                    f"{name} is {reprlib.repr(plain.get(name))}, and the fit in the log {self._folder.path} was begun "
                    f"with {reprlib.repr(before.get(name))}. {_REMEDY}"
                )

    def stored(
        self, number: int, operation: Operation[Any], mechanism: GridGaussian, noise: np.random.Generator
    ) -> Vector | None:
        """Return what was released under this number from disk, or None where the log ended when it was opened.

        Nothing is drawn from ``noise``; only whether a seed is behind it counts.

        Raises ParameterError if something else was released under this number, or with other noise.
        """
        self._check_held()
        if number >= self.n_kept:
            return None
        head, values = self._read(self._folder.path / _name(number))
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
        """Write a release that is not stored; it is on disk when this returns, and only then is it used or sent.

        Raises StorageError if it cannot be written, or another driver has made it: the values must not be used.
        """
        self._check_held()
        if number != self.n_kept:
            raise StorageError(
                f"the log {self._folder.path} holds {self.n_kept} releases, so release {number} cannot be the "
                f"next one. {_REMEDY}"
            )
        head = json.dumps(_head(number, operation, mechanism, noise, values)).encode()
        body = len(head).to_bytes(4, "little") + head + np.ascontiguousarray(values, "<f8").tobytes()
        try:
            self._make(_name(number), hashlib.sha256(body).digest() + body)
        except FileExistsError:
            self.close()
            raise StorageError(
                f"another driver has made release {number} of the fit in the log {self._folder.path} meanwhile. What "
                "was drawn here was not used. Let one driver go on alone."
            ) from None
        except StorageError:
            self.close()  # what is on disk is known when it is opened again
            raise
        self.n_kept += 1

    def close(self) -> None:
        """Let another driver have it."""
        self._folder.close()

    def _check_held(self) -> None:
        if not self._folder.is_held:
            raise StorageError(f"the log {self._folder.path} is closed, or another process's.")

    def _refuse_other_stores(self) -> None:
        """Refuse a file system on which two can make the same file."""
        name = f"{_NEW}{secrets.token_hex(8)}"
        self._make(name, b"")
        try:
            self._make(name, b"")
        except FileExistsError:
            return
        finally:
            (self._folder.path / name).unlink(missing_ok=True)
        raise StorageError(
            f"the log {self._folder.path} cannot be used: its file system lets two drivers make the same file. Give a "
            "folder on a disk of this machine."
        )

    def _make(self, name: str, body: bytes) -> None:
        """Make a file, whole and on the disk.

        Raises FileExistsError if there is one of this name, whoever has made it.
        Raises StorageError if it cannot be made.
        """
        new = self._folder.path / f"{_NEW}{secrets.token_hex(8)}"
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            os.link(new, self._folder.path / name)
            self._folder.sync()
        except FileExistsError:
            raise
        except OSError as error:
            raise StorageError(
                f"the log {self._folder.path} cannot be written: {error.strerror}. What was drawn for {name} was not "
                "used. Make room, on a disk with hard links (by these one driver alone can make a file), and start the "
                "fit again with this log: it goes on from there."
            ) from error
        finally:
            new.unlink(missing_ok=True)

    def _read(self, path: Path) -> tuple[dict[str, Any], Vector]:
        whole = path.read_bytes()
        if hashlib.sha256(whole[32:]).digest() != whole[:32]:
            raise StorageError(f"{path} was damaged. {_ANEW}")
        start = 36 + int.from_bytes(whole[32:36], "little")
        head: dict[str, Any] = json.loads(whole[36:start])
        return head, np.frombuffer(whole, "<f8", offset=start).reshape(head["shape"]).astype(np.float64)


def open_log(log: Log | str | Path | None) -> Log | None:
    """Return the log that is meant: one that is given, one in a folder, or none.

    Raises ParameterError if it is something else.
    Raises StorageError if the folder cannot be used.
    """
    if log is None or isinstance(log, Log):
        return log
    if not isinstance(log, (str, Path)) or _ADDRESS.match(str(log)):
        raise ParameterError(
            f"log must be the path of a folder of this machine, which is made where it is missing; got {log!r}."
        )
    return Log(log)


def _name(number: int) -> str:
    return f"release-{number:09d}"


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
