"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sottovoce.exceptions import ParameterError

if TYPE_CHECKING:
    from sottovoce.tables import Layout

__all__ = [
    "AcceptDeltaOption",
    "AdjacencyOption",
    "AlphaOption",
    "DataBoundOption",
    "DelimiterOption",
    "DeltaOption",
    "EpsilonOption",
    "ForceOption",
    "Format",
    "FormatOption",
    "HeaderOption",
    "InterceptOption",
    "ModelKind",
    "ModelCardOption",
    "ModelOption",
    "NPublicOption",
    "NStepsOption",
    "RadiusOption",
    "SkipRowsOption",
    "SolverOption",
    "TableArgument",
    "layout_with",
    "refuse_options",
]

READING = "How the table is written"
TRAINING = "Training"


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
    LIBSVM = "libsvm"


TableArgument = Annotated[
    Path, typer.Argument(metavar="TABLE", help="CSV, Parquet or LIBSVM text; text also as .gz or .bz2.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]

ModelCardOption = Annotated[
    Path | None,
    typer.Option(
        "--model-card",
        help="What you say about the model (TOML or JSON), for the page: name, intended_use, contact, ...",
    ),
]

ModelOption = Annotated[
    ModelKind,
    typer.Option(
        "--model",
        help="ridge and lasso predict a number; logistic, sparse-logistic and svm a class, svm no probability. lasso "
        "and sparse-logistic have few coefficients and need --radius.",
    ),
]
EpsilonOption = Annotated[float, typer.Option("--epsilon", help="Privacy budget, > 0; inf trains without privacy.")]
DeltaOption = Annotated[
    float | None,
    typer.Option("--delta", help="Probability with which the guarantee may fail; well below 1 / number of rows."),
]
AcceptDeltaOption = Annotated[
    float | None,
    typer.Option("--accept-delta", help="The same number again, for a delta of 1 / sqrt(number of rows) or more."),
]

AlphaOption = Annotated[
    str | None,
    typer.Option(
        "--alpha",
        help="Strength of the L2 penalty, or auto: by the number of rows. Default: the estimator's.",
        rich_help_panel=TRAINING,
    ),
]
SolverOption = Annotated[str | None, typer.Option("--solver", help="Default: auto.", rich_help_panel=TRAINING)]
AdjacencyOption = Annotated[
    str | None,
    typer.Option(
        "--adjacency",
        help="Which tables are neighbours: zero-out, add-remove or replace-one. Default: zero-out.",
        rich_help_panel=TRAINING,
    ),
]
RadiusOption = Annotated[
    float | None,
    typer.Option(
        "--radius",
        help="lasso, sparse-logistic: bound on the sum of the absolute coefficients, public; small is sparse.",
        rich_help_panel=TRAINING,
    ),
]
NStepsOption = Annotated[
    int | None,
    typer.Option(
        "--n-steps",
        help="lasso, sparse-logistic: steps of a model, one coefficient each. Default: by a public rule.",
        rich_help_panel=TRAINING,
    ),
]
DataBoundOption = Annotated[
    float | None,
    typer.Option(
        "--data-bound",
        help="lasso, sparse-logistic: bound on the absolute value of every entry; larger ones are clipped to it. A "
        "schema gives its own, 1.",
        rich_help_panel="Public facts, for LIBSVM text",
    ),
]
NPublicOption = Annotated[
    int | None,
    typer.Option(
        "--n-public",
        help="Public stand-in for the number of rows, where that is secret (add-remove).",
        rich_help_panel=TRAINING,
    ),
]
InterceptOption = Annotated[
    bool,
    typer.Option("--intercept/--no-intercept", help="Whether the model has an intercept.", rich_help_panel=TRAINING),
]

FormatOption = Annotated[
    Format | None, typer.Option("--format", help="Default: by the name of the file.", rich_help_panel=READING)
]
HeaderOption = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether a CSV file starts with the names of its columns. Default: as the schema says, else yes.",
        rich_help_panel=READING,
    ),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        help="What separates the cells of a CSV file. Default: as the schema says, else a comma (.tsv: a tab).",
        rich_help_panel=READING,
    ),
]
SkipRowsOption = Annotated[
    int, typer.Option("--skip-rows", min=0, help="Lines to skip at the start of a text file.", rich_help_panel=READING)
]


def layout_with(layout: Layout, header: bool | None, delimiter: str | None) -> Layout:
    """Return ``layout`` with what the command line says otherwise."""
    if header is not None:
        layout = replace(layout, header=header)
    if delimiter is not None:
        layout = replace(layout, delimiter="\t" if delimiter == r"\t" else delimiter)
    return layout


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
