"""``sottovoce vertical simulate``: all parties on one machine."""

import math
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from sklearn.base import clone

from sottovoce._files import check_writable
from sottovoce._validation import choice, number
from sottovoce.cli import _options as cli
from sottovoce.cli._echo import echo
from sottovoce.cli._models import label_facts
from sottovoce.cli._output import print_columns, print_json, print_rows, write_or_keep
from sottovoce.cli._parse import parse_by_party, parse_sizes
from sottovoce.cli.vertical._joint import engines_shown, joined
from sottovoce.cli.vertical._parties import (
    PartyFacts,
    PartySource,
    find_schema,
    name_tables,
    several_tables,
    split_schema,
)
from sottovoce.cli.vertical._training import EPSILON, HowToTrain, estimator_parameters
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.randomness import Purpose, Streams
from sottovoce.tables import Encoder
from sottovoce.vertical import Comparison, Party, VerticalLasso, VerticalSparseLogisticRegression
from sottovoce.vertical.alignment.aligned import DUPLICATES, AlignmentReport
from sottovoce.vertical.estimators.base import VerticalEstimator
from sottovoce.vertical.estimators.files import HISTORY, result_names, result_texts
from sottovoce.vertical.estimators.kinds import ESTIMATORS

_SPLIT: Final = "One table: who holds which columns"
_SEVERAL: Final = "Several tables: who is who"
_FACTS: Final = "Public facts"
_HELD_OUT: Final = "People to compare on"
_HOLDOUT: Final = 0.2


# ------------------------------------------------------------------ options


@dataclass(frozen=True, kw_only=True)
class _Given:
    """What the command line says about tables, parties and training."""

    tables: list[str] = cli.argument(
        "TABLE...", "One table whose columns are split, or one a party: FILE, named like the file, or NAME=FILE."
    )
    target: str | None = cli.TARGET
    party: list[str] = cli.option(
        "--party", "Columns of a party, once for each; NAME alone has all others.", _SPLIT, metavar="NAME=COL,...",
        default=[],
    )  # fmt: skip
    sizes: str | None = cli.option(
        "--sizes", "Instead: how many columns each party has, in order; they are named party1, party2, ...", _SPLIT,
        metavar="N,N,...",
    )  # fmt: skip
    id: list[str] = cli.option(
        "--id", "Column that identifies people; NAME=COL where it differs.", _SEVERAL, metavar="COL", default=[]
    )
    duplicates: str | None = cli.option(
        "--duplicates", "Identifiers that repeat at a party: error, or drop all their rows. Default: error.", _SEVERAL
    )
    schema: list[str] = cli.option(
        "--schema",
        "Public facts about the columns (TOML), NAME=FILE for several. Default: beside each table, ending in .toml.",
        _FACTS, metavar="FILE", default=[],
    )  # fmt: skip
    label_holder: str | None = cli.option("--label-holder", "Party with the labels. Default: the first.", _FACTS)
    helper: list[str] = cli.option(
        "--helper", "--mechanism secure: a party without a table, which only computes with the others.", _FACTS,
        metavar="NAME", default=[],
    )  # fmt: skip
    data_norm: list[str] = cli.option(
        "--data-norm", "Bound on a party's part of a row; NUMBER alone is for all. A schema gives its own.", _FACTS,
        metavar="NAME=NUMBER", default=[],
    )  # fmt: skip
    data_bound: list[str] = cli.option(
        "--data-bound",
        "lasso, sparse-logistic: bound on a party's entries; NUMBER alone is for all. A schema gives its own, 1.",
        _FACTS, metavar="NAME=NUMBER", default=[],
    )  # fmt: skip
    training: HowToTrain
    test: list[str] = cli.option(
        "--test", "Other people, in tables like those of the training; NAME=FILE for several.", _HELD_OUT,
        metavar="TABLE", default=[],
    )  # fmt: skip
    reading: cli.Reading


