"""Verify a ledger, in its database or as an exported file: hashes, order, and every charge against its budget."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sottovoce._plain_data import canonical_text, parsed
from sottovoce.exceptions import AccountingError, LedgerError, LedgerIntegrityError
from sottovoce.ledger.book import Book
from sottovoce.ledger.entries import FIRST, Entry


@dataclass(frozen=True)
class Verification:
    """What a verification found.

    Attributes
    ----------
    n_entries : int
        That were read and hold together.
    head : str
        Hash of the last of them.
    anchored : bool
        Whether a hash from outside was compared: without one a cut-off end is invisible.
    problems : tuple of str
        Empty if there are none.
    """

    n_entries: int
    head: str
    anchored: bool
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


def read_row(row: tuple[int, str, str, str]) -> Entry:
    """Return the entry of a stored row, whose columns must agree with it.

    Raises LedgerIntegrityError if they do not, or if the hash is not that of the text.
    """
    seq, previous, digest, text = row
    place = f"entry {seq}"
    entry = Entry.from_text(text, place=place)
    if entry.hash != digest:
        raise LedgerIntegrityError(f"{place} was changed: its text does not have its hash.")
    if (entry.seq, entry.previous) != (seq, previous):
        raise LedgerIntegrityError(f"{place} was changed: its number or its predecessor is another one in its text.")
    return entry


def verify_book(entries: Iterable[Entry], *, expected_head: str | None = None) -> Verification:
    """Read entries from the start and check everything; the first broken entry ends it."""
    book, hashes, problems = Book(), {FIRST}, []
    try:
        for entry in entries:
            book.read(entry)
            hashes.add(book.head)
            if entry.kind == "reserve":
                problems += _overspent(book, entry)
            if entry.kind == "commit":
                problems += _dearer(book, entry)
    except LedgerIntegrityError as error:
        problems.append(str(error))
    if expected_head is not None and expected_head not in hashes and not problems:
        problems.append(
            f"no entry has the expected hash {expected_head}: entries were cut off at the end, or this is another "
            "ledger."
        )
    return Verification(book.n_entries, book.head, expected_head is not None, tuple(problems))


def verify_export(path: str | Path, *, expected_head: str | None = None) -> Verification:
    """Verify a file that `Ledger.export` wrote; no database is needed.

    Parameters
    ----------
    path : str or Path
    expected_head : str or None
        As for `Ledger.verify`.

    Returns
    -------
    Verification

    Raises
    ------
    LedgerError
        If the file cannot be read.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"{path}: cannot read the export: {error}.") from None

    def entries() -> Iterable[Entry]:
        for place, line in enumerate(lines):
            yield _read_line(line, place)

    return verify_book(entries(), expected_head=expected_head)


def _read_line(line: str, place: int) -> Entry:
    try:
        data = parsed(line)
        text, digest, seq = canonical_text(data["entry"]), data["hash"], data["entry"]["seq"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise LedgerIntegrityError(f"line {place + 1} is not an entry of an export.") from None
    entry = Entry.from_text(text, place=f"line {place + 1}")
    return read_row((seq, entry.previous, digest, text))


def _dearer(book: Book, entry: Entry) -> list[str]:
    """Return the problem of a run that says that it cost more than was charged for it."""
    charge = book.charge(entry.body["charge"])
    assert charge.committed_event is not None
    try:
        book.check_cost(charge, charge.committed_event)
    except AccountingError as error:
        return [f"entry {entry.seq}: {error}"]
    return []


def _overspent(book: Book, entry: Entry) -> list[str]:
    charge = book.charge(entry.body["charge"])
    account = book.account(charge.dataset)
    known = account.dataset
    if not charge.is_private and not known.allow_nonprivate:
        how = "with a seed" if charge.is_protected else "without protection"
        return [f"entry {entry.seq} charges a release {how}, which dataset {known.name!r} refuses"]
    spent = account.spent()
    if known.filter.covers(spent):
        return []
    return [
        f"entry {entry.seq} brings dataset {known.name!r} to epsilon={spent!r}, above its budget of {known.epsilon!r} "
        f"at delta={known.delta!r}"
    ]
