"""Numbers and dates as people write them: what is read is what was written, each cell by itself, or an error."""

import datetime
import itertools
import re
import tomllib

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.exceptions import TableError
from sottovoce.tables import DateColumn, IgnoredColumn, NumericColumn, Schema, Table, draft_schema
from sottovoce.tables.notation import DATE_FORMATS, NumberNotation, seconds_of
from support.pairs import by_pairs

MARKS = [way for way in itertools.product(".,", (None, " ", "'", ".", ",")) if way[0] != way[1]]
SYMBOLS = [None, "%", "\u20ac", "$", "CHF"]
VALUES = [0.0, 7.5, -3.25, 12.0, 999.0, 1000.0, 1234.5, -98765.25, 1234567.5, 0.125]
RNG = np.random.default_rng(3)
DAYS = [datetime.datetime(1900, 1, 1) + datetime.timedelta(minutes=int(m)) for m in RNG.integers(0, 100_000_000, 300)]


def written(value: float, decimal: str, thousands: str | None, symbol: str | None, form: str = "{} {}") -> str:
    text = f"{value:,.3f}".rstrip("0").rstrip(".")
    text = text.translate({ord(","): thousands or "", ord("."): decimal})
    return text if symbol is None else form.format(text, symbol)


def features(columns: dict[str, object], frame: pd.DataFrame | pa.Table) -> list[list[float]]:
    return np.asarray(sv.SchemaEncoder(columns, sparse_output=False).fit_transform(frame)).tolist()


def drafted(frame: pd.DataFrame | pa.Table, **options: object) -> Schema:
    return Schema.from_dict(tomllib.loads(draft_schema(Table.from_frame(frame), **options)))


@pytest.mark.parametrize(("marks", "symbol"), by_pairs(MARKS, SYMBOLS))
def test_numbers_are_read_and_drafted_as_written(marks: tuple[str, str | None], symbol: str | None) -> None:
    decimal, thousands = marks
    facts = {"bounds": (-1e5, 2e6), "decimal": decimal}
    facts |= {name: mark for name, mark in (("thousands", thousands), ("symbol", symbol)) if mark is not None}
    plain = features({"x": (-1e5, 2e6)}, pd.DataFrame({"x": VALUES}))
    for form in ("{} {}", "{}{}", "{}\u00a0{}", "{1} {0}", "{1}{0}"):
        texts = [written(value, decimal, thousands, symbol, form) for value in VALUES]
        assert features({"x": facts}, pd.DataFrame({"x": texts})) == plain
        for text, row in zip(texts, plain, strict=True):  # each by itself
            assert features({"x": facts}, pd.DataFrame({"x": [text]})) == [row]
    assert features({"x": facts}, pd.DataFrame({"x": VALUES})) == plain  # what is a number already is one
    frame = pd.DataFrame({"x": [written(value, decimal, thousands, symbol) for value in VALUES * 3], "y": [*"ab"] * 15})
    known, schema = drafted(frame.assign(x=VALUES * 3), target="y"), drafted(frame, target="y")
    assert isinstance(schema["x"], NumericColumn) and schema["x"].bounds == known["x"].bounds
    read = schema.features(Table.from_frame(frame))
    assert np.array_equal(read, known.features(Table.from_frame(frame.assign(x=VALUES * 3))))
    assert Schema.from_dict(schema.to_dict()) == schema


def test_a_mark_in_a_wrong_place_is_no_number() -> None:
    comma = NumberNotation(",", ".")
    bad = ["1.5", "1.23", "1234.567", "0.123", "1,2,3", "1.234.56", "12 %", "", "inf", "nan", "0x1", "1_000", ",", "."]
    assert comma.plain(pa.array(bad)).null_count == len(bad)
    for text in bad[:4]:
        with pytest.raises(TableError, match=r"row 0, column 'x': '.*' is not a number as its section says"):
            features({"x": {"bounds": (0, 9), "decimal": ",", "thousands": "."}}, pd.DataFrame({"x": [text]}))


WAYS = {
    "1234.5": {},
    "1234,5": {"decimal": ","},
    "1,234.5": {"thousands": ","},
    "1.234,5": {"decimal": ",", "thousands": "."},
    "$ 5": {"symbol": "$"},
}


@pytest.mark.parametrize("text", WAYS)
@pytest.mark.parametrize("said", WAYS.values())
def test_the_remedy_for_numbers_written_otherwise_is_about_the_section(said: dict[str, str], text: str) -> None:
    """It says how the section has them, which is with a point only where the section is silent, and what to change."""
    facts, frame = {"x": {"bounds": (0, 9), **said}}, pd.DataFrame({"x": [text]})
    if NumberNotation(**said).plain(pa.array([text])).null_count == 0:
        assert features(facts, frame)
        return
    with pytest.raises(TableError) as caught:
        features(facts, frame)
    write, _, change = str(caught.value).partition(", or ")
    marks = [dict(re.findall(r'(\w+) = "(.)"', part)) for part in (write.partition("Write ")[2], change)]
    assert marks == [said, WAYS[text] or said]
    assert ("a decimal point" in write) == (not said)
    assert change.startswith("say" if WAYS[text] else "take")


