"""Options of the command line: each is declared once, and groups of them reach a command as one object."""

from __future__ import annotations

import csv
import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from sottovoce.cli._parse import parse_number_or_auto, parse_weights
from sottovoce.exceptions import ParameterError

if TYPE_CHECKING:
    from sottovoce.tables import BatchedTable, Layout, Table

__all__ = [
    "ACCEPT_DELTA",
    "ALPHA",
    "DELTA",
    "EPSILON",
    "INTERCEPT",
    "LEDGER",
    "MODEL",
    "MODEL_CARD",
    "N_STEPS",
    "RADIUS",
    "RANDOM_STATE",
    "REQUIRED",
    "SCRATCH",
    "TABLE",
    "TABLE_OR_ADDRESS",
    "TARGET",
    "TRAINING",
    "ForceOption",
    "Format",
    "ModelKind",
    "Reading",
    "Training",
    "argument",
    "complete_column",
    "flag",
    "option",
    "refuse_fields",
    "refuse_options",
    "require",
    "with_groups",
]

_MOST_BYTES = 1 << 16
_T = TypeVar("_T")
REQUIRED: Any = ...
READING = "How the table is written"
TRAINING = "Training"
_STDIN = Path("/dev/stdin")
LEDGER: Any = {"envvar": "SOTTOVOCE_LEDGER", "show_envvar": True}


def complete_column(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the columns that begin so, of the table or schema that the line names; nothing if they cannot be told."""
    try:
        # an option without its value stops the parser before it names the arguments: the table is the last one
        names = _columns(ctx.params.get("schema"), ctx.params.get("table") or ctx.args[-1])
    except Exception:  # a proposal that fails is none: an error would be printed into the line that is being written
        return []
    return [name for name in names if name.startswith(incomplete)]


def _columns(schema: Any, table: Any) -> list[str]:
    if schema is not None:
        return list(tomllib.loads(Path(schema).read_text(encoding="utf-8"))["columns"])
    path = Path(table)
    if path.suffix in (".parquet", ".pq"):
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(path).names)
    with path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline(_MOST_BYTES)
    return [name.strip() for name in next(csv.reader([line], delimiter="\t" if path.suffix == ".tsv" else ","))]


class ModelKind(StrEnum):
    """What to train."""

    RIDGE = "ridge"
    LOGISTIC = "logistic"
    SVM = "svm"
    LASSO = "lasso"
    SPARSE_LOGISTIC = "sparse-logistic"


class Format(StrEnum):
    """How a table is stored."""

    CSV = "csv"
    PARQUET = "parquet"


# ------------------------------------------------------------------ how options are declared


def option(
    name: str, text: str | None = None, panel: str | None = None, *, default: Any = None, **settings: Any
) -> Any:
    """Return the declaration of an option: the default of a command's parameter, or of a field of a group.

    ``name``: as it is given: ``"--out"``, ``"--header/--no-header"``.
    ``text``, ``panel``: what the help says, and under which heading.
    ``default``: `REQUIRED` where there is none.
    ``**settings``: of `typer.Option`.
    """
    return typer.Option(default, name, help=text, rich_help_panel=panel, **settings)


def flag(name: str, text: str, panel: str | None = None) -> Any:
    return option(name, text, panel, default=False)


def argument(metavar: str | None, text: str, *, default: Any = REQUIRED, **settings: Any) -> Any:
    return typer.Argument(default, metavar=metavar, help=text, **settings)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with an option for each field of its groups: the parameters that are dataclasses."""
    hints = get_type_hints(command, include_extras=True)
    hints.pop("return", None)

    @wraps(command)
    def run(**given: Any) -> None:
        command(**{name: _gathered(kind, given) if is_dataclass(kind) else given[name] for name, kind in hints.items()})

    defaults = {name: parameter.default for name, parameter in inspect.signature(command).parameters.items()}
    flat = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, kind, default in _flat(hints, defaults)
    ]
    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


