"""Text files as streams: decompressed, checked, without what is no data."""

from __future__ import annotations

import codecs
import contextlib
import mmap
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sottovoce._files import at_home
from sottovoce._optional import pa
from sottovoce._validation import nearest
from sottovoce.exceptions import TableError

BLOCK_BYTES = 1 << 20  # read and parsed at once
_LINE_END = re.compile(rb"\r\n|\n|\r")
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2"}
_BINARY_STARTS = (
    (b"\x1f\x8b", "is compressed with gzip: name it with .gz at the end"),
    (b"BZh", "is compressed with bzip2: name it with .bz2 at the end"),
    (b"PAR1", 'is a Parquet file: name it with .parquet at the end, or give format="parquet"'),
    (b"PK\x03\x04", "is a zip archive or a spreadsheet: unpack it, or export it as CSV"),
    (b"\xff\xfe", "is UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16 text: save it as UTF-8"),
)
_LONGEST_START = 4
_PIPE_IN_MEMORY = 1 << 22


class Source:
    """The bytes of a file or of a pipe, to be read from the start as often as it is asked.

    A pipe gives its bytes once. They are kept: up to 4 MiB in memory, more in a private file that has no name and is
    gone with the process.

    ``kept``: these bytes; None of a file.

    Raises TableError if the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            mode = path.stat().st_mode
            self.kept = None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else _kept(path)
        except OSError as error:
            raise unreadable(path, error) from None

    def open(self) -> Any:
        return self.path.open("rb") if self.kept is None else pa.BufferReader(self.kept)


def _kept(path: Path) -> Any:
    with path.open("rb") as pipe:
        start = pipe.read(_PIPE_IN_MEMORY + 1)
        if len(start) <= _PIPE_IN_MEMORY:
            return start
        with tempfile.TemporaryFile(prefix="sottovoce-") as file:
            file.write(start)
            shutil.copyfileobj(pipe, file, BLOCK_BYTES)
            file.flush()
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@dataclass(frozen=True, slots=True)
class Lines:
    """Some whole lines of a file, one after another; ``first`` is the number of the first of them, from 1."""

    raw: bytes
    first: int

    def numbered(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not blank, with their numbers."""
        return ((number, text) for number, text in enumerate(self.raw.splitlines(), self.first) if text)


def text_lines(source: Source, *, skip_rows: int = 0, comment: str | None = None) -> Iterator[Lines]:
    """Yield the lines of a text file, some at a time: decompressed and checked, without a byte order mark.

    A comment becomes a blank line, so that lines keep their numbers.

    ``skip_rows``: lines to skip at the start.
    ``comment``: what a line begins with that is no data.

    Raises TableError if the file is missing, empty, binary, truncated, not UTF-8, or has too few lines.
    """
    comments = None if comment is None else re.compile(rb"(?m)^" + re.escape(comment.encode()) + rb"[^\n]*")
    left, after = skip_rows, 1
    for raw in _whole_lines(source):
        number, after = after, after + _line_ends(raw)
        raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        if skipped := [end.end() for end in islice(_LINE_END.finditer(raw), left)]:
            raw, left, number = raw[skipped[-1] :], left - len(skipped), number + len(skipped)
        if comments is not None:
            raw = comments.sub(b"", _LINE_END.sub(b"\n", raw))  # no \r and \n may meet where a comment was
        if raw:
            yield Lines(_utf8(source, raw, number), number)
    if left:
        raise TableError(f"{source.path}: skip_rows = {skip_rows}, but the file has only {skip_rows - left} lines.")


def _whole_lines(source: Source) -> Iterator[bytes]:
    """Yield decompressed bytes up to an end of a line; the last line gets one."""
    held: list[bytes] = []
    number = 1
    for block in _decompressed(source):
        if (zero := block.find(b"\0")) >= 0:
            line = number + _line_ends(b"".join([*held, block[:zero]]))
            raise TableError(
                f"{source.path}, line {line}: a NUL byte: this is a binary file, or damaged. Give CSV, or a Parquet "
                "file."
            )
        # a \r that ends the block may be half of a line end
        cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, max(0, len(block) - 1))) + 1
        held.append(block[:cut] if cut else block)
        if cut:
            raw = b"".join(held)
            yield raw
            number, held = number + _line_ends(raw), [block[cut:]]
    if rest := b"".join(held):
        # a quote that is open at the end runs over the line end, and is seen by that
        yield rest if rest.endswith(b"\r") else rest + b"\n"


def _utf8(source: Source, raw: bytes, number: int) -> bytes:
    try:
        if not raw.isascii():
            raw.decode()
    except UnicodeDecodeError as error:
        raise TableError(
            f"{source.path}, line {number + _line_ends(raw[: error.start])}: the byte 0x{raw[error.start]:02x} "
            "is not UTF-8: this is a binary file, or text in another encoding. Save it as UTF-8 (in Excel: CSV "
            "UTF-8), or type: iconv -f WINDOWS-1252 -t UTF-8 OLD.csv > NEW.csv, where WINDOWS-1252 is the encoding "
            "of most files of Windows in the languages of Western Europe."
        ) from None
    return raw


def _decompressed(source: Source) -> Iterator[bytes]:
    """Yield the decompressed bytes; the first block is long enough to tell what the file is."""
    path, compression, first = source.path, COMPRESSIONS.get(source.path.suffix.lower()), True
    try:
        with source.open() as file:
            opened = file if compression is None else pa.CompressedInputStream(file, compression)
            while block := opened.read(max(BLOCK_BYTES, _LONGEST_START) if first else BLOCK_BYTES):
                if first and (found := next((why for what, why in _BINARY_STARTS if block.startswith(what)), None)):
                    raise TableError(f"{path}: the file {found}.")
                first = False
                yield block
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(path, error) from None
        raise TableError(
            f"{path}: cannot be decompressed: {first_line(error)} The file is damaged, or not what its name says. Copy "
            "it again."
        ) from None
    if first:
        raise TableError(f"{path}: the file is empty.")


def _line_ends(raw: bytes) -> int:
    ends = raw.count(b"\n")
    return ends + raw.count(b"\r") - raw.count(b"\r\n") if b"\r" in raw else ends


def first_line(error: object) -> str:
    return str(error).partition("\n")[0].rstrip(".") + "."


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
