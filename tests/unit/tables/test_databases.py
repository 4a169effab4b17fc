"""Databases as sources: what a model is made of equals the CSV's, in a defined order, and no password is told."""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables import Schema, database, read_table
from sottovoce.tables.database import Database
from sottovoce.tables.reading import open_table
from support.postgres import PostgresServer

duckdb = pytest.importorskip("duckdb")
N_ROWS = 3000
COST = {"bounds": (0, 500), "scale": "log", "missing": "indicator"}
SCHEMA = Schema.from_columns(
    {"age": (0, 100), "cost": COST, "reason": ["check", "injury", "pain"], "again": ["no", "yes"]}, target="again"
)
COMMAND = ["--model", "logistic", "--epsilon", "1", "--delta", "1e-6", "--random-state", "3", "--quiet", "--force"]


def people() -> pa.Table:
    rng = np.random.default_rng(0)
    cost = [None if coin < 0.1 else f"{each:.2f}" for coin, each in zip(*rng.random((2, N_ROWS)), strict=True)]
    return pa.table({
        "visit": range(N_ROWS), "age": rng.integers(0, 100, N_ROWS), "cost": cost,
        "reason": rng.choice(["check", "injury", "pain"], N_ROWS),
        "again": rng.choice(["no", "yes"], N_ROWS),
    })  # fmt: skip


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("csv") / "people.csv"
    pyarrow.csv.write_csv(people(), path)
    path.write_text(path.read_text().replace('"', ""))
    path.with_name("schema.toml").write_text(SCHEMA.to_toml())
    return path


@pytest.fixture(scope="module")
def duck(csv: Path) -> str:
    path = csv.with_name("people.duckdb")
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE people (visit INTEGER, age BIGINT, cost DECIMAL(9, 2), reason TEXT, again TEXT);"
            f"COPY people FROM '{csv}' (HEADER); CREATE VIEW raw AS SELECT * FROM people"
        )
    return f"duckdb:///{path}"


@pytest.fixture(scope="module")
def server(csv: Path, postgres_server: PostgresServer) -> str:
    address = postgres_server.make_database("visits")
    # rows are put in backwards: the order that they have in the heap is not that of the key
    sql(postgres_server, "CREATE TABLE raw (visit int, age bigint, cost numeric(9, 2), reason text, again text)")
    sql(postgres_server, f"\\copy raw FROM '{csv}' CSV HEADER")
    sql(postgres_server, "CREATE TABLE people (LIKE raw, PRIMARY KEY (visit))")
    sql(postgres_server, "INSERT INTO people SELECT * FROM raw ORDER BY visit DESC")
    return address


@pytest.fixture(params=["duck", "server"])
def address(request: pytest.FixtureRequest) -> str:
    """A database of each kind with the same rows."""
    return str(request.getfixturevalue(request.param))


def sql(running: PostgresServer, text: str) -> None:
    line = f"psql -q -v ON_ERROR_STOP=1 -h {running.folder} -U tester -d visits -c".split()
    subprocess.run([*line, text], check=True, capture_output=True)


def encoded(address: object, **options: Any) -> tuple[bytes, list[str], int]:
    opened = open_table(address, most_rows=257, **options)  # type: ignore[arg-type]
    n_rows = opened.n_rows
    parts = list(opened.batches([*SCHEMA.column_names]))
    X, y = np.vstack([SCHEMA.features(part) for part in parts]), [SCHEMA.labels(part) for part in parts]
    return X.tobytes(), np.concatenate(y).tolist(), n_rows


PEOPLE = "SELECT * FROM people ORDER BY visit"
WHERE = [
    {"table": "people"},
    {"query": PEOPLE},
    {"query": "select again, reason, cost, age from people\norder  by visit;"},
]


@pytest.mark.parametrize("where", WHERE)
def test_rows_are_those_of_the_csv(csv: Path, address: str, where: dict[str, str]) -> None:
    assert encoded(address, **where) == encoded(csv)


