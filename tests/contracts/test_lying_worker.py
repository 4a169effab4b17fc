"""What a worker answers is what its rows can be, or it is refused before it is added to what others answer.

An answer beyond is a lie whatever the rows are, so the refusal says nothing of anybody's rows. What is within moves a
released sum by as much as it says: the noise on all other rows is what it was, and no sum of 64 bits wraps.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.data.labels import BadLabels
from sottovoce.central.data.lengths import BadRows
from sottovoce.central.data.operation import AtHome, Operation, RowSum
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.kernels.vectors import MOST_TICKS
from sottovoce.central.parallel import Team
from sottovoce.central.sums.histograms import CountMagnitudes
from sottovoce.central.sums.largest_eigenvalue import MAX_GRAM
from sottovoce.central.sums.passes import ClippedSlopes
from sottovoce.central.sums.whole_gram import Triangle, WholeNumbers
from sottovoce.cluster.keeper import Answer, Call
from sottovoce.exceptions import ClusterError, DataError
from sottovoce.losses import Squared
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams
from support.pairs import every_second
from support.parts_pool import PartsPool
from support.pooled_table import PooledTable

pytestmark = pytest.mark.filterwarnings("ignore::sottovoce.exceptions.PrivacyWarning")

N, ENDS = 60, (20, 45)
MOST_ROWS = 2**37  # that a plan takes
# which only rows in this process are asked: what leaves without noise; what a part makes of another question, or is
# asked in pieces, and what others are made of; solvers that visit rows out of order; and what is no table of a fit
AT_HOME = {
    "ExactTraining", "LargestLength", "WeightedPass", "Gram", "Minimiser", "SampledGradient",
    "SampledSteps", "BoundEntries", "BeginScores", "MoveAlong", "Scores", "BeginBlocks", "BlockGradient", "MoveBlock",
    "BatchMoves", "MoveDuals", "UnitDivisors", "LabelSum", "CellCounts", "ScoreSum",
}  # fmt: skip


def tables(n_columns: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Ordinary rows; the same row again and again, as long as can be; empty rows; rows far beyond every bound."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N).astype(np.float64)
    first = np.eye(n_columns)[np.zeros(N, int)]
    return {
        "ordinary": (rng.standard_normal((N, n_columns)), y),
        "the same": (first, np.full(N, 2.0)),
        "empty": (0.0 * first, 0.0 * y),
        "far": (1e300 * rng.standard_normal((N, n_columns)), y),
    }


GIVEN: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "data_norm": 1.0, "random_state": 1}
FEW: dict[str, Any] = {"solver": "scd", "solver_options": {"n_passes": 3}}
THREE: dict[str, Any] = {"classes": [0.0, 1.0, 2.0], **GIVEN}
RIDGE: dict[str, Any] = {"label_bounds": (0.0, 2.0), **GIVEN}
MODELS: dict[str, tuple[int, Callable[[], Any]]] = {
    "scd": (3, lambda: sv.DPLogisticRegression(**FEW, **THREE)),
    "weights of classes": (3, lambda: sv.DPLogisticRegression(class_weight={0.0: 1, 1.0: 2, 2.0: 3}, **FEW, **THREE)),
    "classes of the rows": (3, lambda: sv.DPLinearSVC(**FEW, **{**THREE, "classes": None})),
    "wide": (MAX_GRAM + 1, lambda: sv.DPLinearSVC(fit_intercept=False, **FEW, **THREE)),
    "norm of the rows": (3, lambda: sv.DPLinearSVC(**FEW, **{**THREE, "data_norm": "auto"})),
    "two classes": (3, lambda: sv.DPLogisticRegression(solver="newton", **{**THREE, "classes": [0.0, 1.0]})),
    "one step": (3, lambda: sv.DPLogisticRegression(solver="one-step", **{**THREE, "classes": [0.0, 1.0]})),
    "newton": (3, lambda: sv.DPLogisticRegression(solver="newton", **THREE)),
    "multinomial": (3, lambda: sv.DPLogisticRegression(
        solver="multinomial-scd", solver_options={"n_passes": 3}, **THREE
    )),
    "steps of classes": (3, lambda: sv.DPLogisticRegression(
        solver="multinomial-scd", solver_options={"steps": True}, **{**THREE, "epsilon": 0.01}
    )),
    "ridge in passes": (3, lambda: sv.DPRidge(**FEW, **RIDGE)),
    "refinement": (3, lambda: sv.DPRidge(solver="refinement", **RIDGE)),
    "constant": (3, lambda: sv.DPRidge(solver="constant", **RIDGE)),
    "steps of numbers": (3, lambda: sv.DPRidge(solver="momentum", **RIDGE)),
    "adassp": (3, lambda: sv.DPRidge(solver="adassp", **RIDGE)),
    "weights of rows": (3, lambda: sv.DPLinearSVC(max_sample_weight=2.0, **FEW, **THREE)),
    "steps of persons": (3, lambda: stepped(sv.DPScaler(), max_rows_per_group=2)),
    "steps": (3, lambda: stepped(sv.DPScaler(bounds=(-2, 2)))),
}  # fmt: skip


BESIDE: dict[str, dict[str, Any]] = {
    "weights of rows": {"sample_weight": np.linspace(0.0, 3.0, N)}, "steps of persons": {"groups": np.arange(N) % 25}
}  # fmt: skip


def stepped(scaler: Any, **given: Any) -> Any:
    steps = [("scale", scaler), ("model", sv.DPLogisticRegression(solver="newton", classes=[0.0, 1.0, 2.0]))]
    return sv.DPPipeline(steps, epsilon=2.0, delta=1e-5, random_state=1, **given)


class Asked(PartsPool):
    """Keeps what was asked and answered, and lets a worker lie about one operation.

    Parameters
    ----------
    lie : callable or None
        Makes what is said from the true answer of worker-1, to the call that is counted by ``method`` and ``at``.
    """

    def __init__(self, lie: Callable[[Any], Any] | None = None, method: str = "do", at: int = 0) -> None:
        super().__init__(2)
        self._lie, self._method, self._at = lie, method, at
        self.answers: list[tuple[Operation[Any], tuple[int, ...], Any]] = []

    def _one(self, name: str, call: Call) -> Any:
        answer: Any = super()._one(name, call)
        if call.method == "do":
            self.answers.append((call.arguments[2], call.arguments[3], answer.value))
        if self._lie is None or call.method != self._method or self.worker_of(name) != "worker-1":
            return answer
        self._at -= 1
        return self._lie(answer) if self._at == -1 else answer


def fitted(name: str, pool: Asked, table: str = "ordinary") -> Any:
    n_columns, make = MODELS[name]
    X, y = tables(n_columns)[table]
    y = np.minimum(y, 1.0) if name in ("two classes", "one step") else y
    return make().fit(PooledTable(pool, X, y, ENDS), **BESIDE.get(name, {}))


def n_rows_of(places: tuple[int, ...]) -> int:
    edges = (0, *ENDS, N)
    return sum(edges[place + 1] - edges[place] for place in places)


class Columns:
    """As many as a question is about."""

    def __init__(self, operation: Any, value: Any) -> None:
        self.n_weights = 0
        if isinstance(value, Triangle):
            self.n_weights = value.width - (operation.label is not None)
        elif isinstance(operation, CountMagnitudes):
            self.n_weights = value.size // len(operation.blank())
        elif isinstance(value, np.ndarray) and value.ndim:
            self.n_weights = value.shape[-1]


Case = tuple[str, Operation[Any], int, Any, Columns]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Every true answer of a worker in fits of all solvers on all tables: question, number of rows, answer."""
    found = list[Case]()
    for name, (n_columns, _) in MODELS.items():
        for table in tables(n_columns):
            pool = Asked()
            try:
                fitted(name, pool, table)
            except DataError as error:  # one class only
                assert "has one class only" in str(error)
            for operation, places, value in pool.answers:
                for told in value.values():
                    found.append((f"{name}, {table}", operation, n_rows_of(places), told, Columns(operation, told)))
    return found


