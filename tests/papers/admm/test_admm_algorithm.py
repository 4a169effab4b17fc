"""Algorithm 1 is the printed form of `admm`, ends where it should, and says where it does not."""

import itertools
import math

import numpy as np

from sottovoce.losses import Logistic
from sottovoce.papers.admm import Penalty, admm, admm_sharing, perturbed_admm_sharing
from sottovoce.papers.admm.algorithm import closest, half_inverse

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 6))
NUMBERS = X @ np.arange(6.0) + RNG.normal(size=300)
B = np.where(X[:, 0] + X[:, 3] + RNG.normal(size=300) > 0.0, 1.0, -1.0)
BLOCKS = [X[:, :4], X[:, 4:]]


def rounds(number, **changed):
    """Return x, z and y after so many rounds of the listing."""
    given = {"D": BLOCKS, "b": B, "lam": 0.7, "rho": 0.9} | changed
    run = perturbed_admm_sharing if "sigma" in given else admm_sharing
    return next(itertools.islice(run(**given), number - 1, None))


def test_the_listing_is_the_printed_form_one_round_later():
    seen = []
    admm(
        BLOCKS, Logistic(), B, penalty=Penalty(0.7), rho=0.9, form="printed", max_iter=12, tol=0.0,
        after=lambda n_rounds, x: seen.append(x),
    )  # fmt: skip
    for t in (1, 2, 7, 12):
        x, _, _ = rounds(t + 1)
        for m in (0, 1):
            np.testing.assert_allclose(BLOCKS[m] @ seen[t - 1][m], BLOCKS[m] @ x[m], atol=1e-11)


def test_the_noise_is_that_of_the_listing():
    """The same coefficients from the same draws, added before D x is sent: they are what the next round starts from."""
    draws = np.random.default_rng(3)
    factors = [2.0 * half_inverse(D) for D in BLOCKS]
    run = admm(
        BLOCKS, Logistic(), B, penalty=Penalty(0.7), rho=0.9, form="printed", max_iter=3, tol=0.0,
        noise=lambda m: factors[m] @ draws.standard_normal(factors[m].shape[1]),
    )  # fmt: skip
    z = next(admm_sharing(BLOCKS, B, lam=0.7, rho=0.9))[1]
    x, shared, y = [], [np.zeros(300)] * 2, -0.9 * z
    draws = np.random.default_rng(3)
    for t in range(3):
        pulled = np.sum(shared, axis=0)
        if t:
            z = closest(pulled + y / 0.9, B, 0.9)
            y = y + 0.9 * (pulled - z)
        x = [
            np.linalg.solve(0.7 * np.eye(D.shape[1]) + 0.9 * D.T @ D, -D.T @ (y + 0.9 * (pulled - z - own)))
            + F @ draws.standard_normal(F.shape[1])
            for D, F, own in zip(BLOCKS, factors, shared, strict=True)
        ]
        shared = [D @ each for D, each in zip(BLOCKS, x, strict=True)]
    np.testing.assert_allclose(np.concatenate(run.x), np.concatenate(x), atol=1e-9)


def test_the_first_round_from_zeros_is_no_move_of_the_parties():
    x, z, y = rounds(1)
    assert not np.concatenate(x).any()
    np.testing.assert_allclose(y, -0.9 * z)
    assert np.ptp(z * B) < 1e-12 < z[0] * B[0]  # the same number for everybody, with the label's sign


def test_the_noise_of_eq_16_is_projected_on_the_columns():
    """Of 400 first messages, which from zeros hold nothing but noise: variance sigma^2 in the span, none outside."""
    sigma, noise = 3.0, []
    for seed in range(400):
        x, _, _ = rounds(1, sigma=[sigma, 0.0], rng=np.random.default_rng(seed))
        noise.append(BLOCKS[0] @ x[0])
        assert not x[1].any()
    basis = np.linalg.qr(BLOCKS[0])[0]
    inside = np.array(noise) @ basis
    np.testing.assert_allclose(noise, inside @ basis.T, atol=1e-10)
    variance = np.mean(inside**2) / sigma**2
    assert abs(variance - 1.0) < 4.0 * math.sqrt(2.0 / inside.size)
