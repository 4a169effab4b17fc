"""``sottovoce fit``: train a private model on a table and write it with its receipt."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from sottovoce._validation import whole_number
from sottovoce.cli._models import is_sparse, make_estimator, model_rows
from sottovoce.cli._options import (
    TRAINING,
    AcceptDeltaOption,
    AdjacencyOption,
    AlphaOption,
    DataBoundOption,
    DelimiterOption,
    DeltaOption,
    EpsilonOption,
    ForceOption,
    Format,
    FormatOption,
    HeaderOption,
    InterceptOption,
    ModelCardOption,
    ModelKind,
    ModelOption,
    NPublicOption,
    NStepsOption,
    RadiusOption,
    SkipRowsOption,
    SolverOption,
    TableArgument,
    layout_with,
    refuse_options,
)
from sottovoce.cli._output import check_output, print_rows, write_or_keep, write_page
from sottovoce.cli._parse import parse_alpha, parse_bounds, parse_classes
from sottovoce.cli._rows import RowReader, SchemaRows, SparseRows, confirmed_schema
from sottovoce.estimators.persistence import model_to_json, tied_to_schema
from sottovoce.exceptions import ParameterError
from sottovoce.ledger import Ledger
from sottovoce.ledger.charging import is_charged
from sottovoce.report import read_model_card, receipt_page
from sottovoce.tables import Encoder, Schema, file_format

__all__ = ["fit"]

_FACTS = "Public facts, for LIBSVM text"


def fit(
    table: TableArgument,
    model: ModelOption,
    epsilon: EpsilonOption,
    out: Annotated[Path, typer.Option("--out", help="Where to write the model (JSON).")],
    delta: DeltaOption = None,
    accept_delta: AcceptDeltaOption = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", help="Public facts about the columns (TOML), for CSV and Parquet.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The column to predict. Default: that of the schema.")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option("--receipt", help="Where to write the receipt. Default: beside the model.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Where to write the receipt as a page (HTML). Default: nowhere.")
    ] = None,
    model_card: ModelCardOption = None,
    force: ForceOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr, no receipt on stdout.")] = False,
    alpha: AlphaOption = None,
    solver: SolverOption = None,
    radius: RadiusOption = None,
    n_steps: NStepsOption = None,
    adjacency: AdjacencyOption = None,
    n_public: NPublicOption = None,
    intercept: InterceptOption = True,
    random_state: Annotated[
        int | None,
        typer.Option(
            "--random-state",
            help="A seed: makes the run repeatable, and not private against whoever knows it.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            envvar="SOTTOVOCE_LEDGER",
            show_envvar=True,
            help="Privacy budget on disk to charge: sqlite:///PATH or postgresql://USER@HOST/DATABASE.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", help="Name of the data set in the ledger.", rich_help_panel=TRAINING),
    ] = None,
    n_features: Annotated[
        int | None, typer.Option("--n-features", help="Number of features.", rich_help_panel=_FACTS)
    ] = None,
    data_norm: Annotated[
        float | None,
        typer.Option(
            "--data-norm",
            help="Bound on the Euclidean norm of a row; longer rows are shortened to it. A schema gives its own.",
            rich_help_panel=_FACTS,
        ),
    ] = None,
    data_bound: DataBoundOption = None,
    classes: Annotated[
        str | None, typer.Option("--classes", help="All labels of a classifier, such as -1,1.", rich_help_panel=_FACTS)
    ] = None,
    label_bounds: Annotated[
        str | None,
        typer.Option(
            "--label-bounds",
            help="Bounds of the labels (ridge, lasso), such as 0,100; labels beyond are clipped.",
            rich_help_panel=_FACTS,
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002
    header: HeaderOption = None,
    delimiter: DelimiterOption = None,
    skip_rows: SkipRowsOption = 0,
) -> None:
    """Train a private model on TABLE and write it with its receipt."""
    receipt = receipt or out.with_name(f"{out.stem}.receipt.json")
    _check_outputs(
        {"--out": out, "--receipt": receipt, "--report": report}, inputs=(table, schema, model_card), overwrite=force
    )
    if report is None:
        refuse_options("is for the page: give --report PAGE.html too", {"--model-card": model_card})
    card = None if model_card is None else read_model_card(model_card)
    kind = file_format(table, chosen=format)
    facts = {"--n-features": n_features, "--classes": classes, "--label-bounds": label_bounds}
    reader: RowReader
    if kind == Format.LIBSVM:
        refuse_options("is for named columns, which LIBSVM text has not", {"--schema": schema, "--target": target})
        reader = SparseRows(
            n_features=_given_n_features(n_features),
            data_norm=None if is_sparse(model) else _given_data_norm(data_norm),
            data_bound=_given_data_bound(data_bound) if is_sparse(model) else None,
            classes=None if classes is None else parse_classes("--classes", classes),
            label_bounds=None if label_bounds is None else parse_bounds("--label-bounds", label_bounds),
            skip_rows=skip_rows,
        )
    else:
        refuse_options("is for LIBSVM text: with named columns the schema says it", facts)
        described = _read_schema(schema, target, table)
        layout = layout_with(described.layout, header, delimiter)
        reader = SchemaRows(Encoder(described), layout=layout, format=kind, skip_rows=skip_rows)
    estimator = make_estimator(
        model,
        classes=reader.classes,
        label_bounds=reader.label_bounds,
        options={
            "epsilon": epsilon,
            "delta": delta,
            "accept_delta": accept_delta,
            **_bounds(model, reader, data_norm=data_norm, data_bound=data_bound),
            "radius": radius,
            "n_steps": n_steps,
            "alpha": parse_alpha("--alpha", alpha),
            "solver": solver,
            "adjacency": adjacency,
            "n_public": n_public,
            "fit_intercept": intercept,
            "random_state": random_state,
            "ledger": ledger,
            "dataset": dataset,
            "verbose": int(not quiet and sys.stderr.isatty()),
        },
    )
    estimator.plan(1, 1)  # refuses wrong numbers before a large table is opened
    if is_charged(ledger, dataset):
        Ledger(str(ledger)).spent(str(dataset))  # is it there? before the table is read
    estimator.fit(reader.open(table))  # values are read after the charge
    estimator.guarantee_ = tied_to_schema(estimator.guarantee_, reader.schema)
    write_or_keep({out: model_to_json(estimator, schema=reader.schema), receipt: estimator.guarantee_.to_json()})
    if report is not None:
        write_page(report, receipt_page(estimator.guarantee_, model_card=card))
    if not quiet:
        print_rows(f"Model {out}", model_rows(estimator, reader.schema))
        print_rows(f"Receipt {receipt}", estimator.guarantee_.rows())


def _check_outputs(outputs: Mapping[str, Path | None], *, inputs: tuple[Path | None, ...], overwrite: bool) -> None:
    """Refuse before training what could not be written after it."""
    seen: dict[Path, str] = {}
    for name, path in outputs.items():
        if path is None:
            continue
        other = seen.setdefault(path.resolve(), name)
        if other != name:
            raise ParameterError(f"{other} and {name} are the same file, {path}. Choose another path for one of them.")
        check_output(name, path, inputs=inputs, overwrite=overwrite)


def _read_schema(path: Path | None, target: str | None, table: Path) -> Schema:
    if path is None:
        raise ParameterError(
            "--schema is missing: a table with named columns needs a file with the public facts about them. Draft one "
            f"with\n    sottovoce schema {table} --target {target or 'NAME'} > schema.toml\n"
            "confirm each line from public knowledge, and give --schema schema.toml."
        )
    return confirmed_schema(path, target)


def _given_n_features(n_features: int | None) -> int:
    if n_features is None:
        raise ParameterError(
            "--n-features is missing: LIBSVM text needs --n-features N, the public number of features. It is never "
            "taken from the data."
        )
    return whole_number("--n-features", n_features, at_least=1)


def _bounds(
    model: ModelKind, reader: RowReader, *, data_norm: float | None, data_bound: float | None
) -> dict[str, float | None]:
    """Return the bound that the model needs: what was given, else what the schema says; one that is not, if given."""
    if is_sparse(model):
        return {"data_bound": reader.data_bound if data_bound is None else data_bound, "data_norm": data_norm}
    return {"data_norm": reader.data_norm if data_norm is None else data_norm, "data_bound": data_bound}


def _given_data_bound(data_bound: float | None) -> float:
    if data_bound is None:
        raise ParameterError(
            "--data-bound is missing: a sparse model of LIBSVM text needs --data-bound B, a public bound on the "
            "absolute value of every entry. Never compute it from the data; larger entries are clipped to it."
        )
    return data_bound


def _given_data_norm(data_norm: float | None) -> float:
    if data_norm is None:
        raise ParameterError(
            "--data-norm is missing: LIBSVM text needs --data-norm R, a public bound on the Euclidean norm of a row. "
            "Never compute it from the data; longer rows are shortened to it."
        )
    return data_norm
