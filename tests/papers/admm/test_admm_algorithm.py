"""Algorithm 1 in one place is the same over parties, ends where it should, and says where it does not."""

import itertools
import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, SigmoidLoss, Squared
from sottovoce.papers.admm import admm_sharing, perturbed_admm_sharing, printed
from sottovoce.papers.admm.algorithm import half_inverse
from sottovoce.vertical import VerticalRidge, split_columns
from sottovoce.vertical.protocols.exact.messages import AdmmReply
from sottovoce.vertical.protocols.exact.plan import prepare
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.protocols.general.messages import Keep
from sottovoce.vertical.table.penalty import Penalty
from sottovoce.vertical.wire import Done

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 6))
NUMBERS = X @ np.arange(6.0) + RNG.normal(size=300)
B = np.where(X[:, 0] + X[:, 3] + RNG.normal(size=300) > 0.0, 1.0, -1.0)
BLOCKS = [X[:, :4], X[:, 4:]]


def prepared(sizes, l2, **options):
    parties = split_columns(X, sizes)
    prepare(parties, Penalty(l2), **{"intercept_at": None} | options)
    return parties


def rounds(number, **changed):
    """Return x, z and y after so many rounds of the listing."""
    given = {"D": BLOCKS, "b": B, "lam": 0.7, "rho": 0.9} | changed
    run = perturbed_admm_sharing if "sigma" in given else admm_sharing
    return next(itertools.islice(run(**given), number - 1, None))


def test_the_listing_is_the_messages_of_parties_one_round_later():
    parties = prepared([4, 2], 0.7)
    with parties.recorded() as record:
        printed(parties, ScoreProblem(Logistic(), B), rho=0.9, max_iter=12, tol=0.0)
    sent = [item.message.scores for item in record if isinstance(item.message, AdmmReply)]
    for t in (1, 2, 7, 12):
        x, _, _ = rounds(t + 1)
        for m in (0, 1):
            np.testing.assert_allclose(sent[2 * t - 2 + m], BLOCKS[m] @ x[m], atol=1e-11)


def test_the_first_round_from_zeros_is_no_move_of_the_parties():
    x, z, y = rounds(1)
    assert not np.concatenate(x).any()
    np.testing.assert_allclose(y, -0.9 * z)
    assert np.ptp(z * B) < 1e-12 < z[0] * B[0]  # the same number for everybody, with the label's sign


def test_it_ends_at_the_optimum_and_y_is_the_slope():
    x, z, y = rounds(3000)
    best = LogisticRegression(C=1.0 / 0.7, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, B)
    np.testing.assert_allclose(np.concatenate(x), best.coef_[0], atol=1e-6)
    np.testing.assert_allclose(y, Logistic().derivative(B, z), atol=1e-9)  # eq. (11)


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


def test_dependent_columns_have_the_pseudo_inverse():
    twice = np.hstack([BLOCKS[0], BLOCKS[0][:, :1]])
    F = half_inverse(twice)
    np.testing.assert_allclose(F @ F.T, np.linalg.pinv(twice.T @ twice), atol=1e-10)
    assert F.shape == (5, 4)


@pytest.mark.parametrize("sizes", [[3, 3], [2, 2, 2]])
def test_a_run_that_diverges_is_an_error(sizes):
    """Ridge with independent columns at the rho of our own form: the objective grew to 1e288 in silence."""
    parties = prepared(sizes, 1.0, intercept_at=("party1", "party2"))
    with pytest.raises(ParameterError, match=r"the printed form of ADMM diverges with rho=0.4: .* Give a larger rho"):
        printed(parties, ScoreProblem(Squared(), NUMBERS), rho=0.4, max_iter=2000)


@pytest.mark.parametrize("sizes", [[3, 3], [2, 2, 2]])
def test_the_sigmoid_loss_ends_at_a_stationary_point(sizes):
    parties = prepared(sizes, 3.0)
    rho = 2.1 * SigmoidLoss().smoothness
    history = printed(parties, ScoreProblem(SigmoidLoss(), B), rho=rho, max_iter=2000, tol=1e-9)
    parties.exchange(Keep("m"), Done)
    w = np.concatenate([party.part("m").coef for party in parties.parties.values()])
    assert np.abs(X.T @ SigmoidLoss().derivative(B, X @ w) + 3.0 * w).max() < 1e-6
    assert history.converged
    assert np.diff(history.objective).max() < 1e-3


def test_the_product_does_not_offer_it():
    model = VerticalRidge(epsilon=math.inf, solver="admm", solver_options={"admm_form": "printed"})
    with pytest.raises(ParameterError, match=r"admm_form'\] must be"):
        model.plan(prepared([3, 3], 1.0))
