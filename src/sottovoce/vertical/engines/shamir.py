r"""Shamir's secret sharing modulo 2^61 - 1, in machine words.

A number s is split into shares f(1), ..., f(K) of a random polynomial f of degree t with f(0) = s: any t of them are
uniform and say nothing, any t + 1 give s. Sums of shares are shares of the sum. Products of shares are shares of the
product on a polynomial of degree 2t, which 2t + 1 parties can bring back to degree t by splitting their own again.

2^61 = 1 in this field, so a reduction is a shift and a sum; a product of matrices is made of exact products of floats,
of which each number is three limbs.

The engine is for three or more parties, of which fewer than half may put what they see together. Its protocol is the
usual one for a prime field [1]_: inputs are split, a product is computed on shares and split again, an opening is a
share to everybody. A share of a sum of products lies on a polynomial of twice the degree. It is brought back to the
lower one when it must be, once for a whole sum, not once for each piece of rows.

References
----------
.. [1] Gennaro, Rabin, Rabin (1998). Simplified VSS and Fast-track Multiparty Computations with Applications to
   Threshold Cryptography. PODC 1998; its multiplication, among parties that follow the protocol.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.vertical.engines.engine import EngineError, Guarded, Whole
from sottovoce.vertical.engines.links import Links
from sottovoce.vertical.engines.programs import Program

Share = NDArray[np.uint64]

_BITS: Final = 61
MODULUS: Final = 2**_BITS - 1
"""A prime."""

_SHIFTS: Final = (0, 21, 41)  # limbs of 21, 20 and 20 bits
_MASKS: Final = (2**21 - 1, 2**20 - 1, 2**20 - 1)
_ROWS: Final = 2048  # that many products of two limbs add up to less than 2^53: exact in floats
_SUMS: Final = 2048  # that many such sums add up to less than 2^64


def to_field(values: Whole) -> Share:
    return np.remainder(values, MODULUS).astype(np.uint64)


def from_field(share: Share) -> Whole:
    """Return the whole number of least absolute value for each."""
    values = share.astype(np.int64)
    return np.where(values > MODULUS // 2, values - MODULUS, values)


def _fold(values: Share) -> Share:
    """Reduce any 64 bits, in place."""
    high = values >> np.uint64(_BITS)
    values &= np.uint64(MODULUS)
    values += high
    np.subtract(values, np.uint64(MODULUS), out=values, where=values >= MODULUS)
    return values


def add(*terms: Share) -> Share:
    total = terms[0].copy()
    for term in terms[1:]:
        total += term
        np.subtract(total, np.uint64(MODULUS), out=total, where=total >= MODULUS)
    return total


def total(share: Share) -> Share:
    low, high = share & np.uint64(2**32 - 1), share >> np.uint64(32)
    parts = np.array([low.sum(dtype=np.uint64), high.sum(dtype=np.uint64)])  # exact for fewer than 2^32 numbers
    parts = _fold(parts)
    return add(parts[:1], _turned(parts[1:], 32))


def _turned(values: Share, by: int) -> Share:
    """Return values times 2^by: a rotation of 61 bits."""
    by %= _BITS
    if by == 0:
        return values.copy()
    return _fold(((values << np.uint64(by)) & np.uint64(MODULUS)) | (values >> np.uint64(_BITS - by)))


def mul(left: Share, right: Share | int) -> Share:
    right = np.asarray(right, dtype=np.uint64)
    low = np.uint64(2**31 - 1)
    left_low, left_high = left & low, left >> np.uint64(31)
    right_low, right_high = right & low, right >> np.uint64(31)
    # 2^62 = 2 and 2^31 (m1 2^30 + m0) = m1 + 2^31 m0: all three terms fit 64 bits, and so does their sum
    middle = left_low * right_high
    middle += left_high * right_low
    total = left_high * right_high
    total <<= np.uint64(1)
    total += left_low * right_low
    total += middle >> np.uint64(30)
    middle &= np.uint64(2**30 - 1)
    middle <<= np.uint64(31)
    # (2^61) + (2^62) + 2^33 + (2^61) < 2^63
    total += middle
    return _fold(total)


def _limbs(values: Share) -> NDArray[np.float64]:
    """Return (n, 3 d) floats: the limbs of each number, lowest first."""
    n, d = values.shape
    limbs = np.empty((n, len(_SHIFTS), d))
    for i, (shift, mask) in enumerate(zip(_SHIFTS, _MASKS, strict=True)):
        limbs[:, i] = (values >> np.uint64(shift)) & np.uint64(mask)
    return limbs.reshape(n, -1)


def matmul(left: Share, right: Share) -> Share:
    """Return left' right for ``left`` (n, a) and ``right`` (n, b)."""
    n, a = left.shape
    b = right.shape[1]
    same = left is right
    result: Share = np.zeros((a, b), dtype=np.uint64)
    for first in range(0, n, _ROWS * _SUMS):
        sums: Share = np.zeros((3 * a, 3 * b), dtype=np.uint64)
        for row in range(first, min(n, first + _ROWS * _SUMS), _ROWS):
            limbs = _limbs(left[row : row + _ROWS])
            others = limbs if same else _limbs(right[row : row + _ROWS])
            sums += (limbs.T @ others).astype(np.uint64)
        parts = _fold(sums).reshape(3, a, 3, b)
        for i, shift in enumerate(_SHIFTS):
            for j, other in enumerate(_SHIFTS):
                result = add(result, _turned(parts[i, :, j], shift + other))
    return result