def test_the_model_is_that_of_the_csv(csv: Path, address: str) -> None:
    from sottovoce.cli.app import app

    def model_of(table: object, *more: str) -> bytes:
        out, schema = csv.with_name("model.json"), csv.with_name("schema.toml")
        done = CliRunner().invoke(app, ["fit", str(table), *more, "--schema", str(schema), "--out", str(out), *COMMAND])
        assert done.exit_code == 0, done.output
        return out.read_bytes()

    assert model_of(address, "--table", "people") == model_of(csv)


def test_all_readings_of_postgresql_see_one_snapshot(server: str, postgres_server: PostgresServer) -> None:
    sql(postgres_server, "CREATE TABLE growing (visit int PRIMARY KEY); INSERT INTO growing VALUES (2), (1)")
    assert encoded(server, table="public.people") == encoded(server, table="people")
    opened = open_table(server, table="growing")
    sql(postgres_server, "INSERT INTO growing VALUES (3)")
    assert opened.whole().column("visit") == [1, 2]
    assert read_table(server, table="growing").column("visit") == [1, 2, 3]


REFUSED = [
    ({"query": "SELECT * FROM people"}, r"the query: it gives rows in no order.*End it with ORDER BY"),
    *(
        ({"table": name}, rf"the database says: .*{name[:6]}")
        for name in ("nobody", "People ", "nowhere.people", 'o"p')
    ),
    ({"query": "SELECT * FROM nobody ORDER BY visit"}, r"the database says: .*nobody"),
    ({}, r"give --table NAME, or --query"),
    ({"table": "people", "query": PEOPLE}, r"give --table NAME, or --query.*one of them"),
    ({"table": "raw"}, r"table raw: it has no primary key.*--query 'SELECT \* FROM \"raw\" ORDER"),
    ({"query": "SELECT * FROM people WHERE age < 0 ORDER BY visit"}, r"columns, but no row of data"),
    ({"query": "SELECT age, age FROM people ORDER BY visit"}, r"age"),
    ({"query": PEOPLE, "format": "csv"}, r"skip_rows and format are for files"),
    ({"query": "SELECT * FROM query ORDER BY 1"}, r"the database says: .*query"),
]


PARTS = [
    "SELECT *, row_number() OVER (ORDER BY visit) AS place FROM people",
    "SELECT * FROM (SELECT * FROM people ORDER BY visit) AS inner_one",
    "WITH sorted AS (SELECT * FROM people ORDER BY visit) SELECT * FROM sorted",
    "SELECT * FROM people -- ORDER BY visit",
    "SELECT * FROM people /* ORDER BY visit */",
    "SELECT 'it''s order by' AS said, * FROM people",
    'SELECT age AS "order by" FROM people',
    "SELECT $$order by$$ AS said, * FROM people",
    "SELECT * FROM people ORDER BY visit; SELECT * FROM people",
    "",
]
ORDERED = [
    "SELECT * FROM people ORDER BY visit",
    "select * from people order\n by visit desc ;\n",
    "SELECT * FROM people ORDER BY abs(visit), (visit + 1) LIMIT 3",
    "SELECT ';' AS said, * FROM people ORDER BY visit -- the end",
]


@pytest.mark.parametrize(
    "query", ["SELECT * FROM people ORDER BY random()", "SELECT age, random() AS drawn FROM people ORDER BY visit"]
)
def test_all_readings_of_a_query_give_the_same_rows_in_each_place(address: str, query: str) -> None:
    """Those of persons and of labels are two: ties, in any order, would give people the rows of others."""
    table = open_table(address, query=query)
    read = [[batch.data.to_pylist() for batch in table] for _ in range(3)]
    assert read[0] == read[1] == read[2] and len(read[0][0]) > 1


@pytest.mark.parametrize("query", [*PARTS, *ORDERED])
def test_an_order_of_a_part_is_none_of_the_query(duck: str, query: str) -> None:
    with nullcontext() if query in ORDERED else pytest.raises(ParameterError, match=r"it gives rows in no order"):
        assert open_table(duck, query=query).n_rows > 0


@pytest.mark.parametrize(("where", "message"), REFUSED)
def test_what_gives_no_table_in_an_order_is_refused(address: str, where: dict[str, str], message: str) -> None:
    with pytest.raises((TableError, ParameterError), match=message):
        _ = open_table(address, **where).n_rows  # type: ignore[arg-type]


