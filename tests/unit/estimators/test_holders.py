"""Wherever rows are: arrays, maps, files and clusters train one model, bit by bit, with weights, persons and steps."""

import math
import tracemalloc
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer, Normalizer, PolynomialFeatures

import sottovoce as sv
from sottovoce.central.data import beside, part, streamed
from sottovoce.central.data.streamed import ScratchTable
from sottovoce.exceptions import DataError, ParameterError, StorageError
from sottovoce.papers.dp_scd import SOLVERS, Minibatch
from sottovoce.report import verify_receipt
from sottovoce.tables import parquet
from support.pairs import by_pairs
from support.parts_pool import PartsPool
from support.pooled_table import PooledTable

N, D = 900, 5
rng = np.random.default_rng(3)
X = rng.normal([3, 0, -40, 0.01, 1], [1, 5, 10, 0.01, 2], (N, D))
Y = np.where(X @ [1, 0.5, 0.1, 10, -1] + rng.normal(size=N) > -2, 1, 0)
BY_ROW = {
    "": {},
    "weights": {"sample_weight": rng.uniform(0, 2, N)},
    "persons": {"groups": rng.integers(0, 150, N)},
    "both": {"sample_weight": rng.uniform(0, 2, N), "groups": rng.integers(0, 150, N).astype(str)},
}
PUBLIC = {"epsilon": 2.0, "delta": 1e-6, "random_state": 1}
ROWS = {"data_norm": 60.0, "classes": [0, 1]}
MODELS = {
    "scd": sv.DPLogisticRegression(**PUBLIC, **ROWS, solver="scd"),
    "newton": sv.DPLogisticRegression(**PUBLIC, **ROWS, solver="newton"),
    "classes": sv.DPLogisticRegression(
        **PUBLIC, data_norm="auto", classes=[0, 1, 2], solver="multinomial-scd", solver_options={"n_passes": 20}
    ),
    "steps of classes": sv.DPLogisticRegression(
        **PUBLIC, data_norm=60.0, classes=[0, 1, 2], solver="multinomial-scd", solver_options={"steps": True}
    ),
    "gd": sv.DPLogisticRegression(**PUBLIC, **ROWS, solver="gd"),
    "momentum": sv.DPLogisticRegression(**PUBLIC, **ROWS, solver="momentum", objective="accuracy"),
    "steps of numbers": sv.DPRidge(**PUBLIC, data_norm=60.0, label_bounds=(0, 1), solver="momentum"),
    "one-step": sv.DPLogisticRegression(**PUBLIC, **ROWS, solver="one-step"),
    "sgd": sv.DPLogisticRegression(**PUBLIC, **ROWS, solver="sgd", solver_options={"batch_size": 1e9, "epochs": 20}),
    "batches": sv.DPLogisticRegression(**PUBLIC, **ROWS, solver="sgd"),
    "Minibatch": sv.DPLogisticRegression(**PUBLIC, **ROWS, solver=Minibatch()),
    "exact": sv.DPLinearSVC(**{**PUBLIC, "epsilon": math.inf}, **ROWS, alpha=0.1),
    "refinement": sv.DPRidge(**PUBLIC, data_norm=60.0, label_bounds=(0, 1), solver="refinement"),
    "adassp": sv.DPRidge(**PUBLIC, data_norm=60.0, label_bounds=(0, 1), solver="adassp"),
    "sparse": sv.DPSparseLogisticRegression(**PUBLIC, data_bound=2.0, radius=5.0, classes=[0, 1]),
    "lasso": sv.DPLasso(**PUBLIC, data_bound=2.0, radius=1.0, label_bounds=(0, 1)),
}
TAKES = {
    "scd": BY_ROW, "exact": BY_ROW, "batches": {""}, "Minibatch": {""}, "steps of classes": {""},
    "one-step": {""},
}  # fmt: skip
MODEL = sv.DPLogisticRegression(classes=[0, 1])
pytestmark = pytest.mark.usefixtures("coarse_losses")
STEPS = {
    "scaler": [("scale", sv.DPScaler())],
    "steps": [("unit", Normalizer()), ("scale", sv.DPScaler()), ("more", PolynomialFeatures(2))],
    "no scaler": [("tanh", FunctionTransformer(np.tanh))],
    "numbers": [("scale", sv.DPScaler(bounds=(-60, 60)))],
}
MODELS |= {
    name: sv.DPPipeline([*steps, ("model", sv.DPRidge(label_bounds=(0, 1)) if name == "numbers" else MODEL)], **PUBLIC)
    for name, steps in STEPS.items()
}
# the others need all rows in one process
ON_CLUSTERS = (
    "scd", "newton", "classes", "steps of classes", "gd", "momentum", "steps of numbers", "one-step", "refinement",
    "adassp", *STEPS
)  # fmt: skip


def for_rows(name, beside):
    """Return the model for what is known of each row."""
    model, given = clone(MODELS[name]), BY_ROW[beside]
    if "groups" in given:
        model.set_params(max_rows_per_group=4)
    if "sample_weight" in given:
        inner = "model__" if name in STEPS else ""
        model.set_params(**{f"{inner}max_sample_weight": 2.0})
    return model


@pytest.fixture
def small(monkeypatch):
    """Blocks of 64 rows, and every map is large."""
    monkeypatch.setattr(parquet, "_BLOCK_BYTES", 64 * D * 8)
    monkeypatch.setattr(streamed, "BLOCK_BYTES", 64 * D * 8)
    monkeypatch.setattr(part, "_SMALL", 0)
    monkeypatch.setattr(beside, "_PIECE_BYTES", 64 * D * 8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("holders")
    columns = {f"x{k}": X[:, k] for k in range(D)}
    pq.write_table(pa.table({**columns, "y": Y}), folder / "t.parquet", row_group_size=170)
    np.save(folder / "x.npy", X)
    return folder


def held(kind, folder, open_until):
    """Return the table in one of its places, and its labels where they are not beside it."""
    if kind == "map":
        return np.load(folder / "x.npy", mmap_mode="r"), Y
    if kind == "cluster":
        fates = dict.fromkeys(range(9, 10_000, 26), "before") | dict.fromkeys(range(22, 10_000, 26), "after")
        number = iter(range(10_000))
        pool = PartsPool(2, lambda keeper, call: fates.get(next(number), "done"))
        return open_until.enter_context(PooledTable(pool, X, Y, (1, 2, 350, 350, 351, 352))), None
    memory = {"row_memory": "disk", "scratch": folder} if kind == "all on disk" else {}
    return sv.ParquetTable(folder / "t.parquet", target="y", dtype="float64", **memory), None


def fitted(model):
    inner = getattr(model, "steps_", [("", model)])[-1][1]
    return inner.coef_, inner.intercept_


CASES = [
    pytest.param(name, beside, marks=[pytest.mark.slow] * ((k + n) % 2 * (len(takes) > 1)))
    for k, name in enumerate(MODELS) if name not in STEPS
    for takes in [TAKES.get(name, ("", "persons"))] for n, beside in enumerate(takes)
] + by_pairs(list(STEPS), list(BY_ROW))  # fmt: skip


@pytest.mark.parametrize(("name", "beside"), CASES)
def test_the_same_model_wherever_rows_are(name, beside, folder, small, tmp_path):
    """Workers of the cluster die now and then, one part has a single row, and one has none."""
    before, given = sorted(folder.iterdir()), BY_ROW[beside]
    for kind in ("map", "file", "all on disk", *(["cluster"] if name in ON_CLUSTERS else [])):
        model = for_rows(name, beside)
        if kind == "cluster" and "groups" in given and (name in ("scd", "classes") or name in STEPS):
            model.set_params(max_rows_per_group=1)  # more would be cut together
        if kind in ("map", "cluster"):
            plain = clone(model).fit(X, Y, **given)
        with ExitStack() as stack:
            table, labels = held(kind, folder, stack)
            other = clone(model).fit(table, labels, **given)
            if kind == "cluster":
                assert table.partitions.n_rebuilt and other.score(table) == pytest.approx(plain.score(X, Y))
            else:
                np.testing.assert_array_equal(other.predict(table), plain.predict(X))
                assert other.score(table, Y) == plain.score(X, Y)
        for one, same in zip(fitted(plain), fitted(other), strict=True):
            np.testing.assert_array_equal(one, same, err_msg=kind)
        assert other.guarantee_.event == plain.guarantee_.event
        (tmp_path / "receipt.json").write_text(other.guarantee_.to_json())
        assert verify_receipt(tmp_path / "receipt.json", solvers=SOLVERS).passed
    assert sorted(folder.iterdir()) == before  # scratch files have no name


@pytest.mark.parametrize(("beside", "name"), by_pairs(["", "persons"], ["scd", "sgd", "sparse", "exact"]))
def test_sparse_rows_from_scratch_disk(name, beside, small):
    rows = sp.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    with ExitStack() as stack:
        table = ScratchTable.write(((rows[a : a + 70], Y[a : a + 70]) for a in range(0, N, 70)), D)
        stack.callback(table.close)
        model = for_rows(name, beside)
        for one, same in zip(
            fitted(clone(model).fit(rows, Y, **BY_ROW[beside])), fitted(model.fit(table, **BY_ROW[beside])), strict=True
        ):
            np.testing.assert_array_equal(one, same)


def test_a_scaler_of_a_table_and_the_table_that_it_scales(folder, small):
    scaler = sv.DPScaler(**PUBLIC, max_rows_per_group=2)
    table = held("file", folder, None)[0]
    plain = clone(scaler).fit(X, groups=BY_ROW["persons"]["groups"])
    of_file = clone(scaler).fit(table, groups=BY_ROW["persons"]["groups"])
    np.testing.assert_array_equal(plain.scale_, of_file.scale_)
    np.testing.assert_array_equal(
        plain.transform(X), np.concatenate([block for _, block in of_file.transform(table).blocks()])
    )
    with ExitStack() as stack:
        on_cluster = clone(scaler).fit(held("cluster", folder, stack)[0], groups=BY_ROW["persons"]["groups"])
        np.testing.assert_array_equal(plain.location_, on_cluster.location_)
        with pytest.raises(ParameterError, match="within a DPPipeline alone"):
            on_cluster.transform(held("cluster", folder, stack)[0])


def test_a_scaler_counts_the_used_rows_of_each_person_alone(folder):
    """A person three times is that person once; the bins of others, or of nobody, have nothing of it."""
    scaler = sv.DPScaler(epsilon=math.inf, max_rows_per_group=1, n_public=N)
    once = clone(scaler).fit(X, groups=np.arange(N))
    thrice = clone(scaler).fit(np.vstack([X, X, X, 1e6 + X]), groups=[*np.tile(np.arange(N), 3), *[None] * N])
    np.testing.assert_array_equal(thrice.scale_, once.scale_)
    np.testing.assert_array_equal(thrice.location_, once.location_)


def test_rows_at_hand_take_no_memory(tmp_path, monkeypatch):
    n, d, draws = 20_000, 200, np.random.default_rng(0)
    columns = {f"x{k}": draws.normal(size=n).astype(np.float32) for k in range(d)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    monkeypatch.setattr(parquet, "_BLOCK_BYTES", 1 << 19)
    table, places = sv.ParquetTable(tmp_path / "t.parquet"), draws.permutation(n)[:15_000]
    tracemalloc.start()
    try:
        rows = beside.at_hand(table, places)
        assert tracemalloc.get_traced_memory()[1] < 0.4 * n * d * 4
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(rows, np.concatenate([block for _, block in table.blocks()])[places])


def test_what_is_refused_and_why(folder, small, tmp_path, monkeypatch):
    """By public facts alone, before anything is charged."""
    ledger = sv.Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.create("rows", epsilon=9.0, delta=1e-5, allow_nonprivate=True)
    ledger.create("people", epsilon=9.0, delta=1e-5, unit="person", allow_nonprivate=True)
    pipeline = sv.DPPipeline([("scale", sv.DPScaler()), ("model", sv.DPLogisticRegression())], **PUBLIC)
    with ExitStack() as stack:
        cluster = held("cluster", folder, stack)[0]
        for model, beside, words in (
            (for_rows("scd", "persons"), "persons", "max_rows_per_group must be 1 .* is private"),
            (for_rows("scaler", "persons"), "persons", "max_rows_per_group must be 1 .* is private"),
            (MODELS["sgd"], "", "needs all rows in one process"),
            (MODELS["lasso"], "", "needs all rows in one process"),
            (pipeline, "", "classes is missing"),
        ):
            dataset = "people" if beside else "rows"
            with pytest.raises(ParameterError, match=words):
                clone(model).set_params(ledger=ledger, dataset=dataset).fit(cluster, **BY_ROW[beside])
    table = held("file", folder, None)[0]
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1000))
    for name, beside in (("sgd", ""), ("newton", "persons"), ("scaler", "persons")):
        with pytest.raises(StorageError, match=r"a copy of the rows takes up to 0.036 MB"):
            for_rows(name, beside).set_params(ledger=ledger, dataset="people" if beside else "rows").fit(
                table, **BY_ROW[beside]
            )
    assert [ledger.spent(name)[0] for name in ("rows", "people")] == [0.0, 0.0]


