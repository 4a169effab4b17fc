"""Fits charge the ledger: before the data are read, once, what their plan says; models do not carry the ledger."""

import json
import warnings
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import sottovoce as sv
from sottovoce.central.core import drive
from sottovoce.estimators import linear
from sottovoce.estimators.persistence import model_from_json, model_to_json
from sottovoce.exceptions import AccountingError, BudgetError, DataError, LedgerError, ParameterError
from sottovoce.ledger import Ledger, store
from sottovoce.ledger.charging import OpenCharge
from sottovoce.ledger.ledger import Charge
from sottovoce.papers.dp_scd import Minibatch
from sottovoce.privacy.trials import TrialCount
from sottovoce.report.reading import fingerprint
from sottovoce.vertical import Party, VerticalLasso, VerticalLogisticRegression, VerticalRidge, split_columns
from support.ledger import Clock
from support.pairs import by_pairs

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (300, 3))
Y = np.where(X[:, 0] > 0, 1, 0)
T = X[:, 0]
SPEND = {"epsilon": 0.5, "delta": 1e-6}
CLASSIFIER = {"data_norm": 1.0, "classes": [0, 1], **SPEND}
RIDGE = {"data_norm": 1.0, "label_bounds": (-1, 1), **SPEND}


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    made.create("people", epsilon=3.0, delta=1e-5)
    return made


def models():
    return {
        "ridge": (sv.DPRidge(**RIDGE), T),
        "refinement": (sv.DPRidge(solver="refinement", **RIDGE), T),
        "adassp": (sv.DPRidge(solver="adassp", **RIDGE), T),
        "logistic": (sv.DPLogisticRegression(**CLASSIFIER), Y),
        "newton": (sv.DPLogisticRegression(solver="newton", **CLASSIFIER), Y),
        "minibatch": (sv.DPLogisticRegression(solver=Minibatch(), **CLASSIFIER), Y),
        "svm": (sv.DPLinearSVC(**CLASSIFIER), Y),
        "lasso": (sv.DPLasso(data_bound=1.0, radius=1.0, label_bounds=(-1, 1), **SPEND), T),
        "sparse": (sv.DPSparseLogisticRegression(data_bound=1.0, radius=1.0, classes=[0, 1], **SPEND), Y),
        "search": (
            sv.DPSearchCV(sv.DPRidge(data_norm=1.0, label_bounds=(-1, 1)), {"alpha": [1e-3, 1e-2]}, n_iter=3, **SPEND),
            T,
        ),
    }


@pytest.mark.parametrize("name", models())
def test_a_fit_is_one_charge_of_its_plan(ledger, name):
    model, y = models()[name]
    planned = sv.plan(model, *X.shape)
    model.set_params(ledger=ledger, dataset="people").fit(X, y)
    (record,) = ledger.history("people")
    assert (record.state, record.event, record.seeded) == ("committed", planned.event, False)
    assert record.committed_event == model.guarantee_.event
    assert (record.delta, record.adjacency) == (planned.delta, planned.adjacency)
    assert record.plan["estimator"] == type(model).__name__
    assert record.plan["n_samples"] == 300 and record.plan["epsilon"] == 0.5
    assert isinstance(model.charge_, Charge) and model.charge_.hash == ledger.head()
    assert ledger.spent("people")[0] <= 0.5  # at the budget's delta, which is larger than the fit's
    assert ledger.verify(model.charge_.hash).ok


def test_an_address_serves_as_well_as_an_object_and_clones_charge_again(ledger):
    model = clone(sv.DPRidge(ledger=ledger.url, dataset="people", **RIDGE).fit(X, T))
    model.fit(X, T)
    assert [record.state for record in ledger.history("people")] == ["committed"] * 2


def test_a_seeded_fit_is_charged_and_marked_where_that_is_meant(ledger):
    ledger.create("trials", epsilon=3.0, delta=1e-5, allow_nonprivate=True)
    sv.DPRidge(ledger=ledger, dataset="trials", random_state=0, **RIDGE).fit(X, T)
    (record,) = ledger.history("trials")
    assert record.seeded and not record.is_private and record.counts


class Watched:
    """A table that tells whether its values were looked at; its size is public."""

    shape = X.shape
    ndim = 2

    def __init__(self):
        self.looks = 0

    def __len__(self):
        return len(X)

    def __array__(self, dtype=None, copy=None):
        self.looks += 1
        return np.array(X, dtype=dtype)


