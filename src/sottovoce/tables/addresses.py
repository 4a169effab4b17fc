"""Files by their addresses: paths of this machine, ``s3://``, ``gs://``, ``abfs://`` and ``hdfs://``.

What opens a store (keys, endpoints) is kept out of every text: a file is shown by its address without them.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from sottovoce._optional import pa
from sottovoce._validation import in_order
from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables.text import first_line, unreadable

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_QUERY: Final = re.compile(r"\?([A-Za-z_]\w*=[^/&]*(?:&[A-Za-z_]\w*=[^/&]*)*)$")
_WILD: Final = re.compile(r"[*?[]")
_SAME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}
_SYSTEMS: Final = {
    "s3": "S3FileSystem", "gs": "GcsFileSystem", "abfs": "AzureFileSystem", "hdfs": "HadoopFileSystem",
    "viewfs": "HadoopFileSystem",
}  # fmt: skip
_LEAST_SECRET: Final = 4  # characters; shorter values of options would be cut out of ordinary words

Stamp = tuple[Any, ...]


class _Store:
    """Where files are, with what opens it. It is pickled with its options, and connects when it is first used."""

    def __init__(self, scheme: str, place: str, options: Mapping[str, Any], query: str) -> None:
        self.scheme, self.place, self.options, self.query = scheme, place, dict(options), query
        self.user, _, self.host = place.rpartition("@")
        # of Azure the host may be that of an account, and the container stand before it, where others have a user
        self.is_account = _SAME.get(scheme, scheme) == "abfs" and "." in self.host
        self.container = self.user.partition(":")[0] if self.is_account and ".dfs." in self.host else ""
        self._filesystem: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_filesystem": None}

    def __repr__(self) -> str:
        return f"{self.scheme}://{f'{self.container}@' if self.container else ''}{self.host}"

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    @property
    def is_server(self) -> bool:
        return self.scheme in ("hdfs", "viewfs")

    @property
    def root(self) -> str:
        """What the store's own paths begin with where an address has the store: the bucket, or the container."""
        if self.is_server:
            return "/"
        return f"{self.container}/" if self.container else "" if self.is_account else f"{self.host}/"

    @property
    def filesystem(self) -> Any:
        if self._filesystem is None:
            self._filesystem = self._connected()
        return self._filesystem

    def _connected(self) -> Any:
        if self.is_local:
            return pa.fs.LocalFileSystem()
        scheme = _SAME.get(self.scheme, self.scheme)
        if scheme not in _SYSTEMS:
            raise ParameterError(
                f"{self!r}: files are read from paths and {', '.join(f'{one}://' for one in _SYSTEMS)}."
            )
        with _wrapped(repr(self), self):
            if not self.options:
                query = f"?{self.query}" if self.query else ""
                return pa.fs.FileSystem.from_uri(f"{scheme}://{self.place}{query}")[0]
            host, _, port = self.host.partition(":")
            where: dict[str, Any] = {"account_name": host.partition(".")[0]} if self.is_account else {}
            if self.is_server:
                where = {"host": host or "default", **({"port": int(port)} if port else {})}
            try:
                return getattr(pa.fs, _SYSTEMS[scheme])(**{**where, **self.options})
            except TypeError as error:
                raise ParameterError(
                    f"storage_options for {self!r} do not fit pyarrow.fs.{_SYSTEMS[scheme]}: {self.hidden(str(error))}."
                ) from None

    def hidden(self, text: str) -> str:
        """Return a text of somebody else's without what opens the store."""
        opening = self.user.removeprefix(self.container).split(":")
        secrets = [
            *_texts(self.options.values()),
            *(value for _, value in parse_qsl(self.query)),
            *opening,
            *map(unquote, opening),
        ]
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= _LEAST_SECRET:
                text = text.replace(secret, "***")
        return text


_HERE: Final = _Store("file", "", {}, "")


class DataFile:
    """One file, somewhere. It can be pickled, and then be opened by another machine that reaches it.

    ``shown``: its address without keys, for messages.
    ``path``: what its store calls it.
    """

    def __init__(self, store: _Store, path: str, shown: str) -> None:
        self._store, self.path, self.shown = store, path, shown

    def __str__(self) -> str:
        return self.shown

    @property
    def is_local(self) -> bool:
        return self._store.is_local

    @property
    def filesystem(self) -> Any:
        return self._store.filesystem

    def hidden(self, text: str) -> str:
        return self._store.hidden(text)

    def stamp(self) -> Stamp:
        """Return what changes when the file is written again: size, time and, where there is one, the store's tag."""
        if self.is_local:
            try:
                known = Path(self.path).stat()
            except OSError as error:
                raise unreadable(Path(self.path), error) from None
            return known.st_size, known.st_mtime_ns, known.st_ino, known.st_dev
        with _wrapped(self.shown, self._store):
            info = self.filesystem.get_file_info(self.path)
            if info.type != pa.fs.FileType.File:
                raise FileNotFoundError
            with self.filesystem.open_input_file(self.path) as file:
                tags = file.metadata() or {}
            return info.size, info.mtime_ns, tuple(sorted((str(key), bytes(tags[key])) for key in tags))

    def portable(self, stamp: Stamp) -> Stamp:
        """Return the beginning of a stamp that is the same on all machines that reach the file."""
        return stamp[:2] if self.is_local else stamp

    def same_file(self, path: Path) -> bool:
        return self.is_local and Path(self.path).resolve() == path.resolve()