def test_labels_that_are_missing_are_asked_for_before_a_scaler_releases(folder, noise_is_forbidden):
    for table, words in ((X, "requires y to be passed"), (sv.ParquetTable(folder / "t.parquet"), "y is missing")):
        with pytest.raises(ValueError, match=words):
            clone(MODELS["scaler"]).fit(table)


def test_bad_rows_are_named_after_the_charge_and_steps_that_look_at_others_are_told(tmp_path, small):
    broken = X.copy()
    broken[[150, 400], 2] = np.nan
    pq.write_table(pa.table({f"x{k}": broken[:, k] for k in range(D)} | {"y": Y}), tmp_path / "t.parquet")
    table = sv.ParquetTable(tmp_path / "t.parquet", target="y", dtype="float64")
    with pytest.raises(DataError, match=r"NaN: row 150, column 'x2' \(2 row\(s\) hold NaN"):
        clone(MODELS["scaler"]).fit(table)
    for looks, words in (
        (lambda rows: rows[:1], "made 1 rows of 64"),
        (lambda rows: rows[:, : len(rows)], "made 5 col"),
    ):
        steps = [("looks", FunctionTransformer(looks)), ("model", MODEL)]
        with pytest.raises(DataError, match=f"{words}.*does not treat each row by itself"):
            sv.DPPipeline(steps, **PUBLIC).fit(table)
