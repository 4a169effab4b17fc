"""Rows as named operations: the same sums, and the same models, on any parts, blocks and places of row memory."""

import pickle
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import sottovoce as sv
from sottovoce.central.data.labels import ClassLabels, FindClasses, NumberLabels, ReadLabels, WeighRows
from sottovoce.central.data.lengths import CountWithin, MeasureRows, ScaleRows, Shorten
from sottovoce.central.data.operation import Effect, Holder
from sottovoce.central.data.row_memory import DUAL, DUAL_BEFORE, LABEL, WEIGHT, InMemory, OnDisk
from sottovoce.central.data.rows import norms_within
from sottovoce.central.data.streamed import RemoteTable
from sottovoce.central.data.targets import BeginModel, CountNear, OneAgainstRest, TakeTargets
from sottovoce.central.parallel import Team
from sottovoce.central.sums.passes import AcceleratedPass
from sottovoce.exceptions import DataError, ParameterError, PrivacyWarning
from sottovoce.losses import Logistic
from support.many_parts import cut

N, D = 1500, 5
rng = np.random.default_rng(3)
X = rng.normal(size=(N, D))
NUMBERS = X @ np.arange(1.0, D + 1.0) + rng.logistic(size=N)
TWO = np.where(NUMBERS > 0.0, "yes", "no")
THREE = np.digitize(NUMBERS, [-4.0, 4.0])
ENDS = [0, 7, 700, 701]  # a part without rows, and one of a single row


class Scattered(RemoteTable):
    """Rows in parts in this process, which a fit asks as it asks those of a cluster."""

    feature_names, has_labels = (), True

    def __init__(self, raw, labels, ends=ENDS, memory=InMemory, threads=None):
        self.raw, self.labels, self.ends, self.memory, self.threads = raw, labels, ends, memory, threads

    @property
    def shape(self):
        return self.raw.shape

    @property
    def dtype(self):
        return self.raw.dtype

    def predicted(self, *_):
        raise NotImplementedError

    counted = predicted

    @contextmanager
    def opened(self):
        holder = cut(self.raw, None, self.ends, self.threads, memory=self.memory)
        for part in holder.parts:
            part.labels = self.labels[part.first_row : part.first_row + part.n_samples]
        self.holder = holder
        yield holder
        for part in holder.parts:
            part.memory.close()


def logistic(classes=("no", "yes"), **options):
    given = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 3.0, "random_state": 1, **options}
    return sv.DPLogisticRegression(classes=list(classes), **given)


def ridge(**options):
    given = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 3.0, "random_state": 1, **options}
    return sv.DPRidge(label_bounds=(-20.0, 30.0), **given)


FITS = {
    "scd": (logistic(solver="scd"), TWO),
    "newton": (logistic(solver="newton"), TWO),
    "no bound, no intercept": (logistic(data_norm="auto", solver="scd", fit_intercept=False), TWO),
    "class weights": (logistic(solver="scd", class_weight={"no": 1.0, "yes": 3.0}), TWO),
    "the same weight": (logistic(solver="scd", max_sample_weight=2.0), TWO),
    "places of classes": (logistic(solver="scd"), (TWO == "yes").astype(int)),
    "one against the rest": (logistic(range(3), solver="scd"), THREE),
    "multinomial": (logistic(range(3), solver="multinomial-scd", solver_options={"steps": False}), THREE),
    "steps of classes": (logistic(range(3), solver="multinomial-scd"), THREE),
    "svc": (
        sv.DPLinearSVC(epsilon=1.0, delta=1e-6, data_norm=3.0, classes=["no", "yes"], solver="scd", random_state=1),
        TWO,
    ),
    "ridge": (ridge(solver="scd"), NUMBERS),
    "refinement": (ridge(solver="refinement", data_norm="auto"), NUMBERS),
    "adassp": (ridge(solver="adassp"), NUMBERS),
}


def assert_same(one, other):
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    assert one.guarantee_.parameters == other.guarantee_.parameters
    assert one.guarantee_.model == other.guarantee_.model


@pytest.mark.parametrize("name", FITS)
def test_a_model_is_the_same_on_one_part_and_on_five(name):
    model, y = FITS[name]
    assert_same(clone(model).fit(X, y), clone(model).fit(Scattered(X, y)))