def _flat(hints: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name, kind in hints.items():
        if is_dataclass(kind):
            yield from _flat(
                get_type_hints(kind, include_extras=True), {field.name: field.default for field in fields(kind)}
            )
        else:
            yield name, kind, defaults[name]


def _gathered(group: Any, given: Mapping[str, Any]) -> Any:
    hints = get_type_hints(group)
    return group(
        **{name: _gathered(kind, given) if is_dataclass(kind) else given[name] for name, kind in hints.items()}
    )


# ------------------------------------------------------------------ what several commands have

ForceOption = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
_TABLES = (
    "CSV, also as .gz or .bz2, or Parquet; - is CSV from standard input; or a database (postgresql://USER@HOST/NAME, "
    "duckdb:///FILE) with --table or --query."
)


def _table(text: str) -> Any:
    if text.startswith(("postgresql://", "postgres://", "duckdb://")):
        from sottovoce.tables.database import Database

        return Database(text)
    return _STDIN if text == "-" else Path(text)


TABLE: Any = argument("TABLE", _TABLES, parser=_table)
TABLE_OR_ADDRESS: Any = argument(
    "TABLE",
    f"{_TABLES} With --cluster: Parquet that its workers reach, such as s3://BUCKET/FOLDER.",
    parser=lambda text: text if "://" in text and isinstance(_table(text), Path) else _table(text),
)
TARGET: Any = option("--target", "The column to predict. Default: that of the schema.", autocompletion=complete_column)
MODEL_CARD: Any = option(
    "--model-card", "What you say about the model (TOML or JSON), for the page: name, intended_use, contact, ..."
)
SCRATCH: Any = option(
    "--scratch",
    "Folder on whose disk the rows of a table that does not fit into memory are while the command runs, in clear. "
    "Default: that of temporary files (TMPDIR).",
    READING,
)

MODEL: Any = option(
    "--model",
    "ridge and lasso predict a number; logistic, sparse-logistic and svm a class, svm no probability. lasso and "
    "sparse-logistic have few coefficients and need --radius.",
    default=REQUIRED,
)
EPSILON: Any = option("--epsilon", "Privacy budget, > 0; inf trains without privacy.", default=REQUIRED)
DELTA: Any = option("--delta", "Probability with which the guarantee may fail; well below 1 / number of rows.")
ACCEPT_DELTA: Any = option("--accept-delta", "The same number again, for a delta of 1 / sqrt(number of rows) or more.")
ALPHA: Any = option(
    "--alpha", "Strength of the L2 penalty, or auto: by the number of rows. Default: the estimator's.", TRAINING
)
RADIUS: Any = option(
    "--radius",
    "lasso, sparse-logistic: bound on the sum of the absolute coefficients, public; small is sparse.",
    TRAINING,
)
N_STEPS: Any = option(
    "--n-steps", "lasso, sparse-logistic: steps of a model, one coefficient each. Default: by a public rule.", TRAINING
)
INTERCEPT: Any = option("--intercept/--no-intercept", "Whether the model has an intercept.", TRAINING, default=True)
RANDOM_STATE: Any = option(
    "--random-state", "A seed: makes the run repeatable, and not private against whoever knows it.", TRAINING
)


@dataclass(frozen=True)
class Training:
    """Parameters of a training on one table."""

    alpha: str | None = ALPHA
    solver: str | None = option("--solver", "Default: auto.", TRAINING)
    radius: float | None = RADIUS
    n_steps: int | None = N_STEPS
    adjacency: str | None = option(
        "--adjacency",
        "Which tables are neighbours: zero-out, add-remove or replace-one. Default: zero-out.",
        TRAINING,
    )
    n_public: int | None = option(
        "--n-public", "Public stand-in for the number of rows, where that is secret (add-remove).", TRAINING
    )
    fit_intercept: bool = INTERCEPT
    class_weight: str | None = option(
        "--class-weight",
        "logistic, svm: public weights of rows by their class, one for each class, such as no=1,yes=3.",
        TRAINING,
    )

    def parameters(self) -> dict[str, Any]:
        return {
            **vars(self),
            "alpha": parse_number_or_auto("--alpha", self.alpha),
            "class_weight": parse_weights("--class-weight", self.class_weight),
        }


@dataclass(frozen=True)
class Reading:
    """How a table is written; what the command line does not say is left to the schema and the file's name."""

    format: Format | None = option("--format", "Default: by the name of the file.", READING)
    header: bool | None = option(
        "--header/--no-header",
        "Whether a CSV file starts with the names of its columns. Default: as the schema says, else yes.",
        READING,
    )
    delimiter: str | None = option(
        "--delimiter",
        "What separates the cells of a CSV file. Default: as the schema says, else a comma (.tsv: a tab).",
        READING,
    )
    skip_rows: int = option("--skip-rows", "Lines to skip at the start of a text file.", READING, default=0, min=0)
    from_table: str | None = option(
        "--table", "Of a database: the table to read, in the order of its primary key (DuckDB: of insertion).", READING
    )
    query: str | None = option(
        "--query", "Of a database: the query to read, which ends with ORDER BY: the rows need an order.", READING
    )

    def of_text(self) -> dict[str, object]:
        chosen = None if self.format == Format.PARQUET else self.format
        return {
            "table": self.from_table,
            "query": self.query,
            "format": chosen,
            "header": None if self.header is None else str(self.header),
            "delimiter": self.delimiter,
            "skip-rows": self.skip_rows or None,
        }

    def refuse_unknown(self, path: Path) -> None:
        """Refuse a file that is neither CSV nor Parquet by its name, where nothing else was said."""
        from sottovoce.tables import file_format

        if isinstance(path, Path):
            file_format(path, chosen=self._format(path))

    def _format(self, path: Path) -> Format | None:
        return Format.CSV if path == _STDIN and self.format is None else self.format

    def layout(self, layout: Layout) -> Layout:
        if self.header is not None:
            layout = replace(layout, header=self.header)
        if self.delimiter is not None:
            layout = replace(layout, delimiter="\t" if self.delimiter == r"\t" else self.delimiter)
        return layout

    def table(self, path: Path, layout: Layout, **settings: Any) -> Table:
        """Return the table in a file whose schema has a layout; ``settings`` are those of `read_table`."""
        from sottovoce.tables import read_table

        return read_table(path, **self._settings(path, layout), **settings)

    def batches(self, path: Path, layout: Layout, **settings: Any) -> BatchedTable:
        """Open the table in a file, to be read some rows at a time; ``settings`` are those of `open_table`."""
        from sottovoce.tables import open_table

        return open_table(path, **self._settings(path, layout), **settings)

    def _settings(self, path: Path, layout: Layout) -> dict[str, Any]:
        where = {"table": self.from_table, "query": self.query, "skip_rows": self.skip_rows}
        return {**where, "layout": self.layout(layout), "format": self._format(path)}


def refuse_options(why: str, options: Mapping[str, object]) -> None:
    """Refuse the options that were given; a value that is None or empty was not.

    Raises
    ------
    ParameterError
        "OPTION why." for the first one.
    """
    for option, value in options.items():
        if value is not None and value is not False and value != []:
            raise ParameterError(f"{option} {why}.")


def require(option: str, value: _T | None, why: str) -> _T:
    if value is None:
        raise ParameterError(f"{option} is missing: {why}")
    return value


def refuse_fields(why: str, group: Any, *names: str) -> None:
    refuse_options(why, {f"--{name.replace('_', '-')}": getattr(group, name) for name in names})
