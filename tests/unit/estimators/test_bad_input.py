"""Bad input to the estimators: a clear error that names the argument, the value and the remedy, before any work."""

import math
import re
import traceback
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.exceptions import AccountingError, DataError, ParameterError
from sottovoce.papers.dp_scd import Minibatch
from sottovoce.vertical import Party
from support.noise import NoiseOpenedError
from support.pairs import by_pairs

pytestmark = pytest.mark.usefixtures("noise_is_forbidden")

rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (60, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")
NUMBERS = np.clip(X[:, 0], -1.0, 1.0)
PUBLIC = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 2.0}


def classifier(**changed):
    return sv.DPLogisticRegression(**{**PUBLIC, "classes": ["no", "yes"], **changed})


def ridge(**changed):
    return sv.DPRidge(**{**PUBLIC, "label_bounds": (-1.0, 1.0), **changed})


COMMON = [
    ({"epsilon": None}, "epsilon is missing: give the privacy budget, a number > 0. 1 is a usual"),
    ({"epsilon": 0.0}, "epsilon must be a number > 0; got 0.0. 1 is a usual budget"),
    ({"epsilon": 1e7}, "epsilon must be within .1e-09, 1e.06., or infinite \\(no privacy\\); got 10000000.0. 1 is"),
    ({"epsilon": 1e-10}, "epsilon must be within .1e-09, 1e.06., or infinite \\(no privacy\\); got 1e-10"),
    ({"delta": None}, "delta is missing"),
    (
        {"delta": 0.0},
        "delta must be a finite number >= 1e-300 and < 1; got 0.0. Choose it well below 1 / n_samples",
    ),
    ({"delta": 1.0}, "delta must be a finite number >= 1e-300 and < 1; got 1.0"),
    ({"data_norm": None}, "data_norm is missing: .* public bound on the Euclidean norm"),
    ({"data_norm": 0.0}, "data_norm must be a finite number >= 1e-50 and <= 1e.50; got 0.0"),
    ({"data_norm": math.inf}, "data_norm must be a finite number >= 1e-50 and <= 1e.50; got inf"),
    ({"alpha": 0.0}, "alpha must be a finite number >= 1e-50 and <= 1e.50; got 0.0"),
    ({"intercept_scaling": -1.0}, "intercept_scaling must be a finite number >= 1e-50 and <= .* got -1.0"),
    ({"fit_intercept": "yes"}, "fit_intercept must be True or False; got 'yes'"),
    ({"solver": "lbfgs"}, r"solver must be one of 'auto', 'scd', .*'sgd', .*; got 'lbfgs'"),
    (
        {"solver_options": {"steps": 3}},
        "solver_options has no entry 'steps' for solver='auto'; it takes 'n_passes'",
    ),
    ({"solver_options": 3}, "solver_options must be a dict or None; got 3"),
    ({"solver_options": {"n_passes": 0}}, "n_passes must be a whole number >= 1 and <= 1000000; got 0"),
    ({"adjacency": "swap"}, "adjacency must be one of 'zero-out', 'add-remove', 'replace-one'; got 'swap'"),
    ({"adjacency": "add-remove"}, "n_public is missing: .* public stand-in"),
    ({"adjacency": "replace-one", "solver": Minibatch()}, "adjacency must be 'zero-out' or 'add-remove'"),
    ({"n_public": 0}, "n_public must be a whole number >= 1 and <= .* got 0"),
    ({"max_iter": 0}, "max_iter must be a whole number >= 1; got 0"),
    ({"tol": 0.0}, "tol must be a finite number > 0; got 0.0"),
    ({"random_state": "seed"}, "random_state must be None, a whole number in .* got 'seed'"),
]
OWN = [
    (ridge, {"label_bounds": None}, "label_bounds is missing: give a pair .* public bounds"),
    (ridge, {"label_bounds": (0.0, 1e-60)}, r"label_bounds\[1\] - label_bounds\[0\] must be a finite number >= 1e-50"),
    (classifier, {"classes": ["no"]}, "at least two classes"),
    (classifier, {"classes": ["no", "yes", "no"]}, "must not repeat a class"),
]