@settings(max_examples=25, deadline=None)
@given(ends=st.lists(st.integers(0, N), max_size=7).map(sorted), seed=st.integers(0, 99))
def test_sums_are_the_same_for_any_cut(ends, seed):
    """Three passes, each of which goes on from what the one before has left."""
    found = []
    for cuts in ([], ends):
        holder = cut(X.astype(np.float32), TWO == "yes", cuts)
        sums = []
        begin = BeginModel(0, fresh=((DUAL, None), (DUAL_BEFORE, None)))
        for one in (MeasureRows(), ScaleRows(2.0, 0.2), TakeTargets(OneAgainstRest(1)), begin):
            holder.ask(one)
        draws = np.random.default_rng(seed)
        for momentum in (0.0, 0.3, 0.6):
            w = draws.normal(size=D + 1)
            sums.append(holder.ask(AcceleratedPass(Logistic(), w, momentum, 100.0, 0.04, 0.01, 2.0**30)))
        sums.append(holder.ask(CountNear(0.5, 0.5)))
        found.append(np.concatenate(sums))
    np.testing.assert_array_equal(*found)
    assert np.any(found[0])


def test_sparse_rows_too():
    model, y = FITS["scd"]
    assert_same(clone(model).fit(sp.csr_array(X), y), clone(model).fit(Scattered(sp.csr_array(X), y)))


def test_whoever_rebuilds_a_part_from_what_changed_it_goes_on_as_if_nothing_had_happened():
    """Lasting operations and the steps since the last first one bring a fresh part where the lost one was."""
    model, y = FITS["multinomial"]
    table = Scattered(X, y)
    clone(model).fit(table)
    first = max(k for k, one in enumerate(table.holder.asked) if one.effect is Effect.FIRST)
    needed = [
        one
        for k, one in enumerate(table.holder.asked)
        if one.effect is Effect.LASTING or (k >= first and one.effect is not Effect.NONE)
    ]
    with Scattered(X, y).opened() as fresh:
        for one in pickle.loads(pickle.dumps(needed)):
            fresh.ask(one)
        for lost, again in zip(table.holder.parts, fresh.parts, strict=True):
            for name in ("scale", "divisor", "label", "target", "dual", "dual before"):
                np.testing.assert_array_equal(lost.memory.whole(name), again.memory.whole(name))


def test_rows_with_nan_are_counted_in_all_parts_and_the_first_one_is_named():
    bad = X.copy()
    bad[[3, 900, 901], [1, 0, 2]] = np.nan, np.inf, np.nan
    for table in (bad, Scattered(bad, TWO)):
        with pytest.raises(DataError, match=r"contains NaN: row 3, column 1 \(3 row\(s\) hold NaN or infinity\)\."):
            logistic().fit(table, None if isinstance(table, Scattered) else TWO)


def test_labels_that_are_wrong_are_counted_in_all_parts_and_the_first_one_is_named():
    labels = TWO.astype("U5")
    labels[[699, 1400]] = "maybe"
    wild = NUMBERS.copy()
    wild[[800, 20]] = np.nan, np.inf
    for model, y, said in (
        (logistic(), labels, r"the label 'maybe' \(row 699, 2 row\(s\) in all\)"),
        (ridge(), wild, r"Input y contains infinity: row 20 \(2 row\(s\) in all\)"),
    ):
        for table in (X, Scattered(X, y)):
            with pytest.raises(DataError, match=said):
                clone(model).fit(table, None if isinstance(table, Scattered) else y)


def test_classes_are_found_in_all_parts():
    model = logistic().set_params(classes=None, data_norm=3.0)
    with pytest.warns(PrivacyWarning, match="classes were read from y"):
        one = clone(model).fit(X, THREE)
    with pytest.warns(PrivacyWarning, match="classes were read from y"):
        assert_same(one, clone(model).fit(Scattered(X, THREE)))
    with Scattered(X, np.repeat([1, 2], [701, N - 701])).opened() as holder:
        assert holder.ask(FindClasses()).tolist() == [1, 2]


