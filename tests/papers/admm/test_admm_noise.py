"""The published noise of ADMM sharing: formulas, the law N(0, sigma^2 P), and attacks that find what they say."""

import math

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.losses.logistic import Logistic
from sottovoce.papers.admm import corollary_1, lemma_1_bound, theorem_3_std
from sottovoce.papers.admm.algorithm import half_inverse
from sottovoce.papers.admm.attacks import (
    Lemma1Counterexample,
    distance_to_columns,
    identify_rows,
    labels_from_dual,
    recover_block,
    rows_to_know,
)

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


STD = 100.0
rng = np.random.default_rng(0)
BLOCK = np.hstack([rng.integers(0, 2, (60, 5)).astype(float), np.ones((60, 1))])
BLOCK = np.hstack([BLOCK, BLOCK[:, [0]] - BLOCK[:, [1]]])  # rank 6 of 7
RANK = 6


def release(seed, block=BLOCK):
    rng = np.random.default_rng(seed)
    F = half_inverse(block)
    return block @ (rng.normal(size=block.shape[1]) + STD * F @ rng.standard_normal(F.shape[1]))


def test_release_lies_in_its_own_span_and_not_in_a_neighbour_s():
    row = BLOCK.copy()
    row[3] = BLOCK[np.argmax((BLOCK[3] != BLOCK).any(axis=1))]
    zeroed = BLOCK.copy()
    zeroed[3] = 0.0
    entry = BLOCK.copy()
    entry[3, 2] = 1.0 - entry[3, 2]
    assert distance_to_columns(release(0), BLOCK) < 1e-13
    for neighbour in (row, zeroed, entry):
        assert distance_to_columns(release(0), neighbour) > 1e-4
        assert distance_to_columns(release(0, neighbour), neighbour) < 1e-13


def test_as_many_known_rows_as_the_rank_identify_all_others():
    candidates = np.unique(BLOCK, axis=0)
    rows = rows_to_know(np.column_stack([release(seed) for seed in range(RANK)]))
    guesses = identify_rows(release(100), rows, BLOCK[rows], candidates)
    np.testing.assert_array_equal(candidates[guesses], np.delete(BLOCK, rows, axis=0))


def test_the_block_is_recovered():
    releases = np.column_stack([release(seed) for seed in range(RANK)])
    rows = rows_to_know(releases)
    assert len(set(rows.tolist())) == RANK
    np.testing.assert_allclose(recover_block(releases, rows, BLOCK[rows]), BLOCK, atol=1e-11)
    fewer = releases[:, : RANK - 1]  # one release short: the block is not in their span
    rows = rows_to_know(fewer)
    assert np.abs(recover_block(fewer, rows, BLOCK[rows]) - BLOCK).max() > 0.01


def test_labels_are_the_signs_of_the_dual_variable():
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(1000) < 0.3, 1.0, -1.0)
    margins = 20.0 * rng.normal(size=1000)  # far from fitting the labels
    np.testing.assert_array_equal(labels_from_dual(Logistic().derivative(labels, margins)), labels)


@pytest.mark.parametrize("n_pairs", [4, 34, 35, 400])
def test_lemma_1_counterexample(n_pairs):
    case = Lemma1Counterexample(n_pairs)
    failed = [name for name, holds in case.assumptions().items() if not holds]
    assert failed == []
    assert case.change == pytest.approx(1.0 / math.sqrt(n_pairs), rel=1e-9)
    assert case.change_at_fixed_weights == pytest.approx(math.sqrt(2.0 / n_pairs), rel=1e-9)
    assert case.bound == pytest.approx(3.0 * (2.0 + 0.25 / n_pairs) / (n_pairs + 1), rel=1e-9)
    assert (case.change > case.bound) == (n_pairs >= 35)


@pytest.mark.parametrize("value", [3, 0, 4.0, None, True])
def test_lemma_1_counterexample_refuses(value):
    with pytest.raises(ParameterError, match="n_pairs"):
        Lemma1Counterexample(value)


def test_bad_input():
    good, rows = release(0), np.arange(59)
    with pytest.raises(ParameterError, match="same number of rows"):
        distance_to_columns(good[:-1], BLOCK)
    with pytest.raises(ParameterError, match="not zero"):
        distance_to_columns(np.zeros(60), BLOCK)
    with pytest.raises(ParameterError, match="finite"):
        distance_to_columns(np.full(60, np.nan), BLOCK)
    with pytest.raises(ParameterError, match="same number of rows"):
        identify_rows(good, rows, BLOCK, BLOCK)
    with pytest.raises(ParameterError, match="candidates"):
        identify_rows(good, rows, BLOCK[rows], BLOCK[:, :3])
    with pytest.raises(ParameterError, match="releases must be finite"):
        rows_to_know(good)
    with pytest.raises(ParameterError, match="releases must be finite"):
        recover_block(np.full((60, 2), np.inf), rows[:2], BLOCK[:2])
