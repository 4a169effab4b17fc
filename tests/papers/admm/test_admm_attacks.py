"""Attacks on the published vertical noise: each finds what it says, and says nothing where there is nothing to find."""

import math

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.losses.logistic import Logistic
from sottovoce.papers.admm.algorithm import half_inverse
from sottovoce.papers.admm.attacks import (
    Lemma1Counterexample,
    distance_to_columns,
    identify_rows,
    labels_from_dual,
    recover_block,
    rows_to_know,
)

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


def test_a_larger_span_is_told_apart_from_its_own_releases():
    """A change in a redundant column only adds a direction: only the releases of the neighbour show the difference."""
    larger = BLOCK.copy()
    larger[3, 6] += 1.0
    assert distance_to_columns(release(0), larger) < 1e-13
    assert distance_to_columns(release(0, larger), BLOCK) > 1e-4


def test_isotropic_noise_shows_nothing():
    """The same attacks on the same block: as far from its own span as from a neighbour's, and few rows are named."""
    zeroed = BLOCK.copy()
    zeroed[3] = 0.0
    rng, rows = np.random.default_rng(2), rows_to_know(np.column_stack([release(seed) for seed in range(RANK)]))
    noised = [BLOCK @ rng.normal(size=BLOCK.shape[1]) + rng.normal(0.0, STD, len(BLOCK)) for _ in range(RANK)]
    own, other = (distance_to_columns(noised[0], block) for block in (BLOCK, zeroed))
    assert own > 0.9
    assert other == pytest.approx(own, rel=0.05)
    candidates = np.unique(BLOCK, axis=0)
    guesses = candidates[identify_rows(noised[0], rows, BLOCK[rows], candidates)]
    assert np.mean((guesses == np.delete(BLOCK, rows, axis=0)).all(axis=1)) < 0.25
    assert np.abs(recover_block(np.column_stack(noised), rows, BLOCK[rows]) - BLOCK).max() > 0.5


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
