"""Inputs of odd shapes, types and sizes: a finite model, or an error in words; never a hang, never NaN."""

import re
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.estimators.reading import read_features
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.local import Protocol
from sottovoce.vertical import Party
from support.pairs import by_pairs

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 3))
Y = np.where(X[:, 0] > 0, 1, 0)
MAX = np.finfo(np.float64).max
BUDGET = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
MODELS = {
    "logistic": lambda: sv.DPLogisticRegression(data_norm=1.7, classes=[0, 1], **BUDGET),
    "svm": lambda: sv.DPLinearSVC(data_norm=1.7, classes=[0, 1], **BUDGET),
    "ridge": lambda: sv.DPRidge(data_norm=1.7, label_bounds=(0, 1), **BUDGET),
    "sparse": lambda: sv.DPSparseLogisticRegression(data_bound=1.0, radius=2.0, classes=[0, 1], **BUDGET),
    "lasso": lambda: sv.DPLasso(data_bound=1.0, radius=2.0, label_bounds=(0, 1), **BUDGET),
}
FITTED = MODELS["logistic"]().fit(X, Y)


def with_wide_indices(X):
    matrix = sp.csr_matrix(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def read_only(X):
    copy = X.copy()
    copy.setflags(write=False)
    return copy


GOOD = {
    "one row": X[:1],
    "64-bit indices": with_wide_indices(X),
    "CSC": sp.csc_matrix(X),
    "repeated entries": sp.coo_matrix((np.full(4, 0.5), ([0, 0, 1, 2], [0, 0, 1, 2])), shape=(60, 3)),
    "no entries": sp.csr_matrix((60, 3)),
    "read-only": read_only(X),
    "Fortran order": np.asfortranarray(X),
    "gaps": np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": X[::-1],
    "a mask that hides nothing": np.ma.masked_array(X),
    "objects": X.astype(object),
    "truth values": X > 0,
    "half precision": X.astype(np.float16),
    "long doubles": X.astype(np.longdouble),
    "bytes": (X * 100).astype(np.int8),
    "a list": X.tolist(),
    "denormal": X * 1e-310,
    "near the largest": X * 1e307,
    "the largest": np.full((60, 3), MAX),
    # nothing as large as their square fits into a machine
    "a hundred thousand columns": sp.random_array((60, 10**5), density=1e-4, format="csr", rng=RNG),
}
BAD = {
    "no rows": X[:0],
    "no columns": X[:, :0],
    "hidden entries": np.ma.masked_array(X, mask=X > 0.9),
    "words": np.full((60, 3), "a", dtype=object),
    "complex": X + 1j * X,
    "one dimension": X[:, 0],
    "three dimensions": X[None],
    "a number": 3.0,
}


@pytest.mark.parametrize(("kind", "name"), by_pairs(list(MODELS), list(GOOD)))
def test_a_finite_model(kind, name):
    table = GOOD[name]
    n = table.shape[0] if hasattr(table, "shape") else len(table)
    with warnings.catch_warnings(), np.errstate(all="raise"):  # as somebody may have set it
        warnings.simplefilter("error", RuntimeWarning)  # of huge or tiny numbers: whether there are some is private
        model = MODELS[kind]().fit(table, Y[:n])
        assert np.isfinite(model.predict(table)).all()
    assert np.isfinite(model.coef_).all()
    assert model.guarantee_.epsilon == 1.0


@pytest.mark.parametrize("places", [np.int32, np.int64])
@pytest.mark.parametrize("kind", MODELS)
def test_entries_in_one_place_are_their_sum_in_whatever_order(kind, places):
    """Left alone they would count twice in a product, and not in a norm: the bound on a row would not hold."""
    rng = np.random.default_rng(1)
    columns, values = rng.integers(0, 3, 420), rng.integers(-9, 10, 420) / 16.0  # seven a row, so that some are twice
    raw = sp.csr_matrix((60, 3))
    raw.data, raw.indices, raw.indptr = values, columns.astype(places), np.arange(0, 421, 7, places)
    summed = sp.csr_matrix(raw.toarray())
    raw.has_sorted_indices = raw.has_canonical_format = True  # flags may be out of date
    models = [MODELS[kind]().set_params(epsilon=100.0).fit(table, Y) for table in (raw, summed)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    np.testing.assert_array_equal(models[0].intercept_, models[1].intercept_)
    np.testing.assert_array_equal(raw.indices, columns)  # what was given is left as it was


def test_places_of_64_bits_are_those_of_32_and_one_that_does_not_fit_is_refused():
    wide, ridge = with_wide_indices(X), MODELS["ridge"]
    read = read_features(ridge(), wide)
    assert (read.indices.dtype, read.indptr.dtype, wide.indices.dtype) == (np.int32, np.int32, np.int64)
    np.testing.assert_array_equal(ridge().fit(wide, Y).coef_, ridge().fit(sp.csr_array(X), Y).coef_)
    for place in (3, 2**31, 2**32, -1):
        wide.indices[5] = place
        with pytest.raises((DataError, ValueError), match="ind"):
            ridge().fit(wide, Y)


@pytest.mark.parametrize(("kind", "name"), by_pairs(list(MODELS), list(BAD)))
def test_an_error_in_words(kind, name):
    with pytest.raises((ValueError, TypeError)) as caught:  # DataError is a ValueError; scikit-learn has its own
        MODELS[kind]().fit(BAD[name], Y)
    assert len(str(caught.value)) > 10
    with pytest.raises((DataError, ParameterError)):
        Party(BAD[name], name="a")


NO_TABLES = {
    "of records": (X.view([(name, float) for name in "abc"])[:, 0], "structured_to_unstructured"),
    "a query": (pl.DataFrame(X).lazy(), "X.collect()"),
    "columns by name": ({"a": X[:, 0], "b": X[:, 1]}, "pandas.DataFrame"),
    "rows by name": ([{"a": 0.25, "b": 0.5}] * 60, None),
    "a set": ({0.25, 0.5}, "a list of rows"),
    "rows that are made later": ((row for row in X), "a list of rows"),
    "a file": (Path("people.csv"), "the rows of the file"),
    "nothing": (None, "a list of rows"),
    "one column": (X[:, 0], "X.reshape(-1, 1)"),
}  # fmt: skip
READERS = {
    "fit": lambda table: MODELS["logistic"]().fit(table, Y),
    "predict": lambda table: FITTED.predict(table),
    "evaluate": lambda table: sv.evaluate(FITTED, table, Y, **BUDGET),
    "scaler": lambda table: sv.DPScaler(**BUDGET).fit(table),
    "pipeline": lambda table: sv.DPPipeline([("scale", sv.DPScaler()), ("model", sv.DPLinearSVC())], **BUDGET).fit(
        table, Y
    ),
}


@pytest.mark.parametrize(
    ("reader", "name"),  # a model of somebody else may begin with a DictVectorizer
    [both for both in product(READERS, NO_TABLES) if both != ("evaluate", "rows by name")],
)
def test_what_is_no_table_is_refused_with_what_to_give_and_without_a_cell(reader, name):
    table, remedy = NO_TABLES[name]
    with pytest.raises(DataError, match=r"^X must be a table") as caught:
        READERS[reader](table)
    assert (remedy or "rows") in str(caught.value)
    assert not re.search(r"\d\.\d", str(caught.value))


@pytest.mark.parametrize(
    "reader", [each for each in READERS if each != "evaluate"]
)  # which leaves out rows with a cell that is hidden
def test_nobody_reads_what_lies_under_a_mask(reader):
    with pytest.raises(DataError, match="hides entries"):
        READERS[reader](BAD["hidden entries"])


def test_the_largest_numbers_there_are_pass_a_scaler_without_a_word():
    model = sv.DPLogisticRegression(data_norm=1.7, classes=[0, 1])
    huge = np.tile([MAX, -MAX], (60, 1))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error", RuntimeWarning)
        fitted = sv.DPPipeline([("scale", sv.DPScaler()), ("model", model)], **BUDGET).fit(huge, Y)
        assert np.isfinite(fitted.decision_function(huge)).all()


def test_days_are_classes_without_a_word_on_how_many_of_them_there_are():
    days = np.arange(31).astype("M8[D]")  # scikit-learn warns of more classes than half of the labels
    assert len(sv.DPLogisticRegression(data_norm=1.7, classes=days, **BUDGET).fit(X, days[np.arange(60) % 31]).coef_)


@pytest.mark.parametrize("rows", [X[:0], X, X * 1e-310, np.full((2, 3), MAX), X.astype(np.float16), X[::-1]])
def test_devices_encode_odd_rows_as_unit_vectors(rows):
    vectors = Protocol(epsilon=1.0, n_features=3, K=16, m=3, b=0.0).encode_many(rows)
    assert vectors.shape[0] == len(rows)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)


@pytest.mark.parametrize("value", [1.5, -7.0, 1e300])
def test_labels_outside_the_bounds_are_clipped_and_the_receipt_says_so(value):
    rng = np.random.default_rng(3)
    X, y = rng.uniform(-1, 1, (60, 3)), rng.uniform(-1, 1, 60)
    clipped = y.copy()
    y[5], clipped[5] = value, np.sign(value)
    model = sv.DPRidge(data_norm=2.0, label_bounds=(-1.0, 1.0), **BUDGET)
    assert np.array_equal(model.fit(X, clipped).coef_, model.fit(X, y).coef_)
    assert "label_bounds = (-1.0, 1.0) (labels beyond were clipped to them)" in model.guarantee_.assumptions
