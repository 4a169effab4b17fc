"""Text files as streams: decompressed, checked, without what is no data."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import io
import itertools
import os
import re
import shutil
import stat
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sottovoce._files import at_home
from sottovoce._validation import nearest
from sottovoce.exceptions import ParameterError, TableError

BLOCK_BYTES = 1 << 20  # read and parsed at once
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BLANK = b"\r\n"
COMPRESSIONS: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open}
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

# called with the bytes that were read, and with those of the whole file where that is known
Reported: TypeAlias = "Callable[[int, int | None], None]"


class Source:
    """The bytes of a file or of a pipe, to be read from the start as often as it is asked.

    A pipe gives its bytes once. Unless that is enough they are kept: the first 4 MiB in memory, more in a private file
    that has no name and is gone with the process.

    ``once``: whether one reading is enough.
    ``size``: bytes; None for a pipe that is not kept.
    ``again``: whether it can be read again.

    Raises TableError if the file cannot be read.
    """

    def __init__(self, path: Path, *, once: bool = False) -> None:
        self.path = path
        self._kept: Any = None
        self._stamp: tuple[int, ...] | None = None
        self.size: int | None = None
        try:
            mode = path.stat().st_mode
            self._is_pipe = not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
            if not self._is_pipe:
                self._stamp = self._now()
                self.size = self._stamp[2]
            elif not once:
                self._keep()
        except OSError as error:
            raise unreadable(path, error) from None
        self.again = self._kept is not None or not self._is_pipe

    def open(self) -> Any:
        if self._kept is None:
            return self.path.open("rb")
        return io.BytesIO(self._kept) if isinstance(self._kept, bytes) else io.BufferedReader(_Reading(self._kept))

    def refuse_changed(self) -> None:
        try:
            changed = self._stamp is not None and self._now() != self._stamp
        except OSError as error:
            raise unreadable(self.path, error) from None
        if changed:
            raise TableError(
                f"{self.path}: the file changed while it was in use (another size or date). It is read more than once: "
                "let it be meanwhile, and start again."
            )

    def _now(self) -> tuple[int, ...]:
        known = self.path.stat()
        return known.st_dev, known.st_ino, known.st_size, known.st_mtime_ns

    def _keep(self) -> None:
        with self.path.open("rb") as pipe:
            start = pipe.read(_PIPE_IN_MEMORY + 1)
            self.size = len(start)
            if self.size <= _PIPE_IN_MEMORY:
                self._kept = start
                return
            self._kept = tempfile.TemporaryFile(prefix="sottovoce-")  # noqa: SIM115
            weakref.finalize(self, self._kept.close)
            self._kept.write(start)
            shutil.copyfileobj(pipe, self._kept, BLOCK_BYTES)
            self._kept.flush()
            self.size = self._kept.tell()


class _Reading(io.RawIOBase):
    """One reading of an open file, from its start, with a place of its own."""

    def __init__(self, file: Any) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, os.fstat(self._file.fileno()).st_size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        found = os.pread(self._file.fileno(), len(buffer), self._at)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


@dataclass(frozen=True, slots=True)
class Lines:
    """Some whole lines of a file, one after another; ``first`` is the number of the first of them, from 1."""

    raw: bytes
    first: int

    def numbered(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not blank, with their numbers."""
        return ((number, text) for number, text in enumerate(self.raw.splitlines(), self.first) if text)