def kinds(base: type = Operation) -> Iterator[type]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("sottovoce."):
            if not getattr(kind, "__abstractmethods__", None):
                yield kind
            yield from kinds(kind)


def test_every_operation_of_a_cluster_is_among_the_cases(cases: list[Case]) -> None:
    assert {type(operation).__name__ for _, operation, *_ in cases} == {kind.__name__ for kind in kinds()} - AT_HOME


def test_true_answers_are_allowed_also_of_extreme_rows(cases: list[Case]) -> None:
    assert len(cases) > 1000
    for name, operation, n_rows, value, columns in cases:
        assert operation.allows(value, n_rows, columns), (name, operation, value)


def test_rows_reach_the_bound_and_one_tick_more_is_refused() -> None:
    """A term of 2^24 ticks, again and again: what a kernel cuts an entry to."""
    X = np.eye(3)[np.zeros(N, int)]
    part = Part(X, Team(1, None))
    part.memory.set(TARGET, np.full(N, 5.0))
    slopes = ClippedSlopes(Squared(), np.zeros(3), 1.0, 2.0**24)
    total = slopes.on(part)
    assert total.tolist() == [-N * MOST_TICKS, 0, 0]
    assert slopes.allows(total, N, part) and slopes.allows(-total, N, part)
    for beyond in ([-1, 0, 0], [0, 0, N * MOST_TICKS + 1]):
        assert not slopes.allows(total + np.array(beyond), N, part)
    for other in (total.astype(np.int32), total[None], total.tolist()):
        assert not slopes.allows(other, N, part)
    assert not slopes.allows(total, N - 1, part)


