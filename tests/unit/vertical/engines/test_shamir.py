"""Arithmetic and shares modulo 2^61 - 1 are those of Python's whole numbers, and of MPyC."""

import itertools

import numpy as np
import pytest

from sottovoce.vertical.engines.shamir import (
    MODULUS,
    _fold,
    _turned,
    _uniform,
    add,
    combine,
    from_field,
    matmul,
    mul,
    split,
    to_field,
    total,
    weights,
)  # fmt: skip

EDGES = [0, 1, 2, 2**20, 2**21 - 1, 2**21, 2**30, 2**31 - 1, 2**31, 2**41, 2**60, MODULUS - 2, MODULUS - 1]


def _numbers(rng, shape):
    return rng.integers(0, MODULUS, shape, dtype=np.uint64)


def _python(values):
    return values.astype(object)


def test_sums_and_products_are_those_of_whole_numbers():
    rng = np.random.default_rng(0)
    pairs = np.array(list(itertools.product(EDGES, EDGES)), dtype=np.uint64)
    left = np.concatenate([pairs[:, 0], _numbers(rng, 1000)])
    right = np.concatenate([pairs[:, 1], _numbers(rng, 1000)])
    np.testing.assert_array_equal(_python(add(left, right)), (_python(left) + _python(right)) % MODULUS)
    np.testing.assert_array_equal(_python(mul(left, right)), _python(left) * _python(right) % MODULUS)
    assert int(total(left)[0]) == int(_python(left).sum()) % MODULUS
    for by in (0, 1, 21, 41, 60, 61, 62, 82):
        np.testing.assert_array_equal(_python(_turned(left, by)), _python(left) * 2**by % MODULUS)
    top = np.array([2**64 - 1, 2**64 - 2, 2 * MODULUS, 2 * MODULUS - 1, MODULUS], dtype=np.uint64)
    np.testing.assert_array_equal(_python(_fold(top.copy())), _python(top) % MODULUS)


@pytest.mark.parametrize("n", [1, 7, 2048, 2049, 5000])
def test_products_of_matrices_are_those_of_whole_numbers(n):
    rng = np.random.default_rng(n)
    left, right = _numbers(rng, (n, 2)), _numbers(rng, (n, 3))
    np.testing.assert_array_equal(_python(matmul(left, right)), _python(left).T @ _python(right) % MODULUS)
    np.testing.assert_array_equal(_python(matmul(left, left)), _python(left).T @ _python(left) % MODULUS)


def test_no_sum_of_limbs_is_rounded():
    """All limbs at their largest: the sums come as close to 2^53 and 2^64 as they can."""
    for n in (4096, 8191):  # an odd number of odd products: no float beyond 2^53 is their sum
        for largest in (MODULUS - 1, 2**21 - 1, 2**61 - 2**41 - 1):
            rows = np.full((n, 1), largest, dtype=np.uint64)
            assert int(matmul(rows, rows)[0, 0]) == largest**2 * n % MODULUS
    assert (2**21 - 1) ** 2 * 2048 < 2**53


def test_signed_numbers_come_back():
    values = np.array([0, 1, -1, 2**60 - 1, -(2**60) + 1])
    np.testing.assert_array_equal(from_field(to_field(values)), values)


@pytest.mark.parametrize(("threshold", "n_parties"), [(1, 3), (1, 4), (2, 5), (3, 8)])
def test_any_shares_above_the_threshold_give_the_secret(threshold, n_parties):
    secret = _numbers(np.random.default_rng(1), (4, 5))
    shares = split(secret, threshold, n_parties)
    for places in itertools.combinations(range(1, n_parties + 1), threshold + 1):
        np.testing.assert_array_equal(combine([shares[i - 1] for i in places], places), secret)
    places = range(1, threshold + 2)
    for at in range(1, n_parties + 1):
        np.testing.assert_array_equal(combine(shares[: threshold + 1], places, at), shares[at - 1])


def test_shares_say_nothing_alone():
    """A party's share of a fixed number is uniform: mean and spread of 20,000 draws."""
    for share in split(np.full(20_000, 5, dtype=np.uint64), 1, 3):
        unit = share.astype(float) / MODULUS
        assert abs(unit.mean() - 0.5) < 5 / np.sqrt(12 * 20_000)
        assert abs(np.quantile(unit, 0.1) - 0.1) < 0.015
        assert len(np.unique(share)) == 20_000


def test_a_draw_that_is_no_number_of_the_field_is_drawn_again(monkeypatch):
    """61 ones are not below the prime."""
    draws = [np.array([2**64 - 1, 5, MODULUS], dtype=np.uint64), np.array([7, 2**64 - 1], dtype=np.uint64)]
    draws.append(np.array([2**61 + 9], dtype=np.uint64))
    monkeypatch.setattr("os.urandom", lambda n_bytes: draws.pop(0).tobytes())
    assert _uniform((3,)).tolist() == [7, 5, 9]


def test_shares_are_mpycs():
    """What MPyC splits is put together here, and the other way round."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["mpyc", "--no-log"])
        finfields = pytest.importorskip("mpyc.finfields")
        from mpyc import thresha
    field = finfields.GF(MODULUS)
    secret = _numbers(np.random.default_rng(2), 50)
    theirs = thresha.np_random_split(field, _python(secret), 2, 5)
    np.testing.assert_array_equal(combine([row.astype(np.uint64) for row in theirs[:3]], (1, 2, 3)), secret)
    ours = split(secret, 2, 5)
    found = thresha.np_recombine(field, [(place, _python(ours[place - 1])) for place in (2, 4, 5)])
    np.testing.assert_array_equal(np.array([int(value) % MODULUS for value in found], dtype=np.uint64), secret)
    assert weights((1, 2, 3)) == thresha._recombination_vector(field, (1, 2, 3), 0)
