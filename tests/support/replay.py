"""A grey-box audit: all releases of a private computation, recorded on one table and replayed on a neighbour.

Whatever depends on private rows may leave a computation in one way only: through a mechanism. So run it on a table and
note every value that goes into a mechanism, exactly as it goes in. Run it again on a neighbouring table with all coins
and all *released* values replayed: the second run sees what the first one released, as adaptive composition has it.
Then three things must hold, and each is checked without any statistics:

1. *Same control flow.* The same mechanisms with the same parameters, in the same order, on values of the same size.
2. *Sensitivity.* The exact values of a release (whole ticks, scores, labels) differ by at most what the mechanism was
   told. The largest ratio of the two says how near it comes.
3. *Nothing else gets out.* What the computation returns is equal, bit by bit: it is a function of what was released.

A computation that refuses must refuse both tables in the same words. Released values are honest, without noise, or with
much noise, by turns, so that a mechanism is also seen far from where honest runs go. What is not seen here is the noise
itself (its law is the matter of statistical audits) and what never enters a mechanism, such as run time.

All noise of this library goes through the few functions that `recording` takes the place of. Noise that is drawn past
them is noted as well (`Draw`), so that a new mechanism cannot go unseen. The functions are replaced for the whole
process: run nothing else beside it.

References
----------
.. [1] Re:cord-play. arXiv:2602.17454: the idea, and what it found in other libraries.
"""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from randomgen import AESCounter

from sottovoce._validation import number
from sottovoce.central.sums import samples
from sottovoce.central.sums.selection import SparseScores
from sottovoce.exceptions import AuditError, ParameterError
from sottovoce.papers.dp_scd import kernels
from sottovoce.privacy.events import Event, GaussianEvent, PoissonSampledEvent, compose
from sottovoce.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.coordinator.parties import InProcessParties, handled

Vector = NDArray[Any]
Additive = GridGaussian | DiscreteLaplace

_FACTORS: Final = (0.0, 1.0, 30.0)
_ONE_AT_A_TIME: Final = threading.Lock()


@dataclass(frozen=True)
class Release:
    """One use of a mechanism.

    Attributes
    ----------
    mechanism : GridGaussian, DiscreteLaplace, ExponentialMechanism or RandomizedResponse
    exact : ndarray
        Private. What went in: whole ticks, scores of all candidates, or true labels.
    released : ndarray or int
        What came out.
    """

    mechanism: GridGaussian | DiscreteLaplace | ExponentialMechanism | RandomizedResponse
    exact: Vector
    released: Any

    def distance(self, exact: Vector) -> float:
        """Return how far this value is from that of a neighbour, over what the mechanism allows."""
        if isinstance(self.mechanism, RandomizedResponse):
            return float(np.count_nonzero(exact != self.exact))  # one label, and no other
        moved = (exact - self.exact).astype(np.float64)  # whole numbers: the difference is exact
        if isinstance(self.mechanism, ExponentialMechanism):
            return float(moved.max() - moved.min()) / self.mechanism.score_range
        if isinstance(self.mechanism, DiscreteLaplace):
            return float(np.abs(moved).sum()) / self.mechanism.l1_sensitivity
        return float(np.linalg.norm(moved)) * (self.mechanism.tick / self.mechanism.l2_sensitivity)


@dataclass(frozen=True)
class Sample:
    """One Poisson sample of rows; which rows were drawn is a coin, and is replayed."""

    n_rows: int
    rate: float
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class Draw:
    """Numbers that were drawn from a stream for noise, past every mechanism."""

    method: str
    arguments: str
    numbers: Any


Entry = Release | Sample | Draw


@dataclass
class Tape:
    """What happened in a run, in order, and the key of its coins."""

    seed: int
    entries: list[Entry] = field(default_factory=list)

    @property
    def releases(self) -> tuple[Release, ...]:
        """All uses of a mechanism."""
        return tuple(entry for entry in self.entries if isinstance(entry, Release))

    @property
    def draws(self) -> tuple[Draw, ...]:
        """All noise that went past the mechanisms."""
        return tuple(entry for entry in self.entries if isinstance(entry, Draw))

    @property
    def event(self) -> Event:
        """What the mechanisms that ran cost together; a release that follows a Poisson sample is one of a sample."""
        events: list[Event] = []
        rate = 1.0
        for entry in self.entries:
            if isinstance(entry, Sample):
                rate = entry.rate
            elif isinstance(entry, Release):
                event: Event = entry.mechanism.event
                sampled = rate < 1.0 and isinstance(event, GaussianEvent)
                events.append(PoissonSampledEvent(rate, event) if sampled else event)  # type: ignore[arg-type]
                rate = 1.0
        return compose(*events)