def test_counts_and_products_reach_the_bound(cases: list[Case]) -> None:
    """Some of the true answers cannot be of one row less: of counts, of bins and of X'X."""
    tight = {
        type(operation).__name__
        for _, operation, n_rows, value, columns in cases
        if not operation.allows(value, n_rows - 1, columns)
    }
    assert tight >= {"BinnedMargins", "CountBelow", "CountDistances", "CountLengths", "CountWithin", "ReleasedGram"}


NOTHING_LIKE_IT = (
    0, 1, -1, 2**63, 0.5, math.nan, math.inf, True, "", "a", b"", [], [0], {}, (), object, np.int64(3), np.array(3),
    np.zeros(0, np.int64), np.zeros((0, 0)), np.array([None]), BadRows(10**9, "a"), BadRows(-1, "a"),
    BadRows(True, "a"), BadRows(1, 3),  # type: ignore[arg-type]
)  # fmt: skip


def lies(operation: Operation[Any], value: Any, n_rows: int) -> Iterator[Any]:
    """Answers that no rows have: other kinds of things, other types and shapes, extremes, one beyond the bound."""
    if isinstance(value, Triangle):
        for high in whole_lies(value.high, [2**62, n_rows * 2**30, -n_rows * 2**30]):
            yield Triangle(high, value.low)
        for low in whole_lies(value.low, [-1, 2**32]):
            yield Triangle(value.high, low)
        yield from (WholeNumbers(value.high, value.low), (value.high, value.low))
        return
    if isinstance(value, np.ndarray) and type(operation).__name__ != "FindClasses":
        counted: int = getattr(operation, "times", 0) or getattr(operation, "counted", 0)
        most, signed = n_rows * (counted or MOST_TICKS), not counted
        yield from whole_lies(value, [most + 1, -most - 1 if signed else -1])
        return
    yield from NOTHING_LIKE_IT
    if isinstance(value, BadLabels):
        yield None
        yield from (value._replace(number=number) for number in (-1, n_rows + 1, True, 0.5, None))
        yield value._replace(kind=None)  # type: ignore[arg-type]


