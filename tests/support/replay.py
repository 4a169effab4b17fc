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
itself (its law is the matter of statistical audits) and what never enters a mechanism, such as run time. Noise that is
drawn past the mechanisms is noted and is a fault, so that a new mechanism cannot go unseen. Functions are replaced for
the whole process: run nothing else beside it.

References
----------
.. [1] Re:cord-play. arXiv:2602.17454: the idea, and what it found in other libraries.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from randomgen import AESCounter

from sottovoce.central.data.operation import RowSum
from sottovoce.central.sums import samples
from sottovoce.central.sums.passes import Slopes
from sottovoce.exceptions import AuditError
from sottovoce.papers.dp_scd import kernels
from sottovoce.privacy.events import Event, GaussianEvent, PoissonSampledEvent, compose
from sottovoce.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.coordinator.parties import InProcessParties, handled

FACTORS: Final = (0.0, 1.0, 30.0)  # of the noise of a release; at 0 a selection takes the best, above 1 any candidate
_ONE_AT_A_TIME: Final = threading.Lock()


@dataclass(frozen=True)
class Release:
    """One use of a mechanism: what went in (whole ticks, scores of all candidates, true labels), and what came out."""

    mechanism: Any
    exact: Any
    released: Any

    def distance(self, exact: Any) -> float:
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
    rows: Any


@dataclass
class Tape:
    """What happened in a run, in order: the key of its coins, and the calls that drew noise past the mechanisms."""

    seed: int
    entries: list[Release | Sample] = field(default_factory=list)
    draws: list[str] = field(default_factory=list)

    @property
    def releases(self) -> list[Release]:
        """All uses of a mechanism."""
        return [entry for entry in self.entries if isinstance(entry, Release)]

    @property
    def event(self) -> Event:
        """What the mechanisms that ran cost together; a release that follows a Poisson sample is one of a sample."""
        events: list[Event] = []
        rate = 1.0
        for entry in self.entries:
            if isinstance(entry, Sample):
                rate = entry.rate
                continue
            event = entry.mechanism.event
            sampled = rate < 1.0 and isinstance(event, GaussianEvent)
            events.append(PoissonSampledEvent(rate, event) if sampled else event)
            rate = 1.0
        return compose(*events)


class Recorder:
    """Takes what honest mechanisms release, with their noise scaled, and writes it down."""

    def __init__(self, tape: Tape, factors: Sequence[float] = FACTORS, sampled: Sequence[int] = ()) -> None:
        self.tape, self.is_over = tape, False
        self._factors, self._sampled = factors, np.asarray(sampled, np.int64)
        self._chance = np.random.default_rng(tape.seed)
        self._streams, self._inside = 0, 0

    def release(self, mechanism: Any, exact: Any, honest: Callable[[], Any]) -> Any:
        """Return what leaves a mechanism."""
        released = self.honestly(honest)
        factor = float(self._chance.choice(self._factors))
        if factor == 1.0:
            pass
        elif isinstance(mechanism, ExponentialMechanism):
            released = int(exact.argmax()) if factor == 0.0 else int(self._chance.integers(len(exact)))
        elif isinstance(mechanism, RandomizedResponse):
            released = exact.copy() if factor == 0.0 else self._chance.choice([-1.0, 1.0], size=exact.shape)
        else:
            value = exact.astype(np.float64) * mechanism.tick
            released = value + factor * (released - value)
        self.tape.entries.append(Release(mechanism, exact.copy(), np.copy(released)))
        return released

    def sample(self, n: int, rate: float, honest: Callable[[], Any]) -> Any:
        """Return the rows of a Poisson sample; some rows are in every one."""
        rows = np.union1d(honest(), self._sampled[self._sampled < n]).astype(np.int64)
        self.tape.entries.append(Sample(n, rate, rows))
        return rows.copy()

    def contributes(self, rows: Any) -> Any:
        """Return which rows of a batch contribute."""
        return np.ones(len(rows), np.bool_)

    def honestly(self, release: Callable[[], Any]) -> Any:
        """Return what a mechanism gives out; what it draws itself is no draw past it."""
        self._inside += 1
        try:
            return release()
        finally:
            self._inside -= 1

    def bits(self, purpose: Purpose) -> AESCounter:
        """Return the bits of the next stream: the same in a run and in its replay."""
        self._streams += 1
        return AESCounter(np.random.SeedSequence([self.tape.seed, self._streams, purpose.value]))

    def draw(self, method: str) -> None:
        """Note a call of a stream for noise, unless a mechanism makes it."""
        if not self._inside:
            self.tape.draws.append(method)


