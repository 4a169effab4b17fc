r"""Public linear maps J from columns of n entries to m < n numbers: what a shared column may be compressed to.

* ``"sparse-sign"``: every column of J holds s entries +-1/sqrt(s) at s different rows, so that its norm is exactly 1 up
  to rounding: the sensitivity of J a is that of a.
* ``"gaussian"``: entries N(0, 1/m). One person's entry meets one column of J, so the sensitivity is the largest norm of
  a *column* times that of a (not the leading singular value of J, which is 7 to 11 times as much).

J follows from a public seed: it protects nobody, and no part of the statement rests on its randomness.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from sottovoce._numerics import Vector
from sottovoce._validation import choice, whole_number

__all__ = ["KINDS", "Sketch"]

KINDS: Final = ("sparse-sign", "gaussian")
_NONZEROS: Final = 4  # so that entries are 1/2
_PIECE: Final = 1024  # people whose columns of a Gaussian J are in memory at a time
_KEPT: Final = 2**23  # entries of a Gaussian J that are kept, 64 MB; a larger one is drawn again for each use
_SLACK: Final = 1.0 + 2.0**-40  # rounding of norms and of sums


@dataclass(frozen=True)
class Sketch:
    """A public map of n entries to ``n_rows`` numbers.

    Parameters
    ----------
    kind : {"sparse-sign", "gaussian"}
    n_people : int
        n.
    n_rows : int
        m, at least 4.
    seed : int
        Public.
    """

    kind: str
    n_people: int
    n_rows: int
    seed: int

    def __post_init__(self) -> None:
        choice("sketch", self.kind, KINDS)
        whole_number("sketch_rows", self.n_rows, at_least=_NONZEROS)

    @cached_property
    def _sparse(self) -> tuple[NDArray[np.int64], Vector]:
        """The rows and the entries of J, of shape (s, n); the rows of a column differ."""
        rng = np.random.Generator(np.random.PCG64(self.seed))
        # one row in each of s ranges of rows, so that no two meet
        ends = np.linspace(0, self.n_rows, _NONZEROS + 1).astype(np.int64)
        rows = np.stack([rng.integers(low, high, self.n_people) for low, high in pairwise(ends)])
        signs = rng.integers(0, 2, rows.shape) * 2.0 - 1.0
        return rows, signs / np.sqrt(_NONZEROS)

    @cached_property
    def largest_norm(self) -> float:
        """Largest norm of a column of J, rounded up."""
        if self.kind == "sparse-sign":
            return _SLACK
        return _SLACK * max(float(np.sqrt((piece**2).sum(axis=0).max())) for _, piece in self._pieces())

    @property
    def rounding(self) -> float:
        """How far rounding in `compress` can move two results apart, for entries within 1 and multiples of 2^-20."""
        if self.kind == "sparse-sign":  # its entries are powers of two: the sums are exact
            return 0.0
        return 2.0 * float(np.sqrt(self.n_rows)) * self.largest_norm * self.n_people**2 * 2.0**-52

    @cached_property
    def largest_sum(self) -> float:
        """Bound on an entry of J a, for a within [-1, 1]."""
        if self.kind == "sparse-sign":
            return _SLACK * self.n_people
        sums = np.zeros(self.n_rows)
        for _, piece in self._pieces():
            sums += np.abs(piece).sum(axis=1)
        return _SLACK * float(sums.max())

    @cached_property
    def leading_singular_value(self) -> float:
        """Largest singular value of J: the published sensitivity of a sketch."""
        if self.kind == "sparse-sign":
            rows, entries = self._sparse
            people = np.broadcast_to(np.arange(self.n_people), rows.shape)
            whole = csr_array((entries.ravel(), (rows.ravel(), people.ravel())), (self.n_rows, self.n_people))
            return float(svds(whole, k=1, v0=np.ones(self.n_rows), return_singular_vectors=False)[0])
        gram = np.zeros((self.n_rows, self.n_rows))
        for _, piece in self._pieces():
            gram += piece @ piece.T
        last = self.n_rows - 1
        return float(np.sqrt(eigvalsh(gram, subset_by_index=(last, last))[0]))

    @cached_property
    def _kept_pieces(self) -> list[tuple[slice, Vector]] | None:
        return list(self._drawn_pieces()) if self.n_rows * self.n_people <= _KEPT else None

    def _pieces(self) -> Iterable[tuple[slice, Vector]]:
        """Return the columns of a Gaussian J, some people at a time."""
        return self._kept_pieces or self._drawn_pieces()

    def _drawn_pieces(self) -> Iterator[tuple[slice, Vector]]:
        rng = np.random.Generator(np.random.PCG64(self.seed))
        for low in range(0, self.n_people, _PIECE):
            place = slice(low, min(low + _PIECE, self.n_people))
            yield place, rng.standard_normal((self.n_rows, place.stop - low)) / np.sqrt(self.n_rows)

    def compress(self, column: Vector) -> Vector:
        """Return J a."""
        if self.kind == "sparse-sign":
            rows, entries = self._sparse
            summed = np.bincount(rows.ravel(), weights=(entries * column).ravel(), minlength=self.n_rows)
            return summed.astype(np.float64)
        total = np.zeros(self.n_rows)
        for place, piece in self._pieces():
            total += piece @ column[place]
        return total

    def spread(self, compressed: Vector) -> Vector:
        """Return J'u, one number a person: its inner product with a column a is that of J a with u."""
        if self.kind == "sparse-sign":
            rows, entries = self._sparse
            return np.asarray((entries * compressed[rows]).sum(axis=0))
        out = np.empty(self.n_people)
        for place, piece in self._pieces():
            out[place] = compressed @ piece
        return out