@pytest.mark.parametrize("name", ["ridge", "logistic", "lasso", "search"])
def test_what_does_not_fit_is_refused_before_the_data_are_looked_at(ledger, name):
    model, y = models()[name]
    table = Watched()
    model.set_params(epsilon=4.0, ledger=ledger, dataset="people")
    with pytest.raises(BudgetError, match=r"budget of epsilon=3\.0"):
        model.fit(table, y)
    assert table.looks == 0 and ledger.history("people") == []
    model.set_params(epsilon=0.5).fit(table, y)
    assert table.looks > 0 and len(ledger.history("people")) == 1


HOLED, MISSING, TEXTS, DAYS = X.copy(), T.copy(), X.astype(object), X.astype(object)
HOLED[3, 1] = MISSING[5] = np.nan
TEXTS[3, 1], DAYS[3, 1] = "x", np.datetime64("2026-11-29")
FAILURES = {  # each is an answer about a value of the data
    "NaN in X": (lambda model: model.fit(HOLED, T), "NaN"),
    "a label that is NaN": (lambda model: model.fit(X, MISSING), "NaN"),
    "a text in X": (lambda model: model.fit(TEXTS, T), "columns whose type is no number: 1 .str."),
    "a day in X": (lambda model: model.fit(DAYS, T), "columns whose type is no number: 1 .datetime64."),
    "a day in a frame": (lambda model: model.fit(pd.DataFrame(DAYS), T), "whose type is no number: .*1 .object."),
    "sparse": (lambda model: model.fit(csr_array(HOLED), T), "NaN"),
}


@pytest.mark.parametrize(("kind", "name"), by_pairs(["ridge", "adassp", "lasso", "search"], list(FAILURES)))
def test_a_failure_over_the_data_is_paid_for(ledger, kind, name):
    """A free one could be asked for again and again: 31 of them told the largest label to 1 %."""
    fails, message = FAILURES[name]
    model, _ = models()[kind]
    with pytest.raises(ValueError, match=message) as caught:
        fails(model.set_params(ledger=ledger, dataset="people"))
    (note,) = caught.value.__notes__
    assert "counts as spent" in note and "check them before a fit" in note
    assert [record.state for record in ledger.history("people")] == ["reserved"]
    assert ledger.spent("people")[0] > 0.3


@pytest.mark.parametrize("kind", ["logistic", "svm", "sparse"])
def test_an_unknown_class_is_paid_for(ledger, kind):
    model, y = models()[kind]
    with pytest.raises(DataError, match="not in classes"):
        model.set_params(ledger=ledger, dataset="people").fit(X, np.where(np.arange(len(y)) == 7, 5, y))
    assert [record.state for record in ledger.history("people")] == ["reserved"]


