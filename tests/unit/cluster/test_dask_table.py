"""DaskTable on a real scheduler, with workers as threads of this process; tests/cluster has processes."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from distributed import Client
from sklearn.base import clone

import sottovoce as sv
from sottovoce.cluster import DaskTable
from sottovoce.cluster.dask_pool import DaskPool, check_client
from sottovoce.cluster.pool import Lost
from sottovoce.exceptions import DataError, ParameterError
from support.counting import Begin, CountRows, Move, Pause, Refuse
from support.dask_workers import dask_workers
from support.faulty_sources import InlineSource

_X = np.random.default_rng(0).integers(-9, 10, (60, 3)).astype(np.float64)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers of one thread each."""
    with dask_workers(2) as client:
        yield client


def sources(n: int = 6, **kwargs: object) -> list[InlineSource]:
    return [
        InlineSource(rows, None, first_row=first)
        for rows, first in zip(np.array_split(_X, n), range(0, 60, 60 // n), strict=True)
    ]


def test_operations_on_a_table_of_workers(client):
    """Both workers hold partitions; a second fit reads nothing; rows are gone when the table is closed."""
    with DaskTable(client, sources(), list("abc")) as table:
        assert repr(table) == "DaskTable(60 rows x 3 columns, float64, 6 partitions on 2 workers, in memory)"
        assert (table.shape, table.feature_names, table.has_labels, len(table)) == ((60, 3), ("a", "b", "c"), False, 60)
        assert "partitions rebuilt" in table._repr_html_()
        for _ in range(2):
            with table.opened({}) as holder:
                assert (holder.ask(Begin(1.0)), holder.ask(CountRows())) == (60, 60)
                assert holder.ask(Move(3.0)).tolist() == (5 * _X.sum(axis=0)).tolist()
                with pytest.raises(DataError, match=r"^row 45 is not wanted$"):
                    holder.ask(Refuse((45,)))
        assert sum(map(len, client.run(actors).values())) == 2
    assert repr(table).endswith("on 0 workers, in memory, closed)")
    with pytest.raises(ParameterError, match="closed: make a new one"), table.opened({}):
        pass


def actors(dask_worker):
    return list(dask_worker.state.actors)


def test_one_fit_at_a_time(client):
    with (
        DaskTable(client, sources(2)) as table,
        table.opened({}) as holder,
        pytest.raises(ParameterError, match="in use by another fit"),
        table.opened({}),
    ):
        pass
    assert holder.number == 0


def test_partitions_of_a_data_frame(client):
    """Each is computed once; one that comes out differently when it is rebuilt is refused."""
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(_X, columns=["a", "b", "c"]).assign(y=_X[:, 0] > 0, name="text")
    with DaskTable.from_dataframe(
        client, dd.from_pandas(frame, npartitions=4), features=["c", "a"], target="y"
    ) as table:
        assert (table.shape, table.dtype, table.has_labels) == ((60, 2), np.float32, True)
        with table.opened({}) as holder:
            holder.ask(Begin(1.0))
            assert holder.ask(Move(3.0)).tolist() == (5 * _X[:, [2, 0]].sum(axis=0)).tolist()

    def drawn(part: pd.DataFrame) -> pd.DataFrame:
        return part + np.random.default_rng().normal(size=part.shape)

    random = dd.from_pandas(frame[["a", "b"]], npartitions=2).map_partitions(drawn)
    with DaskTable.from_dataframe(client, random) as table, table.opened({}) as holder:
        table.partitions.lost(table.partitions.home(0), Lost("as if"))
        with pytest.raises(DataError, match=r"partition 0 of the data frame.*other rows.*Parquet"):
            holder.ask(CountRows())


def test_data_frames_that_cannot_be_used(client):
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "y": [1.0, np.nan]})
    table = dd.from_pandas(frame, npartitions=1)
    for given, words, kwargs in (
        (frame, "must be a dask.dataframe.DataFrame; got DataFrame", {}),
        (table, r"columns of the data frame are no numbers: b", {}),
        (table, "no column 'z' among its 3", {"features": ["z"]}),
        (table, "target 'a' is also among features", {"features": ["a"], "target": "a"}),
        (table, "must name at least one column", {"features": []}),
        (table, "dtype", {"dtype": "int8"}),
    ):
        with pytest.raises(ParameterError, match=words):
            DaskTable.from_dataframe(client, given, **kwargs)
    with pytest.raises(DataError, match=r"column 'y': row 1 of partition 0 .* has no label"):
        DaskTable.from_dataframe(client, table, features=["a"], target="y")


