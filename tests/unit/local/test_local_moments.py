"""Sums over reports: the order, the cut and the merge change nothing; what is stored is read back or refused."""

import numpy as np
import pytest

from sottovoce.exceptions import MessageError, ParameterError
from sottovoce.local.fits.moments import MomentEstimate, Moments

SUMS = ("count", "first", "second")


def vectors(n=200, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def same(one, other, rtol=1e-12):
    for name in SUMS:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=1e-12)


def test_sums_of_each_fold_by_hand():
    G, folds = vectors(7), np.array([0, 1, 1, 2, 0, 2, 2])
    moments = Moments(4, 3).add(G, folds)
    assert moments.count.tolist() == [2, 2, 3]
    np.testing.assert_allclose(moments.first[2], G[3] + G[5] + G[6])
    np.testing.assert_allclose(moments.second[1], np.outer(G[1], G[1]) + np.outer(G[2], G[2]))


@pytest.mark.parametrize("cuts", [[], range(1, 200), [7, 7, 107]])
@pytest.mark.parametrize("in_turn", [True, False])
def test_cuts_order_and_merge_change_nothing(cuts, in_turn):
    rng = np.random.default_rng(1)
    G, folds = vectors(), np.arange(200) % 5 if in_turn else rng.integers(0, 5, 200)
    whole, parts, merged = Moments(4).add(G, folds), Moments(4), Moments(4)
    for some, where in zip(np.split(G, cuts), np.split(folds, cuts), strict=True):
        parts.add(some, None if in_turn else where)
        merged.merge(Moments(4).add(some, where))
    order = rng.permutation(200)
    for other in (parts, merged, Moments(4).add(G[order], folds[order])):
        same(whole, other)
        assert other.n == 200


def test_estimates_undo_the_constants():
    G, A1, A2 = vectors(), 0.3, -0.2
    moments = Moments(4, 5).add(G)
    estimate = moments.estimate(A1, A2)
    np.testing.assert_allclose(estimate.first, G.mean(axis=0) / A1)
    np.testing.assert_allclose(estimate.second, (G.T @ G / 200 - np.eye(4)) / A2)
    assert estimate.v1 == pytest.approx(1 / A1**2)
    assert estimate.v2 == pytest.approx(2 / A2**2)
    rest, held = moments.estimate(A1, A2, without=2), moments.estimate(A1, A2, only=2)
    np.testing.assert_allclose(held.first, G[2::5].mean(axis=0) / A1)
    np.testing.assert_allclose((rest.n * rest.second + held.n * held.second) / 200, estimate.second, atol=1e-12)


def test_bytes_give_back_the_same_sums():
    moments = Moments(4, 3, b"12345678").add(vectors())
    again = Moments.from_bytes(moments.to_bytes())
    for name in SUMS:
        np.testing.assert_array_equal(getattr(moments, name), getattr(again, name))
    assert (again.identity, again.d, again.n_folds) == (b"12345678", 4, 3)
    assert again.to_bytes() == moments.to_bytes()


@pytest.mark.parametrize("place", [0, 9, 20, 200, -40, -1])
def test_damaged_bytes_are_refused(place):
    data = bytearray(Moments(4).add(vectors()).to_bytes())
    data[place] ^= 1
    with pytest.raises(MessageError, match=r"do not begin|damaged"):
        Moments.from_bytes(bytes(data))


def signed(header, body=b""):
    import hashlib

    content = b"SVMOMENT" + len(header).to_bytes(4, "little") + header + body
    return content + hashlib.sha256(content).digest()


@pytest.mark.parametrize(
    ("header", "body", "why"),
    [
        (b"{}", b"", "version"),
        (b"[1]", b"", "cannot be read"),
        (b"\xff", b"", "cannot be read"),
        (b'{"version":2}', b"", "version 2"),
        (b'{"version":1,"d":1,"n_folds":1,"identity":"","count":[1]}', bytes(8), "wrong size"),
        (b'{"version":1,"d":1,"n_folds":1,"identity":"","count":[1]}', bytes(17), "cannot be read"),
        (b'{"version":1,"d":1,"n_folds":1,"identity":"","count":[-1]}', bytes(16), "count"),
        (b'{"version":1,"d":1,"n_folds":1,"identity":"","count":[1,2]}', bytes(16), "other folds"),
        (b'{"version":1,"d":1,"n_folds":1,"identity":"","count":[1]}', np.array([1, np.nan]).tobytes(), "not finite"),
        (b'{"version":1,"d":-1,"n_folds":1,"identity":"","count":[1]}', b"", "d must be"),
    ],
)
def test_bytes_with_a_right_checksum_are_still_checked(header, body, why):
    with pytest.raises(MessageError, match=why):
        Moments.from_bytes(signed(header, body))


@pytest.mark.parametrize("other", [Moments(3), Moments(4, 5, b"other"), Moments(4, 2)])
def test_sums_of_another_kind_are_refused(other):
    with pytest.raises(ParameterError, match=r"different protocols|n_folds"):
        Moments(4).merge(other)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: Moments(0), "d must be"),
        (lambda: Moments(3, 0), "n_folds"),
        (lambda: Moments(3).estimate(1.0, 1.0), "no reports"),
        (lambda: MomentEstimate(0, np.zeros(2), np.zeros((2, 2)), 0, 0), "n must be"),
        (lambda: MomentEstimate(1, np.zeros(2), np.zeros((2, 3)), 0, 0), "shapes"),
        (lambda: MomentEstimate(1, np.array([0, np.inf]), np.zeros((2, 2)), 0, 0), "finite"),
        (lambda: MomentEstimate(1, np.zeros(2), np.zeros((2, 2)), -1.0, 0), "v1"),
    ],
)
def test_bad_input_is_refused(call, why):
    with pytest.raises(ParameterError, match=why):
        call()
