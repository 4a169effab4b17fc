"""From files to parties: one table whose columns are split between them, or one table a party.

Who the parties are and what is public about them is settled from the options and the schemas, before a table is read.
"""

import csv
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from sottovoce._validation import number
from sottovoce.cli._options import Reading
from sottovoce.cli._parse import parse_by_party
from sottovoce.cli._rows import confirmed_schema, note_unused
from sottovoce.exceptions import ParameterError, SchemaError
from sottovoce.tables import Encoder, IgnoredColumn, Schema
from sottovoce.vertical import Party, align
from sottovoce.vertical.alignment.aligned import AlignmentReport

_NAME = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True, slots=True)
class PartyFacts:
    """What is public about a party before its rows are read."""

    name: str
    feature_names: tuple[str, ...]
    data_norm: float
    data_bound: float
    nonnegative: bool

    def make(self, X: Any, *, ids: Any = None, y: Any = None) -> Party:
        return Party(
            X, ids, name=self.name, y=y, data_norm=self.data_norm, data_bound=self.data_bound,
            nonnegative=self.nonnegative,
        )  # fmt: skip

    def stand_in(self) -> Party:
        """Return a party with the same facts and one empty row, to check a plan with."""
        return self.make(np.zeros((1, len(self.feature_names))))


Gathered = tuple[list[Party], AlignmentReport | None]
"""Parties in one process, row i being the same person everywhere, one with the labels; and how they were aligned."""


@dataclass(frozen=True, kw_only=True)
class PartySource:
    """What turns files into parties, by public facts alone: who they are, in order, and how their files are written."""

    facts: tuple[PartyFacts, ...]
    encoders: Mapping[str, Encoder]
    label_holder: str
    read: Callable[[Sequence[Path]], Gathered]

    @property
    def labels(self) -> Schema:
        """Return the schema that tells of the labels: a classifier's classes, a regression's bounds."""
        return self.encoders[self.label_holder].schema


# ------------------------------------------------------------------ from options to sources


def _checked_name(option: str, name: str) -> str:
    """Return the name of a party if files can be named after it, or refuse it."""
    if not _NAME.fullmatch(name):
        raise ParameterError(
            f"{option}: the name of a party has letters, digits, _, - and . only, because files are named after it; "
            f"got {name!r}."
        )
    return name


def name_tables(tables: Sequence[str]) -> dict[str, Path]:
    """Return the file of each party from ``NAME=FILE`` or ``FILE``, whose name up to the first point is the party's."""
    named: dict[str, Path] = {}
    for text in tables:
        name, equals, file = text.partition("=")
        path = Path(file if equals else text)
        name = _checked_name(f"TABLE {text}", name if equals else path.name.partition(".")[0])
        if name in named:
            raise ParameterError(f"TABLE {text}: two parties would be named {name!r}. Name them: NAME={text}.")
        named[name] = path
    return named


def split_schema(
    schema: Schema, given: Sequence[str], sizes: Sequence[int] | None, *, data_norm: Sequence[str],
    data_bound: Sequence[str], reading: Reading, label_holder: str | None,
) -> PartySource:  # fmt: skip
    """Return the source of one table with named columns.

    Each of ``given`` is ``NAME=column,column``; a NAME alone has all other feature columns. ``sizes`` say instead how
    many feature columns each party has, in the order of the schema. Without a label holder it is the first party.
    """
    features = [column.name for column in schema.feature_columns]
    columns = _by_name(features, given) if sizes is None else _by_size(features, sizes)
    if len(columns) < 2:
        raise ParameterError(
            f"vertical training needs two parties or more; got {len(columns)}. Give more with --party "
            "NAME=column,column, or use sottovoce fit for one table of one organisation."
        )
    target = schema[str(schema.target)]
    encoders = {
        name: Encoder(replace(schema, columns=(*(schema[column] for column in held), target)))
        for name, held in columns.items()
    }
    facts, holder = _facts_of(encoders, data_norm, data_bound), _label_holder(label_holder, list(columns))

    def read(paths: Sequence[Path]) -> Gathered:
        (path,) = paths
        table = reading.table(path, schema.layout, names=schema.column_names)
        y = encoders[holder].labels(table)
        parties = [
            each.make(encoders[each.name].features(table), y=y if each.name == holder else None) for each in facts
        ]
        note_unused(table, schema.column_names)
        return parties, None

    return PartySource(facts=facts, encoders=encoders, label_holder=holder, read=read)