@pytest.mark.parametrize("row", [0, N_ROWS - 1])
@pytest.mark.parametrize("column", ["s", "CAST(s AS INTEGER)", "CAST(s AS DATE)", "CAST(s AS INTEGER) / visit"])
def test_what_a_database_says_of_a_cell_is_not_repeated(address: str, column: str, row: int) -> None:
    """Rows are read for their number before anything is charged, and a database quotes what it cannot convert."""
    given = f"SELECT visit, CASE visit WHEN {row} THEN 'Ada Love' || 'lace' ELSE '7' END s FROM people"
    try:
        _ = open_table(address, query=f"SELECT visit, {column} FROM ({given}) given ORDER BY visit").n_rows
    except TableError as error:
        assert "Lovelace" not in str(error) and "run the query there" in str(error)


def test_a_file_has_no_tables(csv: Path) -> None:
    with pytest.raises(ParameterError, match=r"people\.csv: table and query are for databases"):
        open_table(csv, query=PEOPLE)
    with pytest.raises(TableError, match=r"none\.duckdb: cannot read the file: there is no such file"):
        open_table(f"duckdb:///{csv.parent}/none.duckdb", query=PEOPLE)
    with pytest.raises(TableError, match=r"people\.csv: the database says"):
        open_table(f"duckdb:///{csv}", query=PEOPLE)


SECRET = "s3cret%2Fword"
ADDRESSES = [
    f"postgresql://ann:{SECRET}@nowhere.invalid/visits",
    f"postgres://ann:{SECRET}@127.0.0.1:1/visits",
    f"postgresql://ann@127.0.0.1:1/visits?password={SECRET}",
    f"postgresql://ann:{SECRET}@[::1/visits",
    f"postgresql://ann:{SECRET}@127.0.0.1:port/visits",
    f"mysql://ann:{SECRET}@127.0.0.1/visits",
    f"POSTGRESQL://ann:{SECRET}@127.0.0.1:1/visits",
    f"postgresql://ann:{SECRET}@127.0.0.1:1/visits?what={SECRET}&password={SECRET}",
]


@pytest.mark.parametrize("said", [SECRET, "s3cret/word"])
def test_a_driver_that_repeats_the_password_is_not_repeated(said: str) -> None:
    with pytest.raises(TableError) as found, Database(ADDRESSES[0]).told(connecting=True):
        raise RuntimeError(f"no access with {said} here")
    assert str(found.value).endswith("no access with *** here.")


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_password_is_told(address: str, csv: Path) -> None:
    from sottovoce.cli.app import app

    pytest.importorskip("adbc_driver_postgresql")
    with pytest.raises((TableError, ParameterError)) as found:
        open_table(address, query=PEOPLE)
    told = [str(found.value), repr(found.value)]
    told.append(CliRunner().invoke(app, ["schema", address, "--query", PEOPLE]).output)
    told.append(CliRunner().invoke(app, ["fit", address, "--out", str(csv.with_name("m.json")), *COMMAND]).output)
    assert not [text for text in told if "s3cret" in text]


def test_a_missing_library_is_named_with_its_extra(duck: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(database._duckdb, "connect", raising=False)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ParameterError, match=r"tables of DuckDB need duckdb.*pip install \"sottovoce\[databases\]\""):
        open_table(duck, query=PEOPLE)
    monkeypatch.delattr(database._adbc, "dbapi", raising=False)
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(ParameterError, match=r"tables of PostgreSQL need .*sottovoce\[databases\]"):
        open_table("postgresql://ann@127.0.0.1:1/visits", query=PEOPLE)


def test_an_address_names_the_file_that_is_not_written_to(tmp_path: Path) -> None:
    assert Database(f"duckdb:///{tmp_path}/a%20b.db").resolve() == tmp_path / "a b.db"
    assert Database("duckdb:///a.db").resolve() == Path("a.db").resolve()
    assert Database.of("people.csv") is None
    with pytest.raises(ParameterError, match=r"given as duckdb:///FILE"):
        Database("duckdb://people.duckdb")