def _uniform(shape: tuple[int, ...]) -> Share:
    """Return uniform numbers of the field, from the system's source."""
    drawn: Share = np.frombuffer(bytearray(os.urandom(8 * int(np.prod(shape)))), dtype=np.uint64)
    drawn &= np.uint64(MODULUS)
    while (over := drawn == MODULUS).any():  # 61 ones: drawn again
        drawn[over] = np.frombuffer(os.urandom(8 * int(over.sum())), dtype=np.uint64) & np.uint64(MODULUS)
    return drawn.reshape(shape)


def split(secret: Share, threshold: int, n_parties: int) -> list[Share]:
    """Return the shares of all parties; any ``threshold`` of them say nothing."""
    coefficients = [_uniform(secret.shape) for _ in range(threshold)]
    shares = []
    for place in range(1, n_parties + 1):
        share: Share = np.zeros_like(secret)
        for coefficient in coefficients:
            share += coefficient
            # below 2^62 before: up to 3 times that fits 64 bits
            share = _fold(share * np.uint64(place)) if place <= 3 else mul(_fold(share), place)
        share += secret
        shares.append(_fold(share))
    return shares


def weights(places: Sequence[int], at: int = 0) -> list[int]:
    """Return what the shares at ``places`` are multiplied by to give the polynomial's value at ``at``."""
    found = []
    for i in places:
        above, below = 1, 1
        for j in places:
            if j != i:
                above, below = above * (at - j) % MODULUS, below * (i - j) % MODULUS
        found.append(above * pow(below, -1, MODULUS) % MODULUS)
    return found


def combine(shares: Sequence[Share], places: Sequence[int], at: int = 0) -> Share:
    """Return the value at ``at`` of the polynomial through shares at ``places`` (1 for the first party)."""
    return add(*(mul(share, weight) for share, weight in zip(shares, weights(places, at), strict=True)))


# ------------------------------------------------------------------ the engine

_PATIENCE: Final = 0.9  # of the timeout: a partner that is late is named before the command itself is cut off
_PIECE: Final = 1 << 21  # numbers of one message: 16 MiB


class _Shared:
    """A party's share of an array, on a polynomial of the threshold's degree, or of ``twice`` that."""

    def __init__(self, engine: ShamirEngine, share: Share, *, twice: bool = False) -> None:
        self._engine, self.share, self.twice = engine, share, twice

    def once(self) -> Share:
        """Return the share on a polynomial of the threshold's degree."""
        if self.twice:
            self.share, self.twice = self._engine.split_again(self.share), False
        return self.share

    def __add__(self, other: _Shared) -> _Shared:
        return _Shared(self._engine, add(self.share, other.share), twice=self.twice or other.twice)

    def __mul__(self, other: _Shared) -> _Shared:
        return _Shared(self._engine, mul(self.once(), other.once()), twice=True)

    def __radd__(self, whole: int) -> _Shared:
        return _Shared(self._engine, add(self.share, np.full_like(self.share, whole % MODULUS)), twice=self.twice)

    def __rmul__(self, whole: int) -> _Shared:
        return _Shared(self._engine, mul(self.share, whole % MODULUS), twice=self.twice)

    def __getitem__(self, place: Any) -> _Shared:
        return _Shared(self._engine, self.share[place], twice=self.twice)


@dataclass(frozen=True)
class _Coming:
    """A share that its owner sends at some steps; it is waited for when it is needed, so that no put costs a delay."""

    owner: int
    steps: range
    shape: tuple[int, ...]


