"""What is read of one entry never depends on another entry, whatever container holds them.

One entry of a column is changed to what is missing, a text, a number beyond all doubles and so on, in every container.
What is read of all the others must stay equal. A fit may stop over the changed entry (docs/privacy/README.md says over
which); it may not stop where it would not over that entry in any other container.
"""

import math
import tracemalloc
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import sottovoce as sv
from sottovoce import _groups
from sottovoce.central.data.row_memory import LABEL
from sottovoce.estimators.penalised import checked_sample_weights
from sottovoce.estimators.reading import holding, read_features
from sottovoce.evaluation.evaluating import evaluation_plan, score_rows
from sottovoce.exceptions import DataError, ParameterError, PrivacyWarning
from sottovoce.local import Protocol
from sottovoce.tables import ParquetTable
from sottovoce.tables.table import Table
from sottovoce.vertical import InProcessParties, Party, VerticalLogisticRegression, VerticalRidge
from sottovoce.vertical.estimators.prediction import labels_of
from sottovoce.vertical.requests.identifiers import canonical_identifiers
from support.containers import CHANGES, CONTAINERS, held, pairs

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")
    for kind in ("sottovoce.exceptions.PrivacyWarning", "RuntimeWarning", "UserWarning", "FutureWarning",
                 "DeprecationWarning")
]  # fmt: skip
HUGE = 2**60
UUIDS = [str(uuid.UUID(int=k)) for k in (5, 6, 5, 7, 8, 6)]
NAMES = {
    "small": [3, 1, 3, 2, 7, 1],
    "at 2^53": [2**53 - 1, 2**53, 2**53 + 1, 2**53, 2**53 + 2, 2**53 - 1],
    "snowflakes": [HUGE + 1, HUGE + 2, HUGE + 1, HUGE + 3, HUGE + 4, HUGE + 2],
    "unsigned": [2**64 - 1, 2**64 - 2, 2**64 - 1, 2**64 - 3, 2**64 - 4, 2**64 - 2],
    "negative": [-HUGE - 1, -HUGE - 2, -HUGE - 1, -HUGE - 3, 5, -HUGE - 2],
    "fractions": [0.5, 1.5, 0.5, 2.5, 3.5, 1.5],
    "texts": ["b", "a", "b", "17", "", "a"],
    "uuids": UUIDS,
    "bytes": [text.encode() for text in UUIDS],
}
CLASSES = {
    "numbers": [0, 1], "texts": ["no", "yes"], "truth": [False, True], "digits": ["0", "1", "text"],
    "shifted digits": ["1", "2", "text"], "places": ["a", "b", "text"], "at 2^53": [2**53, 2**53 + 1, 1],
    "snowflakes": [HUGE, HUGE + 1, 0],
}  # fmt: skip
# places of two of the classes: some are given as numbers, in a list of texts
LABELS = {kind: [classes[place] for place in (0, 1, 1, 0, 1, 0)] for kind, classes in CLASSES.items()} | {
    "shifted digits": [1, 2, 2, 1, 2, 1], "places": [0, 1, 1, 0, 1, 0],
}  # fmt: skip
NUMBERS = {"whole": [1, 2, 3, 4, 5, 6], "fractions": [0.1, 0.7, -0.3, 0.2, 0.25, 1e-30], "large": [2**53 + 1] * 6}
CELLS = NUMBERS | {"digits": ["1", "2", "3", "0.5", "1e-3", "7"]}
X = np.linspace(-1.0, 1.0, 18).reshape(6, 3)
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
FRAMES = (
    "pandas", "pandas objects", "Int64", "Float64", "boolean", "int64[pyarrow]", "double[pyarrow]",
    "categorical series",
)  # fmt: skip
ALL_FRAMES = (*FRAMES, "UInt64", "string", "str", "ordered categorical")


@cache
def ridge(*, named=False):
    table = pd.DataFrame(X, columns=["a", "b", "c"]) if named else X
    return sv.DPRidge(data_norm=2.0, label_bounds=(-1e20, 1e20), random_state=0, **BUDGET).fit(table, X[:, 0])