@dataclass
class Replay:
    """A second run beside a tape.

    Attributes
    ----------
    distances : list of float
        Of each release, how far its exact value is from the one on the tape, over what the mechanism allows.
    shifts : list of float
        Of each Gaussian release, the same in standard deviations of its noise.
    fault : str
        The first difference in the control flow, in words; empty where there is none.
    """

    tape: Tape
    distances: list[float] = field(default_factory=list)
    shifts: list[float] = field(default_factory=list)
    fault: str = ""


@contextmanager
def recording(*, noise: Sequence[float] = _FACTORS, seed: int = 0, sampled: Sequence[int] = ()) -> Iterator[Tape]:
    """Note every release inside the ``with`` block.

    Parameters
    ----------
    noise : sequence of float, >= 0
        What the noise of a release is multiplied by; each release takes one of these at random. At 0 a selection takes
        the best candidate, above 1 any.
    seed : int
        Of all coins inside the block, whatever ``random_state`` says.
    sampled : sequence of int
        Rows that are in every Poisson sample.

    Yields
    ------
    Tape

    Raises
    ------
    AuditError
        If another recording or replay is under way.
    """
    factors = [number("noise", factor, at_least=0.0) for factor in noise]
    if not factors:
        raise ParameterError("noise must hold at least one factor; got none. Give (1.0,) for honest noise.")
    tape = Tape(seed)
    with _in_place(_Recorder(tape, factors, np.asarray(sampled, dtype=np.int64))):
        yield tape


@contextmanager
def replaying(tape: Tape, *, absent: int | None = None, left_out: int | None = None) -> Iterator[Replay]:
    """Run beside a tape inside the ``with`` block: the same coins and released values, other exact values.

    Parameters
    ----------
    tape : Tape
    absent : int or None
        The row that the neighbour lacks, if it is another than the last: Poisson samples are replayed without it.
    left_out : int or None
        A row that keeps its place and contributes nothing, for solvers with batches of fixed size: their neighbour for
        zero-out adjacency. Elsewhere a neighbour for zero-out lacks the row, and is told the public number of rows.

    Yields
    ------
    Replay
        Complete only after the block.

    Raises
    ------
    AuditError
        Inside the block, where the control flow differs: there is nothing to replay then. `Replay.fault` keeps it,
        should the code that runs catch the error.
    """
    player = _Player(tape, absent, left_out)
    with _in_place(player):
        yield player.replay
    if not player.replay.fault and player.at < len(tape.entries):
        left = len(tape.entries) - player.at
        player.replay.fault = f"{left} of {len(tape.entries)} entries of the tape were not asked for"


@dataclass(frozen=True)
class GreyBox:
    """What a replay found.

    Attributes
    ----------
    n_releases : int
    largest : float
        The largest distance of exact values over what the mechanism allows; 0 without a release.
    shift : float
        Length of the shifts of all Gaussian releases, in standard deviations: for mechanisms whose parts share a
        sensitivity. To be compared with the mu of the whole.
    fault : str
        How control flow or results differ; empty where they do not.
    refusal : str
        With what both tables were refused, if they were.
    shown : object
        What the computation returned; None where it was refused.
    tape : Tape
    replay : Replay
    """

    n_releases: int
    largest: float
    shift: float
    fault: str
    refusal: str
    shown: Any
    tape: Tape
    replay: Replay

    @property
    def holds(self) -> bool:
        """Whether nothing was found that a guarantee would not allow."""
        return not self.fault and self.largest <= 1.0


def grey_box(
    run: Callable[..., Any],
    table: tuple[Any, ...],
    neighbour: tuple[Any, ...],
    *,
    noise: Sequence[float] = _FACTORS,
    seed: int = 0,
    sampled: Sequence[int] = (),
    absent: int | None = None,
    left_out: int | None = None,
) -> GreyBox:
    """Run on a table, replay on a neighbour, and compare.

    Parameters
    ----------
    run : callable
        Takes a table and returns all that it shows: a vector, a number, a string, or a (nested) sequence or dict of
        such. What it shows must be a function of what is released.
    table, neighbour : tuple
        Arguments of ``run``.
    noise, seed, sampled
        See `recording`.
    absent, left_out
        See `replaying`.

    Returns
    -------
    GreyBox

    Examples
    --------
    >>> import numpy as np
    >>> import sottovoce as sv
    >>> from support.replay import grey_box
    >>> def run(X, y):
    ...     model = sv.DPLogisticRegression(
    ...         epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[-1, 1], adjacency="replace-one"
    ...     )
    ...     return model.fit(X, y).coef_
    >>> X, y = np.eye(8), np.array([-1, 1] * 4)
    >>> found = grey_box(run, (X, y), (np.vstack([X[:-1], -X[-1]]), y))
    >>> found.holds, found.n_releases > 20
    (True, True)
    """
    with recording(noise=noise, seed=seed, sampled=sampled) as tape:
        shown, refusal = _outcome(run, table)
    with replaying(tape, absent=absent, left_out=left_out) as replay:
        again, second = _outcome(run, neighbour)
    fault = replay.fault
    if not fault and refusal != second:
        fault = f"one table ends with {refusal or 'a result'!r}, its neighbour with {second or 'a result'!r}"
    if not fault and not refusal:
        fault = _difference(shown, again)
    return GreyBox(
        len(tape.releases),
        max(replay.distances, default=0.0),
        math.hypot(*replay.shifts),
        fault,
        refusal,
        shown,
        tape,
        replay,
    )