@pytest.mark.parametrize(
    "cells",
    [["1", "a secret"], pd.to_datetime(["2020-01-01", "2021-01-01"]), pd.to_timedelta([1, 2], "s"), [1.0, 2.0 + 1.0j],
     pd.Categorical(["1", "a secret"]), np.array([1.0, np.datetime64("2020-01-01")], dtype=object), [1.0, [2.0]]],
    ids=["texts", "dates", "durations", "complex", "categories", "dates among objects", "lists"],
)  # fmt: skip
def test_partitions_whose_cells_are_no_numbers_are_refused_as_in_memory(client, cells):
    """Whatever type a frame says that a column has, dates are not read as nanoseconds, and no cell is shown."""
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]}), npartitions=1)
    other = frame.map_partitions(lambda part: part.assign(b=cells), meta={"a": "f8", "b": "f8"})
    with pytest.raises(DataError, match=r"type is no number: 'b' \(") as refused:
        DaskTable.from_dataframe(client, other)
    assert "secret" not in "".join([str(refused.value), *getattr(refused.value, "__notes__", ())])
    with pytest.raises(ParameterError, match="are no numbers: b"):
        DaskTable.from_dataframe(client, dd.from_pandas(pd.DataFrame({"a": [1.0], "b": [1.0j]}), npartitions=1))


def test_what_is_no_table(client):
    with pytest.raises(ParameterError, match="at least one partition"):
        DaskTable(client, [])
    mixed = [InlineSource(_X, None), InlineSource(_X[:, :2], None, first_row=60)]
    with pytest.raises(DataError, match=r"partition 1 has 2 columns of float64, without labels, and partition 0 3 of"):
        DaskTable(client, mixed)
    with pytest.raises(ParameterError, match=r"features names 2 columns; the rows have 3"):
        DaskTable(client, sources(), list("ab"))
    for name, value in (("max_rebuilds", -1), ("wait_for_workers", -1.0), ("time_limit", 0.0)):
        with pytest.raises(ParameterError, match=name):
            DaskTable(client, sources(), **{name: value})


def test_clients_that_cannot_be_used(client):
    with pytest.raises(ParameterError, match=r"must be a dask.distributed.Client; got str"):
        check_client("tcp://127.0.0.1:8786")
    with Client(client.scheduler.address, set_as_default=False) as closed:
        pass
    with pytest.raises(ParameterError, match="client is closed: make a new one"):
        DaskPool(closed)


def test_who_alone_does_not_answer_is_given_up(client):
    """A worker lives and hangs: the other one takes its partitions, and what it says later counts for nothing."""
    with DaskTable(client, sources(), time_limit=0.4) as table, table.opened({}) as holder:
        holder.ask(Begin(1.0))
        holder.ask(Move(3.0))
        assert holder.ask(Pause("given up", 2.5)) == 60
        assert table.partitions.n_rebuilt == 3
        assert holder.ask(Move(4.0)).tolist() == (14 * _X.sum(axis=0)).tolist()


def test_who_is_slow_with_all_others_is_waited_for(client):
    """Nobody has answered yet, so there is nobody to be slower than; signs of life do."""
    with DaskTable(client, sources(1), time_limit=0.4) as table, table.opened({}) as holder:
        assert holder.ask(Pause("waited for", 1.5)) == 60
        assert table.partitions.n_rebuilt == 0


def test_a_missing_extra_is_told(client, monkeypatch):
    monkeypatch.setattr("sottovoce.cluster.dask_pool.find_spec", lambda name: None)
    for refused in (
        lambda: DaskTable(client, sources()),
        lambda: DaskTable.from_parquet(client, "x.parquet"),
        lambda: DaskTable.from_dataframe(client, None),
    ):
        with pytest.raises(ParameterError, match=r"pip install 'sottovoce\[cluster\]'"):
            refused()


def test_a_fit_on_a_data_frame_with_texts(client):
    """Labels are texts, bools and whole numbers, as pandas has them; the model is the one of pandas' own frame."""
    dd = pytest.importorskip("dask.dataframe")
    labels = {"text": np.where(_X[:, 0] > 0, "yes", "no"), "truth": _X[:, 0] > 0, "whole": (_X[:, 0] > 0) * 2}
    frame = pd.DataFrame(_X / 9.0, columns=["a", "b", "c"]).assign(**labels)
    given = {"epsilon": 1.0, "delta": 1e-4, "data_norm": 2.0, "random_state": 0, "solver": "scd"}
    for name, classes in (("text", ["no", "yes"]), ("truth", [False, True]), ("whole", [0, 2])):
        model = sv.DPLinearSVC(classes=classes, **given)
        expected = clone(model).fit(frame[["a", "b", "c"]].astype("float32"), frame[name])
        split = dd.from_pandas(frame, npartitions=3)
        with DaskTable.from_dataframe(client, split, features=["a", "b", "c"], target=name) as table:
            fitted = clone(model).fit(table)
        np.testing.assert_array_equal(fitted.coef_, expected.coef_)
        assert fitted.classes_.tolist() == expected.classes_.tolist()
        assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