@cache
def classifier(kind):
    model = sv.DPLogisticRegression(data_norm=2.0, random_state=0, **BUDGET).fit(X, [0, 1] * 3)
    model.classes_ = np.array(CLASSES[kind])
    model.coef_ = np.resize(model.coef_, (1 if len(model.classes_) == 2 else 3, 3))
    model.intercept_ = np.resize(model.intercept_, len(model.coef_))
    return model


def scored(model, table, labels, bounds=None):
    rows = score_rows(evaluation_plan(model, 6, epsilon=1.0, label_bounds=bounds), model, table, labels)
    return list(zip(rows.labels.tolist(), rows.left_out.tolist(), rows.scores.tolist(), strict=True))


def fitted_labels(model, given):
    with holding(model, X, given) as holder:
        model.read_labels(holder)
        return holder.memory.get(LABEL, slice(0, 6)).tolist()


def framed(given, names=("a", "b", "c")):
    return pd.DataFrame(dict(zip(names, (X[:, 0], given, X[:, 2]), strict=True)))


def objects(given):
    table = X.astype(object)
    table[:, 1] = np.fromiter(given, object, 6)
    return table


def masked(given):
    table = np.ma.masked_array(np.column_stack([X[:, 0], given.data, X[:, 2]]))
    table[:, 1] = given
    return table


def spelled(cells):
    texts, codes = cells.spelled()
    return [texts[code] for code in codes]


def numbers_of(cells):
    numbers, missing = cells.numbers(("", "nan"))
    return list(zip(numbers.tolist(), missing.tolist(), strict=True))


def cells(given):
    return Table.from_frame(pd.DataFrame({"a": given, "b": X[:, 0]})).cells("a")


def partition(codes):
    """Return codes in the order of first appearance, so that they are those of the same people."""
    order = {}
    return [code if code < 0 else order.setdefault(code, len(order)) for code in codes]


@cache
def behind_a_step():
    steps = [("step", FunctionTransformer(np.reciprocal)), ("m", sv.DPRidge(data_norm=2.0, label_bounds=(-9.0, 9.0)))]
    return sv.DPPipeline(steps, random_state=0, **BUDGET).fit(X, X[:, 0])


def handed(rows):
    """Return what the model of a pipeline is trained on, of rows that go through a step first."""
    step = FunctionTransformer(lambda X: [seen.append(X), np.reciprocal(X)][1])  # 0 of whole numbers beyond 1
    seen, model = [], sv.DPRidge(label_bounds=(-1, 1))
    sv.DPPipeline([("step", step), ("model", model)], **BUDGET).fit(rows, [0.0] * len(rows))
    return np.reciprocal(seen[-1]).tolist()


class Reader(NamedTuple):
    """What reads a column: all kinds of entries, where it may stop, in which containers, how many pairs there are."""

    read: Callable[[str, Any], list[Any]]
    bases: dict[str, Any]
    may_stop: Callable[[str], bool] = lambda kind: False
    names: tuple[str, ...] | None = None
    least: int = 60
    changes: tuple[str, ...] | None = None
    between: Callable[[list[Any]], list[Any]] = list


def always(kind):
    return True


def without(bases, *names):
    return {name: base for name, base in bases.items() if name not in names}


def held_labels(model, given):
    return model._targets(Party(X, name="a", y=given).y)[0].tolist()


