"""Files by their addresses: paths of this machine, ``s3://``, ``gs://``, ``abfs://`` and ``hdfs://``.

What opens a store (keys, endpoints) is in a file system of pyarrow, never in a path: each path can be shown.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from sottovoce._files import at_home
from sottovoce._optional import pa
from sottovoce._validation import in_order, nearest
from sottovoce.exceptions import ParameterError, TableError

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/?]*)/?(.*)", re.DOTALL)
_QUERY: Final = re.compile(r"\?[A-Za-z_][\w.-]*=[^\s'\"]*")
_WILD: Final = re.compile(r"[*?[]")
_SCHEMES: Final = {
    **{name: name for name in ("s3", "gs", "abfs", "hdfs", "viewfs")},
    "s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs",
}  # fmt: skip

Stamp = tuple[Any, ...]


class DataFile:
    """One file, somewhere. It can be pickled, and then be opened by another machine that reaches it.

    ``filesystem``: of pyarrow. ``path``: what that calls it.
    ``shown``: its address, for messages.
    """

    def __init__(self, filesystem: Any, path: str, shown: str) -> None:
        self.filesystem, self.path, self.shown = filesystem, path, shown

    def __str__(self) -> str:
        return self.shown

    @property
    def is_local(self) -> bool:
        return bool(self.filesystem.type_name == "local")

    def stamp(self) -> Stamp:
        """Return what changes when the file is written again: size, time and, where there is one, the store's tag."""
        if self.is_local:
            try:
                known = Path(self.path).stat()
            except OSError as error:
                raise unreadable(Path(self.path), error) from None
            return known.st_size, known.st_mtime_ns, known.st_ino, known.st_dev
        with _wrapped(self.shown):
            info = self.filesystem.get_file_info(self.path)
            if info.type != pa.fs.FileType.File:
                raise FileNotFoundError
            with self.filesystem.open_input_file(self.path) as file:
                tags = file.metadata() or {}
            return info.size, info.mtime_ns, tuple(sorted((str(key), bytes(tags[key])) for key in tags))

    def refuse_changed(self, stamp: Stamp) -> None:
        """Refuse a file that is not what it was, by the stamp of then or the beginning of it."""
        if stamp and self.stamp()[: len(stamp)] != stamp:
            raise changed(self)

    def portable(self, stamp: Stamp) -> Stamp:
        """Return the beginning of a stamp that is the same on all machines that reach the file."""
        return stamp[:2] if self.is_local else stamp

    def same_file(self, path: Path) -> bool:
        return self.is_local and Path(self.path).resolve() == path.resolve()


def file_here(path: Path) -> DataFile:
    return DataFile(pa.fs.LocalFileSystem(), str(path), str(path))


def found_files(path: str | Path | Sequence[str | Path], ending: str, filesystem: Any = None) -> list[DataFile]:
    """Return the files that are meant, in order.

    ``path``: files, folders (their files with that ending, in the order of their names) and patterns with ``*``, each a
      path or an address.
    ``filesystem``: of pyarrow, of which these are paths; None: this machine, or what an address names.
    """
    given = [path] if isinstance(path, (str, os.PathLike)) else in_order("path", path, "a path or a list of them")
    stores: dict[tuple[str, str], tuple[Any, str]] = {}
    found: list[DataFile] = []
    for entry in given:
        parts = _ADDRESS.fullmatch(entry) if isinstance(entry, str) else None
        if filesystem is not None:
            _refuse_no_filesystem(filesystem, is_address=parts is not None)
            found += _listed(filesystem, "", str(entry), f"{filesystem.type_name}://", ending)
        elif parts is None or parts[1].lower() == "file":
            found += _local(Path(entry if parts is None else "/" + unquote(parts[3])), ending)
        else:
            scheme, place, inside = parts[1].lower(), parts[2], parts[3]
            if (scheme, place) not in stores:
                stores[scheme, place] = _opened(scheme, place, inside)
            found += _listed(*stores[scheme, place], inside, f"{scheme}://{place}/", ending)
    if not found:
        raise ParameterError(f"path must name at least one {ending[1:].capitalize()} file; got {path!r}.")
    return found


def _refuse_no_filesystem(filesystem: Any, *, is_address: bool) -> None:
    if not isinstance(filesystem, pa.fs.FileSystem):
        raise ParameterError(
            f"filesystem must be one of pyarrow.fs; got {type(filesystem).__name__}. Of fsspec: "
            "pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(...))."
        )
    if is_address:
        raise ParameterError('filesystem says where path is: give the path there, such as "bucket/folder".')


