"""Rows that are set aside: by coins that know nothing of them, people whole, nothing read before it is asked for."""

from contextlib import nullcontext
from datetime import date, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from sottovoce.cli import _rows
from sottovoce.cli._options import Reading
from sottovoce.cli._rows import OpenedTable, open_rows
from sottovoce.cli.app import app
from sottovoce.cli.fit import split_by_coins
from sottovoce.exceptions import ParameterError, SchemaError
from sottovoce.ledger import Ledger
from sottovoce.tables import IgnoredColumn, NumericColumn, Schema

N = 200
PEOPLE = np.array([None if row % 10 == 0 else f"p{row % 61}" for row in range(N)], dtype=object)


@pytest.fixture(params=[False, True], ids=["rows", "people"])
def opened(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenedTable:
    """A table of which each row has its own number, in batches of 64."""
    monkeypatch.setattr(_rows, "MOST_ROWS", 64)
    path = tmp_path / "t.csv"
    path.write_text("x,y,who\n" + "".join(f"{k},{k},{who or ''}\n" for k, who in enumerate(PEOPLE)))
    numbers = NumericColumn("x", bounds=(0, N)), NumericColumn("y", bounds=(0, N)), IgnoredColumn("who")
    unit: dict[str, Any] = {"unit": "who", "max_rows_per_unit": 1} if request.param else {}
    schema = Schema(numbers, target="y", **unit)
    return open_rows(schema, Reading(None, None, None, 0, None, None), path, quiet=True)


@pytest.mark.parametrize("share", [0.3, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_each_row_or_each_person_is_in_one_part(opened: OpenedTable, share: float, seed: int) -> None:
    split = split_by_coins(opened, share, seed)
    parts = [part.unread(None) for part in (split.training, split.held_out)]
    read = [part.read() for part in parts]
    held = split.chosen()
    assert 0.5 * share * N < held.sum() < 1.5 * share * N + 10
    for part, (X, y), others in zip(parts, read, (held, ~held), strict=True):
        assert X.shape == part.shape and np.allclose(X[:, 0], 2 * y / N - 1)
        if part.groups is None:
            assert y.tolist() == np.flatnonzero(~others).tolist()
        else:  # all rows, and those of the other part are nobody's
            assert np.array_equal(part.groups(), np.where(others, None, PEOPLE)) and len(y) == N
    if opened.groups is not None:
        assert not held[np.equal(PEOPLE, None)].any() and not {*PEOPLE[held]} & {*PEOPLE[~held]}


def test_the_operating_system_throws_the_coins_unless_there_is_a_seed(opened: OpenedTable) -> None:
    def chosen(seed: int | None) -> list[bool]:
        return split_by_coins(opened, 0.5, seed).chosen().tolist()

    assert chosen(1) == chosen(1) != chosen(2)
    assert chosen(None) != chosen(None)


def test_nothing_is_read_for_the_coins(opened: OpenedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Schema, "features", None)
    monkeypatch.setattr(Schema, "groups", None)
    split = split_by_coins(opened, 0.5, 0)
    n_rows = split.training.n_rows, split.held_out.n_rows
    assert sum(n_rows) == (N if opened.groups is None else 2 * N)


@pytest.mark.parametrize("cell", [1.25, date(2020, 5, 1), "1,25"])
def test_what_a_text_would_say_otherwise_is_not_set_aside(tmp_path: Path, cell: Any) -> None:
    facts = {"part": "month", "format": "%d.%m.%Y"} if isinstance(cell, date) else {"bounds": (0, 9), "decimal": ","}
    pd.DataFrame({"x": [cell], "y": [1.0]}).to_parquet(tmp_path / "t.parquet")
    schema = Schema.from_columns({"x": facts, "y": (0, 9)}, target="y")
    opened = open_rows(schema, Reading(None, None, None, 0, None, None), tmp_path / "t.parquet", quiet=True)
    with nullcontext() if isinstance(cell, str) else pytest.raises(SchemaError, match=r"\[columns\.x\] says how texts"):
        opened.refuse_unwritable()


def fitted(folder: Path, columns: dict[str, Any], target: str, *options: object, x: Any = (0, 1)) -> Result:
    pq.write_table(pa.table(columns), folder / "t.parquet")
    (folder / "schema.toml").write_text(Schema.from_columns({"x": x, "y": (0, 2)}, target=target).to_toml())
    line = ["fit", folder / "t.parquet", "--schema", folder / "schema.toml", "--epsilon", 1, "--delta", 1e-5]
    return CliRunner().invoke(app, list(map(str, [*line, "--out", folder / "m.json", *options])))


@pytest.mark.parametrize(("options", "code"), [(["--evaluate-epsilon", 1], 0), (["--holdout-out", "rest.csv"], 2)])
def test_what_is_not_written_may_be_written_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[object], code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = {"x": [0.5] * N, "y": [1.0] * N}
    done = fitted(tmp_path, columns, "y", "--holdout", 0.5, *options, x={"bounds": (0, 1), "decimal": ","})
    assert done.exit_code == code, done.output


def test_cells_that_no_csv_holds_stand_in_the_way_of_nothing(tmp_path: Path) -> None:
    columns = {"lists": [[1]] * N, "x": [0.5] * N, "y": [1.0] * N, "records": [{"a": 1}] * N}
    done = fitted(tmp_path, columns, "y", "--holdout", 0.5, "--holdout-out", tmp_path / "rest.csv")
    assert done.exit_code == 0, done.output
    assert list(pd.read_csv(tmp_path / "rest.csv").columns) == ["x", "y"]


@pytest.mark.parametrize("cell", [[1.0], {"a": 1.0}, time(1), date(2020, 1, 1), timedelta(1)])
@pytest.mark.parametrize("target", ["x", "y"])
def test_a_type_that_cannot_be_read_is_told_before_a_charge(tmp_path: Path, cell: object, target: str) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'l.db'}")
    ledger.create("d", epsilon=9, delta=1e-3)
    done = fitted(tmp_path, {"x": [cell] * N, "y": [1.0] * N}, target, "--ledger", ledger.url, "--dataset", "d")
    assert done.exit_code == 2 and "column 'x': values of type" in done.output
    assert ledger.spent("d")[0] == 0


@pytest.mark.parametrize("opened", [False], indirect=True)
def test_coins_that_leave_a_part_empty_are_refused(opened: OpenedTable) -> None:
    with pytest.raises(ParameterError, match=r"--holdout 1e-09: the coins left one part of 200 rows empty"):
        split_by_coins(opened, 1e-9, 0)
    for share in (0, 1, float("nan")):
        with pytest.raises(ParameterError, match=r"--holdout must be a finite number > 0 and < 1"):
            split_by_coins(opened, share, 0)