TWO = {kind: base for kind, base in LABELS.items() if len(CLASSES[kind]) == 2}
READERS = {
    "persons": Reader(lambda kind, given: _groups.person_codes(given, 6).tolist(), NAMES, between=partition),
    "labels of an evaluation": Reader(lambda kind, given: scored(classifier(kind), X, given), LABELS),
    "numbers of an evaluation": Reader(lambda kind, given: scored(ridge(), X, given), NUMBERS),
    "labels of a fit": Reader(
        lambda kind, given: fitted_labels(
            sv.DPLogisticRegression(data_norm=2.0, classes=CLASSES[kind], **BUDGET), given
        ), LABELS, always, least=0,
    ),
    "numbers of a fit": Reader(
        lambda kind, given: fitted_labels(sv.DPRidge(data_norm=2.0, label_bounds=(-1e20, 1e20), **BUDGET), given),
        NUMBERS, always,
    ),
    "weights": Reader(
        lambda kind, given: checked_sample_weights(given, 6, 1e6).tolist(),
        {name: [abs(x) for x in base] for name, base in NUMBERS.items()}, always,
    ),
    # in frames whose other columns are plain, in arrays of objects, in lists of rows, and under masks
    "rows of an evaluation, frame": Reader(
        lambda kind, given: scored(ridge(named=True), framed(given), np.zeros(6)), CELLS, "digits".__eq__, FRAMES, 2
    ),
    "rows of an evaluation, numbered columns": Reader(
        lambda kind, given: scored(ridge(), framed(given, range(3)), np.zeros(6)), CELLS, "digits".__eq__, FRAMES, 2
    ),
    "rows of an evaluation, objects": Reader(
        lambda kind, given: scored(ridge(), objects(given), np.zeros(6)), CELLS, "digits".__eq__, ("list",), 2
    ),
    "rows of an evaluation, lists": Reader(
        lambda kind, given: scored(
            ridge(), [[a, b, c] for a, b, c in zip(X[:, 0], given, X[:, 2], strict=True)], np.zeros(6)
        ), CELLS, "digits".__eq__, ("list",), 2,
    ),
    "rows of an evaluation, lists that go through a step": Reader(
        lambda kind, given: scored(behind_a_step(), [[2, b, 3] for b in given], np.zeros(6), (-9, 9)), CELLS,
        "digits".__eq__, ("list",), 2,
    ),
    "rows of an evaluation, lists, another's model": Reader(
        lambda kind, given: scored(
            # a class among the parameters says nothing of what it takes
            make_pipeline(FunctionTransformer(np.reciprocal, inverse_func=Ridge), LinearRegression().fit(X, X[:, 0])),
            [[2, b, 3] for b in given], np.zeros(6), (-9, 9),
        ), CELLS, always, ("list",), 2,
    ),
    "rows of an evaluation, masked": Reader(
        lambda kind, given: scored(ridge(), masked(given), np.zeros(6)), NUMBERS, names=("masked",), least=2
    ),
    "rows of a fit, frame": Reader(
        lambda kind, given: read_features(sv.DPScaler(), framed(given)).tolist(), NUMBERS, always, FRAMES, 2
    ),
    "rows of a fit, lists": Reader(
        lambda kind, given: read_features(sv.DPScaler(), [[0.5, b] for b in given]).tolist(), NUMBERS, always,
        ("list",), 2,
    ),
    "rows of a fit, lists that go through a step": Reader(
        lambda kind, given: handed([[2, b] for b in given]), NUMBERS, always, ("list",), 2
    ),
    "rows of a fit, lists of arrays": Reader(
        lambda kind, given: handed([np.array([2, b]) if isinstance(b, (int, float)) else [2, b] for b in given]),
        NUMBERS, always, ("list",), 2,
    ),
    "cells of a frame": Reader(
        lambda kind, given: spelled(cells(given)), NAMES | NUMBERS, names=ALL_FRAMES, least=8
    ),
    "cells of an array": Reader(
        lambda kind, given: spelled(Table.from_columns(["a"], [np.asarray(given)]).cells("a")), NAMES | NUMBERS,
        names=("numpy objects", "masked objects"), least=8,
    ),
    "persons of a frame": Reader(
        lambda kind, given: _groups.person_codes(cells(given).named(("",)), 6).tolist(), NAMES | NUMBERS,
        "bytes".__eq__, ALL_FRAMES, 8, between=partition,
    ),
    # a table stops over a cell that breaks its schema; over others it does not
    "numbers of a frame": Reader(
        lambda kind, given: numbers_of(cells(given)), NUMBERS, always, FRAMES, 10, ("missing", "-0.0", "NaN")
    ),
    "identifiers of a party": Reader(
        lambda kind, given: canonical_identifiers("ids", Party(X, given, name="a").ids).to_pylist(),
        without(NAMES, "fractions"), always,
    ),
    "labels of a party": Reader(
        lambda kind, given: held_labels(VerticalLogisticRegression(classes=CLASSES[kind], **BUDGET), given), TWO, always
    ),
    "numbers of a party": Reader(
        lambda kind, given: held_labels(VerticalRidge(label_bounds=(-9.0, 9.0), **BUDGET), given),
        without(NUMBERS, "whole", "large"), always,
    ),
    "records of devices": Reader(
        lambda kind, given: Protocol(epsilon=1.0, n_features=2, K=16, m=3, b=0.0).encode_many(
            [[0.5, float(b)] if isinstance(b, int) and b < 9 else [0.5, b] for b in given]
        ).tolist(), without(NUMBERS, "fractions", "large"), always, ("list",), 10,
    ),
}  # fmt: skip