def test_a_draft_says_where_a_mark_could_be_another() -> None:
    text = draft_schema(Table.from_frame(pd.DataFrame({"x": ["1,234", "5,678", "9,101"] * 10})))
    assert 'is a comma or point one of decimals or of thousands? read with thousands = ","' in text
    assert "of thousands?" not in draft_schema(Table.from_frame(pd.DataFrame({"x": ["1,234", "0,5", "9,1"] * 10})))


@pytest.mark.parametrize("form", [None, *DATE_FORMATS, "%H:%M %d.%m.%Y", "%Y-%m"])
def test_dates_are_read_as_they_are_written(form: str | None) -> None:
    for like in (form,) if form else ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%f+02:00", "%Y-%m"):
        texts = [day.strftime(like) for day in DAYS]
        seconds, fits = seconds_of(pa.array(texts), form)
        read = [datetime.datetime.strptime(text, like).replace(tzinfo=None) for text in texts]
        assert fits.all()
        assert (np.array(read, "datetime64[s]").astype(int) == seconds).all()
        frame = pd.DataFrame({"d": texts})
        facts = {"bounds": (datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)), "format": form}
        typed = features({"d": facts}, pd.DataFrame({"d": pd.to_datetime(read)}))
        assert features({"d": facts}, frame) == typed
        assert features({"d": facts}, frame[:1]) == typed[:1]


@pytest.mark.parametrize("form", DATE_FORMATS)
def test_what_is_no_day_is_no_date(form: str) -> None:
    good = datetime.datetime(2023, 2, 28, 23, 59, 59).strftime(form)
    bad = [good.replace("28", "29"), good.replace("2023", "202"), f"{good}x", f" x{good}", "", good.replace("02", "13")]
    if "%H" in form:
        bad += [good.replace("23:59", "24:00"), good.replace("23:59", "23:60")]
    assert seconds_of(pa.array([good, *bad]), form)[1].tolist() == [True, *[False] * len(bad)]
    with pytest.raises(TableError, match=rf"row 1, column 'd': .* is not a date in the format '{form}'"):
        features({"d": {"bounds": ("2020-01-01", "2024-12-31"), "format": form}}, pd.DataFrame({"d": [good, bad[0]]}))


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%MZ", *DATE_FORMATS])
def test_a_draft_reads_dates_as_they_are_written(form: str) -> None:
    frame = pd.DataFrame({"d": [day.strftime(form) for day in DAYS], "y": np.arange(300) % 7 / 3})
    text, schema = draft_schema(Table.from_frame(frame), target="y"), drafted(frame, target="y")
    assert isinstance(schema["d"], DateColumn)
    years = [day.year for day in DAYS]
    assert schema["d"].bounds == (datetime.date(min(years), 1, 1), datetime.date(max(years), 12, 31))
    days = pd.DataFrame({"d": [datetime.datetime.combine(day.date(), datetime.time()) for day in DAYS]})
    wanted = features({"d": schema["d"].bounds}, days)
    assert np.asarray(schema.features(Table.from_frame(frame))).tolist() == wanted
    assert "day or month first" not in text