class TextStream:
    """The bytes of a text file, decompressed and checked, without a byte order mark, skipped lines and comments.

    A comment becomes a blank line, so that lines keep their numbers.

    ``skip_rows``: lines to skip at the start.
    ``comment``: what a line begins with that is no data.
    ``block_bytes``: read at once.
    ``report``: told of each block.

    Reading raises TableError if the file is missing, empty, binary, truncated, not UTF-8, or has too few lines.
    """

    def __init__(
        self,
        source: Source,
        skip_rows: int = 0,
        comment: str | None = None,
        block_bytes: int = BLOCK_BYTES,
        report: Reported | None = None,
    ) -> None:
        if isinstance(skip_rows, bool) or not isinstance(skip_rows, int) or skip_rows < 0:
            raise ParameterError(f"skip_rows must be a whole number >= 0; got {skip_rows!r}.")
        self._source, self._skip_rows, self._block_bytes, self._report = source, skip_rows, block_bytes, report
        self._left, self._number = b"", skip_rows + 1
        blocks = self._checked()
        self._blocks = blocks if comment is None else _without_comments(blocks, comment)

    def first_line(self) -> bytes | None:
        """Take the first line that is not blank, without its end; None if there is none."""
        text = b""
        for block in self._blocks:
            text += block
            end = _LINE_END.search(text, len(text) - len(text.lstrip(_BLANK)))
            # a \r that ends the block may be half of a line end
            if end is not None and end.end() < len(text):
                break
        line, *rest = _LINE_END.split(text.lstrip(_BLANK), maxsplit=1)
        self._left = b"".join(rest)
        self._number += _line_ends(text[: len(text) - len(self._left)])
        return line or None

    def put_back(self, line: bytes) -> None:
        """Give a line again that `first_line` took."""
        self._left = line + b"\n" + self._left
        self._number -= 1

    def lines(self) -> Iterator[Lines]:
        """Yield the lines of the file, some at a time."""
        held: list[bytes] = []
        number = self._number
        for block in itertools.chain([self._left], self._blocks):
            # a \r that ends the block may be half of a line end
            cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, max(0, len(block) - 1))) + 1
            held.append(block[:cut] if cut else block)
            if cut:
                lines = Lines(b"".join(held), number)
                yield lines
                number += _line_ends(lines.raw)
                held = [block[cut:]]
        if rest := b"".join(held):
            yield Lines(rest, number)

    def _checked(self) -> Iterator[bytes]:
        path, passed, left, block = self._source.path, 0, self._skip_rows, b""
        decoder = codecs.getincrementaldecoder("utf-8")()
        for block in self._decompressed():
            if passed == 0 and (found := next((what for what in _BINARY_STARTS if block.startswith(what[0])), None)):
                raise TableError(f"{path}: the file {found[1]}.")
            if (zero := block.find(b"\0")) >= 0:
                raise TableError(
                    f"{path}, {self._place(passed + zero)}: a NUL byte: this is a binary file, or damaged. Give CSV, "
                    "or a Parquet file."
                )
            held = len(decoder.getstate()[0])  # of a character that the last block ended in
            if held or not block.isascii():
                self._refuse_undecoded(decoder, block, passed - held)
            kept = block.removeprefix(codecs.BOM_UTF8) if passed == 0 else block
            passed += len(block)
            while left and kept:
                _, newline, kept = kept.partition(b"\n")
                left -= bool(newline)
            if kept:
                yield kept
        self._refuse_undecoded(decoder, b"", passed - len(decoder.getstate()[0]))
        if left:
            raise TableError(
                f"{path}: skip_rows = {self._skip_rows}, but the file has only {self._skip_rows - left + 1} lines."
            )
        if not block.endswith((b"\n", b"\r")):
            yield b"\n"  # a quote that is open at the end runs over it, and is seen by that

    def _refuse_undecoded(self, decoder: codecs.IncrementalDecoder, block: bytes, start: int) -> None:
        try:
            decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            raise TableError(
                f"{self._source.path}, {self._place(start + error.start)}: the byte 0x{error.object[error.start]:02x} "
                "is not UTF-8: this is a binary file, or text in another encoding. Save it as UTF-8 (in Excel: CSV "
                "UTF-8), or type: iconv -f WINDOWS-1252 -t UTF-8 OLD.csv > NEW.csv, where WINDOWS-1252 is the encoding "
                "of most files of Windows in the languages of Western Europe."
            ) from None

    def _place(self, offset: int) -> str:
        """Return the line of a byte, for which the file is read once more; of a pipe, which cannot be, the byte."""
        if not self._source.again:
            return f"byte {offset + 1}"
        line = 1
        for block in TextStream(self._source, block_bytes=self._block_bytes)._decompressed():
            line += block.count(b"\n", 0, offset)
            if (offset := offset - len(block)) <= 0:
                break
        return f"line {line}"

    def _decompressed(self) -> Iterator[bytes]:
        """Yield the decompressed bytes; the first block is long enough to tell what the file is."""
        path, source = self._source.path, self._source
        compression = COMPRESSIONS.get(path.suffix.lower())
        first = True
        try:
            with source.open() as file:
                opened = file if compression is None else compression(file)
                while block := opened.read(max(self._block_bytes, _LONGEST_START) if first else self._block_bytes):
                    first = False
                    if self._report is not None:
                        self._report(file.tell() if source.size is not None else 0, source.size)
                    yield block
        except EOFError:
            raise TableError(f"{path}: the compressed file ends too early: it is truncated. Copy it again.") from None
        except zlib.error as error:
            raise _damaged(path, error) from None
        except OSError as error:
            if error.errno is not None:
                raise unreadable(path, error) from None
            raise _damaged(path, error) from None
        if first:
            raise TableError(f"{path}: the file is empty.")


def _line_ends(raw: bytes) -> int:
    ends = raw.count(b"\n")
    return ends + raw.count(b"\r") - raw.count(b"\r\n") if b"\r" in raw else ends


def _without_comments(blocks: Iterator[bytes], comment: str) -> Iterator[bytes]:
    pattern = re.compile(rb"(?m)^" + re.escape(comment.encode()) + rb"[^\r\n]*")
    held: list[bytes] = []
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        held.append(block[:cut] if cut else block)
        if cut:
            yield pattern.sub(b"", b"".join(held))
            held = [block[cut:]]
    yield pattern.sub(b"", b"".join(held))


def first_line(error: object) -> str:
    return str(error).partition("\n")[0].rstrip(".") + "."


def unreadable(path: Path, error: OSError) -> TableError:
    near = ""
    if isinstance(error, FileNotFoundError):
        with contextlib.suppress(OSError):
            near = nearest(path.name, [other.name for other in path.parent.iterdir()])
        near = near or " Check the path."
    return TableError(f"{path}: cannot read the file: {error.strerror}.{near}{at_home(path)}")


def _damaged(path: Path, error: Exception) -> TableError:
    return TableError(
        f"{path}: cannot be decompressed: {first_line(error)} The file is damaged, or not what its name says."
    )