def _outcome(run: Callable[..., Any], table: tuple[Any, ...]) -> tuple[Any, str]:
    """Return what a run shows, or the error that it ends with."""
    try:
        return run(*table), ""
    except Exception as error:  # whatever it is, the neighbour must end in the same
        return None, f"{type(error).__name__}: {error}"


def _difference(one: Any, other: Any) -> str:
    """Return how two results differ, bit by bit; empty where they do not."""
    if isinstance(one, Mapping):
        return _difference([*one.keys(), *one.values()], [*other.keys(), *other.values()])
    if isinstance(one, (list, tuple)):
        if len(one) != len(other):
            return f"{len(one)} results became {len(other)}"
        return next((words for pair in zip(one, other, strict=True) if (words := _difference(*pair))), "")
    if not isinstance(one, np.ndarray) and type(one) is type(other) and one == other:
        return ""
    first, second = np.asarray(one), np.asarray(other)
    if first.dtype == object or first.shape != second.shape or first.tobytes() != second.tobytes():
        return "the results differ although every release was replayed: something went past the mechanisms"
    return ""


class _Tap(ABC):
    """Stands in the place of the functions through which noise goes."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self._streams = 0
        self._inside = 0  # a mechanism: what it draws itself is no draw past it
        self.is_over = False

    def honest(self, release: Callable[..., Any], *given: Any) -> Any:
        """Return what a mechanism gives out; what it draws itself is not noted."""
        self._inside += 1
        try:
            return release(*given)
        finally:
            self._inside -= 1

    def bits(self, purpose: Purpose) -> AESCounter:
        """Return the bits of the next stream: the same in a run and in its replay."""
        self._streams += 1
        return AESCounter(np.random.SeedSequence([self.tape.seed, self._streams, purpose.value]))

    def draw(self, method: str, arguments: str, make: Callable[[], Any]) -> Any:
        """Note numbers from a stream for noise, unless a mechanism asks for them."""
        return make() if self._inside else self.drawn(method, arguments, make)

    @abstractmethod
    def noisy(self, mechanism: Additive, ticks: NDArray[np.int64], honest: Callable[[], Vector]) -> Vector:
        """Return the released value."""

    @abstractmethod
    def selection(self, mechanism: ExponentialMechanism, scores: NDArray[np.int64], honest: Callable[[], int]) -> int:
        """Return the place of the released candidate."""

    @abstractmethod
    def response(self, mechanism: RandomizedResponse, labels: Vector, honest: Callable[[], Vector]) -> Vector:
        """Return the released labels."""

    @abstractmethod
    def sample(self, n: int, rate: float, honest: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the rows of a Poisson sample."""

    @abstractmethod
    def drawn(self, method: str, arguments: str, make: Callable[[], Any]) -> Any:
        """Return numbers that were drawn past the mechanisms."""

    def batch(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows of a batch contribute."""
        return np.ones(len(rows), np.bool_)


class _Recorder(_Tap):
    """Takes the values that honest mechanisms release, with their noise scaled, and writes them down."""

    def __init__(self, tape: Tape, factors: Sequence[float], sampled: NDArray[np.int64]) -> None:
        super().__init__(tape)
        self._factors, self._sampled = factors, sampled
        self._chance = np.random.default_rng(tape.seed)

    def _factor(self) -> float:
        return float(self._chance.choice(self._factors))

    def noisy(self, mechanism: Additive, ticks: NDArray[np.int64], honest: Callable[[], Vector]) -> Vector:
        exact, noisy, factor = ticks.astype(np.float64) * mechanism.tick, honest(), self._factor()
        released = noisy if factor == 1.0 else exact + factor * (noisy - exact)
        self.tape.entries.append(Release(mechanism, ticks.copy(), released.copy()))
        return released

    def selection(self, mechanism: ExponentialMechanism, scores: NDArray[np.int64], honest: Callable[[], int]) -> int:
        place, factor = honest(), self._factor()
        if factor == 0.0:
            place = int(scores.argmax())
        elif factor > 1.0:
            place = int(self._chance.integers(len(scores)))
        self.tape.entries.append(Release(mechanism, scores.copy(), place))
        return place

    def response(self, mechanism: RandomizedResponse, labels: Vector, honest: Callable[[], Vector]) -> Vector:
        released, factor = honest(), self._factor()
        true = np.asarray(labels, dtype=np.float64)
        if factor == 0.0:
            released = true.copy()
        elif factor > 1.0:
            released = self._chance.choice([-1.0, 1.0], size=true.shape)
        self.tape.entries.append(Release(mechanism, true.copy(), released.copy()))
        return released

    def sample(self, n: int, rate: float, honest: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        rows = np.union1d(honest(), self._sampled[self._sampled < n]).astype(np.int64)
        self.tape.entries.append(Sample(n, rate, rows))
        return rows.copy()

    def drawn(self, method: str, arguments: str, make: Callable[[], Any]) -> Any:
        numbers = make()
        self.tape.entries.append(Draw(method, arguments, np.copy(numbers)))
        return numbers


class _Player(_Tap):
    """Gives out what is on the tape, and compares."""

    def __init__(self, tape: Tape, absent: int | None, left_out: int | None) -> None:
        super().__init__(tape)
        self.replay = Replay(tape)
        self.at = 0
        self._absent, self._left_out = absent, left_out

    def _fault(self, words: str) -> AuditError:
        self.replay.fault = self.replay.fault or f"entry {self.at}: {words}"
        return AuditError(f"the control flow depends on the data: {self.replay.fault}.")

    def _next(self, kind: type[Any], what: str) -> Any:
        if self.at >= len(self.tape.entries):
            raise self._fault(f"{what} beyond the end of the tape")
        entry = self.tape.entries[self.at]
        if not isinstance(entry, kind):
            raise self._fault(f"{what} where the tape has a {type(entry).__name__}")
        self.at += 1
        return entry

    def _release(self, mechanism: Any, exact: Vector) -> Release:
        entry: Release = self._next(Release, f"a use of {mechanism}")
        if entry.mechanism != mechanism or entry.exact.shape != exact.shape:
            raise self._fault(
                f"{mechanism} on {exact.shape} where the tape has {entry.mechanism} on {entry.exact.shape}"
            )
        self.replay.distances.append(entry.distance(exact))
        return entry

    def noisy(self, mechanism: Additive, ticks: NDArray[np.int64], honest: Callable[[], Vector]) -> Vector:
        entry = self._release(mechanism, ticks)
        if isinstance(mechanism, GridGaussian):
            self.replay.shifts.append(self.replay.distances[-1] / mechanism.noise_multiplier)
        return np.array(entry.released)

    def selection(self, mechanism: ExponentialMechanism, scores: NDArray[np.int64], honest: Callable[[], int]) -> int:
        honest()  # for what it brings up to date in the scores
        return int(self._release(mechanism, scores).released)

    def response(self, mechanism: RandomizedResponse, labels: Vector, honest: Callable[[], Vector]) -> Vector:
        return np.array(self._release(mechanism, np.asarray(labels, dtype=np.float64)).released)

    def sample(self, n: int, rate: float, honest: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        entry: Sample = self._next(Sample, "a Poisson sample")
        if entry.rate == rate >= 1.0:
            return np.arange(n, dtype=np.int64)
        if entry.rate != rate or entry.n_rows - n not in (0, 1):
            raise self._fault(
                f"a sample of {n} rows at rate {rate!r} where the tape has {entry.n_rows}, {entry.rate!r}"
            )
        if entry.n_rows == n:
            return entry.rows.copy()
        absent = n if self._absent is None else self._absent
        rows = entry.rows[entry.rows != absent]
        return np.asarray(np.where(rows > absent, rows - 1, rows), dtype=np.int64)

    def drawn(self, method: str, arguments: str, make: Callable[[], Any]) -> Any:
        entry: Draw = self._next(Draw, f"a draw by {method}")
        if (entry.method, entry.arguments) != (method, arguments):
            raise self._fault(f"{method}{arguments} where the tape has {entry.method}{entry.arguments}")
        return np.copy(entry.numbers)

    def batch(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(rows != self._left_out)


@contextmanager
def _in_place(tap: _Tap) -> Iterator[None]:
    """Put a tap in the place of every function through which noise goes."""
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        raise AuditError("another recording or replay is under way in this process: it must end first.")
    try:
        with ExitStack() as stack:
            for owner, name, function in list(_replacements(tap)):
                stack.callback(setattr, owner, name, vars(owner)[name])
                setattr(owner, name, function)
            yield
    finally:
        tap.is_over = True
        _ONE_AT_A_TIME.release()


def _replacements(tap: _Tap) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield where noise goes through: owner, name, and what stands in its place."""
    select, response = ExponentialMechanism.select, RandomizedResponse.release
    sparse, poisson = SparseScores.select, samples.poisson_sample
    one_batch, in_sequence = kernels.batch_pass, kernels.sequential_batch

    def adding(honest: Callable[..., Any]) -> Callable[..., Any]:
        def released(self: Additive, ticks: NDArray[np.int64], noise: Any) -> Any:
            return tap.noisy(self, ticks, lambda: tap.honest(honest, self, ticks, noise)[0]), self.event

        return released

    def selected(self: ExponentialMechanism, scores: NDArray[np.int64], noise: Any) -> Any:
        return tap.selection(self, scores, lambda: tap.honest(select, self, scores, noise)[0]), self.event

    def selected_among_sparse(self: SparseScores, mechanism: ExponentialMechanism, noise: Any) -> tuple[int, int]:
        sums = self.sums()

        def honest() -> int:
            column, sign = tap.honest(sparse, self, mechanism, noise)
            return int(column if sign > 0 else column + len(sums))

        place = tap.selection(mechanism, np.concatenate([-sums, sums]), honest)
        return place % len(sums), 1 if place < len(sums) else -1

    def answered(self: RandomizedResponse, labels: Vector, generator: Any) -> Any:
        return tap.response(self, labels, lambda: tap.honest(response, self, labels, generator)[0]), self.event

    def stream(self: Streams, purpose: Purpose) -> np.random.Generator:
        if purpose not in self._streams:
            self._streams[purpose] = _Watched(tap, purpose)
        return self._streams[purpose]

    yield GridGaussian, "release", adding(GridGaussian.release)
    yield DiscreteLaplace, "release", adding(DiscreteLaplace.release)
    yield ExponentialMechanism, "select", selected
    yield SparseScores, "select", selected_among_sparse
    yield RandomizedResponse, "release", answered
    yield Streams, "generator", stream
    yield samples, "poisson_sample", lambda n, rate, coins: tap.sample(n, rate, lambda: poisson(n, rate, coins))
    yield kernels, "batch_pass", lambda *given: _one_batch(tap, one_batch, given)
    yield kernels, "sequential_batch", lambda *given: _in_sequence(tap, in_sequence, given)
    yield InProcessParties, "_send", _one_after_another


def _one_batch(tap: _Tap, kernel: Callable[..., None], given: tuple[Any, ...]) -> None:
    """Call `batch_pass` with the rows of the batch that contribute."""
    *before, batch, lo, hi, total = given
    rows = batch[lo:hi]
    rows = rows[tap.batch(rows)]
    kernel(*before, rows, 0, len(rows), total)


def _in_sequence(tap: _Tap, kernel: Callable[..., None], given: tuple[Any, ...]) -> None:
    """Call `sequential_batch` with the rows of the batch that contribute; the others do not move."""
    *before, batch, moves, total = given
    there = tap.batch(batch)
    made = np.zeros(int(there.sum()), moves.dtype)
    kernel(*before, batch[there], made, total)
    moves[there] = made


def _one_after_another(self: InProcessParties, requests: Mapping[str, bytes]) -> dict[str, bytes]:
    """Let the parties answer in order: a tape has one order."""
    return {name: handled(self.parties[name], raw) for name, raw in requests.items()}


class _Watched(np.random.Generator):
    """A stream of a run under audit: it says what is drawn from it as noise, and gives nothing once the audit is over.

    Its coins follow from the seed of the tape. An object that was made in a run and lives on must not draw from it.
    """

    def __init__(self, tap: _Tap, purpose: Purpose) -> None:
        super().__init__(tap.bits(purpose))
        self._tap, self._is_noise = tap, purpose is Purpose.NOISE

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found
        tap: _Tap = super().__getattribute__("_tap")
        if tap.is_over:
            raise AuditError("this stream of random numbers belongs to an audit that is over: make its owner anew.")
        if not super().__getattribute__("_is_noise"):
            return found
        return lambda *given, **named: tap.draw(name, f"{given}{named or ''}", lambda: found(*given, **named))
