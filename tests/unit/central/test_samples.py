"""Poisson samples, sums over them, and the noise of steps that each take a fresh one."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sottovoce.central.data.lengths import make_rows
from sottovoce.central.kernels import passes
from sottovoce.central.parallel import Team
from sottovoce.central.sums.samples import (
    SampledGradient,
    poisson_sample,
    refuse_rare_samples,
    sampled_noise,
    sampled_steps,
)
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.privacy.accounting import MOST_SAMPLED_STEPS, PLDAccountant
from sottovoce.privacy.events import GaussianEvent
from sottovoce.randomness import Purpose, Streams
from support.many_parts import begun


class Gaps:
    """Gaps of another rate than is asked for: how many are drawn at once does not fit."""

    def __init__(self, rate, seed):
        self.rate, self.generator = rate, np.random.default_rng(seed)

    def geometric(self, rate, size):
        return self.generator.geometric(self.rate, size)


chances = st.floats(1e-6, 1.0, exclude_max=True)


@given(n=st.integers(1, 300), rate=chances, asked=chances, seed=st.integers(0, 99))
@example(n=3, rate=1e-19, asked=1e-19, seed=0)  # gaps whose sum a word could not hold
def test_a_sample_is_where_geometric_gaps_end(n, rate, asked, seed):
    """From before the first row to past the last one, however many are drawn at once."""
    places, last, gaps = [], -1, np.random.default_rng(seed)
    while (last := last + int(gaps.geometric(rate))) < n:
        places.append(last)
    assert poisson_sample(n, asked, Gaps(rate, seed)).tolist() == places


@given(n=st.integers(0, 9), rate=st.sampled_from([1.0, 1.5]))
def test_a_sample_of_all_rows_needs_no_coins(n, rate):
    np.testing.assert_array_equal(poisson_sample(n, rate, None), np.arange(n))


@pytest.mark.parametrize(
    ("rate", "steps", "fits"),
    [
        (1e-6, MOST_SAMPLED_STEPS, True), (math.nextafter(1e-6, 0.0), 1, False), (1e-6, MOST_SAMPLED_STEPS + 1, False),
        (math.nextafter(1.0, 0.0), MOST_SAMPLED_STEPS + 1, False), (1.0, MOST_SAMPLED_STEPS + 1, True),
        (0.5, 1, True), (0.0, 1, False),
    ],
)  # fmt: skip
def test_samples_are_refused_where_the_accountant_ends(rate, steps, fits):
    if fits:
        refuse_rare_samples(rate, steps)
    else:
        with pytest.raises(ParameterError, match=f"make {steps} steps .* at most {MOST_SAMPLED_STEPS}, of probability"):
            refuse_rare_samples(rate, steps)


def test_the_noise_of_sampled_steps_is_the_least_that_keeps_the_budget(coarse_losses):
    before = (GaussianEvent(9.0),)
    noise = sampled_noise(before, 0.1, 20, 1.0, 1e-5, 0.5)

    def spent(noise):
        return PLDAccountant().epsilon(sampled_steps(before, 0.1, 20, noise), 1e-5)

    assert spent(noise) <= 1.0 < spent(noise / 1.002)


@pytest.mark.parametrize("rate", [None, 0.3])
def test_a_sampled_sum_is_that_of_the_rows_that_the_coins_of_the_holder_draw(rate):
    rng, n, clip, ticks, loss = np.random.default_rng(0), 50, 0.3, 2.0**20, Logistic()
    rows = make_rows(rng.normal(size=(n, 3)), data_norm=1.0, constant=0.2, names=None, team=Team(1, None))
    y, w = rng.choice([-1.0, 1.0], n), rng.normal(size=4)
    part = begun(rows, y)
    part.coins = Streams(5)
    options = {} if rate is None else {"sampling_rate": rate}
    ask = SampledGradient(loss, w, clip, ticks, **options)
    drawn = np.arange(n) if rate is None else poisson_sample(n, rate, Streams(5).generator(Purpose.SAMPLING))
    terms = np.zeros((n, 4), np.int64)
    for row in drawn:
        passes.gradient_of(rows.kernel, y, w, clip, ticks, loss, np.array([row]), 0, 1, terms[row])
    np.testing.assert_array_equal(ask.on(part), terms.sum(axis=0))
    assert ask.sampling_rate == (rate or 1.0)
    assert np.abs(terms).any(axis=1).sum() == len(drawn)
