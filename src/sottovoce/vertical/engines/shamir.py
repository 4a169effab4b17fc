r"""Shamir's secret sharing modulo 2^61 - 1, in machine words.

A number s is split into shares f(1), ..., f(K) of a random polynomial f of degree t with f(0) = s: any t of them are
uniform and say nothing, any t + 1 give s. Sums of shares are shares of the sum. Products of shares are shares of the
product on a polynomial of degree 2t, which 2t + 1 parties can bring back to degree t by splitting their own again.

2^61 = 1 in this field, so a reduction is a shift and a sum; a product of matrices is made of exact products of floats,
of which each number is three limbs.
"""

import os
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.vertical.engines.engine import Whole

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