@contextmanager
def _wrapped(shown: str, store: _Store) -> Iterator[None]:
    """Tell what goes wrong with a store as an error about an address, without what opens it."""
    try:
        yield
    except FileNotFoundError:
        raise TableError(f"{shown}: there is no such file.") from None
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{shown}: cannot read: {first_line(store.hidden(str(error)))}") from None


def is_address(path: object) -> bool:
    return isinstance(path, str) and _ADDRESS.fullmatch(path) is not None


def found_files(
    path: str | Path | Sequence[str | Path], ending: str, storage_options: Mapping[str, Any] | None = None
) -> list[DataFile]:
    """Return the files that are meant, in order.

    ``path``: files, folders (their files with that ending, in the order of their names) and patterns with ``*``, each a
      path or an address.
    """
    given = [path] if isinstance(path, (str, os.PathLike)) else in_order("path", path, "a path or a list of them")
    options = dict(storage_options or {})
    if options and not any(is_address(entry) for entry in given):
        raise ParameterError("storage_options belong to addresses such as s3://bucket/folder; all of path is local.")
    stores: dict[tuple[str, str, str], _Store] = {}
    found: list[DataFile] = []
    for entry in given:
        found += _remote(str(entry), ending, options, stores) if is_address(entry) else _local(Path(entry), ending)
    if not found:
        raise ParameterError(f"path must name at least one {ending[1:].capitalize()} file; got {path!r}.")
    return found


def _local(entry: Path, ending: str) -> list[DataFile]:
    if entry.is_dir():
        inside = sorted(entry.glob(f"*{ending}"))
        if not inside:
            raise TableError(f"{entry}: the folder holds no file with the ending {ending}.")
    elif _WILD.search(str(entry)) and not entry.exists():
        inside = sorted(Path(name) for name in glob.glob(str(entry), recursive=True) if Path(name).is_file())  # noqa: PTH207 - a pattern may be absolute
        if not inside:
            raise TableError(f"{entry}: no file fits this pattern.")
    else:
        inside = [entry]
    return [*map(file_here, inside)]


def file_here(path: Path) -> DataFile:
    return DataFile(_HERE, str(path), str(path))


def _remote(
    address: str, ending: str, options: dict[str, Any], stores: dict[tuple[str, str, str], _Store]
) -> list[DataFile]:
    scheme, _, rest = address.partition("://")
    scheme = scheme.lower()
    if scheme == "file":
        return _local(Path("/" + unquote(rest).partition("/")[2]), ending)
    query = _QUERY.search(rest)
    rest, asked = (rest[: query.start()], query[1]) if query else (rest, "")
    place, _, inside = rest.partition("/")
    if asked and options:
        raise ParameterError("storage_options and a query (?...) of the address: give all of it in storage_options.")
    store = stores.setdefault((scheme, place, asked), _Store(scheme, place, options, asked))
    path = f"{store.root}{inside}".rstrip("/") or "/"

    def files(paths: Iterable[str]) -> list[DataFile]:
        return [DataFile(store, each, f"{store!r}/{each.removeprefix(store.root)}") for each in paths]

    shown = f"{store!r}/{inside}".rstrip("/")
    with _wrapped(shown, store):
        wild = _WILD.search(path)
        info = store.filesystem.get_file_info(path)
        if wild and info.type != pa.fs.FileType.File:
            top = path[: wild.start()].rpartition("/")[0]
            inside_top = store.filesystem.get_file_info(pa.fs.FileSelector(top, recursive=True))
            fitting = sorted(
                info.path for info in inside_top if info.type == pa.fs.FileType.File and _fits(info.path, path)
            )
            if not fitting:
                raise TableError(f"{shown}: no file fits this pattern.")
            return files(fitting)
        if info.type == pa.fs.FileType.NotFound:
            raise FileNotFoundError
        if info.type != pa.fs.FileType.Directory:
            return files([path])
        listed = store.filesystem.get_file_info(pa.fs.FileSelector(path, recursive=False))
        named = sorted(info.path for info in listed if info.type == pa.fs.FileType.File and info.path.endswith(ending))
        if not named:
            raise TableError(
                f"{shown}: the folder holds no file with the ending {ending}. Folders inside it are not looked into: "
                f"give a pattern such as {shown}/**/*{ending}."
            )
        return files(named)


def _fits(path: str, pattern: str) -> bool:
    """Return whether a path fits a pattern: ``*`` stays within a folder, ``**`` goes through any number of them."""

    def fits(names: list[str], parts: list[str]) -> bool:
        if not parts:
            return not names
        if parts[0] == "**":
            return any(fits(names[k:], parts[1:]) for k in range(len(names) + 1))
        return bool(names) and fnmatchcase(names[0], parts[0]) and fits(names[1:], parts[1:])

    return fits(path.split("/"), pattern.split("/"))


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _texts(value.values())
        elif isinstance(value, (list, tuple)):
            yield from _texts(value)
