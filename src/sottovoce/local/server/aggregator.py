"""Aggregator: the server, which nobody has to trust: from reports to sums, and from sums to models.

It learns nothing about a person beyond the person's report, which is private by itself; whatever it computes from
reports costs no privacy, as often as it likes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from sottovoce._files import named_errors, whole_file
from sottovoce._validation import whole_number
from sottovoce.central.parallel import team
from sottovoce.exceptions import MessageError, ParameterError
from sottovoce.local.cap import CapConstants
from sottovoce.local.fits.fitting import fit_model
from sottovoce.local.fits.kernels import fill
from sottovoce.local.fits.model import LocalModel
from sottovoce.local.fits.moments import MOST_REPORTS, Moments, Sealed
from sottovoce.local.protocol import Protocol
from sottovoce.local.wire import REPORT_BYTES, Reason, parse_many

_FORMAT: Final = Sealed(b"SVREPSUM", "aggregator")
_AT_ONCE: Final = 1 << 18  # reports parsed at a time: memory does not grow with what is given
_BLOCK_ENTRIES: Final = 1 << 18  # 2 MB of candidates a thread at a time
_LONGEST: Final = 8.25  # no coordinate of a candidate is larger
_FOLD_MIX: Final = np.uint64(0xD6E8FEB86659FD93)  # an odd number that the candidates' stream does not use


@dataclass(frozen=True)
class Health:
    """Whether the reports look like those of honest devices.

    Attributes
    ----------
    n : int
        Accepted reports.
    trace : float
        Estimate of E |z|^2, which is exactly 1 for honest devices.
    trace_z : float
        Its distance from 1 in standard errors: standard normal for honest devices.
    index_chi2 : float
        Chi-square statistic of the reported indices against the uniform law, which every honest population with random
        seeds has: candidates are exchangeable.
    index_p : float
        Probability of a statistic as large or larger.
    rejected : dict
        Refused reports by reason.
    """

    n: int
    trace: float
    trace_z: float
    index_chi2: float
    index_p: float
    rejected: dict[str, int]

    @property
    def is_plausible(self) -> bool:
        """False when honest devices would look like this less than about once in a million times.

        True proves nothing: whoever knows the protocol can send reports that pass.
        """
        return not (abs(self.trace_z) > 5.0 or self.index_p < 1e-6)


class Aggregator:
    """Adds up reports, and fits models from the sums.

    Parameters
    ----------
    protocol : Protocol
    n_folds : int, default=5
        Folds of reports, for held-out estimates; a report's fold is a hash of its seed.
    n_threads : int, optional
        By default ``SOTTOVOCE_NUM_THREADS``, else the processors of this process.

    Attributes
    ----------
    moments : Moments
        The sums.
    index_counts : ndarray of shape (K,)
        How often each index was reported.
    rejected_ : dict
        How many reports were refused, by reason: "length", "magic", "protocol", "index".

    Notes
    -----
    A report that comes twice counts twice: who collects must see to one report a person, by tokens.

    Examples
    --------
    >>> from sottovoce.local import Aggregator, Protocol, Randomizer
    >>> protocol = Protocol(epsilon=2.0, n_features=2)
    >>> device = Randomizer(protocol)
    >>> reports = [device.report([x, -x], 1 if x > 0 else -1) for x in (-0.5, 0.5) for _ in range(100)]
    >>> aggregator = Aggregator(protocol)
    >>> aggregator.add(reports)
    200
    >>> model = aggregator.fit()
    >>> model.guarantee_.epsilon
    2.0
    """

    def __init__(self, protocol: Protocol, n_folds: int = 5, *, n_threads: int | None = None) -> None:
        if not isinstance(protocol, Protocol):
            raise ParameterError(f"protocol must be a Protocol; got {type(protocol).__name__}.")
        self.protocol = protocol
        self.n_threads = None if n_threads is None else whole_number("n_threads", n_threads, at_least=1)
        self.moments = Moments(protocol.d, n_folds, protocol.id)
        self.index_counts: NDArray[np.int64] = np.zeros(protocol.K, dtype=np.int64)
        self.rejected_: dict[str, int] = {}

    @property
    def n_reports(self) -> int:
        """Number of accepted reports."""
        return self.moments.n

    @property
    def constants(self) -> CapConstants:
        """The constants of the mechanism."""
        return self.protocol.constants

    def add(self, reports: bytes | bytearray | memoryview | Iterable[bytes]) -> int:
        """Add reports, and return how many were accepted.

        Parameters
        ----------
        reports : bytes, or iterable of bytes
            One report, or any number of them one after the other without anything between; or pieces of that kind. A
            piece of an iterable that is not a whole number of reports is refused as one; bytes behind the last whole
            report of a single piece likewise.

        Raises
        ------
        ParameterError
            If ``reports`` is of another type. What is not a report is never an error: it is counted in ``rejected_``.
        """
        before = self.n_reports
        for piece in self._pieces(reports):
            seeds, indices, rejected = parse_many(piece, self.protocol)
            self._reject(rejected)
            if not len(seeds):
                continue
            add_reports(self.moments, seeds, indices, self.n_threads)
            self.index_counts += np.bincount(indices, minlength=self.protocol.K)
        return self.n_reports - before

    def merge(self, other: Aggregator) -> Self:
        """Add the reports that another aggregator has added up.

        Raises
        ------
        ParameterError
            If its protocol is another, or if it has other folds.
        """
        if not isinstance(other, Aggregator):
            raise ParameterError(f"other must be an Aggregator; got {type(other).__name__}.")
        self.moments.merge(other.moments)
        self.index_counts += other.index_counts
        self._reject(other.rejected_)
        return self

    def health(self) -> Health:
        """Return whether the reports look like those of honest devices."""
        A1, A2, _, A4 = self.constants.A
        K, n, d = self.protocol.K, self.n_reports, self.protocol.d
        trace = float(np.trace(self.moments.estimate(A1, A2).second))
        # |g|^2 is t^2 plus a chi-square of d - 1 degrees of freedom
        variance = (A4 + 6.0 * (A2 + 1.0) - 3.0) - (A2 + 1.0) ** 2 + 2.0 * (d - 1)
        chi2 = math.nan
        counted = int(self.index_counts.sum())
        if counted:
            chi2 = float(((self.index_counts - counted / K) ** 2).sum() * K / counted)
        return Health(
            n=n,
            trace=trace,
            trace_z=(trace - 1.0) * A2 * math.sqrt(n / variance),
            index_chi2=chi2,
            index_p=float(chdtrc(K - 1, chi2)) if counted else math.nan,
            rejected=dict(self.rejected_),
        )

    def fit(
        self,
        *,
        degree: int | str = "auto",
        alpha: float | None = None,
        public_rows: Any = None,
        shuffled: bool = False,
        delta: float | None = None,
    ) -> LocalModel:
        """Return a model that is fitted to the reports by least squares; any number of fits costs nothing more.

        Parameters
        ----------
        degree : {0, 1, "auto"}, default="auto"
            Degree of the gradient in the coefficients. 0 uses the first moment only, 1 the second too. "auto" takes 1,
            or 0 where the second moment is lost in noise.
        alpha : float >= 0 or None
            Penalty of least squares; None for half the noise edge.
        public_rows : array or sequence of records, optional
            Public records without labels, from the same population: they replace the second moment of the reports.
        shuffled : bool, default=False
            State in the receipt what the reports of all would cost in the central model if a trusted shuffler had mixed
            them before anybody saw them. Needs ``delta``.
        delta : float, optional

        Returns
        -------
        LocalModel

        Raises
        ------
        ParameterError
            If an argument is out of range, does not fit another, or there are no reports.
        """
        return fit_model(
            self.protocol, self.moments, degree=degree, alpha=alpha, public_rows=public_rows, shuffled=shuffled,
            delta=delta,
        )  # fmt: skip

    def to_bytes(self) -> bytes:
        """Return everything that was added up as bytes.

        The format: `sottovoce.local.fits.moments.Sealed` with the name ``SVREPSUM``; in the header ``protocol`` (its
        canonical text), ``rejected``, ``index_counts`` and ``moments`` (length of what follows); the sums as
        `Moments.to_bytes` writes them.
        """
        sums = self.moments.to_bytes()
        header = {
            "protocol": self.protocol.to_json(),
            "rejected": self.rejected_,
            "index_counts": self.index_counts.tolist(),
            "moments": len(sums),
        }
        return _FORMAT.to_bytes(header, sums)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises
        ------
        MessageError
            If the bytes are no such sums, are damaged, or of a later version.
        """
        with _FORMAT.from_bytes(data) as (fields, body):
            end = whole_number("moments", fields["moments"], at_least=0)
            protocol, moments = Protocol.from_json(fields["protocol"]), Moments.from_bytes(bytes(body[:end]))
            if (moments.identity, moments.d) != (protocol.id, protocol.d):
                raise ValueError("its header and its sums are about different protocols")
            reach = _LONGEST * moments.count[:, None]
            if (abs(moments.first) > reach).any() or (abs(moments.second) > _LONGEST * reach[:, None]).any():
                raise ValueError("its sums are larger than so many reports give")
            counts = [whole_number("index_counts", count, at_least=0) for count in fields["index_counts"]]
            if len(counts) != protocol.K or sum(counts) > moments.n:
                raise ValueError(f"it counts {len(counts)} indices of its protocol, or more of them than reports")
            if len(body) != end:
                raise ValueError("there is more in it than its sums")
            out = cls(protocol, moments.n_folds)
            out.moments, out.index_counts[:] = moments, counts
            for why, count in fields["rejected"].items():
                out._reject({Reason(why).value: whole_number(why, count, at_least=0, at_most=MOST_REPORTS)})
        return out

    def save(self, path: str | Path) -> None:
        """Write `to_bytes` to a file, whole or not at all."""
        with whole_file(path) as file:
            file.write(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote.

        Raises
        ------
        MessageError
            If it cannot be read; the message names the file.
        """
        with named_errors(path, "aggregator", MessageError):
            return cls.from_bytes(Path(path).read_bytes())

    def __repr__(self) -> str:
        return f"<Aggregator of {self.n_reports} reports to protocol {self.protocol.id.hex()}>"

    def _pieces(self, reports: Any) -> Iterator[bytes]:
        """Cut or gather what was given into pieces of at most some 2^18 reports, and refuse wrong lengths."""
        most = _AT_ONCE * REPORT_BYTES
        if isinstance(reports, (bytes, bytearray, memoryview)):
            view = memoryview(reports).cast("B")
            for start in range(0, len(view), most):
                yield bytes(view[start : start + most])
            return
        scalar = isinstance(reports, np.ndarray) and reports.ndim == 0
        if scalar or isinstance(reports, str) or not isinstance(reports, Iterable):
            raise ParameterError(f"reports must be bytes or an iterable of bytes; got {type(reports).__name__}.")
        waiting: list[bytes] = []
        size = 0
        for piece in reports:
            if not isinstance(piece, (bytes, bytearray, memoryview)):
                raise ParameterError(f"a report must be bytes; got {type(piece).__name__}.")
            if not len(piece) or len(piece) % REPORT_BYTES:
                self._reject({Reason.LENGTH.value: 1})
                continue
            waiting.append(bytes(piece))
            size += len(piece)
            if size >= most:
                yield from self._pieces(b"".join(waiting))
                waiting, size = [], 0
        if waiting:
            yield b"".join(waiting)

    def _reject(self, counts: dict[str, int]) -> None:
        for why, count in counts.items():
            self.rejected_[why] = self.rejected_.get(why, 0) + count


def fold_of(seeds: NDArray[np.uint64], n_folds: int) -> NDArray[np.int64]:
    """Return the fold of each report: a hash of its seed, whatever order the reports come in."""
    mixed = np.asarray(seeds, np.uint64) * _FOLD_MIX
    mixed ^= mixed >> np.uint64(32)
    mixed *= _FOLD_MIX
    return ((mixed >> np.uint64(40)) % np.uint64(n_folds)).astype(np.int64)


def add_reports(
    moments: Moments, seeds: NDArray[np.uint64], indices: NDArray[np.uint16], n_threads: int | None = None
) -> None:
    """Add the candidates of reports to the sums of their folds.

    ``seeds``, ``indices``: arrays of shape (n,).
    ``n_threads``: by default ``SOTTOVOCE_NUM_THREADS``, else the processors of this process.
    """
    d, n_folds = moments.d, moments.n_folds
    folds = fold_of(seeds, n_folds)
    order = np.argsort(folds, kind="stable")
    starts, places = np.asarray(seeds, np.uint64)[order], np.asarray(indices, np.uint64)[order]
    ends = np.cumsum(np.bincount(folds, minlength=n_folds))
    rows = max(1, _BLOCK_ENTRIES // d)
    with team(n_threads) as threads:
        ranges = threads.split(len(starts), float(len(starts)) * d)
        parts = [Moments(d, n_folds, moments.identity) for _ in ranges]

        def add(part: int, low: int, high: int) -> None:
            block = np.empty((min(rows, high - low), d))
            for start in range(low, high, rows):
                stop = min(start + rows, high)
                G = block[: stop - start]
                fill(starts[start:stop], places[start:stop], G)
                first = start
                while first < stop:
                    fold = int(np.searchsorted(ends, first, side="right"))
                    last = min(int(ends[fold]), stop)
                    parts[part].add_to(fold, G[first - start : last - start])
                    first = last

        threads.run(add, ranges)
    for part in parts:  # in order: the number of threads changes the last bits only
        moments.merge(part)