def others(read, place):
    return [one for k, one in enumerate(read) if k != place]


# in fast cases neighbouring kinds have different halves, so that each container meets each change
CASES = [
    pytest.param(what, kind, half, marks=[pytest.mark.slow] * (half != k % 2 and len(reader.bases) > 1))
    for what, reader in READERS.items() for k, kind in enumerate(reader.bases) for half in (0, 1)
]  # fmt: skip


@pytest.mark.parametrize(("what", "kind", "half"), CASES)
def test_what_is_read_of_an_entry_does_not_depend_on_another(what, kind, half):
    reader, found, n, before, first = READERS[what], [], 0, None, None
    may_stop = reader.may_stop(kind)
    for pair, place, given, changed in pairs(reader.bases[kind], reader.names, reader.changes, half):
        if given is not before:
            before = given
            try:
                first = reader.read(kind, given)
            except (DataError, ParameterError, TypeError, ValueError) as error:
                first = error
        if isinstance(first, Exception):
            found += [] if may_stop else [f"{pair}: {first!r}"]
            continue
        n += 1
        try:
            second = reader.read(kind, changed)
        except Exception as error:
            # of others scikit-learn's refusals, in its words, and of cells that are no numbers
            known = (
                isinstance(error, (DataError, ParameterError))
                or "NaN" in str(error)
                or what.startswith("rows of a fit")
            )
            found += [] if may_stop and known else [f"{pair}: {error!r}"]
            continue
        if repr(reader.between(others(first, place))) != repr(reader.between(others(second, place))):
            found.append(pair)
    assert not found
    assert n > reader.least // 2


@pytest.mark.parametrize("kind", CLASSES)
def test_lists_of_classes(kind):
    """Classes are public; but a list of several types would be read as another one than was given."""
    for name in ("list", "tuple", "numpy objects", "pandas objects", "Int64", "arrow", "polars", "categorical"):
        for what, value in CHANGES.items():
            try:
                container = CONTAINERS[name]([*CLASSES[kind], value])
            except Exception:
                continue
            given = held(container)
            try:
                known = sv.DPLogisticRegression(classes=container).public_classes()
            except ParameterError:
                continue
            assert all(any(label == one and isinstance(label, str) == isinstance(one, str) for label in known.tolist())
                       for one in given), (name, what)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_of_parquet(dtype, tmp_path):
    """Whole numbers are rounded to float32 in one way, whether a cell of the column is missing or not."""
    whole = [2**60 + (2 * k + 1) * 2**36 + 1 for k in range(200)]  # as doubles the middles of floats
    truth = [number % 2 == 0 for number in whole]
    read = []
    for numbers, truths in ((whole, truth), ([None, *whole[1:]], [None, *truth[1:]])):
        path = tmp_path / "rows.parquet"
        pa.parquet.write_table(pa.table({"a": numbers, "b": truths}), path)
        read.append([row for _, block in ParquetTable(path, dtype=dtype).blocks() for row in block.tolist()])
    assert read[0][1:] == read[1][1:]


STORED = {
    **{kind: base for kind, base in LABELS.items() if isinstance(base[0], type(CLASSES[kind][0]))}, **NUMBERS
}  # fmt: skip


