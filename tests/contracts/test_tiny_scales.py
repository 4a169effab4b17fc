"""Clips so small that their ticks leave the doubles have no mechanism; all others are as many ticks as noise shows.

With a clip below 5e-302 the number of ticks per unit was infinite, and every entry of a row counted as -2^31 ticks in
place of at most 2^24: a receipt of epsilon 0.1 stood beside an epsilon of 5.57 or more. That plans refuse public
numbers that would lead there, unread, is in ``test_public_numbers``; that kernels cut each entry, in ``test_kernels``.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sottovoce.central.data.labels import Targets
from sottovoce.central.kernels.vectors import MOST_TICKS
from sottovoce.central.sums.clipped_sums import SumOfTargets, clipped_sum
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from support.many_parts import with_labels


@pytest.mark.parametrize("clip", [5e-302, 1e-251, 1e161, 0.0, np.nan])
def test_a_clip_outside_the_range_has_no_mechanism(clip):
    with pytest.raises(ParameterError, match="the clip of a row's term must be"):
        clipped_sum(Neighbours(Adjacency.ADD_REMOVE), clip, 1.0)


@given(clip=st.floats(1e-250, 1e160), exponent=st.floats(-4.0, 12.0), adjacency=st.sampled_from(list(Adjacency)),
       rows=st.integers(1, 9))  # fmt: skip
@example(1e-250, 0.0, Adjacency.ZERO_OUT, 1)
@example(1e160, 0.0, Adjacency.ZERO_OUT, 1)
def test_a_clip_is_as_many_ticks_as_a_kernel_counts_or_the_noise_shows(clip, exponent, adjacency, rows):
    neighbours, noise = Neighbours(adjacency, rows), 10.0**exponent
    total = clipped_sum(neighbours, clip, noise)
    mechanism = total.mechanism
    factor = rows * (2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0)
    assert factor * clip <= mechanism.l2_sensitivity / (1.0 + 2.0**-21) <= factor * clip * (1.0 + 2.0**-20)
    assert (total.clip, mechanism.noise_multiplier) == (clip, noise)
    assert total.ticks_per_unit * mechanism.tick == 1.0
    kernel, spread = clip / mechanism.tick, mechanism.noise_std / mechanism.tick
    assert kernel < MOST_TICKS
    assert spread < 2.0**33
    assert kernel >= MOST_TICKS / 2 or spread >= 2.0**32


@given(labels=st.lists(st.floats(allow_nan=False), max_size=9), bound=st.floats(1e-3, 1e3),
       exponent=st.integers(-40, 40))  # fmt: skip
@example([1.0, -1.0], 1.0, 24)
@example([5.0, 5.0], 1.0, 24)
def test_a_sum_of_labels_is_that_of_whole_ticks_each_within_its_bounds(labels, bound, exponent):
    ask, n = SumOfTargets(bound, 2.0**exponent), len(labels)
    most = min(bound * 2.0**exponent, float(MOST_TICKS))
    (found,) = ask.on(with_labels(labels))
    assert found == sum(math.trunc(max(-most, min(most, label * 2.0**exponent))) for label in labels)
    for answer, fits in ((n * MOST_TICKS, True), (n * MOST_TICKS + 1, False)):
        for sign in (1, -1):
            assert ask.allows(np.array([sign * answer]), n, None) is fits
            assert not ask.allows(np.array([sign * answer] * 2), n, None)
    part = with_labels([0.0, 2.0, 1.0, 0.0, 0.0])
    part.targets = Targets(against_rest=3)
    assert SumOfTargets(1.0, 8.0).on(part) == 8  # of the first of three models
