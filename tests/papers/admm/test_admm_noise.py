"""The published noise of ADMM sharing: formulas, and the law N(0, sigma^2 P) with P the projection on the columns."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chi2, kstest

from sottovoce.exceptions import DataError, ParameterError
from sottovoce.papers.admm.bounds import corollary_1, lemma_1_bound, theorem_3_std
from sottovoce.papers.admm.noise import PublishedNoise

LEMMA = {"penalty": 2.0, "curvature": 0.5, "rho": 4.0, "n_parties": 3, "norm_bound": 1.5}
ROUND = {"epsilon": 0.5, "delta": 1e-5}


def blocks():
    rng = np.random.default_rng(0)
    tall = rng.normal(size=(9, 4))
    singular = np.column_stack([tall, tall[:, 0] - 2.0 * tall[:, 1], np.zeros(9)])
    one_hot = np.eye(3)[rng.integers(0, 3, 12)]
    return {
        "tall": tall,
        "singular": singular,
        "low rank": rng.normal(size=(40, 6)) @ rng.normal(size=(6, 20)),
        "one-hot": np.hstack([one_hot, np.ones((12, 1))]),
        "wide": rng.normal(size=(5, 8)),
        "wide and singular": np.vstack([tall.T, tall.T[0] + tall.T[1]]),
        "square": np.eye(4) + np.ones((4, 4)),
        "single precision": tall.astype(np.float32),
        "whole numbers": np.arange(12).reshape(6, 2),
        "sparse": sp.csr_array(np.hstack([one_hot, np.ones((12, 1))])),
        "sparse and wide": sp.csc_array(rng.normal(size=(4, 7)) * (rng.random((4, 7)) < 0.6)),
        "zero": np.zeros((3, 2)),
    }


class UnitVectors:
    """In place of a generator: one unit vector after another. A draw is linear, so these show its law exactly."""

    def __init__(self):
        self.asked = 0

    def standard_normal(self, size):
        self.asked += 1
        return np.eye(size)[self.asked - 1]


def law(noise, noise_std):
    """Return the covariances of weights and message."""
    units = UnitVectors()
    draws = [noise.draw(noise_std, units) for _ in range(noise.rank)]
    weights = np.array([draw.weights for draw in draws])
    messages = np.array([draw.message for draw in draws])
    return weights.T @ weights, messages.T @ messages


def test_lemma_1_by_hand():
    # 3 / (10 * 4) * (2 * 0.5 + (1 + 3 * 4) * 1.5) = 0.075 * 20.5
    assert lemma_1_bound(10, **LEMMA) == pytest.approx(1.5375, rel=1e-15)


def test_theorem_3_by_hand():
    # ln(1.25e5) = 11.7360690; sqrt(2 * 11.7360690) = 4.8448053
    assert theorem_3_std(1.5375, **ROUND) == pytest.approx(4.8448053 * 1.5375 / 0.5, rel=1e-8)


def test_corollary_1_by_hand():
    # sqrt(2 * 8 * ln(1e6)) * 0.5 + 8 * 0.5 * (e^0.5 - 1) = 7.4338444 + 2.5948851
    epsilon, delta = corollary_1(**ROUND, delta_prime=1e-6, n_rounds=8)
    assert epsilon == pytest.approx(7.4338444 + 2.5948851, rel=1e-8)
    assert delta == pytest.approx(8.1e-5, rel=1e-12)


@pytest.mark.parametrize("name", LEMMA)
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, None, "1", True])
def test_lemma_1_refuses(name, value):
    with pytest.raises(ParameterError, match=name):
        lemma_1_bound(10, **{**LEMMA, name: value})


@pytest.mark.parametrize("value", [0, -1, 1.5, math.nan, None])
def test_counts_are_whole(value):
    with pytest.raises(ParameterError, match=r"^d (must be|is missing)"):
        lemma_1_bound(value, **LEMMA)
    with pytest.raises(ParameterError, match="n_rounds"):
        corollary_1(**ROUND, delta_prime=1e-6, n_rounds=value)
    with pytest.raises(ParameterError, match="rho"):
        lemma_1_bound(10, **{**LEMMA, "rho": 0.0})


@pytest.mark.parametrize(
    ("name", "value"),
    [("epsilon", 0.0), ("epsilon", 1.01), ("epsilon", math.nan), ("delta", 0.0), ("delta", 1.0), ("delta", math.nan)],
)
def test_claims_refuse(name, value):
    with pytest.raises(ParameterError, match=name):
        theorem_3_std(1.0, **{**ROUND, name: value})
    with pytest.raises(ParameterError, match=name):
        corollary_1(**{**ROUND, name: value}, delta_prime=1e-6, n_rounds=1)


@pytest.mark.parametrize("value", [0.0, 1.0, math.nan])
def test_corollary_refuses_delta_prime(value):
    with pytest.raises(ParameterError, match="delta_prime"):
        corollary_1(**ROUND, delta_prime=value, n_rounds=1)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_bad_bounds_and_stds(value):
    with pytest.raises(ParameterError, match="bound"):
        theorem_3_std(value, **ROUND)
    with pytest.raises(ParameterError, match="noise_std"):
        PublishedNoise(np.eye(2)).draw(value, np.random.default_rng(0))


@pytest.mark.parametrize("name", blocks())
def test_law_of_the_noise(name):
    block = blocks()[name]
    dense = np.asarray(block.toarray() if sp.issparse(block) else block, dtype=float)
    noise = PublishedNoise(block)
    assert noise.rank == np.linalg.matrix_rank(dense)
    weights, messages = law(noise, 3.0) if noise.rank else (np.zeros(2), np.zeros(3))
    inverse = np.linalg.pinv(dense.T @ dense, rcond=1e-10, hermitian=True)
    np.testing.assert_allclose(weights, 9.0 * inverse if noise.rank else 0.0, atol=1e-10)
    np.testing.assert_allclose(messages, 9.0 * dense @ inverse @ dense.T if noise.rank else 0.0, atol=1e-10)
    draw = noise.draw(3.0, np.random.default_rng(0))
    assert draw.weights.shape == dense.shape[1:] and draw.message.shape == dense.shape[:1]
    np.testing.assert_allclose(draw.message, dense @ draw.weights, atol=1e-12)


def test_independent_rows_get_isotropic_noise():
    _, messages = law(PublishedNoise(blocks()["wide"]), 2.0)
    np.testing.assert_allclose(messages, 4.0 * np.eye(5), atol=1e-12)


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.9, False), (1.1, False)])
def test_length_of_drawn_messages(factor, right):
    """|D xi|^2 / sigma^2 is chi-squared with rank degrees of freedom; 4,000 draws, seed fixed, 1e-6 of seeds fail."""
    noise, rng = PublishedNoise(blocks()["singular"]), np.random.default_rng(1)
    squares = [np.sum(noise.draw(5.0 * factor, rng).message ** 2) / 25.0 for _ in range(4000)]
    assert (kstest(squares, chi2(4).cdf).pvalue > 1e-6) == right


def test_draws_come_from_the_given_generator():
    noise = PublishedNoise(blocks()["tall"])
    rng = np.random.default_rng(7)
    first, second = noise.draw(1.0, rng), noise.draw(1.0, rng)
    assert not np.allclose(first.message, second.message)
    np.testing.assert_array_equal(first.message, noise.draw(1.0, np.random.default_rng(7)).message)
    assert not noise.draw(0.0, rng).message.any()


@pytest.mark.parametrize(
    "block",
    [np.ones(3), np.ones((0, 2)), np.ones((2, 0)), [["a", "b"]], [[1.0, 2.0], [3.0]], np.ones((2, 2)) * 1j, None],
    ids=["vector", "no rows", "no columns", "text", "ragged", "complex", "none"],
)
def test_blocks_that_are_no_matrix(block):
    with pytest.raises(ParameterError, match="block must be a matrix"):
        PublishedNoise(block)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e200])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4)])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_blocks_that_are_not_finite(value, shape, kind):
    block = np.eye(*shape)
    block[1, 1] = value
    with pytest.raises(DataError, match="block holds NaN"):
        PublishedNoise(kind(block))
