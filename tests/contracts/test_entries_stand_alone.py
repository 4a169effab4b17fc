"""What is read of one entry never depends on another entry, whatever container holds them.

One entry of a column is changed to what is missing, a text, a number beyond all doubles and so on, in every container.
What is read of all the others must stay equal. A fit may stop over the changed entry (docs/privacy/README.md says over
which); it may not stop where it would not over that entry in any other container.
"""

import math
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

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
from sottovoce.vertical import Party, VerticalLogisticRegression, VerticalRidge
from sottovoce.vertical.estimators.parties import labels_of
from sottovoce.vertical.protocols.alignment.identifiers import canonical_identifiers
from support.containers import CHANGES, CONTAINERS, held, pairs

pytestmark = [
    pytest.mark.filterwarnings("ignore::sottovoce.exceptions.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
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
LABELS = {
    "numbers": ([0, 1], [0, 1, 1, 0, 1, 0]),
    "texts": (["no", "yes"], ["no", "yes", "yes", "no", "yes", "no"]),
    "truth": ([False, True], [False, True, True, False, True, False]),
    "digits": (["0", "1", "text"], ["0", "1", "1", "0", "1", "0"]),
    "shifted digits": (["1", "2", "text"], [1, 2, 2, 1, 2, 1]),
    "places": (["a", "b", "text"], [0, 1, 1, 0, 1, 0]),
    "at 2^53": ([2**53, 2**53 + 1, 1], [2**53, 2**53 + 1, 2**53 + 1, 2**53, 2**53 + 1, 2**53]),
    "snowflakes": ([HUGE, HUGE + 1, 0], [HUGE, HUGE + 1, HUGE + 1, HUGE, HUGE + 1, HUGE]),
}
NUMBERS = {"whole": [1, 2, 3, 4, 5, 6], "fractions": [0.1, 0.7, -0.3, 0.2, 0.25, 1e-30], "large": [2**53 + 1] * 6}
X = np.linspace(-1.0, 1.0, 18).reshape(6, 3)
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def partition(codes):
    """Return codes in the order of first appearance, so that they are those of the same people."""
    order = {}
    return [code if code < 0 else order.setdefault(code, len(order)) for code in codes]


def others(read, place):
    return [one for k, one in enumerate(read) if k != place]


def differing(read, base, *, may_stop=False, between=lambda kept: kept, **chosen):
    """Return the pairs whose other entries are read differently, and how many pairs there are."""
    found, n = [], 0
    for what, place, given, changed in pairs(base, **chosen):
        try:
            first = read(given)
        except (DataError, ParameterError, TypeError, ValueError) as error:
            found += [] if may_stop else [f"{what}: {error!r}"]
            continue
        n += 1
        try:
            second = read(changed)
        except (DataError, ParameterError) as error:
            if not may_stop:
                found.append(f"{what}: {error}")
            continue
        except Exception as error:
            if not (may_stop and "NaN" in str(error)):  # scikit-learn's words
                found.append(f"{what}: {error!r}")
            continue
        if repr(between(others(first, place))) != repr(between(others(second, place))):
            found.append(what)
    return found, n


def model(kind):
    classes, _ = LABELS[kind]
    values = (classes * 6)[: len(classes) * 3]
    return sv.DPLogisticRegression(data_norm=2.0, classes=classes, random_state=0, **BUDGET).fit(
        np.resize(X, (len(values), 3)), np.array(values, dtype=object if kind == "truth" else None)
    )


@pytest.mark.parametrize("kind", NAMES)
def test_persons(kind):
    found, n = differing(lambda given: _groups.person_codes(given, 6).tolist(), NAMES[kind], between=partition)
    assert not found
    assert n > 60


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_an_evaluation(kind):
    classifier = sv.DPLogisticRegression(data_norm=2.0, random_state=0, **BUDGET).fit(X, [0, 1] * 3)
    classifier.classes_ = np.array(LABELS[kind][0])
    classifier.coef_ = np.resize(classifier.coef_, (1 if len(classifier.classes_) == 2 else 3, 3))
    classifier.intercept_ = np.resize(classifier.intercept_, len(classifier.coef_))
    plan = evaluation_plan(classifier, 6, epsilon=1.0)

    def read(given):
        rows = score_rows(plan, classifier, X, given)
        return list(zip(rows.labels.tolist(), rows.left_out.tolist(), rows.scores.tolist(), strict=True))

    found, n = differing(read, LABELS[kind][1])
    assert not found
    assert n > 60


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_an_evaluation(kind):
    regression = sv.DPRidge(data_norm=2.0, label_bounds=(-1e20, 1e20), random_state=0, **BUDGET).fit(X, X[:, 0])
    plan = evaluation_plan(regression, 6, epsilon=1.0)

    def read(given):
        rows = score_rows(plan, regression, X, given)
        return list(zip(rows.labels.tolist(), rows.left_out.tolist(), rows.scores.tolist(), strict=True))

    found, n = differing(read, NUMBERS[kind])
    assert not found
    assert n > 60


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_a_fit(kind):
    classes, base = LABELS[kind]

    def read(given):
        classifier = sv.DPLogisticRegression(data_norm=2.0, classes=classes, **BUDGET)
        with holding(classifier, X, given) as holder:
            classifier.read_labels(holder)
            return holder.memory.get(LABEL, slice(0, 6)).tolist()

    found, n = differing(read, base, may_stop=True)
    assert not found
    assert n > 20 or kind in ("places", "shifted digits")


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_a_fit(kind):
    def read(given):
        ridge = sv.DPRidge(data_norm=2.0, label_bounds=(-1e20, 1e20), **BUDGET)
        with holding(ridge, X, given) as holder:
            ridge.read_labels(holder)
            return holder.memory.get(LABEL, slice(0, 6)).tolist()

    found, n = differing(read, NUMBERS[kind], may_stop=True)
    assert not found
    assert n > 60


@pytest.mark.parametrize("kind", NUMBERS)
def test_weights(kind):
    found, n = differing(
        lambda given: checked_sample_weights(given, 6, 1e6).tolist(), [abs(x) for x in NUMBERS[kind]], may_stop=True
    )
    assert not found
    assert n > 60


@pytest.mark.parametrize("kind", LABELS)
def test_lists_of_classes(kind):
    """Classes are public; but a list of several types would be read as another one than was given."""
    base = LABELS[kind][0]
    for name in ("list", "tuple", "numpy objects", "pandas objects", "Int64", "arrow", "polars", "categorical"):
        for what, value in CHANGES.items():
            given = [*base, value]
            try:
                container = CONTAINERS[name](given)
            except Exception:
                continue
            given = held(container)
            try:
                known = sv.DPLogisticRegression(classes=container).public_classes()
            except ParameterError:
                continue
            assert all(any(label == one and isinstance(label, str) == isinstance(one, str) for label in known.tolist())
                       for one in given), (name, what)  # fmt: skip


FRAMES = (
    "pandas",
    "pandas objects",
    "Int64",
    "Float64",
    "boolean",
    "int64[pyarrow]",
    "double[pyarrow]",
    "categorical series",
)


@pytest.mark.parametrize("kind", [*NUMBERS, "digits"])
def test_rows_of_an_evaluation(kind):
    """In frames whose other columns are plain, in arrays of objects, in lists of rows, and under masks."""
    base = ["1", "2", "3", "0.5", "1e-3", "7"] if kind == "digits" else NUMBERS[kind]
    regression = sv.DPRidge(data_norm=2.0, label_bounds=(-1.0, 1.0), random_state=0, **BUDGET).fit(X, X[:, 0])
    framed = sv.DPRidge(data_norm=2.0, label_bounds=(-1.0, 1.0), random_state=0, **BUDGET).fit(
        pd.DataFrame(X, columns=["a", "b", "c"]), X[:, 0]
    )

    def rows(asked, table):
        read = score_rows(evaluation_plan(asked, 6, epsilon=1.0), asked, table, np.zeros(6))
        return list(zip(read.scores.tolist(), read.left_out.tolist(), strict=True))

    def frame(given):
        return rows(framed, pd.DataFrame({"a": X[:, 0], "b": given, "c": X[:, 2]}))

    def numbered(given):
        return rows(regression, pd.DataFrame({0: X[:, 0], 1: given, 2: X[:, 2]}))

    def objects(given):
        table = X.astype(object)
        table[:, 1] = np.fromiter(given, object, 6)
        return rows(regression, table)

    def nested(given):
        return rows(regression, [[a, b, c] for a, b, c in zip(X[:, 0], given, X[:, 2], strict=True)])

    def masked(given):
        table = np.ma.masked_array(np.column_stack([X[:, 0], given.data, X[:, 2]]))
        table[:, 1] = given
        return rows(regression, table)

    n = 0
    for read, names in (
        (frame, FRAMES),
        (numbered, FRAMES),
        (objects, ("list",)),
        (nested, ("list",)),
        (masked, ("masked",)),
    ):
        if read is masked and kind == "digits":
            continue
        found, m = differing(read, base, names=names, may_stop=kind == "digits")
        assert not found
        n += m
    assert n > 40


@pytest.mark.parametrize("kind", NUMBERS)
def test_rows_of_a_fit(kind):
    def frame(given):
        table = pd.DataFrame({"a": X[:, 0], "b": given, "c": X[:, 2]})
        return read_features(sv.DPScaler(), table).tolist()

    def nested(given):
        return read_features(sv.DPScaler(), [[0.5, b] for b in given]).tolist()

    for read, names in ((frame, FRAMES), (nested, ("list",))):
        for what, place, given, changed in pairs(NUMBERS[kind], names):
            try:
                second = read(changed)
            except (DataError, ValueError, TypeError, OverflowError):
                continue  # a fit may stop over a cell that is no number
            assert repr(others(read(given), place)) == repr(others(second, place)), what


@pytest.mark.parametrize("kind", [*NAMES, *NUMBERS])
def test_cells_of_tables(kind):
    base = NAMES.get(kind, NUMBERS.get(kind))

    def spelled(given):
        frame = Table.from_frame(pd.DataFrame({"a": given, "b": X[:, 0]}))
        texts, codes = frame.cells("a").spelled()
        return [texts[code] for code in codes]

    def named(given):
        names = Table.from_frame(pd.DataFrame({"a": given})).cells("a").named(("",))
        return _groups.person_codes(names, 6).tolist()

    def of_array(given):
        texts, codes = Table.from_array(np.asarray(given)[:, None], ["a"]).cells("a").spelled()
        return [texts[code] for code in codes]

    n = 0
    frames = (*FRAMES, "UInt64", "string", "str", "ordered categorical")
    for read, names in ((spelled, frames), (named, frames), (of_array, ("numpy objects", "masked objects"))):
        between = partition if read is named else list
        found, m = differing(read, base, names=names, may_stop=read is named and kind == "bytes", between=between)
        assert not found
        n += m
    assert n > 40


def numbers_read(table):
    numbers, missing = table.cells("a").numbers(("", "nan"))
    return list(zip(numbers.tolist(), missing.tolist(), strict=True))


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_tables(kind):
    """A table stops over a cell that breaks its schema; over others it does not."""
    found, n = differing(
        lambda given: numbers_read(Table.from_frame(pd.DataFrame({"a": given}))), NUMBERS[kind], may_stop=True,
        names=FRAMES, changes=("missing", "-0.0", "NaN"),
    )  # fmt: skip
    assert not found
    assert n > 10


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


@pytest.mark.parametrize("kind", [kind for kind in NAMES if kind != "fractions"])
def test_identifiers_of_a_party(kind):
    def read(given):
        party = Party(X, given, name="a")
        return canonical_identifiers("ids", party.ids).to_pylist()

    found, n = differing(read, NAMES[kind], may_stop=True)
    assert not found
    assert n > 60


@pytest.mark.parametrize("kind", [kind for kind in LABELS if len(LABELS[kind][0]) == 2])
def test_labels_of_a_party(kind):
    classes, base = LABELS[kind]

    def read(given):
        party = Party(X, name="a", y=given)
        return VerticalLogisticRegression(classes=classes, **BUDGET)._targets(party.y)[0].tolist()

    found, n = differing(read, base, may_stop=True)
    assert not found
    assert n > 60


def test_numbers_of_a_party():
    def read(given):
        return VerticalRidge(label_bounds=(-9.0, 9.0), **BUDGET)._targets(Party(X, name="a", y=given).y)[0].tolist()

    found, n = differing(read, NUMBERS["fractions"], may_stop=True)
    assert not found
    assert n > 60


def test_records_of_devices():
    protocol = Protocol(epsilon=1.0, n_features=2, K=16, m=3, b=0.0)

    def read(given):
        return protocol.encode_many(
            [[0.5, float(b)] if isinstance(b, int) and b < 9 else [0.5, b] for b in given]
        ).tolist()

    found, n = differing(read, [1, 2, 3, 4, 5, 6], names=("list",), may_stop=True)
    assert not found
    assert n > 10


@pytest.mark.parametrize("kind", ["snowflakes", "uuids"])
def test_persons_through_the_public_doors(kind, monkeypatch):
    """Models, scaler, pipeline and evaluation ask one function; it sees their groups as they were given."""
    y = np.array([0, 1] * 3)
    options = {"data_norm": 2.0, "classes": [0, 1], "max_rows_per_group": 1, "random_state": 0, **BUDGET}
    trained = sv.DPLogisticRegression(data_norm=2.0, classes=[0, 1], random_state=0, **BUDGET).fit(X, y)
    scaler = sv.DPScaler(max_rows_per_group=1, random_state=0, **BUDGET)
    pipeline = sv.DPPipeline(
        [("s", sv.DPScaler()), ("m", sv.DPLogisticRegression(classes=[0, 1]))],
        max_rows_per_group=1, random_state=0, **BUDGET,
    )  # fmt: skip
    doors = {
        "evaluate": lambda groups: sv.evaluate(trained, X, y, epsilon=1.0, groups=groups, max_rows_per_group=1),
        "fit": lambda groups: sv.DPLogisticRegression(**options, solver="newton").fit(X, y, groups=groups),
        "scaler": lambda groups: scaler.fit(X, groups=groups),
        "pipeline": lambda groups: pipeline.fit(X, y, groups=groups),
    }
    seen, coded = [], _groups._codes

    def codes(groups):
        seen.append(coded(groups).tolist())
        return np.array(seen[-1])

    monkeypatch.setattr(_groups, "_codes", codes)
    for name, door in doors.items():
        for what, place, given, changed in pairs(NAMES[kind], changes=("missing",)):
            if place:
                continue
            del seen[:]
            door(given)
            door(changed)
            before, after = seen[0], seen[-1]
            assert partition(others(before, place)) == partition(others(after, place)), (name, what)


def test_one_text_among_labels_leaves_out_one_row():
    """The labels of an evaluation as a list: 1,000 rows, one of which has a text."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, (1000, 3))
    y = (rows @ [2.0, -1.0, 0.5] > 0.0).astype(int)
    trained = sv.DPLogisticRegression(data_norm=3**0.5, classes=[0, 1], random_state=0, **BUDGET).fit(rows, y)
    labels = y.tolist()
    labels[7] = "unknown"
    assert -20.0 < sv.evaluate(trained, rows, labels, epsilon=1.0, random_state=0).tables["table"].left_out < 20.0


@pytest.mark.parametrize("make", [CONTAINERS["Int64"], CONTAINERS["arrow"], CONTAINERS["categorical"]])
def test_one_missing_person_leaves_all_others(make):
    """1,000 people of one row each, with names of 61 bits, one of whom has none."""
    codes = _groups.person_codes(make([None, *(1_850_000_000_000_000_000 + k for k in range(1, 1000))]), 1000)
    assert codes.tolist() == [-1, *range(999)]


def test_floats_of_an_array_say_what_they_cannot_name():
    with pytest.warns(PrivacyWarning, match="9.0072e"):
        assert _groups.person_codes(np.array([1.0, math.nan, 2.0**53]), 3).tolist() == [0, -1, -1]


def test_what_a_party_and_a_fit_hold_is_compared_entry_by_entry():
    from sottovoce.vertical import InProcessParties

    given = [HUGE, HUGE + 1, None, "a", True, 0]
    parties = InProcessParties([Party(X, name="a", y=given)])
    assert labels_of(parties, "a", given).tolist() == given
