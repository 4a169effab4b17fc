"""Fits whose unit is a person: ``groups=`` and ``max_rows_per_group``."""

import json
import warnings
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.preprocessing import Normalizer

import sottovoce as sv
from sottovoce.estimators.reading import UnreadTable
from sottovoce.exceptions import DataError, LedgerError, ParameterError, PrivacyWarning
from sottovoce.privacy.adjacency import PERSON_UNIT, unit_of
from sottovoce.report import receipt_page, verify_receipt
from support.replay import recording
from support.solvers import EVERY, by_name

RNG = np.random.default_rng(0)
N = 600
X = RNG.uniform(-1.0, 1.0, (N, 3))
Y = np.where(X @ [1.0, -0.5, 0.2] > 0.0, 1, -1)
GROUPS = RNG.integers(0, 150, N).astype(float)
GROUPS[::50] = np.nan
PUBLIC = {"epsilon": 2.0, "delta": 1e-6, "data_norm": 2.0, "classes": [-1, 1], "random_state": 0}
ABLE = ("auto", "scd", "sgd", "multinomial-scd", "newton", "gd", "momentum")  # of the logistic loss


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        yield


def logistic(**changed):
    return sv.DPLogisticRegression(**{**PUBLIC, "max_rows_per_group": 3, **changed})


def test_the_receipt_speaks_of_persons_and_is_made_again(tmp_path):
    receipt = logistic(random_state=None).fit(X, Y, groups=GROUPS).guarantee_
    assert receipt.unit == unit_of(3)
    assert "for one person" in receipt.statement()
    assert any(line.startswith("max_rows_per_group = 3 (") for line in receipt.assumptions)
    assert not any("rows of the same person" in line for line in receipt.not_covered)
    assert any("under several names" in line for line in receipt.not_covered)
    assert receipt.parameters["arguments"]["max_rows_per_group"] == 3
    assert "max_rows_per_group" not in logistic(max_rows_per_group=None).fit(X, Y).guarantee_.parameters["arguments"]
    path = tmp_path / "receipt.json"
    path.write_text(receipt.to_json())
    assert verify_receipt(path).passed
    # a receipt that claims fewer rows than the noise was made for is none of ours, nor is one with another unit
    for changed in ({"max_rows_per_group": 4}, {"max_rows_per_group": None}):
        data = json.loads(receipt.to_json())
        data["parameters"]["arguments"] |= changed
        path.write_text(json.dumps(data))
        assert not verify_receipt(path).passed
    assert "all rows of one person" in receipt_page(receipt)


def test_rows_that_are_not_used_have_no_say():
    """Rows without a person, and those beyond the most: whatever they hold, the model is the same, bit by bit."""
    first = logistic().fit(X, Y, groups=GROUPS)
    other, labels = X.copy(), Y.copy()
    other[np.isnan(GROUPS)], labels[np.isnan(GROUPS)] = 1.0, -labels[np.isnan(GROUPS)]
    again = logistic().fit(other, labels, groups=GROUPS)
    assert np.array_equal(first.coef_, again.coef_)
    with recording(noise=(0.0,)) as tape:
        logistic(solver="newton").fit(X, Y, groups=np.zeros(N))  # one person: three rows are used
    gram = next(one for one in tape.releases if one.exact.size > 4)
    assert 0.0 < gram.exact[0] * gram.mechanism.tick <= 3.0


def test_a_person_with_one_row_each_is_a_row():
    """With nobody left out and one row a person, sums and noise are those of a fit for rows, with weights too."""
    for weights in (None, np.random.default_rng(1).uniform(0.0, 1.0, N)):
        given = {"solver": "newton"} if weights is None else {"solver": "scd", "max_sample_weight": 1.0}
        one = logistic(max_rows_per_group=1, **given).fit(X, Y, groups=np.arange(N), sample_weight=weights)
        row = logistic(max_rows_per_group=None, **given).fit(X, Y, sample_weight=weights)
        assert np.allclose(one.coef_, row.coef_, rtol=1e-9)
        assert one.guarantee_.event == row.guarantee_.event


