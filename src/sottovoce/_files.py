"""Write files whole or not at all; errors of reading one name it."""

import errno
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from sottovoce.exceptions import ParameterError, SottovoceError

_DATABASE: Final = b"SQLite format 3\0"
_KEPT: Final = "this is a SQLite database, such as a ledger, and is never replaced"


def check_writable(name: str, path: str | Path, *, overwrite: bool) -> None:
    """Refuse a path that `write_whole` could not write to now; nothing is left behind.

    Raises ParameterError if the folder is missing or not writable, if the path is a folder, a device or a database, or
    if it exists and ``overwrite`` is false.

    ``name``: what the path was given as, for the message.
    ``overwrite``: whether an existing file may be replaced.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        remedy = at_home(path) or " Make it, or choose another."
        raise ParameterError(f"{name} {path}: the folder {target.parent} does not exist.{remedy}")
    if target.exists() or target.is_symlink():
        if not target.is_file():
            raise ParameterError(f"{name} {path}: this is not a regular file. Choose another path.")
        if _is_database(target):
            raise ParameterError(f"{name} {path}: {_KEPT}. Choose another path.")
        if not overwrite:
            raise ParameterError(
                f"{name} {path}: the file exists. Choose another path, or give overwrite=True to replace it."
            )
    try:
        handle, probe = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise ParameterError(f"{name} {path}: cannot write there: {error.strerror}.") from None
    os.close(handle)
    Path(probe).unlink()


def write_whole(path: str | Path, text: str | Iterable[str], *, private: bool = False) -> None:
    """Write ``text``, or parts of one, to ``path`` as UTF-8, whole or not at all; see `whole_file`."""
    with whole_file(path, private=private) as file:
        for part in (text,) if isinstance(text, str) else text:
            file.write(part.encode())


@contextmanager
def whole_file(path: str | Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for writing, so that the path holds the old file or the new one and never a part.

    What is written goes to a new file in the same folder, at the end to the disk, and then in the place of the old one;
    an error in between leaves the old one. A link is followed; the permissions of an existing file are kept. Raises
    OSError if the file cannot be written, a full disk included, naming it, or if the old one is a database: the old
    file is untouched, and no new one is left.

    ``private``: rows, scores of people or secrets are written: the file is for its owner alone, whatever an existing
        one was and wherever the rows came from. Where the system can, it has no name before it is whole, so that a
        process which is killed while it writes leaves nothing.
    """
    target = Path(os.path.realpath(path))
    try:
        with _whole_file(target, private) as file:
            yield file
    except OSError as error:
        another = error.filename is not None and Path(error.filename).parent != target.parent
        if error.errno is None or another:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def _whole_file(target: Path, private: bool) -> Iterator[IO[bytes]]:
    if _is_database(target):
        raise OSError(errno.EEXIST, _KEPT, str(target))
    handle, name = _new_file(target, private)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(handle)
            if name is None:
                name = str(target.parent / f".{target.name}.{secrets.token_hex(4)}")
                os.link(f"/proc/self/fd/{handle}", name, src_dir_fd=handle, follow_symlinks=True)  # linkat, not link
        Path(name).chmod(0o600 if private else _mode(target))
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name or "").unlink()
        raise


def _is_database(target: Path) -> bool:
    with suppress(OSError):  # what nobody may read is replaced if it may be
        if target.is_file():
            with target.open("rb") as file:
                return file.read(len(_DATABASE)) == _DATABASE
    return False


def _new_file(target: Path, private: bool) -> tuple[int, str | None]:
    """Open a file for its owner alone; a private one has no name where that can be."""
    if private and hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").is_dir():
        with suppress(OSError):  # not on this file system
            return os.open(target.parent, os.O_TMPFILE | os.O_WRONLY, 0o600), None
    return tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")


def write_new(path: str | Path, content: bytes = b"", mode: int = 0o600) -> None:
    """Write a file that must not be there yet, whole and to the disk or not at all.

    Raises OSError if it cannot be made, FileExistsError if it is there.
    """
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
    except BaseException:  # a part of a key would pass for one that was damaged later
        Path(path).unlink()
        raise


def sync_folder(path: Path) -> None:
    """Bring the names of the files in a folder to the disk."""
    if os.name != "posix":  # a folder cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def at_home(path: str | os.PathLike[str]) -> str:
    """Return what to write in place of a ``~`` that no shell has replaced; "" where there is none."""
    full = os.path.expanduser(path)  # noqa: PTH111 -- of a user that is not known, a Path raises
    return "" if full == os.fspath(path) else f" For a ~ that is your own folder write {full}."


@contextmanager
def named_errors(path: str | os.PathLike[str], what: str, kind: type[SottovoceError]) -> Iterator[None]:
    """Have whatever is wrong with a file told by an error of a ``kind`` that names it."""
    try:
        yield
    except OSError as error:
        raise kind(f"{path}: cannot read the {what}: {error.strerror}.{at_home(path)}") from None
    except UnicodeDecodeError:
        raise kind(f"{path}: this is not a {what} file: it is not UTF-8 text.") from None
    except kind as error:
        raise kind(f"{path}: {error}") from None


def _mode(target: Path) -> int:
    """Return the permissions of the file to replace, or those that a new file gets."""
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask
