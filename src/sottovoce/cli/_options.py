"""Options of the command line: each is declared once, and groups of them reach a command as one object."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import typer
from typer.models import ArgumentInfo

from sottovoce._files import check_writable
from sottovoce.exceptions import ParameterError

if TYPE_CHECKING:
    from sottovoce.tables import Layout
    from sottovoce.tables.table import BatchedTable

_T = TypeVar("_T")
REQUIRED: Any = ...
# what options are about, unless they say else: the headings of the help
TOPICS = {
    f"--{name}": topic
    for topic, names in {
        "Privacy": "epsilon delta accept-delta adjacency n-public unit max-rows-per-unit random-state ledger dataset "
        "labels-public max-epsilon",
        "Model": "model radius loss degree alpha",
        "Data": "schema target format header delimiter skip-rows table query scratch id label missing n-samples "
        "n-features n d n-expected database missing",
        "Output": "out receipt report page html picture model-card table-name force quiet json proba score labels "
        "coefficients",
    }.items()
    for name in names.split()
}
_STDIN = Path("/dev/stdin")
LEDGER: Any = {"envvar": "SOTTOVOCE_LEDGER", "show_envvar": True}


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

    ``panel``: the heading, where it is not that of `TOPICS`. ``default``: `REQUIRED` where there is none.
    """
    topic = panel or TOPICS.get(name.partition("/")[0])
    return typer.Option(default, name, help=text, rich_help_panel=topic, **settings)


def flag(name: str, text: str, panel: str | None = None) -> Any:
    return option(name, text, panel, default=False)


def argument(metavar: str | None, text: str, *, default: Any = REQUIRED, **settings: Any) -> Any:
    return typer.Argument(default, metavar=metavar, help=text, **settings)


def output(
    name: str, text: str, panel: str | None = None, *, default: Any = None, beside: str = "", always: bool = True
) -> Any:
    """Return the declaration of a file to write, which `command` checks before the command runs.

    ``beside``: how its name ends if it lies beside ``--out``, where the option says no other place; only if the option
        is given, where not ``always``.
    """
    made = option(name, text, panel, default=default)
    made.beside, made.always = beside, always
    return made


def beside(out: Path, ending: str) -> Path:
    return out.with_name(f"{out.stem}{ending}")


def option_name(parameter: str) -> str:
    """Return the option of a parameter: ``--n-steps`` of ``n_steps``; the intercept's is a pair."""
    return "--intercept/--no-intercept" if parameter == "fit_intercept" else f"--{parameter.replace('_', '-')}"


class Told:
    """What a command has done: as JSON for ``--json``, else in words, of which some print themselves."""

    def __init__(self, content: object, *said: str | Callable[[], object], status: int = 0) -> None:
        self.content, self.said, self.status = content, said, status

    def tell(self, *, as_json: bool) -> None:
        from sottovoce.cli._output import tell

        tell(as_json, self.content, *self.said)
        if self.status:
            raise typer.Exit(self.status)