def _opened(scheme: str, place: str, inside: str) -> tuple[Any, str]:
    """Return a store by its address, which holds no key, and what its own paths begin with there."""
    shown = f"{scheme}://{place.rpartition('@')[2]}"
    if scheme not in _SCHEMES:
        raise ParameterError(f"{shown}: files are read from paths and {', '.join(f'{one}://' for one in _SCHEMES)}.")
    if ":" in place.rpartition("@")[0] or _QUERY.search(inside):
        raise ParameterError(
            f"{shown}: an address is shown in messages, and takes neither keys nor options. Give filesystem=, such as "
            'pyarrow.fs.S3FileSystem(access_key=..., secret_key=...), and path="bucket/folder".'
        )
    with _wrapped(shown):
        filesystem, root = pa.fs.FileSystem.from_uri(f"{_SCHEMES[scheme]}://{place}/")
    return filesystem, f"{root.rstrip('/')}/" if root else ""


def _local(entry: Path, ending: str) -> list[DataFile]:
    is_pattern = bool(_WILD.search(str(entry))) and not entry.exists()
    if not (is_pattern or entry.is_dir()):
        return [file_here(entry)]
    # a pattern may be absolute
    names = glob.glob(str(entry), recursive=True) if is_pattern else entry.glob(f"*{ending}")  # noqa: PTH207
    paths = sorted(path for path in map(Path, names) if path.is_file())
    if not paths:
        raise _nothing(str(entry), ending, is_pattern=is_pattern)
    return [*map(file_here, paths)]


def _listed(filesystem: Any, root: str, inside: str, before: str, ending: str) -> list[DataFile]:
    """Return the files of a store that one entry means.

    ``root``, ``before``: what paths begin with there, and in messages.
    """
    path, shown = f"{root}{inside}".rstrip("/") or "/", f"{before}{inside}".rstrip("/")
    kinds, wild = pa.fs.FileType, _WILD.search(path)
    with _wrapped(shown):
        kind = filesystem.get_file_info(path).type
        if kind == kinds.File:
            paths = [path]
        elif wild or kind == kinds.Directory:
            top = path[: wild.start()].rpartition("/")[0] if wild else path
            under = filesystem.get_file_info(pa.fs.FileSelector(top, recursive=bool(wild)))
            files = sorted(each.path for each in under if each.type == kinds.File)
            paths = [each for each in files if (_fits(each, path) if wild else each.endswith(ending))]
        else:
            raise FileNotFoundError
    if not paths:
        raise _nothing(shown, ending, is_pattern=bool(wild))
    return [DataFile(filesystem, each, f"{before}{each.removeprefix(root)}") for each in paths]


def _nothing(shown: str, ending: str, *, is_pattern: bool) -> TableError:
    if is_pattern:
        return TableError(f"{shown}: no file fits this pattern.")
    return TableError(
        f"{shown}: the folder holds no file with the ending {ending}. Folders inside it are not looked into: give a "
        f"pattern such as {shown}/**/*{ending}."
    )


def _fits(path: str, pattern: str) -> bool:
    """Return whether a path fits a pattern: ``*`` stays within a folder, ``**`` goes through any number of them."""
    (name, _, rest), (part, _, parts) = path.partition("/"), pattern.partition("/")
    if part == "**":
        return not parts or _fits(path, parts) or (bool(rest) and _fits(rest, pattern))
    return fnmatchcase(name, part) and (_fits(rest, parts) if rest and parts else rest == parts)


# ------------------------------------------------------------------ what goes wrong


@contextmanager
def _wrapped(shown: str) -> Iterator[None]:
    """Tell what goes wrong with a store as an error about an address."""
    try:
        yield
    except FileNotFoundError:
        raise TableError(f"{shown}: there is no such file.") from None
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{shown}: cannot read: {words_of(error)}") from None


def first_line(error: object) -> str:
    return str(error).partition("\n")[0].rstrip(".!") + "."


def words_of(error: BaseException) -> str:
    """Return what a store says, without the queries of its addresses, in which Azure has keys."""
    return first_line(_QUERY.sub("?...", str(error)))


def unreadable(path: Path, error: OSError) -> TableError:
    near = ""
    if isinstance(error, FileNotFoundError):
        with contextlib.suppress(OSError):
            near = nearest(path.name, [other.name for other in path.parent.iterdir()])
        near = near or " Check the path."
    return TableError(f"{path}: cannot read the file: {os.strerror(error.errno or 0)}.{near}{at_home(path)}")


def changed(file: object) -> TableError:
    return TableError(
        f"{file}: the file is not the one that was opened (another size, date or number of rows). It is read more than "
        "once, and training is private only if it is the same each time: let it be, and open it again."
    )
