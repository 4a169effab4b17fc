"""Layout: how a text table is written (header, delimiter, markers), apart from what its columns mean."""

from __future__ import annotations

from dataclasses import dataclass

from sottovoce.exceptions import SchemaError


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a CSV file is written: the ``[table]`` section of a schema file.

    Parameters
    ----------
    header : bool, default=True
        Whether the first line holds the column names. Without it the names are those of the schema, in its order.
    delimiter : str or None, default=None
        One character between two cells. None means a tab for ``.tsv`` files and a comma for all others.
    missing : tuple of str, default=("",)
        The spellings of a missing value, compared after white space around the cell has been removed.
    comment : str or None, default=None
        Lines that start with this text are not data and are skipped. None: every line is data.

    Raises
    ------
    SchemaError
        If an entry has the wrong type, or a value that cannot work.
    """

    header: bool = True
    delimiter: str | None = None
    missing: tuple[str, ...] = ("",)
    comment: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.header, bool):
            raise SchemaError(f"table.header must be true or false; got {self.header!r}.")
        if self.delimiter is not None and (
            not isinstance(self.delimiter, str)
            or len(self.delimiter) != 1
            or not self.delimiter.isascii()
            or self.delimiter in '"\r\n\0'
        ):
            raise SchemaError(
                f"table.delimiter must be one ASCII character, neither a quote nor a line end; got {self.delimiter!r}."
            )
        if not isinstance(self.missing, (list, tuple)) or not all(isinstance(marker, str) for marker in self.missing):
            raise SchemaError(
                f'table.missing must be a list of strings; got {self.missing!r}. Write missing = ["?", ""].'
            )
        padded = next((marker for marker in self.missing if marker != marker.strip()), None)
        if padded is not None:
            raise SchemaError(
                f"table.missing holds {padded!r}, with white space around it: cells are compared without it; "
                f"write {padded.strip()!r}."
            )
        object.__setattr__(self, "missing", tuple(self.missing))
        if self.comment is not None and (not isinstance(self.comment, str) or not self.comment.strip()):
            raise SchemaError(f'table.comment must be a text such as "#"; got {self.comment!r}.')