def command(function: Callable[..., Told | None]) -> Callable[..., None]:
    """Return a command: with an option for each field of its groups, ``--force`` if it writes files, and ``--json``.

    Groups are parameters that are dataclasses. What it writes is checked before it runs: no file is read from, no two
    are one, and none is there, without ``--force``. A command that returns `Told` tells that.
    """
    hints = get_type_hints(function, include_extras=True)
    flat: dict[str, inspect.Parameter] = {}
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kinds, defaults = {name: hints[name]}, {name: parameter.default}
        if is_dataclass(group := hints[name]):
            groups[name] = group
            kinds = get_type_hints(group, include_extras=True)
            defaults = {field.name: field.default for field in fields(group)}
        for one, default in defaults.items():
            flat[one] = inspect.Parameter(one, parameter.KEYWORD_ONLY, default=default, annotation=kinds[one])
    written = {name: one.default for name, one in flat.items() if hasattr(one.default, "beside")}
    own = {"force": FORCE} if written else {}
    own |= {"as_json": JSON} if hints.get("return") is Told else {}
    for name, default in own.items():
        flat[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=bool)

    @wraps(function)
    def run(**given: Any) -> None:
        asked = {name: given.pop(name) for name in own}
        if written:
            read = [*_read_from(flat, given)]
            _check_written(written, given, read, overwrite=asked["force"])
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        told = function(**given)
        if told is not None:
            told.tell(as_json=asked["as_json"])

    run.__signature__ = inspect.Signature(list(flat.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in flat.items()}
    return run


def _read_from(flat: Mapping[str, inspect.Parameter], given: Mapping[str, Any]) -> Iterator[str | os.PathLike[str]]:
    for name, value in given.items():
        if isinstance(value, os.PathLike) and not hasattr(flat[name].default, "beside"):
            yield value
        elif isinstance(value, list) and isinstance(flat[name].default, ArgumentInfo):
            yield from value


def _check_written(
    written: Mapping[str, Any], given: dict[str, Any], read: Iterable[str | os.PathLike[str]], *, overwrite: bool
) -> None:
    """Complete the paths of files to write, and refuse those that are read from, are one, or cannot be written."""
    sources = set(map(os.path.realpath, read))
    seen: dict[str, str] = {}
    for parameter, declared in written.items():
        name, value = declared.param_decls[0], given[parameter]
        path = value if isinstance(value, Path) else None
        if path is None and declared.beside and (declared.always or value is not None):
            path = beside(given["out"], declared.beside)
            given[parameter] = path if declared.always else value
        if path is None:
            continue
        other = seen.setdefault(place := os.path.realpath(path), name)
        if other != name:
            raise ParameterError(f"{other} and {name} are the same file, {path}. Choose another path for one of them.")
        if place in sources:
            raise ParameterError(f"{name} {path}: this is a file to read from. Choose another path.")
        check_writable(name, path, overwrite=overwrite)


# ------------------------------------------------------------------ what several commands have

FORCE: Any = flag("--force", "Replace files that exist.")
JSON: Any = flag("--json", "Print what a program would read, as JSON.")
_TABLES = (
    "CSV, also as .gz or .bz2, or Parquet; - is CSV from standard input; or a database (postgresql://USER@HOST/NAME, "
    "duckdb:///FILE) with --table or --query."
)


def _table(text: str) -> Any:
    if "://" in text:
        from sottovoce.tables.database import Database

        if (database := Database.of(text)) is not None:
            return database
    return _STDIN if text == "-" else Path(text)


TABLE: Any = argument("TABLE", _TABLES, parser=_table)
SCHEMA: Any = option("--schema", "Public facts about the columns (TOML).")
TARGET: Any = option("--target", "The column to predict. Default: that of the schema.")
MODEL_CARD: Any = option(
    "--model-card", "What you say about the model (TOML or JSON), for the page: name, intended_use, contact, ...",
)  # fmt: skip
SCRATCH: Any = option(
    "--scratch",
    "Folder on whose disk the rows of a table that does not fit into memory are while the command runs, in clear. "
    "Default: that of temporary files (TMPDIR).",
)

_MODELS = (
    "ridge and lasso predict a number; logistic, sparse-logistic and svm a class, svm no probability. lasso and "
    "sparse-logistic have few coefficients and need --radius."
)
MODEL: Any = option("--model", _MODELS, default=REQUIRED, metavar="MODEL")
MODEL_OR_BY_TARGET: Any = option(
    "--model", f"{_MODELS} Default: by what is predicted, ridge for a number, logistic for a class.", metavar="MODEL"
)


@dataclass(frozen=True)
class Reading:
    """How a table is written; what the command line does not say is left to the schema and the file's name."""

    format: Format | None = option("--format", "csv or parquet. Default: by the name of the file.", metavar="FORMAT")
    header: bool | None = option(
        "--header/--no-header",
        "Whether a CSV file starts with the names of its columns. Default: as the schema says, else yes.",
    )
    delimiter: str | None = option(
        "--delimiter",
        "What separates the cells of a CSV file. Default: as the schema says, else a comma (.tsv: a tab).",
    )
    skip_rows: int = option("--skip-rows", "Lines to skip at the start of a text file.", default=0, min=0)
    query: str | None = option(
        "--query", "Of a database: the query to read, which ends with ORDER BY: the rows need an order."
    )
    from_table: str | None = option(
        "--table", "Of a database: the table to read, in the order of its primary key (DuckDB: of insertion)."
    )

    def _format(self, path: Any) -> Format | None:
        return Format.CSV if path == _STDIN and self.format is None else self.format

    def layout(self, layout: Layout) -> Layout:
        if self.header is not None:
            layout = replace(layout, header=self.header)
        if self.delimiter is not None:
            layout = replace(layout, delimiter="\t" if self.delimiter == r"\t" else self.delimiter)
        return layout

    def batches(self, path: Any, layout: Layout, **settings: Any) -> BatchedTable:
        """Open the table in a file, to be read some rows at a time; ``settings`` are those of `open_table`."""
        from sottovoce.tables.database import Database
        from sottovoce.tables.reading import file_format, open_table

        form = self._format(path)
        if isinstance(path, Database) or file_format(path, chosen=form) != Format.CSV:
            as_text = {"--header/--no-header": None if self.header is None else True, "--delimiter": self.delimiter}
            refuse_options(f"says how a CSV file is written, and {path} is none", as_text)
        settings |= {"table": self.from_table, "query": self.query, "skip_rows": self.skip_rows}
        return open_table(path, layout=self.layout(layout), format=form, **settings)


def refuse_options(why: str, options: Mapping[str, object]) -> None:
    """Refuse the options that were given, by them or by parameters; a value that is None or empty was not."""
    for name, value in options.items():
        if value is not None and value is not False and value != []:
            raise ParameterError(f"{name if name.startswith('--') else option_name(name)} {why}.")


def require(option: str, value: _T | None, why: str) -> _T:
    if value is None:
        raise ParameterError(f"{option} is missing: {why}")
    return value


def refuse_fields(why: str, group: Any, *names: str) -> None:
    refuse_options(why, {name: getattr(group, name) for name in names})
