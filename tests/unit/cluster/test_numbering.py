"""Each partition counts once in each sum, whatever happens to workers and to answers."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.central.data.operation import Effect
from sottovoce.central.data.part import Part
from sottovoce.central.parallel import team
from sottovoce.cluster.holder import ClusterHolder
from sottovoce.cluster.keeper import Call, Keeper
from sottovoce.cluster.partitions import Partitions
from sottovoce.exceptions import ClusterError, DataError
from support.counting import Begin, CountRows, FirstRows, Move, Pause, Refuse
from support.parts_pool import FATES, PartsPool
from support.pooled_table import inline

_X = np.random.default_rng(0).integers(-9, 10, (60, 3)).astype(np.float64)


def held(pool: PartsPool, cuts: list[int], **options: float) -> ClusterHolder:
    return ClusterHolder(Partitions(pool, inline(_X, None, cuts), **options))


OPERATIONS = [Begin(1.0), *map(Move, (3.0, 5.0, 8.0)), CountRows(), Move(2.0), Begin(4.0), CountRows(), Move(7.0)]


@pytest.fixture(scope="module")
def truth() -> list[object]:
    """The answers of one array in this process."""
    with team(1) as threads:
        local = Part(_X, threads)
        return [np.asarray(local.ask(operation)).tolist() for operation in OPERATIONS]


def answers_of(holder: ClusterHolder, first: int = 0, last: int | None = None) -> list[object]:
    return [np.asarray(holder.ask(operation)).tolist() for operation in OPERATIONS[first:last]]


@settings(deadline=None, max_examples=60)
@given(
    n_workers=st.integers(1, 4),
    cuts=st.lists(st.integers(1, 59), unique=True, max_size=6).map(sorted),
    kills=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(FATES[1:])), max_size=12),
)
def test_same_answers_whatever_is_lost(
    n_workers: int, cuts: list[int], kills: list[tuple[int, str]], truth: list[object]
) -> None:
    """Workers die before and after they do their work; answers get lost, come twice, come late."""
    at, calls = dict(kills), iter(range(10_000))
    pool = PartsPool(n_workers, lambda keeper, call: at.get(next(calls), "done"))
    holder = held(pool, cuts, max_rebuilds=50)
    seen = []
    for operation in OPERATIONS:
        seen.append(np.asarray(holder.ask(operation)).tolist())
        for keeper, call in pool.late:  # a hung worker goes on: nobody listens
            getattr(keeper, call.method)(*call.arguments)
        pool.late.clear()
    assert seen == truth
    assert holder.ask(FirstRows()) == [0, *cuts]


def test_a_partition_does_each_number_once(truth: list[object]) -> None:
    """The next one it does, the last one it gives again, as it was; of all others none, whoever asks for which rows."""
    keeper, seen = Keeper(1), list[object]()
    keeper.load(dict(enumerate(inline(_X, None, [20]))))
    keeper.replay("s", 0, (), {0: 0, 1: 20})
    for number, operation in enumerate(OPERATIONS):
        others = product("st", range(len(OPERATIONS)), [(0, 1), (0,), (1,)])
        for asked in {call for call in others if call[:2] != ("s", number)} - {("s", number - 1, (0, 1))}:
            with pytest.raises(RuntimeError, match="is out of order"):
                keeper.do(*asked[:2], operation, asked[2])
        first = keeper.do("s", number, operation, (0, 1))
        assert keeper.do("s", number, operation, (0, 1)) is keeper.do("s", number, operation, (0, 1)) is first
        seen.append(np.asarray(first.value[0]).tolist())
    assert seen == truth


def test_what_is_delivered_twice_at_once_is_done_once() -> None:
    """An engine may run two calls of one keeper beside one another."""
    keeper = Keeper(1)
    keeper.load(dict(enumerate(inline(_X, None, []))))
    keeper.replay("s", 0, (), {0: 0})
    with ThreadPoolExecutor(2) as calls:
        first, second = (calls.submit(keeper.do, "s", 0, Pause("twice"), (0,)) for _ in range(2))
        time.sleep(0.2)  # the second one comes while the first one is under way
        Pause.go.set()
    assert first.result() is second.result() and first.result().value == {0: len(_X)}


def test_partitions_of_a_lost_worker_are_rebuilt_elsewhere(truth: list[object]) -> None:
    """It dies in the middle; the others read its partitions, and repeat what changed something."""
    pool = PartsPool(3, restart=False)
    holder = held(pool, [10, 20, 30, 40, 50])
    seen = answers_of(holder, 0, 3)
    pool.kill("worker-1")
    assert seen + answers_of(holder, 3) == truth
    assert holder.partitions.n_rebuilt == 2
    assert holder.partitions.n_workers == 2
    replays = [call for _, call in pool.calls if call.method == "replay" and call.arguments[1] > 0]
    assert [[op.effect for op in call.arguments[2]] for call in replays] == [[Effect.FIRST] + 2 * [Effect.STEP]] * 2


def test_answers_are_merged_in_the_order_of_rows() -> None:
    """Also when the partitions of a worker do not lie one after another any more."""
    pool = PartsPool(3, restart=False)
    holder = held(pool, [10, 20, 30, 40, 50])
    for _ in range(3):
        assert holder.ask(FirstRows()) == [0, 10, 20, 30, 40, 50]
        pool.kill("worker-0")
    asked = [call.arguments[3] for _, call in pool.calls if call.method == "do"]
    assert asked == [(0, 1), (2, 3), (4, 5), (2, 3), (4, 5), (0,), (1,), (0, 2, 3), (1, 4, 5)]


def test_what_is_repeated_begins_with_the_last_beginning_and_stays_as_it_was() -> None:
    """A solver may use its vector again; the history has a copy of its own."""
    step = np.array([3.0])
    holder = held(PartsPool(2), [30])
    for operation in (Begin(1.0), Move(1.0), Move(2.0), CountRows(), Begin(2.0), Move(step)):  # type: ignore[arg-type]
        holder.ask(operation)
    step[0] = 9.0
    assert holder.history == [Begin(2.0), Move(3.0)]


def test_a_partition_that_is_lost_again_and_again_ends_the_fit() -> None:
    """As when its worker runs out of memory, wherever it is."""
    fatal = PartsPool(3, lambda keeper, call: "before" if call.method == "do" else "done")
    holder = held(fatal, [30], max_rebuilds=3)
    with pytest.raises(ClusterError, match=r"partition 0 of 0 MiB was lost 4 times in a row.*more memory"):
        holder.ask(CountRows())
    loading = PartsPool(3, lambda keeper, call: "before" if call.method == "load" else "done")
    with pytest.raises(ClusterError, match=r"partition 0 of 0 MiB was lost 4 times in a row"):
        held(loading, [30], max_rebuilds=3)


def test_no_worker_is_waited_for_and_then_told() -> None:
    pool = PartsPool(1, restart=False)
    holder = held(pool, [30], wait_for_workers=0.01)
    pool.kill("worker-0")
    with pytest.raises(ClusterError, match=r"no worker of the cluster has been there for 0.01 seconds.*stays charged"):
        holder.ask(CountRows())


def test_rows_that_changed_are_refused() -> None:
    """A source that gives other rows when a partition is rebuilt."""
    given = inline(_X, None, [30])
    pool = PartsPool(2)
    holder = ClusterHolder(Partitions(pool, given))
    holder.ask(CountRows())
    given[0].raw = given[0].raw + 1.0
    pool.kill("worker-0")
    with pytest.raises(DataError, match=r"partition 0 \(30 rows from 0 on\) has other rows than .* at first"):
        holder.ask(CountRows())


def test_errors_about_data_are_those_of_the_first_row() -> None:
    """They come as they were raised, and name the row of the whole table; the answers of the others are not used."""
    holder = held(PartsPool(2), [20, 40])
    with pytest.raises(DataError, match=r"^row 25 is not wanted$"):
        holder.ask(Refuse((45, 25)))
    assert holder.ask(CountRows()) == 60


def test_partitions_stay_between_fits(truth: list[object]) -> None:
    """A second fit reads nothing, and begins afresh; what is left of the first one is refused."""
    pool = PartsPool(2)
    partitions = Partitions(pool, inline(_X, None, [15, 30]))
    first = ClusterHolder(partitions)
    assert answers_of(first) == truth
    second = ClusterHolder(partitions)
    assert answers_of(second) == truth
    assert sum(call.method == "load" for _, call in pool.calls) == 2
    keeper = next(keeper for keeper, call in pool.calls if call.method == "do")
    stale = pool.call({keeper: Call("end", (first.session,))})[keeper]
    assert second.ask(CountRows()) == 60
    assert stale.error is None  # type: ignore[union-attr]
    second.close()
    third = ClusterHolder(partitions)
    assert answers_of(third) == truth