def whole_lies(value: np.ndarray, beyond: list[int]) -> Iterator[Any]:
    for at, number in itertools.product(range(min(value.size, 3)), [2**63 - 1, -(2**63), *beyond]):
        lie = value.copy()
        lie.flat[-1 - at] = number
        yield lie
    for number in (np.nan, np.inf, -np.inf, 0.0):
        yield np.full(value.shape, number)
    for dtype in (np.int32, np.uint64, np.float32, np.complex128, np.bool_, object, "M8[s]", ">i8"):
        yield value.astype(dtype) if dtype != "M8[s]" else np.zeros(value.shape, dtype)
    yield from (value[None], value[..., :-1], np.concatenate([value, value]), value.ravel()[0], np.int64(0))
    yield from (value.tolist(), np.ma.masked_array(value), None, "", {}, object)


def test_what_no_rows_have_is_not_allowed(cases: list[Case]) -> None:
    """One true answer of each kind of question and shape, and everything that it is not."""
    seen, tried = set[Any](), 0
    for name, operation, n_rows, value, columns in cases:
        kind = (name.split(",")[0], type(operation), value is None)
        if kind in seen or type(operation).__name__ == "FindClasses":
            continue
        seen.add(kind)
        for lie in lies(operation, value, n_rows):
            tried += 1
            assert not operation.allows(lie, n_rows, columns), (name, operation, lie)
    assert tried > 1000


def test_whoever_answers_what_is_asked_at_home_alone_lies() -> None:
    for kind, lie in itertools.product(kinds(AtHome), NOTHING_LIKE_IT):
        assert not kind.allows(None, lie, N, None)  # type: ignore[attr-defined]


# what a worker does with a true answer
DISHONEST: dict[str, Callable[[Any], Any]] = {
    "another session": lambda a: replace(a, session="s"),
    "another number": lambda a: replace(a, number=a.number + 1),
    "other partitions": lambda a: replace(a, places=(0, 1, 2)),
    "no runs": lambda a: replace(a, value={}),
    "a run more": lambda a: replace(a, value={**a.value, 0: next(iter(a.value.values()))}),
    "no dict": lambda a: replace(a, value=list(a.value.values())),
    "text": lambda a: replace(a, value=dict.fromkeys(a.value, "text")),
    "extreme": lambda a: replace(a, value={first: extreme(value) for first, value in a.value.items()}),
    "an error that is none": lambda a: replace(a, error="text"),
    "an error elsewhere": lambda a: replace(a, error=ValueError(), error_at="text"),
    "nothing": lambda a: None,
    "a dict": lambda a: vars(a),
}


