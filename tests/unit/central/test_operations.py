"""Rows as named operations: the same sums, and the same models, on any parts, blocks and places of row memory."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import sottovoce as sv
from sottovoce.central.data.labels import (
    BeginModel,
    ClassLabels,
    CountNear,
    FindClasses,
    NumberLabels,
    ReadLabels,
    Targets,
    WeighRows,
    hold,
)
from sottovoce.central.data.lengths import CountWithin, MeasureRows, ScaleRows, Shorten, make_bounded_rows, make_rows
from sottovoce.central.data.operation import StepRule
from sottovoce.central.data.part import Part, norms_within
from sottovoce.central.data.row_memory import DUAL, DUAL_BEFORE, LABEL, WEIGHT, OnDisk, RowMemory
from sottovoce.central.parallel import Team
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.central.sums.passes import AcceleratedPass, ClippedSlopes, JointSlopes
from sottovoce.exceptions import DataError
from sottovoce.losses import Logistic
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from support.many_parts import cut
from support.parts_pool import PartsPool
from support.pooled_table import PooledTable

N, D = 1500, 5
rng = np.random.default_rng(3)
X = rng.normal(size=(N, D))
NUMBERS = X @ np.arange(1.0, D + 1.0) + rng.logistic(size=N)
TWO = np.where(NUMBERS > 0.0, "yes", "no")
THREE = np.digitize(NUMBERS, [-4.0, 4.0])
PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 3.0, "random_state": 1}
ENDS = [0, 7, 700, 701]  # a part without rows, and one of a single row


@settings(max_examples=25, deadline=None)
@given(ends=st.lists(st.integers(0, N), max_size=7).map(sorted), seed=st.integers(0, 99))
def test_sums_are_the_same_for_any_cut(ends, seed):
    """Three passes, each of which goes on from what the one before has left."""
    found = []
    for cuts in ([], ends):
        holder = cut(X, TWO == "yes", cuts)
        sums = []
        begin = BeginModel(0, fresh=((DUAL, None), (DUAL_BEFORE, None)))
        for one in (MeasureRows(), ScaleRows(2.0, 0.2), Targets(against_rest=1), begin):
            holder.ask(one)
        draws = np.random.default_rng(seed)
        for momentum in (0.0, 0.3, 0.6):
            w = draws.normal(size=D + 1)
            sums.append(holder.ask(AcceleratedPass(Logistic(), w, momentum, 100.0, 0.04, 0.01, 2.0**30)))
        sums.append(holder.ask(CountNear(0.5, 0.5)))
        found.append(np.concatenate(sums))
    np.testing.assert_array_equal(*found)
    assert np.any(found[0])


@pytest.mark.parametrize("form", [np.asarray, lambda X: sp.csr_array(X.astype(np.float32))], ids=["dense", "sparse"])
@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(1, 200), steps=st.integers(1, 70), last=st.integers(1, 70), seed=st.integers(0, 99),
    far=st.sampled_from([1.0, 1e41]), back=st.sampled_from([0.0, 0.3]), over=st.sampled_from([1.0, 3.0]),
    width=st.sampled_from([1, 3, 12]), entry=st.sampled_from([0.0, 0.2]), k=st.sampled_from([1, 3, 9]),
)  # fmt: skip
def test_compiled_steps_are_those_of_python_bit_by_bit(n, steps, last, far, back, over, width, entry, k, seed, form):
    """Of all rows at once and of rows in parts, with points beyond what rows can hold."""
    clip, found, told = 0.05, [], []
    rule = StepRule(-float(n), 0.8, 0.2, back, far, over, steps, min(last, steps))
    mechanism = clipped_sum(Neighbours(Adjacency.ADD_REMOVE), clip, 0.5).mechanism
    table, labels = form(np.tile(X[:n], 4)[:, :width].copy()), np.arange(n) % max(2, k)
    start, unit = np.full((k, 1), 0.25), 1.0 / mechanism.tick
    ask = ClippedSlopes(Logistic(), start[0], clip, unit) if k == 1 else JointSlopes(start, clip, unit)
    at_once = Part(table, Team(1, None))
    at_once.memory.set(LABEL, labels)
    for rows in (at_once, cut(table, labels, [n // 3])):
        for one in (MeasureRows(), ScaleRows(2.0, entry), Targets(1 if k == 1 else None), BeginModel(0)):
            rows.ask(one)
        seen = []
        with np.errstate(all="ignore"):
            noise = np.random.default_rng(seed)
            found.append(ask.descend(rows, mechanism, rule, noise, lambda *done, seen=seen: seen.append(done)))
        told.append(seen[-1])
    np.testing.assert_array_equal(*found)
    assert told == 2 * [(steps, steps)]
    assert at_once.few is not None  # those were compiled


def test_compiled_steps_of_many_rows_are_told_more_often():
    """One thread takes tables of any size at once, and nothing interrupts compiled steps."""
    rows, told = Part(np.ones((2**19, 8)), Team(1, None)), []
    rows.memory.set(LABEL, np.arange(2**19) % 2)
    for one in (MeasureRows(), ScaleRows(3.0, 0.2), Targets(against_rest=1), BeginModel(0)):
        rows.ask(one)
    mechanism = clipped_sum(Neighbours(Adjacency.ADD_REMOVE), 0.05, 0.5).mechanism
    ask, rule = ClippedSlopes(Logistic(), np.zeros(1), 0.05, 1.0 / mechanism.tick), StepRule(*[1.0] * 6, 40, 4)
    ask.descend(rows, mechanism, rule, np.random.default_rng(0), lambda *done: told.append(done))
    assert told == [(16, 40), (32, 40), (40, 40)] and rows.few is not None


def logistic(classes=("no", "yes"), **options):
    return sv.DPLogisticRegression(classes=list(classes), **{**PUBLIC, **options})


def ridge(**options):
    return sv.DPRidge(label_bounds=(-20.0, 30.0), **{**PUBLIC, **options})


def wrong(values, changed):
    """Return a copy in which entries at some places are others."""
    values = np.array(values, object) if None in changed.values() else values.copy()
    for place, value in changed.items():
        values[place] = value
    return values


@pytest.mark.parametrize(
    ("model", "X", "y", "said"),
    [
        (logistic(), wrong(X, {(3, 1): np.nan, (900, 0): np.inf, (901, 2): np.nan}), TWO,
         r"contains NaN: row 3, column 1 \(3 row\(s\) hold NaN or infinity\)\."),
        (logistic(), X, wrong(TWO.astype("U5"), {699: "maybe", 1400: "maybe"}),
         r"the label 'maybe' \(row 699, 2 row\(s\) in all\)"),
        (ridge(), X, wrong(NUMBERS, {800: np.nan, 20: np.inf}), r"contains infinity: row 20 \(2 row\(s\) in all\)"),
        *((ridge(), X, wrong(NUMBERS.astype(object), {N - 1: missing}), f"Input y contains NaN: row {N - 1} ")
          for missing in (None, "nan", np.nan)),
    ],
)  # fmt: skip
def test_what_is_wrong_is_counted_in_all_parts_and_the_first_one_is_named(model, X, y, said, monkeypatch):
    monkeypatch.setattr("sottovoce.central.data.labels._AT_ONCE", 100)
    for place in ((X, y), (PooledTable(PartsPool(2), X, y, ENDS),)):
        with pytest.raises(DataError, match=said):
            clone(model).fit(*place)


def test_classes_are_found_and_numbers_are_clipped_in_all_parts():
    holder = cut(X, None, ENDS)
    for part in holder.parts:
        part.labels = np.repeat([3, 1, 2], [7, 694, N - 701])[part.first_row :][: part.n_samples]
    ask = FindClasses()
    assert holder.ask(ask).tolist() == [1, 2, 3] and ask.allows(np.arange(4), 4, holder)
    assert not any(ask.allows(one, 4, holder) for one in (np.arange(5), [1], np.zeros((2, 2))))
    for part in holder.parts:
        part.labels = NUMBERS[part.first_row :][: part.n_samples]
    assert holder.ask(ReadLabels(NumberLabels("DPRidge", -1.0, 3.0, 1.0, 2.0))).number == 0
    kept = np.concatenate([part.memory.whole(LABEL) for part in holder.parts])
    np.testing.assert_array_equal(kept, (np.clip(NUMBERS, -1.0, 3.0) - 1.0) / 2.0)


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


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_rows_are_summed_in_pieces_and_copied_only_where_an_entry_is_beyond_its_bound(store):
    raw, factors, one = store(np.tile(X, (6, 1))), np.random.default_rng(0).normal(size=6 * N), Team(1, None)
    rows = make_rows(raw, data_norm=2.0, constant=0.2, names=None, team=one)
    wanted = (np.tile(X, (6, 1)) * rows.scale[:, None]).T @ factors
    np.testing.assert_allclose(rows.weighted_sum(factors), [*wanted, rows.constant * factors.sum()])
    for bound, is_kept in ((np.abs(X).max(), True), (1.0, False)):
        assert (make_bounded_rows(raw, data_bound=bound, constant=0.0, names=None, team=one).raw is raw) == is_kept


@pytest.mark.parametrize("memory", [RowMemory, OnDisk])
def test_a_model_begins_with_its_own_target_and_without_memory_of_the_one_before(memory):
    holder = cut(X, THREE, ENDS, memory=memory)
    holder.ask(Targets(against_rest=3))
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
    rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=Team(1, None))
    for targets in ([NUMBERS], [NUMBERS, NUMBERS + 9.0]):
        part = hold(rows, targets, Team(1, None))
        part.ask(BeginModel(len(targets) - 1))
        np.testing.assert_array_equal(part.memory.whole("target"), targets[-1])
        assert part.ask(CountNear(0.0, 1.0)).tolist() == [np.count_nonzero(np.abs(NUMBERS) <= 1.0)]  # of the first
