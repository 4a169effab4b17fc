"""Whatever is asked otherwise than when a log was begun is refused in words, and nothing is released by a wrong name.

Every parameter of every estimator that trains on a cluster is changed, one at a time, with the log of a fit that has
ended: which would otherwise give its model again. A parameter that is new has to be in the table, or these tests fail.
"""

import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client

import sottovoce as sv
from sottovoce.cluster import DaskTable
from sottovoce.cluster.encoded import EncodedTable
from sottovoce.cluster.log import Log
from sottovoce.exceptions import ParameterError
from sottovoce.tables import CategoricalColumn, Encoder, NumericColumn, Schema
from support.dask_workers import dask_workers
from support.parts_pool import PartsPool
from support.pooled_table import PooledTable

pytestmark = pytest.mark.filterwarnings("ignore::sottovoce.exceptions.PrivacyWarning")

_RNG = np.random.default_rng(5)
_X = _RNG.standard_normal((80, 3))
_Y = (_X[:, 0] > 0).astype(np.float64)

GIVEN: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-4, "data_norm": 3.0, "solver": "scd", "random_state": 1}
CLASSES: dict[str, Any] = {**GIVEN, "classes": [0.0, 1.0], "solver_options": {"n_passes": 3}}
MODELS: dict[str, Any] = {
    "DPLogisticRegression": sv.DPLogisticRegression(**CLASSES),
    "DPLinearSVC": sv.DPLinearSVC(**CLASSES),
    "DPRidge": sv.DPRidge(label_bounds=(0.0, 1.0), **GIVEN, solver_options={"n_passes": 3}),
}
# other values for each parameter
OTHERS: dict[str, list[Any]] = {
    "epsilon": [1.0, 2.0 + 1e-9, 50.0],
    "delta": [1e-5, 1e-3],
    "accept_delta": [1e-4],
    "data_norm": [2.0, "auto"],
    "alpha": [0.3, 2e-5],
    "intercept_scaling": [1.0],
    "fit_intercept": [False],
    "max_sample_weight": [2.0, 1.0],
    "class_weight": [{0.0: 1, 1.0: 2}, {0.0: 2, 1.0: 1}, {0.0: 1, 1.0: 1}],
    "classes": [[0.0, 1.0, 2.0], [0, 1], [False, True], None],
    "label_bounds": [(0.0, 2.0), (-1.0, 1.0), (0.25, 0.75)],
    "solver": ["auto", "newton", "adassp", "refinement", "multinomial-scd"],
    "solver_options": [{"n_passes": 4}, {"n_passes": 3.0}, None],
    "adjacency": ["add-remove", "replace-one"],
    "n_public": [80, 79],
    "max_rows_per_group": [1, 2],
    "max_iter": [20],
    "tol": [1e-3],
    "random_state": [None],
}
# what asks nothing, and means nothing for an answer: how much is said; which budget pays, once more for each run (a
# run whose budget is used up ends before it opens the log). Another seed draws other noise from where the log ends.
ASKS_NOTHING: dict[str, list[Any]] = {"verbose": [1], "random_state": [2], "ledger": [None], "dataset": [None]}