def extreme(value: Any) -> Any:
    if isinstance(value, Triangle):
        return Triangle(np.full_like(value.high, 2**63 - 1), value.low)
    return np.full_like(value, 2**63 - 1) if isinstance(value, np.ndarray) and value.dtype == np.int64 else "text"


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["ends", "every"])
@pytest.mark.parametrize("name", every_second(name for name in MODELS if name != "wide"))
def test_a_lie_ends_the_fit_before_anything_is_made_of_it(
    name: str, every: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every operation in every way, or at the ends of each kind; nothing is released or asked afterwards.

    Most ways are seen before anybody looks at what was asked, so at the ends they take turns.
    """
    honest = Asked()
    fitted(name, honest)
    kinds = [type(operation) for operation, *_ in honest.answers[::2]]  # of both workers
    ends = {kinds.index(kind) for kind in kinds} | {len(kinds) - 1 - kinds[::-1].index(kind) for kind in kinds}
    ends |= set(range(0, len(kinds), 1 + len(kinds) // 25)) if every else set()
    drawn, release = [0], GridGaussian.release

    def counted(self: Any, ticks: Any, noise: Any) -> Any:
        drawn[0] += 1
        return release(self, ticks, noise)

    monkeypatch.setattr(GridGaussian, "release", counted)
    turns, n_released = itertools.cycle(DISHONEST), list[int]()
    ways = {at: DISHONEST if every else {"extreme", *itertools.islice(turns, 3)} for at in sorted(ends)}
    assert set[str]().union(*ways.values()) == set(DISHONEST)
    for at, way in [(at, way) for at, some in ways.items() for way in some]:
        pool, drawn[0] = Asked(DISHONEST[way], at=at), 0
        with pytest.raises(ClusterError, match=r"^the worker worker-1 answered .*None of it was used") as caught:
            fitted(name, pool)
        assert "text" not in str(caught.value), "an answer is never shown"
        assert len(pool.answers) == 2 * (at + 1)  # both workers were asked, and nobody any more
        n_released.append(drawn[0])
    assert n_released == sorted(n_released) and n_released[-1] < len(honest.answers)


@pytest.mark.parametrize("digest", [None, 3, b"text", True, {}, ["text"]], ids=repr)
def test_of_the_rows_that_it_reads_a_worker_tells_a_digest_alone(digest: object) -> None:
    """Sizes are not asked: the driver knows them."""

    def lie(answer: Answer) -> Answer:
        return replace(answer, value=dict.fromkeys(answer.value, digest))

    with pytest.raises(ClusterError, match="the worker worker-1 answered with no digest of 25 rows from 20 on"):
        fitted("scd", Asked(lie, "load"))


@pytest.mark.parametrize("method", ["load", "replay", "do"])
def test_what_is_no_answer_is_refused(method: str) -> None:
    for lie in (None, 3, "text", {}, ValueError("text"), Answer, object()):
        with pytest.raises(ClusterError, match=f"the worker worker-1 answered '{method}' with no answer of a keeper"):
            fitted("scd", Asked(lambda _, lie=lie: lie, method))  # type: ignore[misc]


@pytest.mark.parametrize("sizes", [(MOST_ROWS,), (MOST_ROWS - 1, 1), (2**36, 2**36), (2**35,) * 4], ids=str)
def test_no_sum_of_allowed_answers_wraps(cases: list[Case], sizes: tuple[int, ...]) -> None:
    """The largest answers that parts of 2^37 rows may give: their sum is that of the integers, and not beyond 2^61."""
    seen = set[type]()
    for _, operation, _, value, columns in cases:
        if not isinstance(operation, RowSum) or type(operation) in seen:
            continue
        seen.add(type(operation))
        for sign in (1,) if operation.counted else (1, -1):
            answers = list[Any]()
            for n_rows in sizes:
                most = n_rows * (operation.counted or MOST_TICKS)
                largest = np.zeros(value.shape, np.int64)
                largest.flat[0 if operation.counted else slice(None)] = sign * most
                assert operation.allows(largest, n_rows, columns)
                answers.append(largest)
            total = operation.merged(answers)
            exact = sum(int(answer.flat[0]) for answer in answers)
            assert int(total.flat[0]) == exact and abs(exact) <= 2**61
    assert len(seen) >= 7


def test_what_is_allowed_moves_a_release_by_itself_and_leaves_the_noise() -> None:
    """For any answer of a liar within its bound the release is that of all others with the same noise, plus the lie."""
    mechanism, rng = GridGaussian(1.0, 1.0, 2.0**-20), np.random.default_rng(0)
    n_liar = MOST_ROWS - 1000
    for seed in range(50):
        others = rng.integers(-1000 * MOST_TICKS, 1000 * MOST_TICKS, 4)
        lie = rng.choice([-1, 1], 4) * rng.integers(0, n_liar * MOST_TICKS, 4, endpoint=True)

        def released(ticks: Any, seed: int = seed) -> Any:
            # what double precision shows of it: the whole number of ticks, up to 2^53
            return mechanism.release(ticks, Streams(seed).generator(Purpose.NOISE))[0] / mechanism.tick

        moved = released(others + lie) - released(others)
        assert np.all(np.abs(moved - lie) <= np.abs(lie) * 2.0**-51)
    # without a bound a sum wraps, and its sign is an exact answer about the others
    with np.errstate(over="ignore"):
        for t, sign in ((others - 1, -1), (others + 1, 1)):
            assert np.all(np.sign(released((2**63 - 1 - t) + others)) == sign)
