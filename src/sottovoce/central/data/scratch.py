"""Scratch disk: private files without a name, for rows that do not fit into memory.

A file has no name, or loses it where systems need one, so that nothing is left however the process ends. What is
written there is the data in clear: a disk that is private, or encrypted, is the caller's choice of folder.
"""

import errno
import math
import mmap
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.exceptions import StorageError

_MOST_AT_ONCE = 1 << 30  # systems read and write less than 2 GiB in one call
_ZEROS = 1 << 24  # that are written at once
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REMEDY = 'Name a folder on a disk with more room: scratch="...", or TMPDIR in the environment.'


def scratch_folder(folder: "str | Path | None") -> Path:
    """Return the folder for scratch files; None is the system's for temporary files (``TMPDIR``)."""
    return Path(tempfile.gettempdir() if folder is None else folder)


def check_room(n_bytes: int, folder: "str | Path | None", what: str) -> None:
    """Refuse what the disk has no room for, before anything is charged: ``n_bytes`` follow from public sizes.

    Raises StorageError if the folder cannot be written to, or its disk has less left.
    """
    place = scratch_folder(folder)
    try:
        ScratchFile(place).close()
        left = shutil.disk_usage(place).free
    except OSError as error:
        raise StorageError(f"{place}: no scratch file can be made there: {error.strerror}. {_REMEDY}") from None
    if left < n_bytes:
        raise StorageError(
            f"{place}: {what} takes up to {_size(n_bytes)} of scratch disk, and {_size(left)} are left there. {_REMEDY}"
        )


class ScratchFile:
    """A private file without a name: for this process alone, and gone with it.

    ``folder``: where it takes its room; None: where temporary files are.
    ``size``: bytes written so far.
    """

    def __init__(self, folder: "str | Path | None" = None) -> None:
        self._place = scratch_folder(folder)
        try:
            self._file: Any = tempfile.TemporaryFile(buffering=0, dir=self._place)  # noqa: SIM115 - `close`
        except OSError as error:
            raise StorageError(
                f"{self._place}: no scratch file can be made there: {error.strerror}. {_REMEDY}"
            ) from None
        self._close = weakref.finalize(self, self._file.close)  # with the last who knows it, at the latest
        self._lock = Lock()
        self.size = 0

    def write(self, values: NDArray[Any]) -> None:
        """Write an array at the end."""
        left = _bytes_of(np.ascontiguousarray(values))
        with self._lock:
            self._file.seek(self.size)
            try:
                while left.nbytes:
                    left = left[self._file.write(left[:_MOST_AT_ONCE]) :]
            except OSError as error:
                raise self._full(error) from None
        self.size += values.nbytes

    def read(self, at: int, count: int, dtype: Any) -> NDArray[Any]:
        """Return so many numbers from a place, as a fresh array."""
        values = np.empty(count, dtype)
        left = _bytes_of(values)
        with self._lock:
            self._file.seek(at)
            while left.nbytes:
                got = self._file.readinto(left[:_MOST_AT_ONCE])
                if not got:
                    raise StorageError(f"{self._place}: a scratch file ends too early: the disk lost a part of it.")
                left = left[got:]
        return values

    def zeros(self, n_bytes: int) -> None:
        """Make an empty one so many zeros, and take the room for them: a map of a full disk would end the process."""
        try:
            os.posix_fallocate(self._file.fileno(), 0, n_bytes)
            self.size = n_bytes
        except (AttributeError, OSError) as error:  # not every system has it, nor every kind of disk
            if isinstance(error, OSError) and error.errno in _NO_ROOM:
                raise self._full(error) from None
            for start in range(0, n_bytes, _ZEROS):
                self.write(np.zeros(min(_ZEROS, n_bytes - start), np.uint8))

    def map(self) -> mmap.mmap:
        """Return its bytes, to be read without a copy; the map lives on when the file is closed."""
        return mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)

    def close(self) -> None:
        self._close()

    def _full(self, error: OSError) -> StorageError:
        return StorageError(
            f"{self._place}: the scratch disk took {_size(self.size)} and no more: {error.strerror}. {_REMEDY}"
        )


def mapped(shape: tuple[int, ...], dtype: Any, folder: "str | Path | None") -> NDArray[Any]:
    """Return an array of zeros, to be written to, that lies in a private file; its room is taken at once."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if not n_bytes:
        return np.zeros(shape, dtype)
    file = ScratchFile(folder)
    try:
        file.zeros(n_bytes)
        return np.asarray(np.memmap(file._file, dtype, "r+", shape=shape))
    finally:
        file.close()  # the map lives on


def _bytes_of(values: NDArray[Any]) -> memoryview:
    raw: Any = values.reshape(-1).view(np.uint8)
    return memoryview(raw)


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.3g} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.3g} MB"