@pytest.mark.parametrize(
    ("make", "changed", "message"), [*((make, *case) for case in COMMON for make in (classifier, ridge)), *OWN]
)
def test_parameters_are_checked_before_the_data_are_read(make, changed, message):
    with pytest.raises(ParameterError, match=message):
        make(**changed).fit(np.array("not a table"), None)  # whose type alone is no reason


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [classifier, ridge])
def test_nan_and_infinity_in_x(make, dtype, sparse, value):
    bad = X.astype(dtype)
    bad[17, 2] = value
    y = Y if make is classifier else NUMBERS
    kind = "NaN" if math.isnan(value) else "infinity"
    with pytest.raises(DataError, match=rf"Input X contains {kind}: row 17, column 2 \(1 row\(s\).*public constant"):
        make().fit(sp.csr_matrix(bad) if sparse else bad, y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_nan_in_a_frame_names_the_column(frame):
    table = frame({"age": X[:, 0], "height": np.where(np.arange(60) == 3, np.nan, 1.0), "weight": X[:, 2]})
    with pytest.raises(DataError, match="row 3, column 'height'"):
        classifier().fit(table, Y)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_labels_that_are_not_numbers(value):
    y = NUMBERS.copy()
    y[5] = value
    name = "NaN" if math.isnan(value) else "infinity"
    with pytest.raises(DataError, match=rf"Input y contains {name}: row 5 \(1 row\(s\) in all\).*public constant"):
        ridge().fit(X, y)


def test_text_labels_for_ridge():
    with pytest.raises(DataError, match="y must hold numbers"):
        ridge().fit(X, Y)


def test_label_unknown_to_the_class_list():
    with pytest.raises(DataError, match=r"y holds the label .*'maybe'.* \(row 2, 1 row\(s\) in all\), which is not in"):
        classifier().fit(X, np.where(np.arange(60) == 2, "maybe", Y))


def test_one_class_only():
    with pytest.raises(DataError, match=r"one class only .*state the public list"):
        classifier(classes=None).fit(X, np.full(60, "no"))


def test_what_a_fit_does_not_take_is_named_with_what_it_takes():
    lasso = sv.DPLasso(epsilon=1.0, delta=1e-5, data_bound=1.0, radius=1.0, label_bounds=(-1.0, 1.0))
    search = sv.DPSearchCV(classifier(epsilon=None, delta=None), {"alpha": [0.1]}, epsilon=1.0, delta=1e-5)
    for model, name in (
        (search, "groups"), (search, "sample_weight"), (lasso, "sample_weight"), (sv.DPScaler(), "sample_weight"),
        (sv.vertical.VerticalRidge(), "groups"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=rf"fit takes no {name}: leave it out.* It takes \w+, y"):
            model.fit(X, Y, **{name: np.ones(60)})
    for weight in (1.0, np.float64(1.0), np.array(1.0), iter([1.0] * 60)):
        with pytest.raises(DataError, match="sample_weight must be a list, a column or an array"):
            classifier(max_sample_weight=1.0).fit(X, Y, sample_weight=weight)


def test_a_damaged_sparse_matrix_is_refused():
    matrix = sp.csr_matrix(X)
    matrix.indices[0] = 99
    with pytest.raises(DataError, match="not a valid CSR matrix"):
        classifier().fit(matrix, Y)


def test_what_no_noise_can_meet_is_refused_before_a_label_is_read():
    with pytest.raises(AccountingError, match=r"epsilon=1\.0 at delta=1e-40 cannot be met"):
        classifier(solver=Minibatch(), delta=1e-40).fit(X, ["not", "labels"])


DAYS = np.array(["2020-01-01", "2020-02-03"] * 30, "datetime64[D]")
LONG = DAYS - DAYS[0]
SECRET = "a secret"
OTHER = {
    "text": SECRET, "bytes": SECRET.encode(), "half a pair": "\ud800" + SECRET, "a list": [SECRET],
    "a day": date(2020, 2, 3), "a moment": pd.Timestamp(2020, 2, 3), "a duration": timedelta(33), "object": object(),
    "a day of numpy": np.datetime64("2020-02-03"), "a duration of numpy": np.timedelta64(33, "D"),
    "complex": 2020 + 1j, "a dict": {1: SECRET},
    "beyond": 2020 * 10**400, "missing": pd.NA, "an array": np.array([2020.0, 1.0]), "none": None, "no time": pd.NaT,
}  # fmt: skip
TYPES = {date: "M8[D]", pd.Timestamp: "M8[s]", timedelta: "m8[D]"}
HOLDERS = {
    "array": lambda cells: np.array([[1.0, cell] for cell in cells], object),
    "lists": lambda cells: [[1.0, cell] for cell in cells],
    "pandas objects": lambda cells: pd.DataFrame({"b": pd.Series(cells, dtype=object)}),
    "pandas": lambda cells: pd.DataFrame({"a": X[:, 0] > 0, "b": cells}), "arrow": lambda cells: pa.table({"b": cells}),
    "typed": lambda c: np.array(c, TYPES.get(type(c[0])))[:, None], "sparse": lambda c: sp.csr_array(np.array([c]).T),
    "polars": lambda cells: pl.DataFrame({"a": X[:, 0] > 0, "b": cells}),
    "polars objects": lambda cells: pl.DataFrame({"b": pl.Series(cells, dtype=pl.Object)}),
}  # fmt: skip
STEPS = [("scale", sv.DPScaler(with_centering=False)), ("model", sv.DPLogisticRegression(classes=["no", "yes"]))]
PIPELINE = sv.DPPipeline(STEPS, epsilon=1.0, delta=1e-5)
FREE = {width: ridge(epsilon=math.inf).fit(X[:, :width], NUMBERS) for width in (1, 2, 3)}
ODDS = {width: classifier(epsilon=math.inf).fit(X[:, :width], Y) for width in (1, 2)}
SCALERS = {width: sv.DPScaler(epsilon=1.0, delta=1e-5, random_state=width).fit(X[:, :width]) for width in (1, 2)}
USES = {
    "fit": lambda given: classifier().fit(given, Y),
    "scale": lambda given: sv.DPScaler(epsilon=1.0, delta=1e-5, with_centering=False).fit(given),
    "predict": lambda given: FREE[width(given)].predict(given),
    "evaluate": lambda given: sv.evaluate(FREE[width(given)], given, NUMBERS, epsilon=1.0),
}
MORE_USES = {
    "probabilities": lambda given: ODDS[width(given)].predict_proba(given),
    "transform": lambda given: SCALERS[width(given)].transform(given),
    "transform back": lambda given: SCALERS[width(given)].inverse_transform(given),
    "pipeline": lambda given: PIPELINE.fit(given, Y),
    "party": lambda given: Party(given, name="a"),
}


def width(given):
    return given.shape[1] if hasattr(given, "shape") else len(given[0])


@pytest.mark.filterwarnings("ignore:X has feature names, but")
@pytest.mark.parametrize(("holder", "use"), by_pairs(list(HOLDERS), [*USES, *MORE_USES]))
def test_columns_without_numbers_are_named_and_no_cell_is_shown(holder, use):
    for kind, cell in OTHER.items():
        before = 0 if holder not in ("array", "lists", "pandas objects") else 3
        try:
            given = HOLDERS[holder]([0.5] * before + [cell] * (60 - before))
        except Exception:  # such a table holds no such cells
            continue
        try:
            (USES | MORE_USES)[use](given)
        except NoiseOpenedError:  # an evaluation reads rows without them
            assert use == "evaluate" and getattr(getattr(given, "dtype", None), "kind", "") not in tuple("mMcSU")
        except ValueError as error:
            said = "".join(traceback.format_exception(error, limit=0))
            assert not re.search(f"{SECRET}|2020|33 days", said)
            is_named = holder not in ("array", "lists", "typed", "sparse") and use != "transform back"
            name = "'b'" if is_named else "'b'|0|1|all"
            assert re.search(
                rf"^X has columns whose type is no number: ({name}) \(.*\)\. sottovoce.SchemaEncoder makes|"
                r"^X must be a table: rows of|^Found array with dim 3|^Input X .*contains (NaN|inf)", str(error)
            )  # fmt: skip
        else:
            pytest.fail(f"{kind} was read")


@pytest.mark.filterwarnings("ignore:X has feature names, but")
@pytest.mark.parametrize("cell", ["0.25", b"0.25", True, Decimal("0.25"), Fraction(1, 4)])
@pytest.mark.parametrize("holder", ["array", "lists", "pandas objects"])
def test_objects_that_are_numbers_are_read(holder, cell):
    given, plain = (HOLDERS[holder]([0.5] * 59 + [last]) for last in (cell, float(cell)))
    np.testing.assert_array_equal(FREE[width(given)].predict(given), FREE[width(given)].predict(plain))


@pytest.mark.parametrize("use", [*USES.values(), lambda given: PIPELINE.fit(given, Y)], ids=[*USES, "pipeline"])
def test_two_columns_of_one_name_are_named(use):
    with pytest.raises(DataError, match=r"^X has 2 columns named 'a'\. Give each column a name of its own"):
        use(pd.DataFrame(X, columns=["a", "b", "a"]))


@pytest.mark.parametrize("labels", [DAYS, LONG, X[:, 0] + 0j, pd.Series(DAYS)])
def test_a_score_is_of_numbers(labels):
    with pytest.raises(DataError, match="y must hold numbers; got the type"):
        FREE[3].score(X, labels)


def test_missing_classes_are_told_with_a_remedy():
    with pytest.raises(DataError, match=r"y contains NaN: row 0 \(2 row\(s\) in all\)\. Drop these rows"):
        classifier(classes=[0, 1]).fit(X, np.r_[np.nan, np.nan, np.ones(58)])
