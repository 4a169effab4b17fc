"""DateColumn: a day between public bounds, encoded as a number, as its period, or as a part of it."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Final

import numpy as np

from sottovoce.exceptions import SchemaError
from sottovoce.tables.cells import Cells, Mask
from sottovoce.tables.column import INDICATOR, Block, Column, scaled, within
from sottovoce.tables.notation import check_date_format

_MONTHS_OF: Final = {"year": 12, "quarter": 3, "month": 1}
_PARTS: Final = {
    "month": ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "hour": tuple(map(str, range(24))),
}


@dataclass(frozen=True)
class DateColumn(Column):
    r"""A day, which becomes a number, its period, or a part of it.

    Without ``period`` and ``part`` the day is a number from -1 at the first bound to 1 at the last one. With one of
    them it is a category: one feature a period or part, of which that of the day is 1. A missing date becomes 0 in
    all features, unless ``missing`` says else.

    Parameters
    ----------
    name : str
        Name of the column in the table.
    bounds : (date, date) or None, default=None
        Public. The first and the last day, dates or texts such as ``"2020-12-31"``; not with ``part``.
    period : {"year", "quarter", "month"} or None, default=None
        One feature for each year, quarter or month between the bounds.
    part : {"month", "weekday", "hour"} or None, default=None
        One feature for each month of the year, day of the week, or hour of the day.
    format : str or None, default=None
        How texts are written, such as ``"%d.%m.%Y"``, of %Y, %m, %d, %H, %M and %S; None: ISO 8601, as
        ``2020-12-31`` or ``2020-12-31T23:59``. The hour is that which is written, whatever the time zone.
    outside : {"clip", "error"} or None, default=None
        What happens to a day beyond the bounds: it is moved onto the nearer one, or refused. None: clip.
    missing : "indicator" or None, default=None
        Public. ``"indicator"``: one more feature, ``"NAME is missing"``, which is 1 for a missing date.

    Raises
    ------
    SchemaError
        If an argument is wrong, or period and part are both asked for.

    Notes
    -----
    Privacy: bounds, periods and parts are public facts. Each row is encoded by itself.

    Examples
    --------
    >>> DateColumn("joined", bounds=("2020-01-01", "2021-06-30"), period="quarter").feature_names[:2]
    ('joined=2020-Q1', 'joined=2020-Q2')
    """

    type_name: ClassVar[str] = "date"
    choices = {"period": _MONTHS_OF, "part": _PARTS, "outside": ("clip", "error")}  # noqa: RUF012 - of the base, a ClassVar

    _: KW_ONLY
    bounds: tuple[datetime.date, datetime.date] | None = None
    period: str | None = None
    part: str | None = None
    format: str | None = None
    outside: str | None = None
    missing: str | None = None

    def _checked(self, where: str) -> dict[str, Any]:
        if self.missing not in (None, INDICATOR):
            raise SchemaError(f'{where}.missing must be "{INDICATOR}"; got {self.missing!r}.')
        check_date_format(where, self.format)
        if self.part is not None and (self.period, self.bounds, self.outside) != (None, None, None):
            raise SchemaError(f"{where} has part = {self.part!r}, which takes neither bounds, outside nor period.")
        return {} if self.part is not None else {"bounds": self._checked_bounds(where)}

    def _checked_bounds(self, where: str) -> tuple[datetime.date, datetime.date]:
        given = self.bounds if isinstance(self.bounds, (list, tuple)) else ()
        days = [_day(one) for one in given]
        if len(days) != 2 or None in days or not days[0] < days[1]:  # type: ignore[operator]
            raise SchemaError(
                f"{where}.bounds must be the first and a later last day, from public knowledge, such as "
                f'("2020-01-01", "2024-12-31"); got {self.bounds!r}.'
            )
        return days[0], days[1]  # type: ignore[return-value]

    def _value_names(self) -> tuple[str, ...]:
        if self.part is not None:
            return tuple(f"{self.name}={one}" for one in _PARTS[self.part])
        if self.period is None:
            return (self.name,)
        assert self.bounds is not None
        places = np.arange(self._period(_months(self.bounds[0])), self._period(_months(self.bounds[1])) + 1)
        return tuple(f"{self.name}={self._period_name(int(place))}" for place in places)

    def _period(self, months: Any) -> Any:
        return months // _MONTHS_OF[str(self.period)]

    def _period_name(self, place: int) -> str:
        year, month = divmod(place * _MONTHS_OF[str(self.period)], 12)
        return f"{year:04}" + {"year": "", "quarter": f"-Q{month // 3 + 1}"}.get(str(self.period), f"-{month + 1:02}")

    @property
    def _scale(self) -> tuple[float, str] | None:
        if self.bounds is None or self.period is not None:
            return None
        first, last = self.bounds
        return 2.0 / (last - first).days, f"for each day more of {self.name}, from {first} to {last}"

    def _encoded(self, cells: Cells, missing: Collection[str]) -> tuple[Block, Mask]:
        seconds, absent = cells.seconds(missing, self.format)
        days = seconds // 86_400
        if self.bounds is not None:
            first, last = (_since_1970(bound) for bound in self.bounds)
            days = within(cells, days, absent, (first, last), self.outside or "clip", _date)
            if self.period is None:
                return (np.zeros_like(days), scaled(days, first, last)), absent
        if self.part == "hour":
            places = seconds // 3600 % 24
        elif self.part == "weekday":
            places = (days + 3) % 7
        else:
            months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) + 1970 * 12
            places = (
                months % 12 if self.bounds is None else self._period(months) - self._period(_months(self.bounds[0]))
            )
        return (places, np.ones(len(days))), absent

    def refuse_as_target(self) -> None:
        raise SchemaError(
            f"column {self.name!r} is the target and a date: dates are features. Add a column of numbers or classes "
            "that are to be predicted."
        )


def is_date(value: object) -> bool:
    """Tell whether a bound is a date, not a text or a number."""
    return isinstance(value, (datetime.date, np.datetime64))


def _day(value: object) -> datetime.date | None:
    try:
        if isinstance(value, np.datetime64):
            value = str(value.astype("datetime64[D]"))
        if isinstance(value, str):
            return datetime.date.fromisoformat(value)
        if isinstance(value, datetime.datetime):
            return datetime.date(value.year, value.month, value.day)
    except (ValueError, TypeError):  # also NaT
        return None
    return value if isinstance(value, datetime.date) else None


def _date(day: int) -> np.datetime64:
    return np.datetime64(int(day), "D")


def _since_1970(day: datetime.date) -> int:
    return (day - datetime.date(1970, 1, 1)).days


def _months(day: datetime.date) -> int:
    return day.year * 12 + day.month - 1
