"""DPScaler: a transformer with a receipt, that pays before it looks and never fails over values."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.exceptions import DataError, LedgerError, ParameterError
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
        ({"bounds": ([18, 90], [0, 9], [0, 1])}, "or lists of lows and of highs, one number a column"),
        ({"bounds": (1.0, 0.0)}, "bounds must be two numbers low < high"),
        ({"bounds": (0.0, float("nan"))}, "bounds must be two numbers low < high"),
        ({"bounds": ([0.0, 1.0], [1.0, 2.0])}, "one number a column .3.; got"),
        ({"bounds": 3.0}, "bounds must be two numbers"),
        ({"cut": 0.0}, "cut must be a number >= 0.001; got 0.0"),
        ({"cut": float("nan")}, "cut must be"),
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
    fitted = scaler(cut=np.inf).fit(X)
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
    np.testing.assert_allclose(Z.toarray(), np.clip(sparse.toarray() / fitted.scale_, -4.0, 4.0))
    np.testing.assert_allclose(fitted.to_sklearn().transform(sparse.toarray()), Z.toarray())
    with pytest.raises(TypeError, match="dense data is required"):
        fitted.to_sklearn().transform(sparse)
    uncut = scaler(with_centering=False, cut=np.inf).fit(sparse)
    np.testing.assert_allclose(uncut.inverse_transform(uncut.transform(sparse)).toarray(), sparse.toarray())


def test_scaled_entries_are_cut():
    """Each by itself, wherever the scaler goes: here, in a plain copy, in single precision."""
    fitted = scaler(cut=2.0).fit(X)
    far = fitted.location_ + fitted.scale_ * np.array([[-7.0, 1.0, 2.5], [1e30, -2.0, 0.0]])
    wanted = [[-2.0, 1.0, 2.0], [2.0, -2.0, 0.0]]
    for made in (fitted, fitted.to_sklearn(), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_allclose(made.transform(far), wanted, atol=1e-9)
    assert fitted.transform(far.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(fitted.inverse_transform(wanted), fitted.location_ + fitted.scale_ * wanted)
    without = scaler(cut=np.inf).fit(X)
    np.testing.assert_array_equal(without.scale_, fitted.scale_)  # it costs nothing and changes no noise
    assert without.guarantee_.event == fitted.guarantee_.event
    assert without.transform(far)[1, 0] > 1e20
    assert fitted.guarantee_.parameters["scaled entries are cut at"] == 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_entry_is_scaled_and_cut_by_itself(dtype):
    """Bit by bit, whatever the other entries are and wherever its row stands: the proof rests on it."""
    fitted, rows = scaler().fit(X), X[:500].astype(dtype)
    Z, order = fitted.transform(rows), np.random.default_rng(0).permutation(500)
    np.testing.assert_array_equal(fitted.transform(rows[order]), Z[order])
    np.testing.assert_array_equal(np.vstack([fitted.transform(row[None]) for row in rows]), Z)
    for value in (0.0, -0.0, 5e-324, 1e300 if dtype is np.float64 else 1e38, -7.0):
        changed = rows.copy()
        changed[17, 1] = value
        apart = fitted.transform(changed) != Z
        apart[17, 1] = False
        assert not apart.any()


@pytest.mark.parametrize("cut", [4.0, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_value_leaves_the_finite_numbers(dtype, cut, recwarn):
    fitted = scaler(cut=cut).fit(X)
    most = np.finfo(dtype).max
    Z = fitted.transform(np.array([[most, most, most], [-most, -most, -most]], dtype))
    assert np.isfinite(Z).all() and (np.abs(Z) <= min(cut, 2.0**100)).all()
    assert [one for one in recwarn if "fitted privately before" not in str(one.message)] == []


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


@pytest.mark.filterwarnings("ignore:groups is an array of float64")
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