@pytest.mark.parametrize("kind", STORED)
@pytest.mark.parametrize("changed", [None, "unknown"])
def test_a_label_on_disk_may_be_missing_or_unknown(kind, changed, tmp_path):
    """An evaluation goes on, and reads all other labels as they were."""
    base = STORED[kind]
    unknown = {str: "z" * 10**6, bool: None, int: 17, float: math.nan}[type(base[0])]
    read, model = [], classifier(kind) if kind in CLASSES else ridge()
    for place, labels in enumerate([base, [base[0], unknown if changed else None, *base[2:]]]):
        columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": labels}
        pa.parquet.write_table(pa.table(columns), tmp_path / f"{place}.parquet")
        table = ParquetTable(tmp_path / f"{place}.parquet", target="y")
        read.append(others(scored(model, table, None, (-1e20, 1e20) if kind in NUMBERS else None), 1))
    assert read[0] == read[1]


def test_the_longest_label_on_disk_takes_no_room_for_others(tmp_path):
    """In an array of texts each has the room of the longest: one row's label could fill the memory."""
    pa.parquet.write_table(pa.table({"a": np.zeros(64), "y": ["z" * 10**6] + 63 * ["no"]}), tmp_path / "rows.parquet")
    table = ParquetTable(tmp_path / "rows.parquet", target="y")
    tracemalloc.start()
    assert [len(label) for label in table.labels()] == [10**6] + 63 * [2]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25


TRAINED = {"data_norm": 2.0, "classes": [0, 1], "random_state": 0, **BUDGET}
DOORS = {
    "evaluate": lambda y, groups: sv.evaluate(
        sv.DPLogisticRegression(**TRAINED).fit(X, y), X, y, epsilon=1.0, groups=groups, max_rows_per_group=1
    ),
    "fit": lambda y, groups: sv.DPLogisticRegression(**TRAINED, max_rows_per_group=1).fit(X, y, groups=groups),
    "scaler": lambda y, groups: sv.DPScaler(max_rows_per_group=1, random_state=0, **BUDGET).fit(X, groups=groups),
    "pipeline": lambda y, groups: sv.DPPipeline(
        [("s", sv.DPScaler()), ("m", sv.DPLogisticRegression(classes=[0, 1]))], max_rows_per_group=1, **BUDGET
    ).fit(X, y, groups=groups),
}


@pytest.mark.parametrize("door", DOORS)
def test_persons_come_through_every_door_as_they_were_given(door, monkeypatch):
    """An array of this list would hold doubles, which name nobody."""
    seen, coded = [], _groups._codes
    monkeypatch.setattr(_groups, "_codes", lambda groups: seen.append(coded(groups)) or seen[-1])
    DOORS[door](np.array([0, 1] * 3), [HUGE + 1, HUGE + 2, 0.5, HUGE + 1, HUGE + 3, 7])
    assert [codes.tolist() for codes in seen] == [[0, 1, 2, 0, 3, 4]] * len(seen) and seen


def test_one_text_among_labels_leaves_out_one_row():
    """The labels of an evaluation as a list: 1,000 rows, one of which has a text."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, (1000, 3))
    y = (rows @ [2.0, -1.0, 0.5] > 0.0).astype(int)
    trained = sv.DPLogisticRegression(**TRAINED).fit(rows, y)
    labels = y.tolist()
    labels[7] = "unknown"
    assert -20.0 < sv.evaluate(trained, rows, labels, epsilon=1.0, random_state=0).tables["table"].left_out < 20.0


def test_floats_of_an_array_say_what_they_cannot_name():
    with pytest.warns(PrivacyWarning, match="9.0072e"):
        assert _groups.person_codes(np.array([1.0, math.nan, 2.0**53]), 3).tolist() == [0, -1, -1]


def test_what_a_party_and_a_fit_hold_is_compared_entry_by_entry():
    given = [HUGE, HUGE + 1, None, "a", True, 0]
    parties = InProcessParties([Party(X, name="a", y=given)])
    assert labels_of(parties, "a", given).tolist() == given