def test_the_same_whatever_threads_and_storage(monkeypatch):
    monkeypatch.setattr("sottovoce.central.parallel._SMALL", 1)
    many, labels, groups = np.tile(X, (200, 1)), np.tile(Y, 200), np.tile(GROUPS, 200)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("SOTTOVOCE_NUM_THREADS", threads)
        found += [logistic(solver="newton").fit(kind(many), labels, groups=groups).coef_ for kind in
                  (np.asarray, sp.csr_array)]  # fmt: skip
    assert all(np.array_equal(found[0], one) for one in found)


def test_a_secret_number_of_rows_is_told_by_no_refusal_and_no_warning():
    secret = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "add-remove", "n_public": 100}
    own, log = {**secret, "epsilon": None, "delta": None}, sv.DPLogisticRegression
    steps = [("moved", Normalizer()), ("scaler", sv.DPScaler()), ("model", log(classes=[0, 1]))]
    search = sv.DPSearchCV(log(**own, classes=[0, 1], data_norm=1.0), {"alpha": [0.1]}, epsilon=1.0, delta=1e-6)
    models = [
        sv.DPScaler(**secret), sv.DPScaler(**secret, bounds=([0.0] * 3, [1.0] * 3)), sv.DPPipeline(steps, **secret),
        *(log(**secret, classes=[0, 1], data_norm=1.0, solver=one) for one in ("newton", "scd", "momentum", "sgd")),
        log(**secret, classes=[0, 1, 2]), sv.DPRidge(**secret, label_bounds=(0, 1)),
        *(sv.DPLasso(**secret, label_bounds=(0, 1), radius=one, data_bound=1.0) for one in (1.0, 1e-9)),
        search, clone(search).set_params(estimator__n_public=5), log(**secret),
    ]  # fmt: skip

    def told(model, n, kind=np.asarray):
        with warnings.catch_warnings(record=True) as said, suppress(ParameterError, DataError):
            warnings.simplefilter("always")
            return clone(model).fit(kind(np.ones((n, 3))), np.ones(n, int)).guarantee_.epsilon, len(said)
        return "refused", len(said)

    found = [{told(model, 0), told(model, 0, pd.DataFrame), told(model, 1)} for model in models]
    assert [[end for end, _ in ends] for ends in found] == [[1.0]] * (len(models) - 2) + [["refused"]] * 2


def test_every_estimator_takes_groups():
    y = np.clip(X @ [1.0, -0.5, 0.2], -1.0, 1.0)
    for model, labels in (
        (sv.DPRidge(epsilon=2.0, delta=1e-6, data_norm=2.0, label_bounds=(-1, 1)), y),
        (sv.DPLasso(epsilon=2.0, delta=1e-6, data_bound=1.0, radius=2.0, label_bounds=(-1, 1)), y),
        (sv.DPLinearSVC(epsilon=2.0, delta=1e-6, data_norm=2.0, classes=[-1, 1]), Y),
        (sv.DPSparseLogisticRegression(epsilon=2.0, delta=1e-6, data_bound=1.0, radius=2.0, classes=[-1, 1]), Y),
        (sv.DPLogisticRegression(epsilon=2.0, delta=1e-6, data_norm=2.0, classes=[-1, 0, 1]), Y),
    ):
        model = clone(model).set_params(max_rows_per_group=3).fit(pd.DataFrame(X), labels, groups=list(GROUPS))
        assert model.guarantee_.unit == unit_of(3)
        assert model.plan(N, 3).event is not None


def test_intervals_are_not_given_for_persons():
    model = sv.DPRidge(
        epsilon=5.0, delta=1e-6, data_norm=2.0, label_bounds=(-1, 1), solver="adassp", max_rows_per_group=3
    )
    model.fit(X, Y, groups=GROUPS)
    with pytest.raises(ParameterError, match="not independent"):
        model.confidence_intervals()


@pytest.mark.parametrize("solver", [one for one in EVERY if one not in (*ABLE, "adassp", "refinement", "constant")])
def test_solvers_without_a_proof_refuse(solver):
    with pytest.raises(ParameterError, match=r"no proof for persons of several rows.*'scd'"):
        logistic(solver=by_name(solver)).plan(N, 3)


