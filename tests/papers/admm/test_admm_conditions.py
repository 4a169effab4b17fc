"""Theorem 1's conditions, checked by hand and by what the printed updates then do."""

import math

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Hinge, Logistic, SmoothedHinge, Squared
from sottovoce.papers.admm import Penalty, admm, theorem_1_conditions
from support.sigmoid_loss import SigmoidLoss


class Unbounded(Logistic):
    """log(1 + exp(-y m)) - y m / 2: convex, and not bounded below."""

    def conjugate(self, y, a):
        return np.where(a * y == 0.0, np.inf, super().conjugate(y, a))


def joined(*blocks):
    return list(blocks)


def stretched(singular, n=20, seed=0):
    """A block with these singular values."""
    rng = np.random.default_rng(seed)
    d = len(singular)
    left, right = np.linalg.qr(rng.normal(size=(n, d)))[0], np.linalg.qr(rng.normal(size=(d, d)))[0]
    return left @ np.diag(singular) @ right.T


def test_moduli_and_least_rho_by_hand():
    """D'D has eigenvalues 1 to 4 and 1 to 9; l2 = 2: (b) asks for 2 + rho >= 8 and 2 + rho >= 18."""
    parties = joined(stretched([1.0, 2.0]), stretched([3.0, 1.5, 1.0], seed=1))
    report = theorem_1_conditions(parties, Logistic(), penalty=Penalty(2.0), rho=10.0)
    first, second = report.parties
    assert (first.smallest, first.largest, first.modulus, first.least_rho) == pytest.approx((1.0, 4.0, 12.0, 6.0))
    assert (second.smallest, second.largest, second.modulus, second.least_rho) == pytest.approx((1.0, 9.0, 12.0, 16.0))
    assert (report.smoothness, report.modulus) == (0.25, 10.0)
    assert report.least_rho == pytest.approx(16.0)
    assert not report.holds
    assert report.failing == ("2 (b): gamma_m = 12 of party 2 is below 18",)


