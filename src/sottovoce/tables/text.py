"""Text files a block at a time: decompressed, checked, and cut into whole lines that know their number."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import os
import stat
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from sottovoce.exceptions import ParameterError, TableError

__all__ = ["BLOCK_BYTES", "COMPRESSIONS", "Lines", "Reported", "Source", "TextFile", "first_line", "unreadable"]

BLOCK_BYTES = 1 << 22
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
        self._bytes = b""
        self._file: IO[bytes] | None = None
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
        self._is_kept = self._is_pipe and not once
        self.again = self._is_kept or not self._is_pipe

    def open(self) -> IO[bytes]:
        if self._file is not None:
            return io.BufferedReader(_Again(self._file))
        return io.BytesIO(self._bytes) if self._is_kept else self.path.open("rb")

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
            self._bytes = pipe.read(_PIPE_IN_MEMORY + 1)
            if len(self._bytes) <= _PIPE_IN_MEMORY:
                self.size = len(self._bytes)
                return
            self._file = tempfile.TemporaryFile(prefix="sottovoce-")  # noqa: SIM115 - it lives as long as this object
            weakref.finalize(self, self._file.close)
            self._file.write(self._bytes)
            self._bytes = b""
            while piece := pipe.read(BLOCK_BYTES):
                self._file.write(piece)
        self._file.flush()
        self.size = self._file.tell()


class _Again(io.RawIOBase):
    """A file that is read from the start whatever place others have read to."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._place = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: os.fstat(self._file.fileno()).st_size}[whence]
        self._place = start + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, into: Any) -> int:
        piece = os.pread(self._file.fileno(), len(into), self._place)
        into[: len(piece)] = piece
        self._place += len(piece)
        return len(piece)


@dataclass(frozen=True, slots=True)
class Lines:
    """Some whole lines of a file, one after another."""

    raw: bytes
    first: int  # number of the first of them in the file, from 1

    @property
    def stop(self) -> int:
        ends = self.raw.count(b"\n")
        returns = self.raw.count(b"\r")
        return self.first + ends + (returns - self.raw.count(b"\r\n") if returns else 0)

    def number_of(self, row: int, is_data: Callable[[bytes], bool]) -> int | None:
        """Return the number of the line that holds a row, counted from 0 among the lines with data; None if none."""
        for number, text in enumerate(self.raw.splitlines(), start=self.first):
            if is_data(text):
                if row == 0:
                    return number
                row -= 1
        return None

    def count(self, is_data: Callable[[bytes], bool]) -> int:
        return sum(map(is_data, self.raw.splitlines()))


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file, also compressed, that is read in blocks: no more of it is in memory at a time."""

    source: Source
    skip_rows: int = 0  # lines to skip at the start
    block_bytes: int = BLOCK_BYTES  # read at once; a longer line is read whole all the same
    report: Reported | None = None  # told of each block

    def __post_init__(self) -> None:
        skip_rows = self.skip_rows
        if isinstance(skip_rows, bool) or not isinstance(skip_rows, int) or skip_rows < 0:
            raise ParameterError(f"skip_rows must be a whole number >= 0; got {skip_rows!r}.")

    def lines(self) -> Iterator[Lines]:
        """Yield the lines of the file, without those to skip and without a byte order mark.

        Raises TableError if the file is missing, empty, binary, truncated, not UTF-8, or has too few lines.
        """
        held: list[bytes] = []
        number = self.skip_rows + 1
        for block in self._without_skipped():
            # a \r that ends the block may be half of a line end
            cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
            if cut == 0:
                held.append(block)
                continue
            lines = Lines(b"".join((*held, block[:cut])), number)
            yield lines
            held, number = [block[cut:]], lines.stop
        if rest := b"".join(held):
            yield Lines(rest, number)

    def _without_skipped(self) -> Iterator[bytes]:
        left = self.skip_rows
        for block in self._checked():
            kept = block
            while left and kept:
                _, newline, kept = kept.partition(b"\n")
                left -= bool(newline)
            if kept:
                yield kept
        if left:
            raise TableError(
                f"{self.source.path}: skip_rows = {self.skip_rows}, but the file has only {self.skip_rows - left + 1} "
                "lines."
            )

    def _checked(self) -> Iterator[bytes]:
        """Yield the blocks, of which all are UTF-8 text, and the first is no byte order mark."""
        path, line = self.source.path, 1
        decoder = _Utf8()
        for number, block in enumerate(self._blocks()):
            if number == 0:
                for start, remedy in _BINARY_STARTS:
                    if block.startswith(start):
                        raise TableError(f"{path}: the file {remedy}.")
            zero = block.find(b"\0")
            if zero >= 0:
                at = line + block.count(b"\n", 0, zero)
                raise TableError(
                    f"{path}, line {at}: a NUL byte: this is a binary file, or damaged. Give CSV or LIBSVM "
                    "text, or a Parquet file."
                )
            decoder.take(path, line, block)
            line += block.count(b"\n")
            yield block.removeprefix(codecs.BOM_UTF8) if number == 0 else block
        decoder.end(path, line)

    def _blocks(self) -> Iterator[bytes]:
        """Yield the decompressed bytes; the first block is long enough to tell what the file is."""
        path = self.source.path
        compression = COMPRESSIONS.get(path.suffix.lower())
        first = True
        try:
            with self.source.open() as file:
                opened = file if compression is None else compression(file)
                while block := opened.read(max(self.block_bytes, _LONGEST_START) if first else self.block_bytes):
                    first = False
                    if self.report is not None:
                        self.report(file.tell() if self.source.size is not None else 0, self.source.size)
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


class _Utf8:
    """Refuses what is not UTF-8, a block at a time."""

    def __init__(self) -> None:
        self._cut = b""  # the start of a character that a block ended in

    def take(self, path: Path, line: int, block: bytes) -> None:
        if not self._cut and block.isascii():
            return
        text = self._cut + block
        self._cut = b""
        try:
            text.decode()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data" and error.end == len(text):
                self._cut = text[error.start :]
            else:
                raise _not_utf8(path, line + text.count(b"\n", 0, error.start), text[error.start]) from None

    def end(self, path: Path, line: int) -> None:
        if self._cut:
            raise _not_utf8(path, line, self._cut[0])


def first_line(error: Exception) -> str:
    text = str(error).partition("\n")[0].rstrip(".")
    return f"{text}."


def unreadable(path: Path, error: OSError) -> TableError:
    return TableError(f"{path}: cannot read the file: {error.strerror}.")


def _damaged(path: Path, error: Exception) -> TableError:
    return TableError(
        f"{path}: cannot be decompressed: {first_line(error)} The file is damaged, or not what its name says."
    )


def _not_utf8(path: Path, line: int, byte: int) -> TableError:
    return TableError(
        f"{path}, line {line}: the byte 0x{byte:02x} is not UTF-8: "
        "this is a binary file, or text in another encoding. Save it as UTF-8."
    )