@cli.with_groups
def simulate(
    *,
    model: cli.ModelKind = cli.MODEL,
    epsilon: float = EPSILON,
    given: _Given,
    out: Path | None = cli.option("--out", "Folder for receipts, parts of the model and the history."),
    force: cli.ForceOption = False,
    quiet: bool = cli.flag("--quiet", "Print the comparison only."),
    as_json: bool = cli.JSON,
    holdout: float | None = cli.option(
        "--holdout", f"Instead: share of the people that is drawn and held out. Default: {_HOLDOUT:g}.", _HELD_OUT
    ),
) -> None:
    """Try vertical training on one machine: what a joint model gains over the label holder's own.

    One TABLE is split by columns between the parties; several are one table a party, aligned by an identifier. Always
    compares the label holder's own model with the joint one on people who took no part in the training.
    """
    source, paths, test_paths = _parties_of(given)
    estimator = _make_estimator(model, source, given, epsilon=epsilon)
    streams = Streams(given.training.random_state)
    share = _share_held_out(holdout, test_paths)
    if out is not None:
        _check_folder(out, source.facts, inputs=[*paths, *test_paths], overwrite=force)
    echo(
        "note: a simulation. All columns are brought together on this machine, and nothing protects anybody while it "
        "runs; the receipt is about what would be released between organisations.",
        err=True,
    )
    parties, report = source.read(paths)
    if test_paths:
        train, held_out = parties, source.read(test_paths)[0]
    else:
        train, held_out = _hold_out(parties, share, streams.generator(Purpose.SHUFFLING))
    if held_out[0].n_rows < 2:
        raise DataError(f"--test: the comparison needs two people or more; got {held_out[0].n_rows}.")
    with engines_shown() as engines:
        estimator.fit(joined(train, given.helper, estimator))
    if out is not None:
        _write(out, estimator, source.facts)
    comparison = _compare(estimator, train, held_out)
    if estimator.history_ is not None and not estimator.history_.converged:
        echo(f"note: the training did not converge in {estimator.n_rounds_} rounds; raise --max-iter.", err=True)
    if as_json:
        print_json({
            "comparison": comparison, "comparison_is_private": False, "guarantee": estimator.guarantee_.to_dict(),
            "people": train[0].n_rows, "rounds": estimator.n_rounds_, "bytes_up": estimator.uplink_bytes_,
            "bytes_down": estimator.downlink_bytes_,
            "given_away": {name: receipt.statement() for name, receipt in estimator.party_guarantees_.items()},
        })  # fmt: skip
        return
    if not quiet:
        _print_parties(source, parties, report)
        _print_run(estimator, train[0].n_rows, held_out[0].n_rows, report)
        engines.print(estimator.plan_)
        print_rows("Receipt", estimator.guarantee_.rows())
        print_rows(
            "What each party gives away by itself",
            [(name, receipt.statement()) for name, receipt in estimator.party_guarantees_.items()],
        )
    _print_comparison(comparison, source.label_holder, private=math.isfinite(epsilon))


# ------------------------------------------------------------------ from options to parties and estimators


def _parties_of(given: _Given) -> tuple[PartySource, list[Path], list[Path]]:
    """Return who the parties are, the files to train on and those to test on; no table is read."""
    if len(given.tables) > 1:
        return _several_tables(given)
    cli.refuse_fields(
        "is for several tables, which are aligned; one table is aligned already", given, "id", "duplicates"
    )
    if len(given.test) > 1:
        raise ParameterError(f"--test: one table is split, and so is one table of test people; got {len(given.test)}.")
    if given.party and given.sizes is not None:
        raise ParameterError("--party and --sizes both say who holds which columns. Give one of them.")
    path, tests = Path(given.tables[0]), [Path(text) for text in given.test]
    for each in (path, *tests):
        given.reading.refuse_unknown(each)
    return _split_table(given, path), [path], tests


def _split_table(given: _Given, path: Path) -> PartySource:
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
    return split_schema(
        schema, given.party, sizes, data_norm=given.data_norm, data_bound=given.data_bound, reading=given.reading,
        label_holder=given.label_holder,
    )  # fmt: skip


def _several_tables(given: _Given) -> tuple[PartySource, list[Path], list[Path]]:
    cli.refuse_fields("is for one table that is split; of several tables each is a party's", given, "party", "sizes")
    paths = name_tables(given.tables)
    tests = parse_by_party("--test", given.test, paths)
    lacking = [name for name in paths if tests and name not in tests]
    if lacking:
        raise ParameterError(f"--test is missing for {lacking[0]}: give NAME=FILE for each of {', '.join(paths)}.")
    if len(set(tests.values())) < len(tests):
        raise ParameterError("--test: two parties have the same table. Give --test NAME=FILE for each.")
    for path in (*paths.values(), *map(Path, tests.values())):
        given.reading.refuse_unknown(path)
    files = parse_by_party("--schema", given.schema, paths)
    schemas = {name: find_schema(path, files.get(name), option=f"--schema {name}=FILE") for name, path in paths.items()}
    source = several_tables(
        schemas, target=given.target, label_holder=given.label_holder, ids=given.id,
        data_norm=given.data_norm, data_bound=given.data_bound,
        duplicates=choice("--duplicates", "error" if given.duplicates is None else given.duplicates, DUPLICATES),
        reading=given.reading,
    )  # fmt: skip
    return source, list(paths.values()), [Path(tests[name]) for name in paths if tests]