def kept(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def logged(model: Any, folder: Path) -> Any:
    log = Log(folder)
    try:
        return model.fit(PooledTable(PartsPool(1), _X, _Y, (30,), log))
    finally:
        log.close()


def changed(model: Any, **others: Any) -> Any:
    return type(model)(**{**model.get_params(), **others})


PAIRS = [
    (name, parameter, value)
    for name, model in MODELS.items()
    for parameter in inspect.signature(type(model)).parameters
    for value in OTHERS.get(parameter, [])
]


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_in_one_of_the_tables(name: str) -> None:
    assert set(inspect.signature(type(MODELS[name])).parameters) <= {*OTHERS, *ASKS_NOTHING}
    arguments = set(inspect.signature(MODELS[name].fit).parameters)
    assert arguments == {"X", "y", "sample_weight", "groups"}  # the last three are refused beside a table on a cluster


@pytest.mark.parametrize(
    ("name", "parameter", "value", "finished"),
    [
        pytest.param(*pair, finished, id=f"{'-'.join(map(str, pair))}, {'ended' if finished else 'cut off'}",
                     marks=[pytest.mark.slow] * ((k + finished) % 2))
        for k, pair in enumerate(PAIRS)
        for finished in (True, False)
    ],
)  # fmt: skip
def test_another_value_is_refused(name: str, parameter: str, value: Any, finished: bool, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    logged(MODELS[name], folder)
    if not finished:
        for file in sorted(folder.glob("release-*"))[2:]:
            file.unlink()
    before = kept(folder)
    other = changed(MODELS[name], **{parameter: value})
    with pytest.raises(ParameterError) as refused:
        logged(other, folder)
    words = str(refused.value)
    if "the fit in the log" not in words and "from that in the log" not in words:  # the value is refused by itself
        with pytest.raises(ParameterError):
            other.fit(PooledTable(PartsPool(1), _X, _Y, (30,)))
    else:
        assert words.startswith(f"{parameter} is ") or (parameter == "random_state" and "in its seed" in words)
    assert not hasattr(other, "coef_")
    assert kept(folder) == before


@pytest.mark.parametrize("parameter", ASKS_NOTHING)
def test_what_asks_nothing_gives_the_model_again(parameter: str, tmp_path: Path) -> None:
    model = MODELS["DPRidge"]
    first = logged(model, tmp_path / "log").coef_
    for value in ASKS_NOTHING[parameter]:
        assert np.array_equal(logged(changed(model, **{parameter: value}), tmp_path / "log").coef_, first)


def test_swapped_weights_of_classes_are_refused(tmp_path: Path) -> None:
    """Every question is the same: the weights are beside the rows."""
    weighted = changed(MODELS["DPLinearSVC"], class_weight={0.0: 1, 1.0: 2})
    logged(weighted, tmp_path / "log")
    with pytest.raises(ParameterError, match="class_weight is"):
        logged(changed(weighted, class_weight={0.0: 2, 1.0: 1}), tmp_path / "log")


def test_a_subclass_and_its_parameters_are_another_question(tmp_path: Path) -> None:
    class Own(sv.DPLinearSVC):
        pass

    logged(MODELS["DPLinearSVC"], tmp_path / "log")
    with pytest.raises(ParameterError, match="estimator is '"):
        logged(Own(**MODELS["DPLinearSVC"].get_params()), tmp_path / "log")


# --- the table

N = 400


def people(other: bool = False) -> pa.Table:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (N, 3))
    a = (x[:, 0] > 0).astype(int)
    names = np.array(["no", "yes"])
    return pa.table({"x0": x[:, 0], "x1": x[:, 1], "x2": x[:, 2], "a": a, "b": 1 - a, "c": names[a], "d": names[1 - a]})


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with dask_workers(1) as found:
        yield found


SVC = sv.DPLinearSVC(**{**CLASSES, "data_norm": 3.0**0.5, "classes": [0, 1]})
FROM: dict[str, Any] = {"features": ["x0", "x1"], "target": "a", "dtype": "float64"}
OTHER_TABLES: dict[str, list[tuple[Any, str]]] = {
    "features": [(["x1", "x0"], "features is"), (["x0", "x2"], "features is"), (["x0"], "features is|number of")],
    "target": [("b", "target is 'b'")],
    "dtype": [("float32", "type of entries is")],
}
# who reads the rows, how they are cut and kept, and how long is waited: none of it is in a sum. The files are known by
# their names and dates, whatever the options are by which a store is reached.
OF_NO_ACCOUNT = {
    "client", "partitions", "storage", "storage_options", "options", "time_limit", "wait_for_workers",
    "max_rebuilds", "log",
}  # fmt: skip


def of_parquet(client: Client, folder: Path, **others: Any) -> Any:
    path = others.pop("path", folder / "people.parquet")
    with DaskTable.from_parquet(client, path, **{**FROM, **others}, log=folder / "log") as table:
        return sv.DPLinearSVC(**SVC.get_params()).fit(table)


def test_every_argument_of_a_table_is_in_one_of_the_lists() -> None:
    assert set(inspect.signature(DaskTable.from_parquet).parameters) <= {"path", *OTHER_TABLES, *OF_NO_ACCOUNT}


def test_the_model_of_one_target_is_not_given_for_another(client: Client, tmp_path: Path) -> None:
    """All that a table can be told otherwise, with the log of a fit that has ended."""
    pq.write_table(people(), tmp_path / "people.parquet", row_group_size=100)
    first = of_parquet(client, tmp_path)
    before = kept(tmp_path / "log")
    for argument, values in OTHER_TABLES.items():
        for value, words in values:
            with pytest.raises(ParameterError, match=words):
                of_parquet(client, tmp_path, **{argument: value})
    pq.write_table(people(), tmp_path / "copy.parquet", row_group_size=100)
    with pytest.raises(ParameterError, match="stamps of files is"):
        of_parquet(client, tmp_path, path=tmp_path / "copy.parquet")
    assert kept(tmp_path / "log") == before
    for same in ({"partitions": 3}, {"storage": "scratch"}):
        assert np.array_equal(of_parquet(client, tmp_path, **same).coef_, first.coef_)


def test_nor_for_another_schema(client: Client, tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "people.parquet", row_group_size=100)

    def fit(target: str = "c", bounds: tuple[float, float] = (-1, 1), categories: Any = ("no", "yes")) -> Any:
        columns = (NumericColumn("x0", bounds=bounds), NumericColumn("x1", bounds=(-1, 1)))
        schema = Schema((*columns, CategoricalColumn(target, categories=categories)), target=target)
        model = sv.DPLinearSVC(**{**SVC.get_params(), "classes": ["no", "yes"]})
        with EncodedTable.of(client, tmp_path / "people.parquet", Encoder(schema), log=tmp_path / "log") as table:
            return model.fit(table)

    first = fit()
    assert math.isfinite(first.intercept_[0]) and np.array_equal(fit().coef_, first.coef_)
    for others, words in (
        ({"target": "d"}, "schema is|target is 'd'"),
        ({"bounds": (-1, 2)}, "schema is"),
        ({"categories": ("yes", "no")}, "schema is"),
    ):
        with pytest.raises(ParameterError, match=words):
            fit(**others)  # type: ignore[arg-type]
