"""``sottovoce vertical``: columns of the same people at several organisations."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer
from sklearn.base import clone

from sottovoce._files import check_writable
from sottovoce._validation import choice, number, whole_number
from sottovoce.cli._options import (
    TRAINING,
    AcceptDeltaOption,
    AlphaOption,
    DelimiterOption,
    DeltaOption,
    EpsilonOption,
    ForceOption,
    Format,
    FormatOption,
    HeaderOption,
    InterceptOption,
    ModelKind,
    ModelOption,
    NStepsOption,
    RadiusOption,
    SkipRowsOption,
    refuse_options,
)
from sottovoce.cli._output import print_columns, print_rows, write_or_keep
from sottovoce.cli._parse import parse_alpha, parse_bounds, parse_by_party, parse_classes, parse_sizes
from sottovoce.cli._parties import (
    Gathered,
    GivenBounds,
    PartyFacts,
    PartySource,
    Reading,
    find_schema,
    name_tables,
    several_tables,
    split_features,
    split_schema,
)
from sottovoce.cli._rows import SparseRows
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.randomness import Purpose, Streams
from sottovoce.tables import Encoder, file_format
from sottovoce.vertical import (
    Comparison,
    Party,
    VerticalLasso,
    VerticalLinearSVC,
    VerticalLogisticRegression,
    VerticalRidge,
    VerticalSparseLogisticRegression,
)
from sottovoce.vertical.alignment.align import DUPLICATES, METHODS, AlignmentReport
from sottovoce.vertical.coordinator.history import History
from sottovoce.vertical.estimators.base import VerticalEstimator
from sottovoce.vertical.estimators.dense import MECHANISMS
from sottovoce.vertical.protocols.frank_wolfe.exact import AGGREGATIONS

__all__ = ["vertical"]

vertical = typer.Typer(no_args_is_help=True)

_SPLIT: Final = "One table: who holds which columns"
_SEVERAL: Final = "Several tables: who is who"
_FACTS: Final = "Public facts"
_HELD_OUT: Final = "People to compare on"
_HOLDOUT: Final = 0.2

_ESTIMATORS: Final[dict[ModelKind, type[VerticalEstimator]]] = {
    ModelKind.LOGISTIC: VerticalLogisticRegression,
    ModelKind.SVM: VerticalLinearSVC,
    ModelKind.RIDGE: VerticalRidge,
    ModelKind.LASSO: VerticalLasso,
    ModelKind.SPARSE_LOGISTIC: VerticalSparseLogisticRegression,
}
_SPARSE: Final = (ModelKind.LASSO, ModelKind.SPARSE_LOGISTIC)
_REGRESSIONS: Final = (ModelKind.RIDGE, ModelKind.LASSO)


@vertical.callback()
def _group() -> None:
    """Columns of the same people at several organisations."""


@vertical.command()
def simulate(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="One table whose columns are split, or one a party: FILE, named like the file, or NAME=FILE.",
        ),
    ],
    model: ModelOption,
    epsilon: EpsilonOption,
    delta: DeltaOption = None,
    accept_delta: AcceptDeltaOption = None,
    target: Annotated[
        str | None, typer.Option("--target", help="The column to predict. Default: that of the schema.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for receipts, parts of the model and the history.")
    ] = None,
    force: ForceOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the comparison only.")] = False,
    party: Annotated[
        list[str] | None,
        typer.Option(
            "--party",
            metavar="NAME=COL,...",
            help="Columns of a party, once for each; NAME alone has all others.",
            rich_help_panel=_SPLIT,
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes",
            metavar="N,N,...",
            help="Instead: how many columns each party has, in order; they are named party1, party2, ...",
            rich_help_panel=_SPLIT,
        ),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option(
            "--id",
            metavar="COL",
            help="Column that identifies people; NAME=COL where it differs.",
            rich_help_panel=_SEVERAL,
        ),
    ] = None,
    align: Annotated[
        str | None,
        typer.Option("--align", help=f"{' or '.join(METHODS)}. Default: exact.", rich_help_panel=_SEVERAL),
    ] = None,
    duplicates: Annotated[
        str | None,
        typer.Option(
            "--duplicates",
            help="Identifiers that repeat at a party: error, or drop all their rows. Default: error.",
            rich_help_panel=_SEVERAL,
        ),
    ] = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            help="Public facts about the columns (TOML), NAME=FILE for several. Default: beside each table, ending in "
            ".toml.",
            rich_help_panel=_FACTS,
        ),
    ] = None,
    label_holder: Annotated[
        str | None,
        typer.Option("--label-holder", help="Party with the labels. Default: the first.", rich_help_panel=_FACTS),
    ] = None,
    labels_public: Annotated[
        bool, typer.Option("--labels-public", help="The labels are no secret.", rich_help_panel=_FACTS)
    ] = False,
    data_norm: Annotated[
        list[str] | None,
        typer.Option(
            "--data-norm",
            metavar="NAME=NUMBER",
            help="Bound on a party's part of a row; NUMBER alone is for all. A schema gives its own.",
            rich_help_panel=_FACTS,
        ),
    ] = None,
    data_bound: Annotated[
        list[str] | None,
        typer.Option(
            "--data-bound",
            metavar="NAME=NUMBER",
            help="lasso, sparse-logistic: bound on a party's entries; NUMBER alone is for all. A schema gives its own, "
            "1.",
            rich_help_panel=_FACTS,
        ),
    ] = None,
    nonnegative: Annotated[
        list[str] | None,
        typer.Option(
            "--nonnegative",
            metavar="NAME",
            help="No entry of this party is negative (LIBSVM; a schema tells it).",
            rich_help_panel=_FACTS,
        ),
    ] = None,
    n_features: Annotated[
        int | None,
        typer.Option("--n-features", help="LIBSVM: number of features. Default: by --sizes.", rich_help_panel=_FACTS),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option("--classes", help="LIBSVM: negative and positive label, such as -1,1.", rich_help_panel=_FACTS),
    ] = None,
    label_bounds: Annotated[
        str | None,
        typer.Option(
            "--label-bounds",
            help="LIBSVM: bounds of the labels of ridge and lasso, such as 0,100.",
            rich_help_panel=_FACTS,
        ),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism",
            help=f"With a finite epsilon: {', '.join(MECHANISMS)}. Default: {next(iter(MECHANISMS))}. lasso and "
            "sparse-logistic have --aggregation instead.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    aggregation: Annotated[
        str | None,
        typer.Option(
            "--aggregation",
            help=f"lasso, sparse-logistic: {', '.join(AGGREGATIONS)}. Default: {AGGREGATIONS[0]}.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    radius: RadiusOption = None,
    n_steps: NStepsOption = None,
    alpha: AlphaOption = None,
    intercept: InterceptOption = True,
    solver: Annotated[
        str | None,
        typer.Option("--solver", help="With epsilon inf: lbfgs or admm. Default: auto.", rich_help_panel=TRAINING),
    ] = None,
    max_iter: Annotated[
        int | None,
        typer.Option(
            "--max-iter", help="With epsilon inf, or a mechanism in rounds: rounds at most.", rich_help_panel=TRAINING
        ),
    ] = None,
    tol: Annotated[
        float | None, typer.Option("--tol", help="With epsilon inf: when to stop.", rich_help_panel=TRAINING)
    ] = None,
    random_state: Annotated[
        int | None,
        typer.Option(
            "--random-state",
            help="A seed: makes the run repeatable, and not private against whoever knows it.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            "--test",
            metavar="TABLE",
            help="Other people, in tables like those of the training; NAME=FILE for several.",
            rich_help_panel=_HELD_OUT,
        ),
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            "--holdout",
            help=f"Instead: share of the people that is drawn and held out. Default: {_HOLDOUT:g}.",
            rich_help_panel=_HELD_OUT,
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002
    header: HeaderOption = None,
    delimiter: DelimiterOption = None,
    skip_rows: SkipRowsOption = 0,
) -> None:
    """Try vertical training on one machine: what a joint model gains over the label holder's own.

    One TABLE is split by columns between the parties; several are one table a party, aligned by an identifier. Always
    compares the label holder's own model with the joint one on people who took no part in the training.
    """
    given = _Given(
        tables, schema or [], target, party or [], sizes, ids or [], align, duplicates, label_holder,
        GivenBounds(data_norm or [], data_bound or []), nonnegative or [], n_features, classes, label_bounds,
        test or [], Reading(format, header, delimiter, skip_rows),
    )  # fmt: skip
    source, paths, test_paths = _parties_of(given)
    estimator = _make_estimator(
        model,
        source,
        epsilon=epsilon,
        options={
            "delta": delta,
            "accept_delta": accept_delta,
            "mechanism": mechanism,
            "aggregation": aggregation,
            "radius": radius,
            "n_steps": n_steps,
            "labels_public": labels_public,
            "alpha": parse_alpha("--alpha", alpha),
            "fit_intercept": intercept,
            "solver": solver,
            "max_iter": max_iter,
            "tol": tol,
            "random_state": random_state,
        },
    )
    streams = Streams(random_state)
    share = _share_held_out(holdout, test_paths)
    if out is not None:
        _check_folder(out, source.facts, inputs=[*paths, *test_paths], overwrite=force)
    typer.echo(
        "note: a simulation. All columns are brought together on this machine, and nothing protects anybody while it "
        "runs; the receipt is about what would be released between organisations.",
        err=True,
    )
    gathered = source.read(paths)
    if test_paths:
        train, held_out = gathered.parties, source.read(test_paths).parties
    else:
        train, held_out = _hold_out(gathered, share, streams.generator(Purpose.SHUFFLING))
    if held_out[0].n_rows < 2:
        raise DataError(f"--test: the comparison needs two people or more; got {held_out[0].n_rows}.")
    estimator.fit(train)
    if out is not None:
        _write(out, estimator, source.facts)
    comparison = _compare(estimator, train, held_out)
    if estimator.history_ is not None and not estimator.history_.converged:
        typer.echo(f"note: the training did not converge in {estimator.n_rounds_} rounds; raise --max-iter.", err=True)
    if not quiet:
        _print_parties(source, gathered)
        _print_run(estimator, train[0].n_rows, held_out[0].n_rows, gathered.report)
        print_rows("Receipt", estimator.guarantee_.rows())
        print_rows(
            "What each party gives away by itself",
            [(name, receipt.statement()) for name, receipt in estimator.party_guarantees_.items()],
        )
    _print_comparison(comparison, source.label_holder, private=math.isfinite(epsilon))


# ------------------------------------------------------------------ options


@dataclass(frozen=True)
class _Given:
    """What the command line says about tables and parties."""

    tables: Sequence[str]
    schema: Sequence[str]
    target: str | None
    party: Sequence[str]
    sizes: str | None
    ids: Sequence[str]
    align: str | None
    duplicates: str | None
    label_holder: str | None
    bounds: GivenBounds
    nonnegative: Sequence[str]
    n_features: int | None
    classes: str | None
    label_bounds: str | None
    test: Sequence[str]
    reading: Reading

    def is_libsvm(self, path: Path) -> bool:
        """Tell whether a file is LIBSVM text."""
        return file_format(path, chosen=self.reading.format) == Format.LIBSVM

    def refuse_facts_of_libsvm(self) -> None:
        """Refuse the options that only LIBSVM text needs."""
        refuse_options("is for LIBSVM text: with named columns the schema says it", {
            "--nonnegative": self.nonnegative, "--n-features": self.n_features, "--classes": self.classes,
            "--label-bounds": self.label_bounds,
        })  # fmt: skip


def _parties_of(given: _Given) -> tuple[PartySource, list[Path], list[Path]]:
    """Return who the parties are, the files to train on and those to test on; no table is read."""
    if len(given.tables) > 1:
        return _several_tables(given)
    refuse_options("is for several tables, which are aligned; one table is aligned already", {
        "--id": given.ids, "--align": given.align, "--duplicates": given.duplicates,
    })  # fmt: skip
    if len(given.test) > 1:
        raise ParameterError(f"--test: one table is split, and so is one table of test people; got {len(given.test)}.")
    if given.party and given.sizes is not None:
        raise ParameterError("--party and --sizes both say who holds which columns. Give one of them.")
    path, tests = Path(given.tables[0]), [Path(text) for text in given.test]
    for test in tests:
        if given.is_libsvm(test) != given.is_libsvm(path):
            raise ParameterError(f"--test {test}: one of this and {path} is LIBSVM text, the other is not.")
    return (_split_features if given.is_libsvm(path) else _split_table)(given, path), [path], tests


def _split_features(given: _Given, path: Path) -> PartySource:
    refuse_options("is for named columns, which LIBSVM text has not", {
        "--schema": given.schema, "--target": given.target, "--party": given.party,
    })  # fmt: skip
    if given.sizes is None:
        raise ParameterError(
            f"--sizes is missing: {path} has no named columns; say how many features each party has, such as "
            "--sizes 66,57."
        )
    sizes = parse_sizes("--sizes", given.sizes)
    if given.n_features is not None and whole_number("--n-features", given.n_features, at_least=1) != sum(sizes):
        raise ParameterError(
            f"--sizes must add up to --n-features {given.n_features}; got {'+'.join(map(str, sizes))} = {sum(sizes)}."
        )
    rows = SparseRows(
        n_features=sum(sizes),
        data_norm=None,
        data_bound=None,
        classes=None if given.classes is None else parse_classes("--classes", given.classes),
        label_bounds=None if given.label_bounds is None else parse_bounds("--label-bounds", given.label_bounds),
        skip_rows=given.reading.skip_rows,
    )
    return split_features(rows, sizes, given.bounds, given.nonnegative, given.label_holder)


def _split_table(given: _Given, path: Path) -> PartySource:
    given.refuse_facts_of_libsvm()
    if not given.party and given.sizes is None:
        raise ParameterError(
            "--party is missing: say who holds which columns, such as --party clinic=age,bmi --party bank (which has "
            "all others), or give --sizes with the numbers of columns."
        )
    if len(given.schema) > 1:
        raise ParameterError(f"--schema: one table has one schema; got {len(given.schema)}.")
    schema = find_schema(path, given.schema[0] if given.schema else None, given.target, option="--schema FILE")
    Encoder(schema)  # it names a target
    sizes = None if given.sizes is None else parse_sizes("--sizes", given.sizes)
    return split_schema(schema, given.party, sizes, given.bounds, given.reading, given.label_holder)


def _several_tables(given: _Given) -> tuple[PartySource, list[Path], list[Path]]:
    refuse_options("is for one table that is split; of several tables each is a party's", {
        "--party": given.party, "--sizes": given.sizes,
    })  # fmt: skip
    paths = name_tables(given.tables)
    tests = parse_by_party("--test", given.test, paths)
    lacking = [name for name in paths if tests and name not in tests]
    if lacking:
        raise ParameterError(f"--test is missing for {lacking[0]}: give NAME=FILE for each of {', '.join(paths)}.")
    if len(set(tests.values())) < len(tests):
        raise ParameterError("--test: two parties have the same table. Give --test NAME=FILE for each.")
    for path in (*paths.values(), *map(Path, tests.values())):
        if given.is_libsvm(path):
            raise ParameterError(f"{path}: LIBSVM text has no column of identifiers to align by. Give CSV or Parquet.")
    given.refuse_facts_of_libsvm()
    files = parse_by_party("--schema", given.schema, paths)
    schemas = {name: find_schema(path, files.get(name), option=f"--schema {name}=FILE") for name, path in paths.items()}
    source = several_tables(
        schemas, target=given.target, label_holder=given.label_holder, ids=given.ids, bounds=given.bounds,
        method=choice("--align", "exact" if given.align is None else given.align, METHODS),
        duplicates=choice("--duplicates", "error" if given.duplicates is None else given.duplicates, DUPLICATES),
        reading=given.reading,
    )  # fmt: skip
    return source, list(paths.values()), [Path(tests[name]) for name in paths if tests]


def _require_bounds(kind: ModelKind, facts: Sequence[PartyFacts], label_holder: str, epsilon: float) -> None:
    """Refuse a private training without the bound that its noise is scaled by."""
    if epsilon == math.inf:
        return
    if kind in _SPARSE:
        missing = [party.name for party in facts if party.data_bound is None]
        option, what = (
            "--data-bound",
            "the absolute value of its entries",
        )
        clipped = "larger entries are clipped to it"
    else:
        missing = [party.name for party in facts if party.data_norm is None and party.name != label_holder]
        option, what = "--data-norm", "the Euclidean norm of its part of a row"
        clipped = "longer rows are shortened to it"
    if missing:
        raise ParameterError(
            f"{option} is missing for {missing[0]}: a private training needs {option} {missing[0]}=NUMBER, a public "
            f"bound on {what}, or {option} NUMBER for all. Never compute it from the data; {clipped}."
        )


def _make_estimator(
    kind: ModelKind, source: PartySource, *, epsilon: float, options: Mapping[str, Any]
) -> VerticalEstimator:
    """Return the estimator, with every parameter checked against the parties' public facts; no data are read."""
    own = _sparse_options(kind, epsilon, options) if kind in _SPARSE else _penalty_options(kind, epsilon, options)
    labels: dict[str, Any]
    if kind in _REGRESSIONS:
        if source.label_bounds is None:
            raise ParameterError(
                f"--model {kind} predicts a number, and needs its public bounds: with a schema, a target of type = "
                '"numeric" with bounds = [low, high]; for LIBSVM text --label-bounds LOW,HIGH. For classes use --model '
                "logistic, sparse-logistic or svm."
            )
        labels = {"label_bounds": source.label_bounds}
    else:
        if source.classes is None or len(source.classes) != 2:
            got = "" if source.classes is None else f"; got {len(source.classes)}"
            raise ParameterError(
                f"--model {kind} predicts one of two classes, and needs their public list{got}: with a schema, a "
                'target of type = "categorical" with categories = [negative, positive]; for LIBSVM text --classes A,B. '
                "For a number use --model ridge or lasso."
            )
        labels = {"classes": list(source.classes)}
    _require_bounds(kind, source.facts, source.label_holder, epsilon)
    estimator = _ESTIMATORS[kind](epsilon=epsilon, label_holder=source.label_holder, **labels, **own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about one person; the plan of the fit warns again, about all
        estimator.plan([party.stand_in() for party in source.facts])
    return estimator


def _penalty_options(kind: ModelKind, epsilon: float, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model with an L2 penalty is made with."""
    refuse_options(f"is for --model lasso and sparse-logistic, not for {kind}", {
        f"--{name.replace('_', '-')}": options[name] for name in ("aggregation", "radius", "n_steps")
    })  # fmt: skip
    chosen = {name: value for name, value in options.items() if value is not None}
    flags = {f"--{name.replace('_', '-')}": options[name] for name in ("mechanism", "solver", "max_iter", "tol")}
    if epsilon == math.inf:
        refuse_options("is for a private training, with a finite --epsilon", {"--mechanism": flags.pop("--mechanism")})
        return chosen
    mechanism = flags.pop("--mechanism") or next(iter(MECHANISMS))
    if mechanism in MECHANISMS and "max_iter" in MECHANISMS[mechanism].options:
        rounds = flags.pop("--max-iter")
        if rounds is not None:
            chosen["mechanism_options"] = {"max_iter": chosen.pop("max_iter")}
    refuse_options("is for a training without noise, --epsilon inf", flags)
    return chosen


def _sparse_options(kind: ModelKind, epsilon: float, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model on the l1 ball is made with."""
    refuse_options(f"is not for --model {kind}, whose coefficients are bounded by --radius", {
        f"--{name}": options[name] for name in ("alpha", "solver", "mechanism")
    })  # fmt: skip
    if options["radius"] is None:
        raise ParameterError(
            f"--radius is missing: --model {kind} needs --radius R, a public bound on the sum of the absolute "
            "coefficients of all parties (of features in [-1, 1], with a schema). Small is sparse, large fits closely."
        )
    if epsilon == math.inf:
        refuse_options("is for a private training, with a finite --epsilon; without noise give --max-iter", {
            "--n-steps": options["n_steps"],
        })  # fmt: skip
    else:
        refuse_options("is for a training without noise, --epsilon inf", {
            "--max-iter": options["max_iter"], "--tol": options["tol"],
        })  # fmt: skip
    return {name: value for name, value in options.items() if value is not None}


def _compare(estimator: VerticalEstimator, train: list[Party], held_out: list[Party]) -> Comparison:
    """Return the joint model beside the label holder's own; a sparse one is trained here, without noise."""
    if not isinstance(estimator, (VerticalLasso, VerticalSparseLogisticRegression)):
        return estimator.compare(held_out)
    holder = [party for party in train if party.name == estimator.label_holder]
    local = clone(estimator).set_params(epsilon=math.inf, delta=None, aggregation="global", n_steps=None)
    return estimator.compare(held_out, local=local.fit(holder))


def _share_held_out(holdout: float | None, test: Sequence[object]) -> float:
    if test and holdout is not None:
        raise ParameterError("--holdout and --test both say whom to compare on. Give one of them.")
    return number("--holdout", _HOLDOUT if holdout is None else holdout, above=0.0, below=1.0)


def _hold_out(gathered: Gathered, share: float, draw: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """Return the parties with the people to train on, and with those held out, in their old order."""
    n = gathered.n_people
    if n < 4:
        raise DataError(f"--holdout: {n} people are too few to train on some and compare on others. Give --test.")
    n_held_out = min(max(2, round(share * n)), n - 2)
    drawn = draw.permutation(n)
    return gathered.take(np.sort(drawn[n_held_out:])), gathered.take(np.sort(drawn[:n_held_out]))


# ------------------------------------------------------------------ files


def _file_names(facts: Sequence[PartyFacts]) -> list[str]:
    by_party = [f"{party.name}.{what}.json" for party in facts for what in ("receipt", "part")]
    return ["guarantee.json", "coordinator.json", "history.csv", *by_party]


def _check_folder(out: Path, facts: Sequence[PartyFacts], *, inputs: Sequence[Path], overwrite: bool) -> None:
    """Refuse before training what could not be written after it."""
    if out.exists() and not out.is_dir():
        raise ParameterError(f"--out {out}: this is no folder. Choose another path.")
    if not out.exists():
        check_writable("--out", out, overwrite=False)
        return
    for name in _file_names(facts):
        if any(source.resolve() == (out / name).resolve() for source in inputs):
            raise ParameterError(f"--out {out}: {name} in it is a file to read from. Choose another folder.")
        check_writable("--out", out / name, overwrite=overwrite)


def _write(out: Path, estimator: VerticalEstimator, facts: Sequence[PartyFacts]) -> None:
    with suppress(OSError):  # the first file will tell
        out.mkdir(exist_ok=True)
    holder = estimator.plan_.facts.label_holder
    common = {"version": 1, "model": estimator.model_, "estimator": type(estimator).__name__}
    texts = {"guarantee.json": estimator.guarantee_.to_json()}
    for name, receipt in estimator.party_guarantees_.items():
        texts[f"{name}.receipt.json"] = receipt.to_json()
    features = {party.name: party.feature_names for party in facts}
    for name, part in estimator.parts_.items():
        texts[f"{name}.part.json"] = _json({
            "format": "sottovoce-vertical-part", **common, "party": name, "intercept": part.intercept,
            "coefficients": dict(zip(features[name], part.coef.tolist(), strict=True)),
        })  # fmt: skip
    labels = {"label_holder": holder} | {
        name: _plain(getattr(estimator, name)) for name in ("classes", "label_bounds") if hasattr(estimator, name)
    }
    scorer: Any = estimator.scorer_
    texts["coordinator.json"] = _json({
        "format": "sottovoce-vertical-coordinator", **common, **labels, "scorer": type(scorer).__name__,
        **{field.name: _plain(getattr(scorer, field.name)) for field in dataclasses.fields(scorer)},
    })  # fmt: skip
    if estimator.history_ is not None:
        texts["history.csv"] = _history_text(estimator.history_)
    write_or_keep({out / name: text for name, text in texts.items()})
    if estimator.history_ is None:
        (out / "history.csv").unlink(missing_ok=True)  # that of an older run, with --force


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """Return what a scorer is made of as plain data for JSON."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _history_text(history: History) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    columns = ("objective", "stationarity", "uplink_bytes", "downlink_bytes")
    writer.writerow(("round", *columns))
    lines = zip(*(getattr(history, name) for name in columns), strict=True)
    writer.writerows((round_, *line) for round_, line in enumerate(lines, start=1))
    return buffer.getvalue()


# ------------------------------------------------------------------ what is printed


def _print_parties(source: PartySource, gathered: Gathered) -> None:
    headings = ["party", "rows", "features", "row norm, at most", "entries >= 0", "labels"]
    counts: dict[str, list[str]] = {party.name: [f"{gathered.n_people:,}"] for party in source.facts}
    if gathered.report is not None:
        headings[2:2] = ["without id", "repeated id", "not in common"]
        for party in gathered.report.parties:
            counts[party.name] = [
                f"{count:,}" for count in (party.rows, party.missing, party.repeated, party.not_in_common)
            ]
    print_columns("Parties", headings, [
        (
            facts.name, *counts[facts.name], f"{len(facts.feature_names):,}",
            "-" if facts.data_norm is None else f"{facts.data_norm:.6g}", "yes" if facts.nonnegative else "no",
            "yes" if facts.name == source.label_holder else "",
        )
        for facts in source.facts
    ])  # fmt: skip


def _print_run(estimator: VerticalEstimator, n_train: int, n_held_out: int, report: AlignmentReport | None) -> None:
    rows = [("model", type(estimator).__name__)]
    if report is not None:
        rows += [("people in common", f"{report.n_common:,}"), ("aligned by", report.method)]
        rows += [("bytes, alignment", f"{report.total_bytes:,}")] if report.bytes_sent else []
    rows += [
        ("people trained on", f"{n_train:,}"),
        ("people to compare on", f"{n_held_out:,}"),
        ("rounds", f"{estimator.n_rounds_:,}"),
        ("bytes up, from the parties", f"{estimator.uplink_bytes_:,}"),
        ("bytes down, to the parties", f"{estimator.downlink_bytes_:,}"),
    ]
    print_rows("Training", rows)


def _print_comparison(comparison: Comparison, label_holder: str, *, private: bool) -> None:
    print_columns(
        f"Local against joint, on {comparison.n_samples:,} held-out people",
        ["", f"{label_holder} alone", "joint"],
        [(name, f"{comparison.local[name]:.4f}", f"{comparison.joint[name]:.4f}") for name in comparison.local],
    )
    typer.echo(_verdict(comparison, label_holder, private=private))
    typer.echo("NOT PRIVATE: these figures are computed from the labels of these people, without noise.")


def _verdict(comparison: Comparison, label_holder: str, *, private: bool) -> str:
    better = comparison.improved
    worse = [name for name in comparison.local if name not in better]
    if not worse:
        return f"The joint model beats {label_holder}'s own on these people."
    if better:
        return (
            f"The joint model is better than {label_holder}'s own in {', '.join(better)}, and not in "
            f"{', '.join(worse)}."
        )
    remedy = "at this epsilon. Keep the local model, or try a larger epsilon or more people" if private else "here"
    return (
        f"The joint model does not beat {label_holder}'s own on these people: the other parties' columns do not pay "
        f"{remedy}."
    )
