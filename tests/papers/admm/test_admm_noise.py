"""The published noise of ADMM sharing: formulas, and the law N(0, sigma^2 P), P the projection on the columns."""

import math

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.papers.admm import corollary_1, lemma_1_bound, theorem_3_std
from sottovoce.papers.admm.algorithm import half_inverse

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
        "whole numbers": np.arange(12.0).reshape(6, 2),
        "zero": np.zeros((3, 2)),
    }


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


BAD = [
    *((lemma_1_bound, (10,), LEMMA, name, value) for name in LEMMA for value in (math.nan, math.inf, -1.0, None, True)),
    *((lemma_1_bound, (value,), LEMMA, "d", value) for value in (0, -1, 1.5, math.nan)),
    *((theorem_3_std, (1.0,), ROUND, name, value) for name in ROUND for value in (0.0, 1.01, math.nan)),
    *((theorem_3_std, (value,), ROUND, "bound", value) for value in (-1.0, math.nan, math.inf)),
    *((corollary_1, (), ROUND | {"delta_prime": 1e-6, "n_rounds": 1}, name, value)
      for name in ("epsilon", "delta", "delta_prime", "n_rounds") for value in (0.0, math.nan)),
]  # fmt: skip


def test_nonsense_is_refused():
    for claim, places, given, name, value in BAD:
        with pytest.raises(ParameterError, match=name):
            claim(*places, **(given | {name: value} if name in given else given))


@pytest.mark.parametrize("name", blocks())
def test_law_of_the_noise(name):
    block = blocks()[name]
    factor = half_inverse(block)
    assert factor.shape == (block.shape[1], np.linalg.matrix_rank(block))
    inverse = np.linalg.pinv(block.T @ block, rcond=1e-10, hermitian=True)
    np.testing.assert_allclose(factor @ factor.T, inverse, atol=1e-10)
    message = block @ factor
    np.testing.assert_allclose(message @ message.T, block @ inverse @ block.T, atol=1e-10)
