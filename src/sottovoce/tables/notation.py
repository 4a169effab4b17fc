"""How numbers and dates are written in texts: each text is read by itself and by what a schema says, or not at all."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sottovoce._optional import pa
from sottovoce._validation import choice
from sottovoce.exceptions import SchemaError

_FEW: Final = 5  # texts that are looked at before all of them are
_SPACES: Final = " \u00a0\u2009\u202f"
_APOSTROPHES: Final = "'\u2019"
_THOUSANDS: Final = {" ": f"[{_SPACES}]", "'": f"[{_APOSTROPHES}]", ".": r"\.", ",": ","}
_SYMBOLS: Final = ("%", "\u20ac", "$", "\u00a3", "EUR", "USD", "GBP", "CHF")
# the first that fits is proposed: a comma before exactly three digits is more often one of thousands
_NOTATIONS: Final = ((".", None), (".", ","), (",", None), (",", "."), (",", " "), (".", " "), (".", "'"), (",", "'"))


@dataclass(frozen=True, slots=True)
class NumberNotation:
    """Numbers with this decimal mark, perhaps with a mark after each thousand, perhaps beside a symbol.

    Thousands have exactly three digits each: 1.5 is no number where a point marks thousands.
    """

    decimal: str = "."
    thousands: str | None = None
    symbol: str | None = None

    def check(self, where: str) -> None:
        """Raise SchemaError if there are no such numbers."""
        choice(f"{where}.decimal", self.decimal, (".", ","))
        if self.thousands is not None:
            others = [mark for mark in _THOUSANDS if mark != self.decimal]
            choice(f"{where}.thousands", self.thousands, others, remedy="It is another mark than decimal.")
        symbol = self.symbol
        if symbol is not None and (
            not isinstance(symbol, str) or not symbol or re.search(r"[\s\d.,'+-]", symbol) or not symbol.isprintable()
        ):
            raise SchemaError(
                f'{where}.symbol must be what stands before or behind each number, such as "%"; got {symbol!r}.'
            )

    def entries(self) -> dict[str, str]:
        """Return the entries of a schema file that say so."""
        said = {"decimal": self.decimal if self.decimal != "." else None}
        said |= {"thousands": self.thousands, "symbol": self.symbol}
        return {name: mark for name, mark in said.items() if mark is not None}

    def said(self) -> str:
        """Return those entries as a message shows them."""
        return ", ".join(f'{name} = "{mark}"' for name, mark in self.entries().items())

    def plain(self, texts: Any) -> Any:
        """Return texts of an Arrow column with a decimal point alone; null where one is not written so."""
        if self.symbol is not None:
            symbol = re.escape(self.symbol)
            texts = pa.compute.replace_substring_regex(texts, rf"^([+-]?){symbol}[{_SPACES}]*", r"\1")
            texts = pa.compute.replace_substring_regex(texts, rf"[{_SPACES}]*{symbol}$", "")
        mark, point = _THOUSANDS.get(self.thousands or ""), re.escape(self.decimal)
        whole = r"\d+" if mark is None else rf"\d+|[1-9]\d{{0,2}}(?:{mark}\d{{3}})+"
        fits = pa.compute.match_substring_regex(
            texts, rf"^[+-]?(?:(?:{whole})(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?$"
        )
        if mark is not None:
            texts = pa.compute.replace_substring_regex(texts, mark, "")
        texts = pa.compute.replace_substring(texts, self.decimal, ".")
        return pa.compute.if_else(fits, texts, pa.scalar(None, pa.string()))

    def fits(self, texts: Collection[str]) -> bool:
        """Tell whether all texts are written so, with the symbol if there is one."""
        column = pa.array(list(texts), pa.string())
        return all((self.symbol or "") in text for text in texts) and not any(
            self.plain(some).null_count for some in (column[:_FEW], column)
        )


def number_notations_of(texts: Collection[str]) -> list[NumberNotation]:
    """Return in which ways all texts are numbers, the likeliest first; [] if they are none."""
    symbol = next((one for one in _SYMBOLS if all(one in text for text in texts)), None)
    ways = (NumberNotation(decimal, thousands, symbol) for decimal, thousands in _NOTATIONS)
    return [way for way in ways if way.fits(texts)]


_FIELDS: Final = {"Y": "year", "m": "month", "d": "day", "H": "hour", "M": "minute", "S": "second"}
_FIRST: Final = {"month": "1", "day": "1"}
_ZONE: Final = r"(?: ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?"
_ISO: Final = (
    r"^(?P<year>\d{4})-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?"
    rf"(?:[ T](?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})(?::(?P<second>\d{{2}})(?:[.,]\d+)?)?{_ZONE})?$"
)
DATE_FORMATS: Final = tuple(
    f"{date}{time}"
    for date in ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d")
    for time in ("", " %H:%M", " %H:%M:%S")
)
# two digits of the year, or the name of the month: no format reads these
UNREAD_DATE: Final = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d\d( .*)?|\d{1,2}[-. ]*[A-Za-z]{3,9}[-. ,]*\d{2,4}")


def check_date_format(where: str, form: object) -> None:
    """Raise SchemaError if no text tells a date in this format; None is ISO 8601."""
    found = re.findall(r"%(.?)", form) if isinstance(form, str) else []
    if form is not None and not ("Y" in found and len(set(found)) == len(found) and set(found) <= {*_FIELDS}):
        raise SchemaError(
            f'{where}.format must have %Y and may have %m, %d, %H, %M and %S, once each, as "%d.%m.%Y"; got {form!r}. '
            "Write dates otherwise (two digits of a year, names of months) as 2020-12-31."
        )


def seconds_of(texts: Any, form: str | None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the seconds since 1970 of the texts of an Arrow column, and which of them are dates of this format.

    A time zone in a text is not looked at: the hour is the one that is written.
    """
    read = pa.compute.extract_regex(texts, _ISO if form is None else _pattern(form))
    fits = pa.compute.is_valid(read).to_numpy(zero_copy_only=False)

    def part(name: str) -> Any:
        first = _FIRST.get(name, "0")
        if read.type.get_field_index(name) < 0:
            return int(first)
        said = pa.compute.fill_null(pa.compute.struct_field(read, name), "")
        said = pa.compute.if_else(pa.compute.equal(said, ""), pa.scalar(first), said)
        return pa.compute.cast(said, pa.int64()).to_numpy()

    year, month, day, hour, minute, second = map(part, _FIELDS.values())
    months = (year - 1970) * 12 + month - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]") + (day - 1)
    fits &= (month >= 1) & (month <= 12) & (days.astype("datetime64[M]").astype(np.int64) == months)
    fits &= (hour < 24) & (minute < 60) & (second < 60)
    return np.where(fits, days.astype(np.int64) * 86_400 + (hour * 60 + minute) * 60 + second, 0), fits


def _pattern(form: str) -> str:
    digits = "{2}" if re.search(r"%.%", form) else "{1,2}"
    fields = {f"%{one}": rf"(?P<{name}>\d{'{4}' if one == 'Y' else digits})" for one, name in _FIELDS.items()}
    return f"^{''.join(fields.get(piece, re.escape(piece)) for piece in re.findall('%.|[^%]+', form))}$"


def date_formats_of(texts: Collection[str], formats: Iterable[str | None]) -> Iterator[str | None]:
    """Yield those formats by which all texts are dates; None is ISO 8601."""
    column = pa.array(list(texts), pa.string())
    for one in formats:
        if all(seconds_of(some, one)[1].all() for some in (column[:_FEW], column)):
            yield one