def test_what_tables_elsewhere_do_not_offer_is_refused_in_words():
    table = Scattered(X, TWO)
    with pytest.raises(ParameterError, match="y must be None"):
        logistic().fit(table, TWO)
    with pytest.raises(ParameterError, match=r"max_rows_per_group must be 1 .* is private"):
        logistic(max_rows_per_group=2).fit(table, groups=np.arange(N))
    for model in (logistic(solver="sgd"), logistic(epsilon=float("inf"))):
        with pytest.raises(ParameterError, match="needs all rows in one process"):
            model.fit(table)
    ball = sv.DPSparseLogisticRegression(epsilon=1.0, delta=1e-6, data_bound=1.0, radius=1.0, classes=["no", "yes"])
    with pytest.raises(ParameterError, match="needs all rows in one process"):
        ball.fit(table)


def test_scales_keep_the_norm_and_lasting_operations_can_be_sent():
    holder = cut(X, TWO, ENDS, Team(1, None))
    for part in holder.parts:
        part.labels = TWO[part.first_row :][: part.n_samples]
    rule = ClassLabels(np.array(["no", "yes"]))
    for one in (ReadLabels(rule), MeasureRows(), ScaleRows(2.0, 0.5), WeighRows(0.5, (1.0, 0.5)), Shorten(0.25)):
        assert holder.ask(pickle.loads(pickle.dumps(one))) is None or isinstance(one, ReadLabels)
    for part in holder.parts:
        rows = part.rows
        norms = np.sqrt((rows.scale**2) * (rows.raw**2).sum(axis=1) + rows.constant**2)
        assert np.all(norms <= rows.divisor * (1 + 1e-12))
        own = np.minimum(np.linalg.norm(rows.raw, axis=1) / (0.25 * 2.0), 1.0)  # the bound is the new unit
        np.testing.assert_allclose(norms_within(rows.divisor, rows.constant), own, atol=1e-7)
        assert "length" not in part.memory
        codes = part.memory.whole(LABEL)
        assert codes.dtype == np.uint8
        np.testing.assert_array_equal(part.memory.whole(WEIGHT), np.where(codes == 1, 0.25, 0.5))
    assert holder.ask(CountWithin(1.0)).tolist() == [N]
    assert holder.ask(CountWithin(0.9)).tolist() == [int((np.linalg.norm(X, axis=1) < 0.9 * 0.5).sum())]


@pytest.mark.parametrize(("name", "width"), [("ridge", 48), ("scd", 41), ("one against the rest", 41)])
def test_a_row_is_remembered_in_few_bytes(name, width):
    model, y = FITS[name]
    table = Scattered(X, y)
    clone(model).fit(table)
    columns = [part.memory._columns.values() for part in table.holder.parts]
    assert sum(column.nbytes for part in columns for column in part) == width * N


@pytest.mark.parametrize("missing", [None, "nan", float("nan")])
def test_a_missing_number_is_nan_however_it_is_written(missing):
    labels = np.array([*NUMBERS.tolist()[:-1], missing], object)
    for table in (X, Scattered(X, labels)):
        with pytest.raises(DataError, match=f"Input y contains NaN: row {N - 1} "):
            ridge().fit(table, None if isinstance(table, Scattered) else labels)


@pytest.mark.parametrize("memory", [InMemory, OnDisk])
def test_a_model_begins_with_its_own_target_and_without_memory_of_the_one_before(memory):
    holder = cut(X, THREE, ENDS, memory=memory)
    holder.ask(TakeTargets(OneAgainstRest(3)))
    for model in range(3):
        holder.ask(BeginModel(model, 0.25, (("dual", None), ("several", 3))))
        for part in holder.parts:
            place = slice(part.first_row, part.first_row + part.n_samples)
            wanted = np.where(THREE[place] == model, 0.75, -1.25)
            np.testing.assert_array_equal(part.memory.whole("target"), wanted)
            assert not part.memory.whole("dual").any()
            assert not part.memory.whole("several").any()
            part.memory.put("dual", slice(0, part.n_samples), np.ones(part.n_samples))
            part.memory.put("several", slice(0, part.n_samples), np.ones((part.n_samples, 3)))
    for part in holder.parts:
        part.memory.close()


def test_numbers_are_clipped_to_their_bounds_around_their_middle():
    with Scattered(X, NUMBERS).opened() as holder:
        assert isinstance(holder, Holder)
        found = holder.ask(ReadLabels(NumberLabels("DPRidge", -1.0, 3.0, 1.0, 2.0)))
        assert found.number == 0
        kept = np.concatenate([part.memory.whole(LABEL) for part in holder.parts])
    np.testing.assert_array_equal(kept, (np.clip(NUMBERS, -1.0, 3.0) - 1.0) / 2.0)