class ShamirEngine(Guarded):
    """One party's end of a session.

    ``addresses``: "host:port" of each party, three or more.
    ``listen``: where this party listens, if not at its address.
    ``tls``: as for `sottovoce.vertical.engines.process.EngineProcess`.
    ``timeout``: seconds that a command may take.
    """

    bound: ClassVar[int] = 1 << 60

    def __init__(
        self,
        rank: int,
        addresses: Sequence[str],
        listen: str | None = None,
        tls: Path | None = None,
        timeout: float = 600.0,
    ) -> None:
        super().__init__(rank, len(addresses))
        self._threshold = (len(addresses) - 1) // 2
        self._others = [other for other in range(len(addresses)) if other != rank]
        self._links = Links(rank, addresses, listen, tls, _PATIENCE * timeout)
        self._variables: dict[str, _Shared | _Coming] = {}

    def start(self) -> None:
        self._links.open()

    def exchange(self, message: bytes) -> list[bytes]:
        (step,) = self._links.due(self._others, [len(message)])
        found = self._links.swap(step, dict.fromkeys(self._others, message), self._others)
        return [message if rank == self.rank else found[rank] for rank in range(self.n_parties)]

    def _put(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None:
        if name in self._variables:
            self._drop((name,))
        steps = self._due((owner,), shape)
        if owner == self.rank:
            assert value is not None
            shares = split(to_field(value), self._threshold, self.n_parties)
            self._swap(steps, {other: shares[other] for other in self._others}, (), shape)
            self._variables[name] = _Shared(self, shares[owner])
        else:
            self._variables[name] = _Coming(owner, steps, shape)

    def _run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        made = program.on([self._variable(name) for name in inputs], self)
        if program.opens:  # what is opened must look like a fresh split
            made = (_Shared(self, (1 * made[0]).once()),)
        for name, variable in zip(outputs, made, strict=True):
            self._variables[name] = variable

    def _reveal(self, name: str) -> Whole:
        """Open what `Mask` has made: all shares must lie on one polynomial."""
        own = self._variable(name).once()
        steps = self._due(self._others, own.shape)
        found = self._swap(steps, dict.fromkeys(self._others, own), self._others, own.shape)
        self.exchange(b"")  # all have it: this party may be the first to close
        shares = [own if rank == self.rank else found[rank] for rank in range(self.n_parties)]
        least = self._threshold + 1
        places = range(1, least + 1)
        for place in range(least + 1, self.n_parties + 1):
            if not np.array_equal(combine(shares[:least], places, place), shares[place - 1]):
                raise EngineError("what the parties opened does not fit together: one of them computes something else")
        return from_field(combine(shares[:least], places))

    def _drop(self, names: Sequence[str]) -> None:
        for name in names:
            self._variable(name)
            del self._variables[name]

    def _end(self) -> None:
        self._links.close()
        self._variables.clear()

    # ------------------------------------------------------------------ on shares

    def _variable(self, name: str) -> _Shared:
        found = self._variables[name]
        if isinstance(found, _Coming):
            found = _Shared(self, self._swap(found.steps, {}, (found.owner,), found.shape)[found.owner])
            self._variables[name] = found
        return found

    def split_again(self, share: Share) -> Share:
        """Bring a share down to the threshold's degree: as many parties as it needs split theirs again."""
        n_splitting = 2 * self._threshold + 1
        shares = split(share, self._threshold, self.n_parties) if self.rank < n_splitting else []
        splitting = [other for other in self._others if other < n_splitting]
        messages = {other: shares[other] for other in self._others} if shares else {}
        found = self._swap(self._due(splitting, share.shape), messages, splitting, share.shape)
        if shares:
            found[self.rank] = shares[self.rank]
        return combine([found[rank] for rank in range(n_splitting)], range(1, n_splitting + 1))

    def cross(self, left: _Shared, right: _Shared) -> _Shared:
        return _Shared(self, matmul(left.once(), right.once()), twice=True)

    def total(self, numbers: _Shared) -> _Shared:
        return _Shared(self, total(numbers.once()))

    def clip(self, values: Sequence[Any], lows: Sequence[int], highs: Sequence[int]) -> Any:
        raise NotImplementedError  # no plan asks it to compare

    def largest(self, parts: Sequence[Any], noise: Sequence[Any]) -> Any:
        raise NotImplementedError

    # ------------------------------------------------------------------ between parties

    def _due(self, peers: Collection[int], shape: tuple[int, ...]) -> range:
        """Return the steps in which numbers of that shape travel, and let those of ``peers`` come."""
        size = math.prod(shape)
        return self._links.due(peers, [8 * min(_PIECE, size - first) for first in range(0, size, _PIECE)])

    def _swap(
        self, steps: range, shares: Mapping[int, Share], expected: Collection[int], shape: tuple[int, ...]
    ) -> dict[int, Share]:
        """Send shares by rank, and return those that ``expected`` send; all are of one shape."""
        size = math.prod(shape)
        flat = {peer: np.ascontiguousarray(share, dtype="<u8").reshape(-1) for peer, share in shares.items()}
        found = {peer: np.empty(size, dtype=np.uint64) for peer in expected}
        for step, first in zip(steps, range(0, size, _PIECE), strict=True):
            last = min(size, first + _PIECE)
            came = self._links.swap(step, {peer: each[first:last].tobytes() for peer, each in flat.items()}, expected)
            for peer, message in came.items():
                found[peer][first:last] = np.frombuffer(message, dtype="<u8")
        for peer, share in found.items():
            if (share >= MODULUS).any():
                raise EngineError(f"party {peer} sent something that is no share: it computes something else")
        return {peer: share.reshape(shape) for peer, share in found.items()}