def test_an_interrupt_before_the_data_are_looked_at_gives_the_charge_back(ledger, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(OpenCharge, "looking", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sv.DPRidge(ledger=ledger, dataset="people", **RIDGE).fit(X, T)
    assert [record.state for record in ledger.history("people")] == ["cancelled"]
    assert ledger.spent("people")[0] == 0.0


def test_a_crash_after_the_noise_costs_all(ledger, monkeypatch):
    model = sv.DPRidge(ledger=ledger, dataset="people", solver="scd", **RIDGE)

    def interrupted(*given):
        drive(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(linear, "drive", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(X, T)
    assert "counts as spent" in caught.value.__notes__[0]
    assert ledger.history("people")[-1].state == "reserved" and ledger.spent("people")[0] > 0.3


def test_a_run_that_cost_more_than_its_plan_is_not_handed_out(ledger, monkeypatch):
    def dearer(*given):
        driven = drive(*given)
        return replace(driven, counts=driven.counts + driven.counts)

    monkeypatch.setattr(linear, "drive", dearer)
    model = sv.DPRidge(ledger=ledger, dataset="people", solver="scd", **RIDGE)
    with pytest.raises(AccountingError, match="cost more than was reserved"):
        model.fit(X, T)
    assert not hasattr(model, "coef_")
    assert ledger.history("people")[0].state == "reserved"


def test_without_noise(ledger):
    model = sv.DPRidge(**{**RIDGE, "epsilon": np.inf}, ledger=ledger, dataset="people")
    with pytest.raises(BudgetError, match="without protection"):
        model.fit(X, T)
    ledger.create("public", epsilon=1.0, delta=1e-6, allow_nonprivate=True)
    model.set_params(dataset="public").fit(X, T)
    assert ledger.history("public")[0].state == "committed"
    assert not ledger.history("public")[0].is_private and ledger.spent("public")[0] == 0.0


def test_adjacencies_must_fit(ledger):
    model = sv.DPRidge(adjacency="replace-one", ledger=ledger, dataset="people", **RIDGE)
    with pytest.raises(AccountingError, match="'replace-one' gives no guarantee for 'zero-out'"):
        model.fit(X, T)
    ledger.create("replaced", epsilon=3.0, delta=1e-5, adjacency="replace-one")
    model.set_params(dataset="replaced").fit(X, T)
    for other in ("zero-out", "add-remove"):
        with pytest.raises(AccountingError, match=f"'{other}' gives no guarantee for 'replace-one'. Fit with"):
            model.set_params(adjacency=other, n_public=len(X) if other == "add-remove" else None).fit(X, T)
    assert len(ledger.history("replaced")) == 1


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"dataset": None}, ParameterError, "dataset is missing"),
        ({"ledger": None}, ParameterError, "ledger is missing"),
        ({"ledger": 3}, ParameterError, "ledger must be a Ledger or its address"),
        ({"dataset": 3}, ParameterError, "dataset must be the name"),
        ({"dataset": "others"}, LedgerError, "'others' is not in this ledger"),
        ({"ledger": "sqlite:///none/typo.db"}, LedgerError, "there is no ledger"),
        ({"classes": None}, ParameterError, "classes is missing"),
    ],
)
def test_bad_input(ledger, changed, error, message):
    table = Watched()
    model = sv.DPLogisticRegression(**{**CLASSIFIER, "ledger": ledger, "dataset": "people", **changed})
    search = sv.DPSearchCV(
        sv.DPLogisticRegression(data_norm=1.0, classes=changed.get("classes", [0, 1])),
        {"alpha": [1e-3]},
        **{"ledger": ledger, "dataset": "people", **SPEND, **{k: v for k, v in changed.items() if k != "classes"}},
    )
    for estimator in (model, search):
        with pytest.raises(error, match=message):
            estimator.fit(table, Y)
    assert table.looks == 0 and ledger.history("people") == []


def test_the_estimator_of_a_search_has_no_ledger_of_its_own(ledger):
    inner = sv.DPRidge(data_norm=1.0, label_bounds=(-1, 1), ledger=ledger, dataset="people")
    with pytest.raises(ParameterError, match="ledger of the estimator must be None"):
        sv.DPSearchCV(inner, {"alpha": [1e-3]}, **SPEND).fit(X, T)


def test_model_files_name_the_entry_and_not_the_place_of_the_ledger(ledger):
    ledger.create("volunteers", epsilon=1.0, delta=1e-5)
    model = sv.DPRidge(ledger=ledger, dataset="volunteers", **RIDGE).fit(X, T)
    text = model_to_json(model)
    assert ledger.url not in text and model.charge_.hash in text
    assert json.loads(text)["guarantee"]["ledger"]["dataset"] == "volunteers"
    assert not {"ledger", "dataset"} & set(json.loads(text)["parameters"])
    loaded, _ = model_from_json(text)
    assert (loaded.ledger, loaded.dataset) == (None, None)
    assert (loaded.predict(X) == model.predict(X)).all()


def parties():
    return [Party(X[:, :2], name="a", data_norm=1.0), Party(X[:, 2:], name="b", data_norm=1.0)]


@pytest.mark.parametrize("sparse", [False, True])
def test_vertical_fits_are_charged_once_for_all_parties(ledger, sparse):
    ledger.create("aligned", epsilon=3.0, delta=1e-5, adjacency="replace-one")
    model, held, y = VerticalLogisticRegression(classes=[0, 1], **SPEND), parties(), Y
    if sparse:
        held = split_columns(X, {"a": [0, 1], "b": [2]}, data_bound={"a": 0.5, "b": 0.5})
        model, y = VerticalLasso(label_bounds=(-1, 1), radius=2.0, n_steps=3, **SPEND), T
    model.set_params(ledger=ledger, dataset="aligned").fit(held, y)
    (record,) = ledger.history("aligned")
    assert (record.state, record.event) == ("committed", model.plan_.event)
    assert record.plan["parties"] == {"a": 2, "b": 1} and model.charge_.hash == ledger.head()
    assert clone(model).ledger.spent("aligned") == ledger.spent("aligned") > (0.4, 0.0)


