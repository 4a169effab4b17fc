"""One table whose columns are split between parties: who they are, by public facts alone, before it is read."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.cli._options import Reading
from sottovoce.cli._rows import confirmed_schema, note_unused
from sottovoce.exceptions import ParameterError, SchemaError
from sottovoce.tables import Encoder, Schema
from sottovoce.vertical import Party

_NAME = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True, kw_only=True)
class Split:
    """Who holds which columns of a table, and who the labels."""

    schema: Schema
    encoders: Mapping[str, Encoder]  # by party, in order
    label_holder: str

    def read(self, path: Any, reading: Reading) -> list[Party]:
        """Return the parties, each with its columns: row i is the same person everywhere."""
        table = reading.table(path, self.schema.layout, names=self.schema.column_names)
        y = self.encoders[self.label_holder].labels(table)
        parties = [
            _party(name, each, each.features(table), y if name == self.label_holder else None)
            for name, each in self.encoders.items()
        ]
        note_unused(table, self.schema.column_names)
        return parties

    def stand_ins(self) -> list[Party]:
        """Return parties with the same facts and one empty row, to check a plan with."""
        return [_party(name, each, np.zeros((1, each.n_features))) for name, each in self.encoders.items()]


def _party(name: str, facts: Encoder, X: Any, y: Any = None) -> Party:
    return Party(X, name=name, y=y, data_norm=facts.data_norm, data_bound=1.0, nonnegative=facts.nonnegative)


def split_schema(schema: Schema, given: Sequence[str], label_holder: str | None) -> Split:
    """Return who holds which columns: each of ``given`` is ``NAME=column,column``; a NAME alone has all others.

    Without a label holder it is the first party.
    """
    columns = _by_name([column.name for column in schema.feature_columns], given)
    if len(columns) < 2:
        raise ParameterError(
            f"vertical training needs two parties or more; got {len(columns)}. Give more with --party "
            "NAME=column,column, or use sottovoce fit for one table of one organisation."
        )
    if label_holder is not None and label_holder not in columns:
        raise ParameterError(
            f"--label-holder {label_holder}: no party is named {label_holder!r}; there are {', '.join(columns)}."
        )
    target = schema[str(schema.target)]
    encoders = {
        name: Encoder(replace(schema, columns=(*(schema[column] for column in held), target)))
        for name, held in columns.items()
    }
    return Split(schema=schema, encoders=encoders, label_holder=label_holder or next(iter(columns)))


def _by_name(features: Sequence[str], given: Sequence[str]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    holder_of: dict[str, str] = {}
    rest: str | None = None
    for text in given:
        name, equals, listed = text.partition("=")
        if not _NAME.fullmatch(name):
            raise ParameterError(
                f"--party {text}: the name of a party has letters, digits, _, - and . only, because files are named "
                f"after it; got {name!r}."
            )
        if name in columns:
            raise ParameterError(f"--party {text}: party {name!r} is given twice. Give all its columns at once.")
        columns[name] = []
        if not equals:
            if rest is not None:
                raise ParameterError(f"--party {text}: only one party can have all other columns, and {rest!r} has.")
            rest = name
            continue
        for column in next(csv.reader([listed], skipinitialspace=True), []):
            if column not in features:
                raise ParameterError(
                    f"--party {text}: the schema has no feature column {column!r}; there are {', '.join(features)}."
                )
            if column in holder_of:
                raise ParameterError(f"--party {text}: the column {column!r} is that of {holder_of[column]!r} already.")
            holder_of[column] = name
            columns[name].append(column)
    left = [column for column in features if column not in holder_of]
    if rest is not None:
        columns[rest] = left
    elif left:
        raise ParameterError(
            f"--party: nobody holds the column(s) {', '.join(left)}. Add them to a party, give one --party NAME "
            'without columns, which has all others, or write type = "ignore" in the schema.'
        )
    empty = [name for name, held in columns.items() if not held]
    if empty:
        raise ParameterError(f"--party {empty[0]}: the party has no columns. Give it some, or leave it out.")
    return columns


def find_schema(table: Any, given: Path | None, target: str | None) -> Schema:
    """Return the schema of a table, from the file given or from the one beside the table; a draft is refused.

    Beside it: the same name up to the first point, then .toml.
    """
    if given is None:
        given = table.with_name(f"{table.name.partition('.')[0]}.toml") if isinstance(table, Path) else None
        if given is None or not given.is_file():
            drafted = "people.toml" if given is None else given
            raise ParameterError(
                f"--schema FILE is missing: {table} needs a file with the public facts about its columns. Draft one "
                f"with\n    sottovoce schema {table} > {drafted}\nand confirm each line from public knowledge."
            )
    schema = confirmed_schema(given, target)
    if schema.unit is not None:
        raise SchemaError(
            f"the schema of {table} names the unit {schema.unit!r}: between parties one row is one person. Make a "
            "table with one row a person, and remove unit."
        )
    Encoder(schema)  # it names a target
    return schema