class Player(Recorder):
    """Gives out what is on a tape, and compares.

    ``absent``: the row that the neighbour lacks, if it is another than the last: samples are replayed without it.
    ``left_out``: a row that keeps its place and contributes nothing, for solvers with batches of fixed size: their
    neighbour for zero-out adjacency. Elsewhere a neighbour for zero-out lacks the row, and is told the public number.
    ``distances``: of each release, how far its exact value is from the one on the tape, over what is allowed.
    ``fault``: the first difference in the control flow, in words; empty where there is none.
    """

    def __init__(self, tape: Tape, absent: int | None = None, left_out: int | None = None) -> None:
        super().__init__(tape)
        self._absent, self._left_out, self._at = absent, left_out, 0
        self.distances: list[float] = []
        self.fault = ""

    def release(self, mechanism: Any, exact: Any, honest: Callable[[], Any]) -> Any:
        """Return what is on the tape, if this is the same release of a value of the same size."""
        if isinstance(mechanism, ExponentialMechanism):
            self.honestly(honest)  # for what it brings up to date in the scores
        entry = self._next(Release, f"a use of {mechanism}")
        if entry.mechanism != mechanism or entry.exact.shape != exact.shape:
            self._differs(f"{mechanism} on {exact.shape} where the tape has {entry.mechanism} on {entry.exact.shape}")
        self.distances.append(entry.distance(exact))
        return entry.released.copy() if entry.released.ndim else entry.released.item()

    def sample(self, n: int, rate: float, honest: Callable[[], Any]) -> Any:
        """Return the sample of the tape, as places of the rows that there are."""
        entry = self._next(Sample, "a Poisson sample")
        if entry.rate == rate >= 1.0:
            return np.arange(n, dtype=np.int64)
        if entry.rate != rate or entry.n_rows - n not in (0, 1):
            self._differs(f"a sample of {n} rows at rate {rate!r} where the tape has {entry.n_rows}, {entry.rate!r}")
        if entry.n_rows == n:
            return entry.rows.copy()
        absent = n if self._absent is None else self._absent
        rows = entry.rows[entry.rows != absent]
        return np.where(rows > absent, rows - 1, rows)

    def contributes(self, rows: Any) -> Any:
        return np.asarray(rows != self._left_out)

    def end(self) -> None:
        """Find out whether there is more on the tape."""
        left = len(self.tape.entries) - self._at
        if left and not self.fault:
            self.fault = f"{left} of {len(self.tape.entries)} entries of the tape were not asked for"

    def _next(self, kind: type[Any], what: str) -> Any:
        if self._at >= len(self.tape.entries):
            self._differs(f"{what} beyond the end of the tape")
        entry = self.tape.entries[self._at]
        if not isinstance(entry, kind):
            self._differs(f"{what} where the tape has a {type(entry).__name__}")
        self._at += 1
        return entry

    def _differs(self, words: str) -> None:
        self.fault = self.fault or f"entry {self._at}: {words}"
        raise AuditError(f"the control flow depends on the data: {self.fault}.")


@contextmanager
def recording(*, noise: Sequence[float] = FACTORS, seed: int = 0, sampled: Sequence[int] = ()) -> Iterator[Tape]:
    """Note every release inside the ``with`` block.

    ``noise``: what the noise of a release is multiplied by, one of these at random; (1.0,) is honest.
    ``seed``: of all coins inside the block, whatever ``random_state`` says.
    ``sampled``: rows that are in every Poisson sample.
    """
    with _in_place(Recorder(Tape(seed), noise, sampled)) as recorder:
        yield recorder.tape


@contextmanager
def replaying(tape: Tape, **facts: Any) -> Iterator[Player]:
    """Run beside a tape: the same coins and released values, other exact values; ``facts`` are those of a `Player`.

    Inside the block an AuditError says where the control flow differs: there is nothing to replay then.
    """
    with _in_place(Player(tape, **facts)) as player:
        yield player
    player.end()


@dataclass(frozen=True)
class GreyBox:
    """What a replay found.

    ``fault``: how control flow or results differ, or that noise went past the mechanisms; empty where nothing did.
    ``refusal``: with what both tables were refused, if they were; ``shown`` is what the computation returned if not.
    ``distances``: of the exact values of each release, over what the mechanism allows.
    """

    fault: str
    refusal: str
    shown: Any
    tape: Tape
    distances: list[float]

    @property
    def n_releases(self) -> int:
        return len(self.tape.releases)

    @property
    def largest(self) -> float:
        """The largest distance; 0 without a release."""
        return max(self.distances, default=0.0)

    @property
    def holds(self) -> bool:
        """Whether nothing was found that a guarantee would not allow."""
        return not self.fault and self.largest <= 1.0


