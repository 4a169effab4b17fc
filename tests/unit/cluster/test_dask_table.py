"""DaskTable on a real scheduler, with workers as threads of this process; tests/cluster has processes."""

import warnings
from collections.abc import Iterator
from threading import Timer

import numpy as np
import pytest
from distributed import Client

from sottovoce.cluster import DaskTable, dask_pool
from sottovoce.cluster.dask_pool import DaskPool, check_client, is_overheard, warn_of_network
from sottovoce.exceptions import DataError, ParameterError
from support.counting import Begin, CountRows, Move, Pause, Refuse
from support.dask_workers import dask_workers
from support.faulty_sources import InlineSource
from support.pooled_table import inline

_X = np.random.default_rng(0).integers(-9, 10, (60, 3)).astype(np.float64)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers of one thread each."""
    with dask_workers(2) as client:
        yield client


def sources(n: int = 6) -> list[InlineSource]:
    return inline(_X, None, range(60 // n, 60, 60 // n))


def test_operations_on_a_table_of_workers(client):
    """Both workers hold partitions; a second fit reads nothing; rows are gone when the table is closed."""
    with DaskTable(client, sources(), list("abc")) as table:
        assert repr(table) == "DaskTable(60 rows x 3 columns, float64, 6 partitions on 2 workers, in memory)"
        assert (table.shape, table.feature_names, table.has_labels, len(table)) == ((60, 3), ("a", "b", "c"), False, 60)
        for _ in range(2):
            with table.opened() as holder:
                assert (holder.ask(Begin(1.0)), holder.ask(CountRows())) == (60, 60)
                assert holder.ask(Move(3.0)).tolist() == (5 * _X.sum(axis=0)).tolist()
                with pytest.raises(DataError, match=r"^row 45 is not wanted$"):
                    holder.ask(Refuse((45,)))
        assert sum(map(len, client.run(actors).values())) == 2
    assert repr(table).endswith("on 0 workers, in memory, closed)")
    with pytest.raises(ParameterError, match="closed: make a new one"), table.opened():
        pass


def actors(dask_worker):
    return list(dask_worker.state.actors)


def test_one_fit_at_a_time(client):
    with (
        DaskTable(client, sources(2)) as table,
        table.opened() as holder,
        pytest.raises(ParameterError, match="in use by another fit"),
        table.opened(),
    ):
        pass
    assert holder.number == 0


def test_what_is_no_table(client):
    with pytest.raises(ParameterError, match="at least one partition"):
        DaskTable(client, [])
    mixed = [InlineSource(_X, None), InlineSource(_X[:, :2], None, first_row=60)]
    with pytest.raises(DataError, match=r"partition 1 has 2 columns of float64, without labels, and partition 0 has 3"):
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


PLACES = ("127.0.0.1:1", "[::1]:1", "localhost:1", "10.0.0.1:1", "scheduler:1", "[fe80::1]:1")


@pytest.mark.parametrize("scheme", ["tcp", "ws", "tls", "wss", "inproc"])
def test_a_network_in_clear_is_warned_of(client, monkeypatch, scheme):
    found = [is_overheard(f"{scheme}://{place}") for place in PLACES]
    assert found == [False] * 3 + [scheme in ("tcp", "ws")] * 3
    seen = {"address": f"{scheme}://127.0.0.1:1", "workers": {f"{scheme}://10.0.0.1:1": {}}}
    monkeypatch.setattr(client, "scheduler_info", lambda **_: seen)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warn_of_network(client)
    assert [str(each.message).partition(" talks")[0] for each in told] == (
        [f"{scheme}://10.0.0.1:1 of the cluster"] if scheme in ("tcp", "ws") else []
    )


def test_who_alone_does_not_answer_is_given_up(client, monkeypatch):
    """A worker lives and hangs: the other one takes its partitions, and what it says later counts for nothing."""
    monkeypatch.setattr(dask_pool, "_LOOK", 0.05)
    with DaskTable(client, sources(), time_limit=0.2) as table, table.opened() as holder:
        holder.ask(Begin(1.0))
        holder.ask(Move(3.0))
        assert holder.ask(Pause("given up")) == 60
        assert table.partitions.n_rebuilt == 3
        Pause.go.set()
        assert holder.ask(Move(4.0)).tolist() == (14 * _X.sum(axis=0)).tolist()


def test_who_is_slow_with_all_others_is_waited_for(client, monkeypatch):
    """Nobody has answered yet, so there is nobody to be slower than; signs of life do."""
    monkeypatch.setattr(dask_pool, "_LOOK", 0.05)
    with DaskTable(client, sources(1), time_limit=0.3) as table, table.opened() as holder:
        Timer(0.6, Pause.go.set).start()
        assert holder.ask(Pause("waited for")) == 60
        assert table.partitions.n_rebuilt == 0


def test_a_missing_extra_is_told(client, monkeypatch):
    monkeypatch.setattr(dask_pool, "find_spec", lambda name: None)
    for refused in (
        lambda: DaskTable(client, sources()),
        lambda: DaskTable.from_parquet(client, "x.parquet"),
    ):
        with pytest.raises(ParameterError, match=r"pip install 'sottovoce\[cluster\]'"):
            refused()
