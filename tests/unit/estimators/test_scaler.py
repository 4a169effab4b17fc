"""DPScaler: a transformer with a receipt, that pays before it looks and never fails over values."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import sottovoce as sv
from sottovoce.exceptions import DataError, LedgerError, ParameterError, PrivacyWarning
from sottovoce.ledger import Ledger
from sottovoce.privacy.events import NothingReleased

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(1990.0, 10.0, 3_000), RNG.normal(0.002, 0.001, 3_000), RNG.normal(0.0, 5.0, 3_000)])
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def scaler(**changed):
    return sv.DPScaler(**(BUDGET | {"random_state": 0} | changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": None}, "epsilon is missing"),
        ({"delta": 0.5}, "delta=0.5 is 1 / sqrt"),
        ({"adjacency": "add-remove"}, "n_public is missing"),
        ({"with_centering": "yes"}, "with_centering must be"),
        ({"bounds": (1.0, 0.0)}, "bounds must be two numbers low < high"),
        ({"bounds": (0.0, float("nan"))}, "bounds must be two numbers low < high"),
        ({"bounds": ([0.0, 1.0], [1.0, 2.0])}, "one number a column .3.; got"),
        ({"bounds": 3.0}, "bounds must be two numbers"),
        ({"max_rows_per_group": 2}, "groups is missing"),
    ],
)
def test_parameters_are_checked_before_noise(changed, message, noise_is_forbidden):
    with pytest.raises(ParameterError, match=message):
        scaler(**changed).fit(X)


def test_tables_that_cannot_be_scaled_are_refused(noise_is_forbidden):
    with pytest.raises(ParameterError, match="with_centering must be False for a sparse matrix"):
        scaler().fit(sp.csr_array(X))
    for bad in (np.nan, np.inf):
        broken = X.copy()
        broken[7, 1] = bad
        with pytest.raises(DataError, match="column 1"):
            scaler().fit(broken)


def test_transform_and_back():
    fitted = scaler().fit(X)
    Z = fitted.transform(X)
    assert (np.abs(Z.mean(axis=0)) < 1.0).all() and ((Z.std(axis=0) > 0.3) & (Z.std(axis=0) < 3.0)).all()
    np.testing.assert_allclose(fitted.inverse_transform(Z), X)
    np.testing.assert_array_equal(fitted.to_sklearn().transform(X), Z)
    np.testing.assert_allclose(fitted.to_sklearn().inverse_transform(Z), X)
    assert fitted.transform(X.astype(np.float32)).dtype == np.float32
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(X), Z)
    with pytest.raises(ParameterError, match="a sparse matrix cannot be moved"):
        fitted.transform(sp.csr_array(X))


def test_sparse_tables_are_scaled_and_not_moved():
    sparse = sp.csr_matrix(np.where(np.random.default_rng(1).random(X.shape) < 0.5, X, 0.0))
    fitted = scaler(with_centering=False).fit(sparse)
    assert not fitted.location_.any()
    Z = fitted.transform(sparse)
    np.testing.assert_allclose(Z.toarray(), sparse.toarray() / fitted.scale_)
    np.testing.assert_allclose(fitted.inverse_transform(Z).toarray(), sparse.toarray())
    np.testing.assert_allclose(fitted.to_sklearn().transform(sparse).toarray(), Z.toarray())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_value_leaves_the_finite_numbers(dtype, recwarn):
    fitted = scaler().fit(X)
    most = np.finfo(dtype).max
    Z = fitted.transform(np.array([[most, most, most], [-most, -most, -most]], dtype))
    assert np.isfinite(Z).all() and (np.abs(Z) <= 2.0**100).all()
    assert [one for one in recwarn if "private fit number" not in str(one.message)] == []


def test_names_of_columns():
    frame = pd.DataFrame(X, columns=["year", "share", "balance"])
    fitted = scaler().fit(frame)
    assert list(fitted.get_feature_names_out()) == ["year", "share", "balance"]
    assert list(clone(fitted).set_output(transform="pandas").fit(frame).transform(frame).columns) == list(frame.columns)
    assert list(fitted.to_sklearn().feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform(frame[["share", "year", "balance"]])


def test_a_seed_repeats_the_release_and_no_seed_does_not():
    np.testing.assert_array_equal(scaler().fit(X).location_, scaler().fit(X).location_)
    assert (scaler(random_state=None).fit(X).location_ != scaler(random_state=None).fit(X).location_).any()
    assert scaler().fit(X).guarantee_.seeded


def test_the_receipt():
    receipt = scaler(bounds=(-100.0, 3_000.0)).fit(X).guarantee_
    assert receipt.epsilon == 1.0 and receipt.epsilon_at(1e-6) <= 1.0
    assert receipt.epsilon_at(1e-6) > 0.999
    assert "bounds = [-100.0, 3000.0] (values may lie outside)" in receipt.assumptions
    assert receipt.unit == "one row of the table, label included"
    nothing = scaler(epsilon=1e-4).fit(X)
    assert nothing.guarantee_.event == NothingReleased() == nothing.plan(*X.shape).event
    assert nothing.guarantee_.releases == ("nothing: the noise of so many columns would hide each of them",)
    np.testing.assert_array_equal(nothing.transform(X), X)
    assert "NOT PRIVATE" in scaler(epsilon=np.inf, delta=None).fit(X).guarantee_.statement()


def test_the_ledger_is_charged_before_values_are_looked_at(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/l.db")
    ledger.create("people", epsilon=1.5, delta=1e-5)
    charged = scaler(ledger=ledger, dataset="people", random_state=None)
    broken = X.copy()
    broken[0, 0] = np.nan
    with pytest.raises(DataError, match="column 0"):
        charged.fit(broken)
    assert ledger.spent("people")[0] > 0.5
    with pytest.raises(LedgerError):
        for _ in range(5):
            charged.fit(X)


def test_persons():
    groups = np.repeat(np.arange(1_000), 3).astype(float)
    groups[-300:] = np.nan
    fitted = scaler(max_rows_per_group=2).fit(X, groups=groups)
    assert "of which at most 2 rows are used" in fitted.guarantee_.unit
    assert any("max_rows_per_group = 2" in line for line in fitted.guarantee_.assumptions)
    assert fitted.plan(*X.shape).per_column == 2.0
    assert (np.abs(fitted.transform(X).mean(axis=0)) < 1.5).all()
    nobody = scaler(max_rows_per_group=2).fit(X, groups=[None] * len(X))
    assert (np.isfinite(nobody.scale_) & (nobody.scale_ > 0.0)).all()


def test_in_a_plain_pipeline_there_are_two_receipts_and_they_say_so(recwarn):
    y = (X[:, 0] > 1990.0).astype(int)
    model = sv.DPLogisticRegression(epsilon=0.8, delta=1e-6, data_norm=5.0, classes=[0, 1])
    fitted = Pipeline([("scale", scaler(epsilon=0.2, random_state=None)), ("model", model)]).fit(X, y)
    assert not [one for one in recwarn if "learned from the data" in str(one.message)]
    said = (
        "what the steps before the model in its pipeline learned from the data: scale (DPScaler, with a receipt of its "
        "own: epsilon=0.2, delta=1e-06, which add up with this one)"
    )
    assert said in fitted["model"].guarantee_.not_covered
    assert fitted["scale"].guarantee_.epsilon == 0.2
    from sklearn.preprocessing import StandardScaler

    both = Pipeline([("plain", StandardScaler()), ("scale", scaler()), ("model", model)])
    with pytest.warns(PrivacyWarning, match=r"^plain \(StandardScaler\) learned from the data"):
        both.fit(X, y)