def _by_name(features: Sequence[str], given: Sequence[str]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    holder_of: dict[str, str] = {}
    rest: str | None = None
    for text in given:
        name, equals, listed = text.partition("=")
        _checked_name(f"--party {text}", name)
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


def _by_size(features: Sequence[str], sizes: Sequence[int]) -> dict[str, list[str]]:
    if sum(sizes) != len(features):
        raise ParameterError(
            f"--sizes must add up to the {len(features)} feature columns of the schema; got "
            f"{'+'.join(map(str, sizes))} = {sum(sizes)}."
        )
    ends = accumulate(sizes, initial=0)
    return {f"party{m}": list(features[start:end]) for m, (start, end) in enumerate(pairwise(ends), start=1)}


def find_schema(table: Path, given: str | None, target: str | None = None, *, option: str) -> Schema:
    """Return the schema of a table, from the file given or from the one beside the table; a draft is refused.

    Beside it: the same name up to the first point, then .toml. ``option`` is how to give it, for the message.
    """
    beside = table.with_name(f"{table.name.partition('.')[0]}.toml")
    if given is None and not beside.is_file():
        raise ParameterError(
            f"{option} is missing: {table} needs a file with the public facts about its columns. Draft one "
            f"with\n    sottovoce schema {table} > {beside}\nand confirm each line from public knowledge; it is "
            f"found there, or give {option}."
        )
    schema = confirmed_schema(beside if given is None else Path(given), target)
    if schema.unit is not None:
        raise SchemaError(
            f"the schema of {table} names the unit {schema.unit!r}: between parties one aligned row is one person. "
            "Make a table with one row a person, and remove unit."
        )
    return schema


def several_tables(
    schemas: Mapping[str, Schema], *, target: str | None, label_holder: str | None, ids: Sequence[str],
    data_norm: Sequence[str], data_bound: Sequence[str], duplicates: str, reading: Reading,
) -> PartySource:  # fmt: skip
    """Return the source of one table a party.

    The label's column is ``target``, else that of the one schema that names a target; a label holder that is given must
    be that party. Each of ``ids`` is ``NAME=COLUMN`` or ``COLUMN``.
    """
    holder = _holder_of_labels(schemas, target, label_holder)
    id_columns = parse_by_party("--id", ids, schemas)
    encoders = {}
    for name, schema in schemas.items():
        if name not in id_columns:
            raise ParameterError(
                f"--id is missing for {name}: give the column that identifies people, --id COLUMN where it has one "
                f"name in all tables, else --id {name}=COLUMN for each."
            )
        labelled = schema.with_target(target) if target is not None and name == holder else schema
        used = [column.name for column in labelled.feature_columns] + [labelled.target] * (name == holder)
        if id_columns[name] in used:
            raise ParameterError(
                f"--id {id_columns[name]}: the schema of {name} makes this column a feature or the label. Write type = "
                '"ignore" for it, or leave it out of the schema.'
            )
        encoders[name] = Encoder(labelled, labelled=name == holder)
    facts = _facts_of(encoders, data_norm, data_bound)

    def read_party(each: PartyFacts, path: Path) -> Party:
        encoder, id_column = encoders[each.name], id_columns[each.name]
        schema = encoder.schema
        table = reading.table(path, schema.layout, names=schema.column_names)
        party = each.make(
            encoder.features(table),
            ids=table.cells(id_column).identifiers(schema.layout.missing),
            y=encoder.labels(table) if each.name == holder else None,
        )
        note_unused(table, {*schema.column_names, id_column})
        return party

    def read(paths: Sequence[Path]) -> Gathered:
        aligned = align(
            [read_party(each, path) for each, path in zip(facts, paths, strict=True)], duplicates=duplicates
        )
        return cast("list[Party]", list(aligned.parties.values())), aligned.report

    return PartySource(facts=facts, encoders=encoders, label_holder=holder, read=read)


def _holder_of_labels(schemas: Mapping[str, Schema], target: str | None, given: str | None) -> str:
    """Return the party whose schema describes the label; two would be a feature that is the label."""
    if target is None:
        found = [name for name, schema in schemas.items() if schema.target is not None]
        what, remedy = "names a target", 'write target = "COLUMN" in one of them, or give --target COLUMN'
    else:
        told = {name: schema for name, schema in schemas.items() if target in schema.column_names}
        found = [name for name, schema in told.items() if not isinstance(schema[target], IgnoredColumn)]
        what, remedy = f"describes the column {target!r}", "correct --target, or add the column to one of them"
    if not found:
        raise ParameterError(f"--target: no schema of {', '.join(schemas)} {what}; {remedy}.")
    if len(found) > 1:
        raise ParameterError(
            f"--target: the schema of each of {', '.join(found)} {what}, and one party holds the labels. In the others "
            'write type = "ignore" for that column, and no target.'
        )
    if _label_holder(given, list(schemas), found[0]) != found[0]:
        raise ParameterError(
            f"--label-holder {given}: the labels are in the table of {found[0]}. Leave the option out."
        )
    return found[0]


def _label_holder(given: str | None, names: Sequence[str], default: str | None = None) -> str:
    """Return the party that was given as the label holder, or the default one: the first, unless said otherwise."""
    if given is None:
        return names[0] if default is None else default
    if given not in names:
        raise ParameterError(f"--label-holder {given}: no party is named {given!r}; there are {', '.join(names)}.")
    return given


def _bounds(option: str, given: Sequence[str], names: Collection[str]) -> dict[str, float]:
    bounds = {}
    for name, text in parse_by_party(option, given, names).items():
        try:
            value = float(text)
        except ValueError:
            raise ParameterError(f"{option} {name}: {text!r} is not a number. Write {option} {name}=1.5.") from None
        bounds[name] = number(f"{option} {name}", value, above=0.0)
    return bounds


def _facts_of(
    encoders: Mapping[str, Encoder], data_norm: Sequence[str], data_bound: Sequence[str]
) -> tuple[PartyFacts, ...]:
    """Return the facts that the schemas tell, with tighter bounds where these were given; features are in [-1, 1]."""
    norms, largest = _bounds("--data-norm", data_norm, encoders), _bounds("--data-bound", data_bound, encoders)
    return tuple(
        PartyFacts(name, each.feature_names, norms.get(name, each.data_norm), largest.get(name, 1.0), each.nonnegative)
        for name, each in encoders.items()
    )