def test_a_draft_says_what_the_rows_do_not_tell() -> None:
    table = Table.from_frame(pd.DataFrame({"d": ["03/04/2020", "05/06/2021", "01/12/2022"] * 10, "x": range(1, 31)}))
    assert "day or month first? '%d/%m/%Y' or '%m/%d/%Y'" in draft_schema(table)
    for unread in (["03.04.20", "05.06.21"], ["03-Apr-2020", "11-May-2021"], ["3. April 2020", "17. Mai 2022"]):
        frame = pd.DataFrame({"d": unread * 15, "x": np.linspace(0, 1, 30)})
        assert isinstance(drafted(frame)["d"], IgnoredColumn)
        assert "Write them as 2020-12-31" in draft_schema(Table.from_frame(frame))


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([datetime.time(k) for k in range(20)]), pa.array([datetime.timedelta(k) for k in range(20)]),
        pa.array([[k] for k in range(20)]), pa.array([{"a": k} for k in range(20)]),
        pa.array([bytes([k]) for k in range(20)]), pa.array([None] * 20, pa.date32()),
    ],
    ids=lambda cells: str(cells.type),
)  # fmt: skip
def test_a_draft_leaves_out_types_that_no_column_has(cells: pa.Array) -> None:
    table = pa.table({"odd": cells, "x": np.linspace(0, 1, 20)})
    assert drafted(table).columns == (IgnoredColumn("odd"), NumericColumn("x", bounds=(0, 1)))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_the_hour_is_that_of_the_clock(unit: str, zone: str | None) -> None:
    days = [day.replace(year=1990 + day.year % 40, day=min(day.day, 28)) for day in DAYS]  # of known time zones
    moments = pd.Series(pd.to_datetime(days)).astype(f"datetime64[{unit}]")
    if zone is not None:
        moments = moments.dt.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
    for part, wanted in (
        ("hour", moments.dt.hour),
        ("weekday", moments.dt.day_of_week),
        ("month", moments.dt.month - 1),
    ):
        rows = np.array(features({"d": {"type": "date", "part": part}}, pd.DataFrame({"d": moments})))
        assert rows.argmax(axis=1).tolist() == wanted.tolist()
        assert (rows.sum(axis=1) == 1).all()


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), *map(pa.timestamp, ("s", "ms", "us", "ns"))], ids=str)
@pytest.mark.parametrize("share", [1.0, 0.5, 0.003])
def test_a_date_beyond_all_bounds_is_the_last_one_and_can_be_drafted(kind: pa.DataType, share: float) -> None:
    most = int(share * (2**31 if pa.types.is_date32(kind) else 2**60 if kind == pa.date64() else 2**63)) - 512
    counts = pa.array([most, -most, None], pa.int32() if pa.types.is_date32(kind) else pa.int64())
    table = pa.table({"d": counts.view(kind)})
    facts = {"bounds": ("1969-12-25", "1970-01-05"), "type": "date"}
    assert features({"d": facts}, table) == [[1.0], [-1.0], [0.0]]
    assert isinstance(drafted(table)["d"], DateColumn)


@pytest.mark.parametrize(("period", "code"), [("year", "Y"), ("quarter", "Q"), ("month", "M")])
def test_a_period_is_a_category_between_the_bounds(period: str, code: str) -> None:
    frame = pd.DataFrame({"d": pd.to_datetime(DAYS)})
    encoder = sv.SchemaEncoder({"d": {"bounds": ("1955-05-17", "2007-11-02"), "period": period}}, sparse_output=False)
    rows, names = encoder.fit_transform(frame), encoder.get_feature_names_out()
    clipped = frame["d"].clip(pd.Timestamp(1955, 5, 17), pd.Timestamp(2007, 11, 2))
    told = [str(one) for one in clipped.dt.to_period(code)]
    assert [names[k].removeprefix("d=").replace("-Q", "Q") for k in rows.argmax(axis=1)] == told
    assert (np.linalg.norm(rows, axis=1) <= encoder.data_norm).all()
    assert len(names) == len(pd.period_range("1955-05-17", "2007-11-02", freq=code))


def test_a_date_that_is_missing_or_beyond_the_bounds() -> None:
    facts = {"bounds": ("2020-01-01", "2020-01-11"), "missing": "indicator"}
    frame = pd.DataFrame({"d": ["2019-12-31", "2020-01-06", None, "", "2021-01-01"]})
    assert features({"d": {**facts, "type": "date"}}, frame) == [[-1, 0], [0, 0], [0, 1], [0, 1], [1, 0]]
    parts = features({"d": {"part": "weekday", "missing": "indicator"}}, frame)
    assert [row.index(1) for row in parts] == [1, 0, 7, 7, 4]
    with pytest.raises(TableError, match=r"row 0, column 'd': 2019-12-31 lies outside the bounds \[2020-01-01, 2020"):
        features({"d": {**facts, "type": "date", "outside": "error"}}, frame)
    with pytest.raises(TableError, match=r'values of type timestamp.* Give it type = "date"'):
        features({"d": ["a", "b"]}, pd.DataFrame({"d": pd.to_datetime(DAYS)}))


def test_the_effect_of_a_date_is_told_in_days() -> None:
    column = DateColumn("d", bounds=("2020-01-01", "2020-01-11"))
    assert column.effects([1.0]) == [(0.2, "for each day more of d, from 2020-01-01 to 2020-01-11")]
    assert DateColumn("d", part="weekday", missing="indicator").effects(range(8))[-2:] == [
        (6, "where d=Sun"), (7, "where d is missing"),
    ]  # fmt: skip


def test_dates_are_features_and_a_schema_keeps_them() -> None:
    facts = {"d": (datetime.date(2020, 1, 1), np.datetime64("2021-01-01")), "x": {"part": "hour"}, "y": ["a", "b"]}
    schema = Schema.from_columns(facts, target="y")
    assert Schema.from_dict(schema.to_dict()) == schema
    assert Schema.from_dict(tomllib.loads(schema.to_toml())) == schema
