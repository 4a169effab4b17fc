"""The length of the scores: near the best one where there is budget, the prior where there is none, and total."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.sums import last_factors
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.central.sums.last_factors import CLIP, ROUNDS, ScoreMoments
from sottovoce.losses import Multinomial
from sottovoce.privacy.accounting import flatten
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.events import GaussianEvent
from support.asking import answered
from support.many_parts import begun

N, D, K = 3000, 4, 3
rng = np.random.default_rng(0)
X = rng.normal(size=(N, D))
X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
W = rng.normal(size=(K, D)) * 5.0
Y = (X @ W.T + rng.gumbel(size=(N, K))).argmax(axis=1)
ROWS = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=Team(1, None))


def moments(sums, weights=W):
    return ScoreMoments(weights, 1.3, sums.clip, sums.ticks_per_unit)


def release(weights, mu, codes=Y, rows=ROWS):
    asks = partial(last_factors.score_length, weights, Neighbours(Adjacency.ZERO_OUT), mu)
    found = answered(asks, begun(rows, codes), 1)
    return found.result, found.event


@pytest.mark.parametrize("factor", [0.4, 1.0, 2.5])
def test_scores_get_their_best_length(factor):
    length, event = release(factor * W, mu=50.0)
    assert flatten(event) == {GaussianEvent(math.sqrt(ROUNDS) / 50.0): ROUNDS}
    best = minimize_scalar(
        lambda t: Multinomial(K).value(Y, factor * math.exp(t) * X @ W.T).mean(), bounds=(-2, 2), method="bounded"
    ).x
    assert math.log(length) == pytest.approx(best, abs=0.2)  # two steps, a prior, and the largest errors are cut


def test_a_round_is_weighed_against_the_prior_by_its_variance():
    asks = last_factors.score_length(W, Neighbours(Adjacency.ZERO_OUT), 1.0)
    std = next(asks).mechanism.noise_std
    asks.send([-1.5 * std, 3.0 * std])  # 0.5 further than the prior, which is 0.3 with a deviation of 0.4
    with pytest.raises(StopIteration) as end:
        asks.send([-std, 1.9 * std])  # may be noise alone, and tells nothing
    assert math.log(end.value.value) == pytest.approx((0.3 / 0.4**2 + 0.8 * 3.0**2) / (0.4**-2 + 3.0**2))


def test_the_sums_are_those_of_the_page_whatever_the_pieces(monkeypatch):
    sums = clipped_sum(Neighbours(Adjacency.ZERO_OUT), CLIP, 3.0)
    whole = begun(ROWS, Y).ask(moments(sums))
    z = 1.3 * X @ W.T
    p = softmax(z, axis=1)
    middle = (p * z).sum(axis=1)
    terms = np.stack([middle - z[np.arange(N), Y], (p * (z - middle[:, None]) ** 2).sum(axis=1)], axis=1)
    terms *= np.minimum(1.0, CLIP / np.linalg.norm(terms, axis=1))[:, None]
    # a tick for each row, where the products were rounded
    np.testing.assert_allclose(whole, terms.sum(axis=0) * sums.ticks_per_unit, atol=2 * N)
    monkeypatch.setattr(last_factors, "PIECE", 7)
    np.testing.assert_array_equal(begun(ROWS, Y).ask(moments(sums)), whole)