@pytest.mark.parametrize(
    ("loss", "least"),
    [
        (Logistic(), math.sqrt(2.0) / 4.0),
        (Squared(), math.sqrt(2.0)),
        (SmoothedHinge(0.1), math.sqrt(2.0) * 10.0),
        (SigmoidLoss(), 2.0 / (6.0 * math.sqrt(3.0))),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_condition_c(loss, least):
    """(b) holds by the penalty alone here; rho > sqrt(2) L for a convex loss, rho > 2 L for another."""
    parties = joined(0.1 * stretched([1.0, 2.0]))
    for rho, holds in ((1.001 * least, True), (0.999 * least, False)):
        report = theorem_1_conditions(parties, loss, penalty=Penalty(1.0), rho=rho)
        assert report.holds is holds
        assert report.least_rho == pytest.approx(least)
        assert all(text.startswith("2 (c)") for text in report.failing)
    small = theorem_1_conditions(parties, loss, penalty=Penalty(1.0), rho=0.5 * loss.smoothness)
    assert any("is below L" in text for text in small.failing)
    assert any("(7) is not strongly convex" in text for text in small.failing) is (loss.name == "sigmoid")


@pytest.mark.parametrize(
    ("blocks", "loss", "penalty", "fault"),
    [
        ([np.ones((20, 2))], Logistic(), Penalty(50.0), "1: the columns of party 1 are linearly dependent"),
        ([np.ones((3, 1)), stretched([1.0] * 3, 3)[:, [0, 1, 2, 0]]], Logistic(), Penalty(9.0), "columns of party 2"),
        ([stretched([1.0])], Hinge(), Penalty(9.0), "the derivative of the hinge loss jumps"),
        ([np.zeros((5, 1))], Squared(), Penalty(), "(6) of party 1 is not strongly convex"),
        ([stretched([1.0])], Unbounded(), Penalty(), "3: the objective may be unbounded below"),
    ],
)
def test_conditions_that_no_rho_can_meet(blocks, loss, penalty, fault):
    report = theorem_1_conditions(joined(*blocks), loss, penalty=penalty, rho=1e9)
    assert any(fault in text for text in report.failing)
    assert report.least_rho == math.inf
    assert not report.holds


def test_rank_is_that_of_columns_and_intercept():
    """Columns that add up to the column of ones are dependent with it, and an intercept has no l2 in its modulus."""
    halves = np.repeat(np.eye(2), 10, axis=0)
    without = theorem_1_conditions(joined(halves), Logistic(), penalty=Penalty(1.0), rho=3.0)
    assert without.holds and without.parties[0].modulus == pytest.approx(31.0)
    parties = joined(halves, stretched([1.0, 1.0]) + 0.01)
    report = theorem_1_conditions(parties, Logistic(), penalty=Penalty(1.0), rho=3.0, intercept=0)
    assert any("columns of party 1" in text for text in report.failing)
    other = theorem_1_conditions(parties, Logistic(), penalty=Penalty(1.0), rho=3.0, intercept=1)
    assert other.parties[0].has_full_rank and other.parties[1].has_full_rank
    assert other.parties[1].modulus == 3.0 * other.parties[1].smallest


def test_a_penalty_makes_a_lipschitz_loss_bounded():
    parties = joined(stretched([1.0]))
    assert theorem_1_conditions(parties, Unbounded(), penalty=Penalty(0.5), rho=3.0).holds
    free = theorem_1_conditions(parties, Unbounded(), penalty=Penalty(0.5), rho=3.0, intercept=0)
    assert "3: the objective may be unbounded below" in free.failing


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        *(({"rho": rho}, "rho") for rho in (0.0, -1.0, math.nan, math.inf, None, "1")),
        ({"intercept": 1}, "the 1 parties"),
    ],
)
def test_bad_input(changed, words):
    with pytest.raises(ParameterError, match=words):
        theorem_1_conditions([np.ones((3, 1))], Logistic(), penalty=Penalty(), **{"rho": 1.0, **changed})


def run_printed(blocks, loss, y, l2, rho, rounds, form="printed"):
    return admm(blocks, loss, y, penalty=Penalty(l2), rho=rho, form=form, max_iter=rounds, tol=1e-6)


def test_the_conditions_do_not_suffice_for_three_parties():
    """Three parties that hold one column, squared loss, rho = 2: every condition holds and eq. (6) to (8) diverge.

    On the scores the updates are linear: Q' = -2 Q + 1.5 z, z' = (2 Q' + z) / 3 for targets 0, with an eigenvalue of
    (-1 - sqrt(7)) / 3 = -1.215.
    """
    rng = np.random.default_rng(0)
    column = rng.normal(size=(30, 1))
    column /= np.linalg.norm(column)
    y = column[:, 0] + 0.1 * rng.normal(size=30)
    parties = joined(column, column, column)
    report = theorem_1_conditions(parties, Squared(), penalty=Penalty(), rho=2.0)
    assert report.holds
    history = run_printed(parties, Squared(), y, 0.0, 2.0, 40)
    growth = history.objective[-1] / history.objective[-2]
    assert growth == pytest.approx(((1.0 + math.sqrt(7.0)) / 3.0) ** 2, rel=1e-6)
    # a small penalty changes nothing, twice the rho does
    with_penalty = theorem_1_conditions(parties, Squared(), penalty=Penalty(0.01), rho=2.0)
    assert with_penalty.holds
    with pytest.raises(ParameterError, match="the printed form of ADMM diverges with rho=2"):
        run_printed(parties, Squared(), y, 0.01, 2.0, 200)
    assert run_printed(parties, Squared(), y, 0.01, 4.0, 20_000).converged
    # and so do the proximal and the averaged form at the same rho
    for form in ("proximal", "sharing"):
        assert run_printed(parties, Squared(), y, 0.01, 2.0, 20_000, form).converged