def grey_box(
    run: Callable[..., Any], table: tuple[Any, ...], neighbour: tuple[Any, ...], *, noise: Sequence[float] = FACTORS,
    seed: int = 0, sampled: Sequence[int] = (), **facts: Any,
) -> GreyBox:  # fmt: skip
    """Run on a table, replay on a neighbour, and compare.

    ``run``: takes a table and returns all that it shows: a vector, a number, a string, or a (nested) sequence or dict
    of such. What it shows must be a function of what is released. The rest is as in `recording` and `replaying`.

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
    past = list(tape.draws)
    with replaying(tape, **facts) as player:
        again, second = _outcome(run, neighbour)
    fault = player.fault
    if not fault and refusal != second:
        fault = f"one table ends with {refusal or 'a result'!r}, its neighbour with {second or 'a result'!r}"
    if not fault and past:
        fault = f"noise that went past the mechanisms: {', '.join(past)}"
    if not fault and not refusal:
        fault = _difference(shown, again)
    return GreyBox(fault, refusal, shown, tape, player.distances)


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


@contextmanager
def _in_place(tap: Any) -> Iterator[Any]:
    """Put a tap in the place of every function through which noise goes."""
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        raise AuditError("another recording or replay is under way in this process: it must end first.")
    try:
        with ExitStack() as stack:
            for owner, name, function in list(_replacements(tap)):
                stack.callback(setattr, owner, name, vars(owner)[name])
                setattr(owner, name, function)
            yield tap
    finally:
        tap.is_over = True
        _ONE_AT_A_TIME.release()


def _replacements(tap: Recorder) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield where noise goes through: owner, name, and what stands in its place."""
    poisson = samples.poisson_sample
    one_batch, in_sequence = kernels.batch_pass, kernels.sequential_batch

    def through(kind: type[Any], name: str) -> tuple[type[Any], str, Callable[..., Any]]:
        honest = vars(kind)[name]

        def released(self: Any, exact: Any, noise: Any) -> Any:
            value = np.asarray(exact, np.float64) if kind is RandomizedResponse else exact
            return tap.release(self, value, lambda: honest(self, exact, noise)[0]), self.event

        return kind, name, released

    def stream(self: Streams, purpose: Purpose) -> np.random.Generator:
        if purpose not in self._streams:
            self._streams[purpose] = _Watched(tap, purpose)
        return self._streams[purpose]

    def batch_pass(*given: Any) -> None:
        """With the rows of the batch that contribute."""
        *before, batch, lo, hi, total = given
        rows = batch[lo:hi][tap.contributes(batch[lo:hi])]
        one_batch(*before, rows, 0, len(rows), total)

    def sequential_batch(*given: Any) -> None:
        """With the rows of the batch that contribute; the others do not move."""
        *before, batch, moves, total = given
        there = tap.contributes(batch)
        made = np.zeros(int(there.sum()), moves.dtype)
        in_sequence(*before, batch[there], made, total)
        moves[there] = made

    def one_after_another(self: InProcessParties, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Let the parties answer in order: a tape has one order."""
        return {name: handled(self.parties[name], raw) for name, raw in requests.items()}

    yield Slopes, "descend", RowSum.descend  # step by step, where each release is by itself
    for kind in (GridGaussian, DiscreteLaplace, RandomizedResponse):
        yield through(kind, "release")
    yield through(ExponentialMechanism, "select")
    yield Streams, "generator", stream
    yield samples, "poisson_sample", lambda n, rate, coins: tap.sample(n, rate, lambda: poisson(n, rate, coins))
    yield kernels, "batch_pass", batch_pass
    yield kernels, "sequential_batch", sequential_batch
    yield InProcessParties, "_send", one_after_another


class _Watched(np.random.Generator):
    """A stream of a run under audit: it says what is drawn from it as noise, and gives nothing once the audit is over.

    Its coins follow from the seed of the tape. An object that was made in a run and lives on must not draw from it.
    """

    def __init__(self, tap: Recorder, purpose: Purpose) -> None:
        super().__init__(tap.bits(purpose))
        self._tap, self._is_noise = tap, purpose is Purpose.NOISE

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found
        tap: Recorder = super().__getattribute__("_tap")
        if tap.is_over:
            raise AuditError("this stream of random numbers belongs to an audit that is over: make its owner anew.")
        if super().__getattribute__("_is_noise"):
            tap.draw(name)
        return found