def test_vertical_fits_that_do_not_fit(ledger):
    ledger.create("aligned", epsilon=0.1, delta=1e-5, adjacency="replace-one")
    model = VerticalRidge(label_bounds=(-1, 1), ledger=ledger, dataset="aligned", **SPEND)
    with pytest.raises(BudgetError):
        model.fit(parties(), T)
    with pytest.raises(AccountingError, match="'replace-one' gives no guarantee for 'zero-out'"):
        model.set_params(dataset="people").fit(parties(), T)
    ledger.create("more", epsilon=1.0, delta=1e-5, adjacency="replace-one")
    with pytest.raises(DataError, match="one label for each"):
        model.set_params(dataset="more").fit(parties(), T[:-1])
    assert ledger.history("more") == []
    with pytest.raises(DataError, match="NaN"):
        model.set_params(epsilon=0.1).fit(parties(), MISSING)
    assert [record.state for record in ledger.history("more")] == ["reserved"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(parties(), T)
    assert ledger.history("more")[-1].state == "committed"


def test_a_receipt_is_charged_as_its_fit_would_have_been(ledger):
    ledger.create("people too", epsilon=3.0, delta=1e-5)
    sv.DPRidge(ledger=ledger, dataset="people", **RIDGE).fit(X, T)
    old = receipt()
    made = ledger.import_receipt("people too", old)
    assert made.hash == ledger.head()
    assert ledger.spent("people too") == pytest.approx(ledger.spent("people"), rel=1e-9)
    (fitted,), (imported,) = ledger.history("people"), ledger.history("people too")
    for name in ("state", "delta", "adjacency", "seeded", "counts", "is_private"):
        assert getattr(imported, name) == getattr(fitted, name), name
    assert imported.event == imported.committed_event == old.event
    assert imported.receipt == fingerprint(old) and fitted.receipt is None
    assert imported.plan["estimator"] == "DPRidge" and imported.plan["unit"] == old.unit
    assert ledger.verify(made.hash).ok


@pytest.mark.parametrize(
    ("make", "asked", "error", "message"),
    [
        (lambda: "text", {}, ParameterError, "guarantee must be a Guarantee"),
        (lambda: receipt(), {"same_unit": 1}, ParameterError, "same_unit must be True or False"),
        (lambda: receipt(), {"dataset": "none"}, LedgerError, "'none' is not in this ledger"),
        (lambda: receipt(epsilon=np.inf), {}, BudgetError, "without protection"),
        (lambda: receipt(epsilon=4.0), {}, BudgetError, r"would bring it to epsilon=3\.7.*Nothing was charged"),
        (lambda: receipt(adjacency="replace-one"), {}, AccountingError, "gives no guarantee for 'zero-out'"),
        (lambda: replace(receipt(), unit="one person"), {}, LedgerError, "about 'one person', the budget of dataset"),
    ],
)
def test_receipts_that_are_not_imported(ledger, make, asked, error, message):
    ledger.import_receipt("people", receipt(epsilon=0.1))
    before = ledger.head()
    with pytest.raises(error, match=message):
        ledger.import_receipt(**{"dataset": "people", "guarantee": make(), **asked})
    assert ledger.head() == before


def receipt(**changed):
    return sv.DPRidge(**{**RIDGE, **changed}).fit(X, T).guarantee_


def test_a_receipt_is_imported_once_unless_it_is_said_to_be_of_another_run(ledger):
    first = receipt()
    ledger.import_receipt("people", first)
    with pytest.raises(LedgerError, match=r"charged for this receipt already, by entry 2 of 2.*another_run=True"):
        ledger.import_receipt("people", first)
    signed = replace(first, signature={"algorithm": "ed25519", "public_key": "0" * 64, "value": "0" * 128})
    with pytest.raises(LedgerError, match="charged for this receipt already"):
        ledger.import_receipt("people", signed)
    ledger.import_receipt("people", first, another_run=True)  # as two fits of Frank-Wolfe can have, letter for letter
    ledger.import_receipt("people", replace(receipt(epsilon=0.1), unit="somebody"), same_unit=True)
    last = ledger.import_receipt("people", receipt(epsilon=0.1))
    assert len(ledger.history("people")) == 4
    with pytest.raises(LedgerError, match="is committed already"):
        ledger.cancel(last.charge, "regret")


def test_the_receipt_of_a_run_that_charged_this_ledger_is_not_charged_again(ledger, tmp_path):
    fitted = [models()[name][0] for name in ("ridge", "search", "lasso")]
    for place, model in enumerate(fitted):
        model.set_params(ledger=ledger, dataset="people", epsilon=0.1).fit(X, T)
        with pytest.raises(LedgerError, match=f"charged this ledger itself: entry {2 + 2 * place}, dataset 'people'"):
            ledger.import_receipt("people", model.guarantee_)
    elsewhere = Ledger(f"sqlite:///{tmp_path / 'another.db'}")
    elsewhere.create("people", epsilon=3.0, delta=1e-5)
    elsewhere.import_receipt("people", fitted[0].guarantee_)


def test_an_import_that_is_interrupted_leaves_nothing(ledger, monkeypatch):
    before, append, seen = ledger.head(), store._append, []

    def dying(connection, row):
        append(connection, row)
        seen.append(row)
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(store, "_append", dying)
    with pytest.raises(KeyboardInterrupt):
        ledger.import_receipt("people", receipt())
    assert len(seen) == 2 and ledger.head() == before and ledger.verify().ok


def searched(folder, monkeypatch, n_trials):
    """Return the ledger's entries after a search of some trials of 11 minutes, begun half an hour before midnight."""
    book = Ledger(f"sqlite:///{folder / f'{n_trials}.db'}", who="tester")
    model, y = models()["search"]
    contents = []

    def trial(self, *arguments):
        contents.append((folder / f"{n_trials}.db").read_bytes())
        clock.time += timedelta(minutes=11)
        return fit(self, *arguments)

    with monkeypatch.context() as patched:
        clock, fit = Clock(patched, "2026-11-22T23:30"), sv.DPRidge.fit
        book.create("people", epsilon=3.0, delta=1e-5)
        patched.setattr(sv.DPRidge, "fit", trial)
        patched.setattr(TrialCount, "draw", lambda self, chance: n_trials)
        model.set_params(ledger=book, dataset="people", n_iter=10).fit(X, y)
    assert len(contents) == n_trials
    # nothing is written from the first trial on: neither the place of an entry nor the file's time tells the end
    assert {*contents} == {(folder / f"{n_trials}.db").read_bytes()}
    book.export(folder / "all.jsonl")
    entries = [json.loads(line)["entry"] for line in (folder / "all.jsonl").read_text().splitlines()]
    for entry in entries:
        del entry["previous"]  # a hash
        entry["body"].pop("ledger", None)  # names that are drawn
        entry["body"].pop("charge", None)
    return entries


def test_the_ledger_does_not_tell_the_number_of_trials_of_a_search(tmp_path, monkeypatch):
    one, many = (searched(tmp_path, monkeypatch, n_trials) for n_trials in (1, 25))
    assert one == many
    assert [entry["kind"] for entry in many] == ["ledger", "create", "reserve", "commit"]
    assert {entry["at"] for entry in many} == {"2026-11-22"}


def test_a_search_that_fails_in_a_trial_is_committed_and_says_nothing_else(ledger, monkeypatch):
    model, y = models()["search"]

    def failing(self, *arguments):
        raise MemoryError

    monkeypatch.setattr(sv.DPRidge, "fit", failing)
    with pytest.raises(MemoryError) as caught:
        model.set_params(ledger=ledger, dataset="people").fit(X, y)
    assert "counts as spent" in caught.value.__notes__[0]
    assert [record.state for record in ledger.history("people")] == ["committed"]


FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
NO_TABLES = {
    "of three dimensions": X[:, :, None], "names of two types": FRAME.rename(columns={"a": 1}),
    "dates": FRAME.assign(c=pd.date_range("2000", periods=len(X))), "complex": X.astype(complex),
    "sparse and complex": csr_array(X).astype(complex),
    "two columns of one name": FRAME.set_axis(["a", "a", "c"], axis=1),
}  # fmt: skip
OTHER_COLUMNS = {
    "fewer": FRAME[["a", "b"]], "more": FRAME.assign(d=0.0), "in another order": FRAME[["b", "a", "c"]],
    "of other names": FRAME.rename(columns={"c": "z"}), "an array": X[:, :2], "a list": X[:, :2].tolist(),
    "sparse": csr_array(X[:, :2]),
}  # fmt: skip


def private(kind):
    model = sv.DPLogisticRegression(data_norm=1.0, classes=[0, 1])
    return {
        "model": sv.DPLogisticRegression(**CLASSIFIER),
        "pipeline": sv.DPPipeline([("scale", sv.DPScaler()), ("model", model)], **SPEND),
        "scaler": sv.DPScaler(**SPEND),
        "search": sv.DPSearchCV(model, {"alpha": [1e-3]}, n_iter=1, **SPEND),
    }[kind]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("kind", ["model", "pipeline", "search"])
def test_columns_that_are_not_the_models_are_refused_before_an_evaluation_is_charged(ledger, tmp_path, kind):
    model = private(kind).fit(FRAME, Y)
    tables = dict(OTHER_COLUMNS)
    for name in ("fewer", "in another order", "of other names"):
        pq.write_table(pa.Table.from_pandas(OTHER_COLUMNS[name]), tmp_path / f"{name}.parquet")
        tables[f"{name}, on disk"] = sv.ParquetTable(tmp_path / f"{name}.parquet")
    for name, table in {**NO_TABLES, **tables}.items():
        with pytest.raises((TypeError, ValueError)):
            pytest.fail(repr((name, sv.evaluate(model, table, Y, epsilon=0.1, ledger=ledger, dataset="people"))))
        assert ledger.history("people") == [], name
    sv.evaluate(model, FRAME, Y, epsilon=0.1, ledger=ledger, dataset="people")


@pytest.mark.parametrize("table", OTHER_COLUMNS.values(), ids=OTHER_COLUMNS)
def test_columns_that_a_foreign_model_does_not_take_are_refused_before_the_charge(ledger, table):
    charged = {"epsilon": 0.1, "ledger": ledger, "dataset": "people"}
    centred = make_pipeline(StandardScaler(), LogisticRegression())
    for model in (LogisticRegression(), CalibratedClassifierCV(centred), centred):
        with pytest.raises(ParameterError, match="does not take the columns of X"):
            sv.evaluate(model.fit(FRAME, Y), table, Y, **charged)
    with pytest.raises(ParameterError, match="Cannot center sparse"):
        sv.evaluate(centred, csr_array(X), Y, **charged)
    assert ledger.history("people") == []
    by_name = make_pipeline(ColumnTransformer([("scale", StandardScaler(), ["a"])]), LogisticRegression())
    codes = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(np.tile([[2, 2, 2], [4, 4, 4]], (150, 1)), Y)
    for model, rows in ((by_name.fit(FRAME, Y), FRAME.assign(d="text")), (codes, np.full((300, 3), 4))):
        sv.evaluate(model, rows, Y, **charged)


def test_a_table_on_disk_is_scored_by_the_columns_of_a_foreign_model(ledger, tmp_path):
    """Its rows come without names, so that columns in another order would be taken for those of the model."""
    pq.write_table(pa.Table.from_pandas(OTHER_COLUMNS["in another order"]), tmp_path / "t.parquet")
    model = LogisticRegression().fit(FRAME, Y)
    with pytest.raises(ValueError, match="same order"):
        sv.evaluate(model, sv.ParquetTable(tmp_path / "t.parquet"), Y, epsilon=0.1, ledger=ledger, dataset="people")
    assert ledger.history("people") == []


@pytest.mark.parametrize("adjacency", ["zero-out", "add-remove"])
@pytest.mark.parametrize("size", [1e-9, 0.02, 0.5, 1.0 - 1e-9])
def test_coins_that_hold_out_no_rows_or_all_are_refused_before_the_charge(ledger, size, adjacency):
    """From public numbers: where the charge would be lost more often than once in a hundred fits."""
    ledger.create("more", epsilon=9.0, delta=1e-4, adjacency=adjacency)
    for n_rows in (2, 9, 40, 300):
        public = n_rows if adjacency == "add-remove" else None
        search = sv.DPSearchCV(
            sv.DPRidge(data_norm=1.0, label_bounds=(-1, 1), adjacency=adjacency, n_public=public, max_iter=3),
            {"alpha": [0.1]}, n_iter=1, validation_size=size, epsilon=0.5, delta=1e-6, ledger=ledger, dataset="more",
        )  # fmt: skip
        known = len(ledger.history("more"))
        chance = size**n_rows + (1.0 - size) ** n_rows
        if chance > 0.01:
            with pytest.raises(ParameterError, match="validation_size"):
                search.fit(X[:n_rows], T[:n_rows])
            assert len(ledger.history("more")) == known
        elif chance < 1e-9:
            search.fit(X[:n_rows], T[:n_rows])


NO_COLUMNS = {
    "a dict": dict(enumerate(Y)), "a set": set(range(300)), "a text": "y" * 300, "complex": Y.astype(complex),
    "records": np.zeros(300, [("a", "i4")]), "a matrix": np.stack([Y, Y], 1),
}  # fmt: skip


def not_taken(folder):
    """Yield estimators, what they are to fit, and what they say: refusals that follow from sizes and parameters."""
    for kind in ("ridge", "lasso", "search"):
        for given, said in (((X, None), "y is missing"), ((X, T[:-1]), "inconsistent"), ((X[:0], T[:0]), "n_samples"),
                            ((X, np.zeros((300, 2))), "one label for each row")):  # fmt: skip
            yield models()[kind][0], given, {}, said
    for kind, bad in (("ridge", {"alpha": -1.0}), ("lasso", {"radius": -1.0}), ("search", {"n_iter": 0.5})):
        yield models()[kind][0].set_params(**bad), (X, T), {}, f"{next(iter(bad))} must be"
    for kind in ("model", "pipeline", "scaler", "search"):
        yield from ((private(kind), (table, Y), {}, "") for table in NO_TABLES.values())
    for column in NO_COLUMNS.values():
        yield private("model"), (X, column), {}, ""
        yield private("model").set_params(max_rows_per_group=2), (X, Y), {"groups": column}, ""
        yield private("model").set_params(max_sample_weight=2.0), (X, Y), {"sample_weight": column}, ""
    pq.write_table(pa.Table.from_pandas(FRAME.assign(t=Y)), folder / "t.parquet")
    yield private("search"), (sv.ParquetTable(folder / "t.parquet", target="t"), None), {}, "takes tables in memory"
    yield models()["ridge"][0], (sv.ParquetTable(folder / "t.parquet"), None), {}, "names no target"
    lasso = sv.DPPipeline([("model", models()["lasso"][0].set_params(epsilon=None, delta=None))], **SPEND)
    for pipeline, said in ((private("pipeline"), "max_sample_weight is missing"), (lasso, "takes no sample_weight")):
        yield pipeline, (X, Y), {"sample_weight": T + 1.0}, said
    for classes in ([0, 1.5], [b"a", b"b"]):
        yield private("model").set_params(classes=classes), (X, np.array(classes)[Y]), {}, ""


def test_what_is_refused_by_public_facts_costs_nothing(ledger, tmp_path):
    ledger.create("persons", epsilon=3.0, delta=1e-5, unit="person")
    for estimator, given, beside, said in not_taken(tmp_path):
        estimator.set_params(ledger=ledger, dataset="persons" if "groups" in beside else "people")
        with pytest.raises((TypeError, ValueError), match=said or None):
            pytest.fail(repr(estimator.fit(*given, **beside)))
        assert ledger.history("people") == ledger.history("persons") == [], (estimator, said)
        assert said or beside or given[0] is X or not hasattr(estimator, "n_features_in_")
    model = sv.DPLogisticRegression(**CLASSIFIER).fit(X, Y)
    for column in NO_COLUMNS.values():
        with pytest.raises((TypeError, ValueError)):
            people = {"groups": column, "max_rows_per_group": 2, "ledger": ledger, "dataset": "persons"}
            pytest.fail(repr(sv.evaluate(model, X, Y, epsilon=0.1, **people)))
    with pytest.raises(NotFittedError):
        sv.evaluate(sv.DPRidge(**RIDGE), X, T, epsilon=0.1, ledger=ledger, dataset="people")
    assert ledger.history("people") == ledger.history("persons") == []
