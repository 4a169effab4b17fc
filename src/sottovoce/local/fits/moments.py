r"""Sums over reports: all that the server keeps of them, and all that most models need.

A report about z gives the server one vector g whose law depends on z through t = <g, z> alone: given t, the rest of g
is standard Gaussian. With A_k the expectation of the k-th Hermite polynomial of t (`sottovoce.local.cap`),

.. math:: E[g] = A_1 z, \qquad E[g g^\top] = I + A_2 z z^\top,

so the count, the sum of g and the sum of g g' give unbiased estimates of E[z] and E[z z']. The sums are kept by fold,
so that a model can be made from some folds and judged on another without a second look at any device.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import MessageError, ParameterError

Array = NDArray[np.float64]

MOST_REPORTS: Final = 2**53  # of a fold; their sums are whole numbers of 64 bits
_VERSION: Final = 1
_DIGEST: Final = 32
_MOST_HEADER: Final = 1 << 26


@dataclass(frozen=True)
class Sealed:
    """A format of bytes: a header of plain data, a body, and a checksum.

    8 bytes that name the format; the length of the header as 4 bytes, little-endian; the header, JSON with ``version``
    and other entries; the body; SHA-256 of everything before.
    """

    magic: bytes  # the 8 bytes
    what: str  # what the bytes are, for messages

    def to_bytes(self, header: Mapping[str, object], body: bytes) -> bytes:
        text = json.dumps({"version": _VERSION, **header}, sort_keys=True).encode()
        content = self.magic + len(text).to_bytes(4, "little") + text + body
        return content + hashlib.sha256(content).digest()

    @contextmanager
    def from_bytes(self, data: bytes) -> Iterator[tuple[Any, memoryview]]:
        """Yield header and body; what goes wrong while they are read is told as of these bytes.

        Raises MessageError if the bytes are of another format, damaged, of a later version, or not what their reader
        takes.
        """
        start = len(self.magic) + 4
        if not isinstance(data, bytes) or len(data) < start + _DIGEST or not data.startswith(self.magic):
            raise MessageError(f"these bytes are no {self.what}: they do not begin as such.")
        content = memoryview(data)[:-_DIGEST]
        if hashlib.sha256(content).digest() != data[-_DIGEST:]:
            raise MessageError(f"damaged {self.what}: the checksum is wrong. Take an intact copy.")
        length = int.from_bytes(content[len(self.magic) : start], "little")
        try:
            if length > _MOST_HEADER:
                raise ValueError("its header is too long")
            header = json.loads(bytes(content[start : start + length]))
            if header["version"] != _VERSION:
                raise ValueError(
                    f"it has version {header['version']!r}, this version of sottovoce reads {_VERSION}: "
                    "update sottovoce"
                )
            yield header, content[start + length :]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise MessageError(f"the {self.what} cannot be read: {str(error).rstrip('.')}.") from None


_FORMAT: Final = Sealed(b"SVMOMENT", "sums over reports")


@dataclass(frozen=True, eq=False)
class MomentEstimate:
    r"""Unbiased estimates of E[z] and E[z z'], with their noise.

    ``n``: number of reports.
    ``first``, ndarray of shape (d,): estimate of E[z]; for z = s x, s = -1 or +1, that is E[s x].
    ``second``, ndarray of shape (d, d): symmetric estimate of E[z z'] = E[x x']. Its trace is 1 but for noise, and it
      may have negative eigenvalues.
    ``v1``, ``v2``: noise of one report. A coordinate of ``first`` has variance v1 / n, an entry of ``second`` off the
      diagonal v2 / (2 n), one on it v2 / n, about the sample's own moments. 0 for moments that are known exactly,
      infinite for moments about which nothing is known.
    """

    n: int
    first: Array
    second: Array
    v1: float
    v2: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole_number("n", self.n, at_least=1))
        first, second = np.asarray(self.first, dtype=np.float64), np.asarray(self.second, dtype=np.float64)
        if first.ndim != 1 or second.shape != (len(first), len(first)):
            raise ParameterError(
                f"first and second must have shapes (d,) and (d, d); got {first.shape} and {second.shape}."
            )
        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            raise ParameterError("first and second must be finite: an entry is NaN or infinite.")
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "second", 0.5 * (second + second.T))
        for name in ("v1", "v2"):
            object.__setattr__(self, name, number(name, getattr(self, name), at_least=0.0, infinite=True))

    @property
    def d(self) -> int:
        return len(self.first)

    @property
    def edge(self) -> float:
        """Largest eigenvalue that the noise of ``second`` has by itself, 2 sqrt(d v2 / (2 n))."""
        return 2.0 * math.sqrt(self.d * self.v2 / (2.0 * self.n))

    def margin(self, w: Array) -> tuple[float, float]:
        return float(w @ self.first), float(w @ self.second @ w)

    def with_second(self, second: Array) -> MomentEstimate:
        """Return the same first moment beside a second moment that is public, and taken as exact."""
        return MomentEstimate(self.n, self.first, second, self.v1, 0.0)


Folds = Sequence[tuple[MomentEstimate, MomentEstimate]]  # for each fold, the estimate without it and from it alone


class Moments:
    """Count, sum of g and sum of g g' of each fold: n_folds (d + d^2) numbers, however many reports there are.

    ``d``: length of a vector.
    ``n_folds``: int, >= 1, default=5.
    ``identity``, bytes, default=b"": what the vectors are reports to; sums of different identities refuse to be added.
    ``count``: ndarray of shape (n_folds,).
    ``first``: ndarray of shape (n_folds, d).
    ``second``: ndarray of shape (n_folds, d, d).

    Notes
    -----
    The order of the reports, and how they are cut into calls, change the sums by rounding only.
    """

    def __init__(self, d: int, n_folds: int = 5, identity: bytes = b"") -> None:
        self.d = whole_number("d", d, at_least=1)
        self.n_folds = whole_number("n_folds", n_folds, at_least=1, at_most=1000)
        if not isinstance(identity, bytes):
            raise ParameterError(f"identity must be bytes; got {identity!r}.")
        self.identity = identity
        self.count: NDArray[np.int64] = np.zeros(self.n_folds, dtype=np.int64)
        self.first: Array = np.zeros((self.n_folds, self.d))
        self.second: Array = np.zeros((self.n_folds, self.d, self.d))

    @property
    def n(self) -> int:
        return int(self.count.sum())

    def add(self, vectors: NDArray[Any], folds: NDArray[Any] | None = None) -> Moments:
        """Add vectors to the sums.

        ``vectors``: ndarray of shape (n, d).
        ``folds``, ndarray of shape (n,), or None: the fold of each; by default they go round the folds in turn, from
          where the count stands.
        """
        where = (self.n + np.arange(len(vectors))) % self.n_folds if folds is None else folds
        for fold in range(self.n_folds):
            self.add_to(fold, vectors[where == fold])
        return self

    def add_to(self, fold: int, vectors: NDArray[Any]) -> None:
        self.count[fold] += len(vectors)
        self.first[fold] += vectors.sum(axis=0)
        self.second[fold] += vectors.T @ vectors

    def merge(self, other: Moments) -> Moments:
        """Add the sums of ``other`` to these.

        Raises ParameterError if they are about another protocol, or have another number of folds.
        """
        if not isinstance(other, Moments):
            raise ParameterError(f"other must be Moments; got {type(other).__name__}.")
        if other.identity != self.identity or other.d != self.d:
            raise ParameterError(
                f"these sums are about protocol {self.identity.hex() or '(none)'} of d = {self.d}, the others about "
                f"{other.identity.hex() or '(none)'} of d = {other.d}: reports of different protocols cannot be added."
            )
        if other.n_folds != self.n_folds:
            raise ParameterError(f"n_folds must agree to merge; got {self.n_folds} and {other.n_folds}.")
        self.count += other.count
        self.first += other.first
        self.second += other.second
        return self

    def estimate(self, A1: float, A2: float, *, without: int | None = None, only: int | None = None) -> MomentEstimate:
        """Return unbiased estimates from all folds, from all ``without`` one, or from ``only`` one.

        ``A1``, ``A2``: the constants of the mechanism; the noise is v1 = 1 / A1^2 and v2 = 2 / A2^2. With A2 = 0
          reports say nothing of the second moment.

        Raises ParameterError if there is no report in these folds.
        """
        chosen = np.ones(self.n_folds, dtype=bool)
        if only is not None:
            chosen = np.arange(self.n_folds) == only
        elif without is not None:
            chosen[without] = False
        n = int(self.count[chosen].sum())
        if not n:
            raise ParameterError("no reports: add reports first, of every fold where folds are compared.")
        first = self.first[chosen].sum(axis=0) / (n * A1)
        if A2 == 0.0:
            return MomentEstimate(n, first, np.eye(self.d) / self.d, 1.0 / A1**2, math.inf)
        second = (self.second[chosen].sum(axis=0) / n - np.eye(self.d)) / A2
        return MomentEstimate(n, first, second, 1.0 / A1**2, 2.0 / A2**2)

    def to_bytes(self) -> bytes:
        """Return the sums as bytes.

        The format: `Sealed` with the name ``SVMOMENT``; in the header ``d``, ``n_folds``,
        ``identity`` (hexadecimal) and ``count``; the sums ``first`` and ``second`` as little-endian doubles in C order.
        """
        fields = {"d": self.d, "n_folds": self.n_folds, "identity": self.identity.hex(), "count": self.count.tolist()}
        return _FORMAT.to_bytes(fields, self.first.astype("<f8").tobytes() + self.second.astype("<f8").tobytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Moments:
        """Read what `to_bytes` wrote.

        Raises MessageError if the bytes are not such sums, are damaged, or of a later version.
        """
        with _FORMAT.from_bytes(data) as (fields, body):
            d, n_folds = (whole_number(name, fields[name], at_least=1) for name in ("d", "n_folds"))
            numbers = np.frombuffer(body, dtype="<f8")
            if len(numbers) != n_folds * d * (d + 1) or not np.isfinite(numbers).all():  # before memory is taken
                raise ValueError("its sums are of the wrong size, or not finite")
            moments = cls(d, n_folds, bytes.fromhex(fields["identity"]))
            count = [whole_number("count", value, at_least=0, at_most=MOST_REPORTS) for value in fields["count"]]
            if len(count) != n_folds:
                raise ValueError("it counts other folds than it has")
            moments.count[:] = count
            moments.first.flat[:], moments.second.flat[:] = np.split(numbers, [moments.first.size])
        return moments
