"""Plans whose clips are so small that ticks left the doubles once got a receipt; now they are refused, unread.

With a clip below 5e-302 the number of ticks per unit was infinite, and every entry of a row counted as -2^31 ticks in
place of at most 2^24: a receipt of epsilon 0.1 stood beside an epsilon of 5.57 or more.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sottovoce import DPLogisticRegression, DPRidge
from sottovoce._validation import LARGEST, SMALLEST
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.data.targets import OneAgainstRest
from sottovoce.central.kernels import passes
from sottovoce.central.kernels.vectors import MOST_TICKS
from sottovoce.central.parallel import team
from sottovoce.central.sums.clipped_sums import SumOfTargets, clipped_sum, sum_mechanism
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.papers.dp_scd import kernels
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from support.many_parts import with_labels

N, D = 9, 24
X = np.zeros((N, D))
X[-1] = 1.0 / np.sqrt(D)
Y = np.where(np.arange(N) % 2 == 0, 1, -1)
PUBLIC = {
    "epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0, "adjacency": "add-remove", "n_public": N, "fit_intercept": False,
}  # fmt: skip
SGD = {"solver": "sgd", "solver_options": {"batch_size": N, "clipping_norm": 1e-303}}


class Unreadable:
    """A table of a public size that must not be looked at."""

    shape = (N, D)

    def __array__(self, *_, **__):
        raise AssertionError("the table was read")


@pytest.mark.parametrize(
    ("model", "argument"),
    [
        (DPLogisticRegression(alpha=1e-303, solver_options={"n_passes": 4}, classes=[-1, 1], **PUBLIC), "alpha"),
        (DPLogisticRegression(alpha=1e-303, classes=[-1, 1], **PUBLIC), "alpha"),
        (DPRidge(label_bounds=(-1e-303, 1e-303), solver="scd", **PUBLIC), r"label_bounds\[1\] - label_bounds\[0\]"),
        (DPRidge(alpha=1e-60, label_bounds=(-1e-250, 1e-250), **PUBLIC), r"alpha|label_bounds"),
        (DPLogisticRegression(classes=[-1, 1], **SGD, **PUBLIC), "clipping_norm"),
        (DPLogisticRegression(alpha=1e-160, **{**PUBLIC, "fit_intercept": True}, intercept_scaling=1e100,
                              classes=[-1, 1]), "alpha"),
    ],
)  # fmt: skip
def test_they_are_refused_before_the_table_is_read(model, argument):
    with pytest.raises(ParameterError, match=rf"({argument}) must be a finite number >= 1e-50 and <= 1e\+50"):
        model.fit(Unreadable(), Y)


@pytest.mark.parametrize("clip", [5e-302, 1e-251, 1e161, 0.0, np.nan])
def test_a_clip_outside_the_range_has_no_mechanism(clip):
    with pytest.raises(ParameterError, match="the clip of a row's term must be"):
        sum_mechanism(Neighbours(Adjacency.ADD_REMOVE), clip, 1.0)


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
    part.targets = OneAgainstRest(3)
    assert SumOfTargets(1.0, 8.0).on(part) == 8  # of the first of three models


@pytest.mark.parametrize("ticks_per_unit", [2.0**24, 1e290, 1e308, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [3, D])
def test_a_row_moves_no_entry_by_more_than_its_bound_whatever_the_ticks_are(ticks_per_unit, dtype, width):
    # the kernels by themselves: the ranges above keep such numbers away from them
    table = X[:, :width].astype(dtype)
    y, ones = Y.astype(float), np.ones(N)
    with team(1) as threads:
        rows = make_rows(table, data_norm=1.0, constant=0.5, names=None, team=threads)
    sums = np.zeros((3, width + 1), np.int64)
    shared = (rows.kernel, y)
    end = (1.0, ticks_per_unit, Logistic())
    passes.gradient(*shared, np.zeros(N), *end, N - 1, N, sums[0])
    passes.accelerated_pass(
        *shared, np.empty(0), 0 * ones, 0 * ones, 0.0, np.zeros(width + 1, dtype), 1.0, 0.5, *end, N - 1, N, sums[1]
    )
    kernels.batch_pass(
        *shared, 0 * ones, np.zeros(width + 1, dtype), 1.0, 1.0, *end, np.array([N - 1]), 0, 1, sums[2]
    )  # fmt: skip
    assert sums.any()
    assert np.abs(sums).max() <= MOST_TICKS


def test_clips_of_plans_within_their_ranges_are_far_from_the_edge():
    for alpha in (SMALLEST, LARGEST):
        for scaling in (SMALLEST, LARGEST):
            model = DPRidge(
                alpha=alpha, intercept_scaling=scaling, label_bounds=(0.0, SMALLEST), solver_options={"n_passes": 1},
                **{**PUBLIC, "fit_intercept": True},
            )  # fmt: skip
            assert np.isfinite(model.fit(np.ones((N, 2)), SMALLEST * np.ones(N)).coef_).all()