def _make_estimator(kind: cli.ModelKind, source: PartySource, given: _Given, *, epsilon: float) -> VerticalEstimator:
    """Return the estimator, with every parameter checked against the parties' public facts; no data are read."""
    chosen = estimator_parameters(kind, epsilon, given.training)
    own = {name: value for name, value in chosen.items() if value is not None}
    labels = label_facts(kind, source.labels.classes, source.labels.label_bounds, two=True)
    if not given.training.may_be_joint:
        cli.refuse_fields("is for --mechanism secure or auto, or --aggregation secure", given, "helper")
    estimator = ESTIMATORS[kind](epsilon=epsilon, label_holder=source.label_holder, **labels, **own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about one person; the plan of the fit warns again, about all
        estimator.plan(joined([party.stand_in() for party in source.facts], given.helper, estimator))
    return estimator


def _compare(estimator: VerticalEstimator, train: list[Party], held_out: list[Party]) -> Comparison:
    """Return the joint model beside the label holder's own; a sparse one is trained here, without noise."""
    if not isinstance(estimator, (VerticalLasso, VerticalSparseLogisticRegression)):
        return estimator.compare(held_out)
    holder = [party for party in train if party.name == estimator.label_holder]
    own = {"epsilon": math.inf, "delta": None, "engine": "auto", "n_steps": None}
    local = clone(estimator).set_params(**own)
    return estimator.compare(held_out, local=local.fit(holder))


def _share_held_out(holdout: float | None, test: Sequence[object]) -> float:
    if test and holdout is not None:
        raise ParameterError("--holdout and --test both say whom to compare on. Give one of them.")
    return number("--holdout", _HOLDOUT if holdout is None else holdout, above=0.0, below=1.0)


def _hold_out(parties: list[Party], share: float, draw: np.random.Generator) -> tuple[list[Party], list[Party]]:
    n = parties[0].n_rows
    if n < 4:
        raise DataError(f"--holdout: {n} people are too few to train on some and compare on others. Give --test.")
    n_held_out = min(max(2, round(share * n)), n - 2)
    drawn = draw.permutation(n)
    rows, others = np.sort(drawn[n_held_out:]), np.sort(drawn[:n_held_out])
    return [party.take(rows) for party in parties], [party.take(others) for party in parties]


# ------------------------------------------------------------------ files


def _check_folder(out: Path, facts: Sequence[PartyFacts], *, inputs: Sequence[Path], overwrite: bool) -> None:
    """Refuse before training what could not be written after it."""
    if out.exists() and not out.is_dir():
        raise ParameterError(f"--out {out}: this is not a folder. Choose another path.")
    if not out.exists():
        check_writable("--out", out, overwrite=False)
        return
    for name in result_names([party.name for party in facts]):
        if any(source.resolve() == (out / name).resolve() for source in inputs):
            raise ParameterError(f"--out {out}: {name} in it is a file to read from. Choose another folder.")
        check_writable("--out", out / name, overwrite=overwrite)


def _write(out: Path, estimator: VerticalEstimator, facts: Sequence[PartyFacts]) -> None:
    with suppress(OSError):  # the first file will tell
        out.mkdir(exist_ok=True)
    texts = result_texts(estimator, {party.name: party.feature_names for party in facts})
    write_or_keep({out / name: text for name, text in texts.items()})
    if HISTORY not in texts:
        (out / HISTORY).unlink(missing_ok=True)  # that of an older run, with --force


# ------------------------------------------------------------------ what is printed


def _print_parties(source: PartySource, parties: Sequence[Party], report: AlignmentReport | None) -> None:
    headings = ["party", "rows", "features", "row norm, at most", "entries >= 0", "labels"]
    counts: dict[str, list[str]] = {party.name: [f"{party.n_rows:,}"] for party in parties}
    if report is not None:
        headings[2:2] = ["without id", "repeated id", "not in common"]
        for party in report.parties:
            counts[party.name] = [
                f"{count:,}" for count in (party.rows, party.missing, party.repeated, party.not_in_common)
            ]
    print_columns("Parties", headings, [
        (
            facts.name, *counts[facts.name], f"{len(facts.feature_names):,}",
            f"{facts.data_norm:.6g}", "yes" if facts.nonnegative else "no",
            "yes" if facts.name == source.label_holder else "",
        )
        for facts in source.facts
    ])  # fmt: skip


def _print_run(estimator: VerticalEstimator, n_train: int, n_held_out: int, report: AlignmentReport | None) -> None:
    rows = [("model", type(estimator).__name__)]
    if report is not None:
        rows += [("people in common", f"{report.n_common:,}")]
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
    echo(_verdict(comparison, label_holder, private=private))
    echo("NOT PRIVATE: these figures are computed from the labels of these people, without noise.")


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