def test_sampled_steps_refuse():
    with pytest.raises(ParameterError, match=r"max_rows_per_group must be None for solver='sgd'"):
        logistic(solver="sgd", solver_options={"batch_size": 50}).plan(10**5, 3)


@pytest.mark.parametrize(
    ("changed", "groups", "words"),
    [
        ({"max_rows_per_group": None}, GROUPS, "max_rows_per_group is missing"),
        ({}, None, "groups is missing"),
        ({"max_rows_per_group": 0}, GROUPS, "max_rows_per_group must be"),
        ({"max_rows_per_group": 2.5}, GROUPS, "max_rows_per_group must be"),
        ({}, GROUPS[:, None], "groups must hold one value for each row"),
    ],
    ids=["no bound", "no groups", "zero", "half", "two columns"],
)
def test_bad_groups_are_refused_before_the_charge(changed, groups, words, tmp_path):
    ledger = sv.Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.create("people", epsilon=5.0, delta=1e-5, unit="person")
    with pytest.raises(ParameterError, match=words):
        logistic(**changed, ledger=ledger, dataset="people").fit(X, Y, groups=groups)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        logistic(ledger=ledger, dataset="people").fit(X, Y, groups=GROUPS[:-1])
    assert ledger.spent("people")[0] == 0.0


def test_groups_of_a_table_that_is_read_in_the_fit():
    read = []

    def table():
        read.append(1)
        return X, Y

    unread = UnreadTable((N, 3), table, lambda: GROUPS if read else None)
    assert np.array_equal(logistic().fit(unread).coef_, logistic().fit(X, Y, groups=GROUPS).coef_)
    with pytest.raises(ParameterError, match="max_rows_per_group is missing"):
        logistic(max_rows_per_group=None).fit(unread)


def test_nobody_is_a_release_too_but_not_without_noise():
    nobody = np.full(N, np.nan)
    assert np.isfinite(logistic().fit(X, Y, groups=nobody).coef_).all()
    with pytest.raises(DataError, match="names nobody"):
        logistic(epsilon=np.inf).fit(X, Y, groups=nobody)
    # whether a row is used does not decide whether a fit is refused
    bad = X.copy()
    bad[0] = np.nan
    with pytest.raises(DataError, match="NaN"):
        logistic().fit(bad, Y, groups=nobody)


def test_a_search_refuses_persons():
    search = sv.DPSearchCV(
        sv.DPLogisticRegression(data_norm=2.0, classes=[-1, 1], max_rows_per_group=3), {"alpha": [1e-3]},
        epsilon=2.0, delta=1e-6,
    )  # fmt: skip
    with pytest.raises(ParameterError, match="the search holds out row by row"):
        search.fit(X, Y)


def test_budgets_of_rows_and_of_persons_are_two(tmp_path):
    ledger = sv.Ledger(f"sqlite:///{tmp_path}/budget.db")
    made = ledger.create("people", epsilon=5.0, delta=1e-5, unit="person")
    assert made.unit == PERSON_UNIT
    ledger.create("visits", epsilon=5.0, delta=1e-5)
    with pytest.raises(LedgerError, match="this run is for persons"):
        logistic(random_state=None, ledger=ledger, dataset="visits").fit(X, Y, groups=GROUPS)
    logistic(max_rows_per_group=None, random_state=None, ledger=ledger, dataset="visits").fit(X, Y)
    with pytest.raises(LedgerError, match="this run is for single rows"):
        logistic(max_rows_per_group=None, random_state=None, ledger=ledger, dataset="people").fit(X, Y)
    assert ledger.spent("people")[0] == 0.0
    for rows in (1, 3):  # the unit is a person, however many rows are used of one
        model = logistic(max_rows_per_group=rows, random_state=None, ledger=ledger, dataset="people", epsilon=1.0).fit(
            X, Y, groups=GROUPS
        )
    assert ledger.spent("people")[0] > 1.0
    assert ledger.verify().ok
    # receipts of persons can be imported where the unit is a person
    apart = logistic(random_state=None, epsilon=1.0).fit(X, Y, groups=GROUPS).guarantee_
    ledger.import_receipt("people", apart)
    with pytest.raises(LedgerError, match="the receipt is about"):
        ledger.import_receipt("visits", apart)
    assert model.charge_ is not None
