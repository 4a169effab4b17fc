"""The listings in plain numpy: their steps are the solvers', their sampling and noise the printed ones."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team
from sottovoce.papers.dp_scd import Published, Sequential
from sottovoce.papers.dp_scd.algorithm import dp_scd, primal_dp_scd, seq_dp_scd
from support.printed_scd import batch_moves

N, M, LAM = 60, 4, 0.05
LOSSES = ["squared", "logistic", "hinge"]
DUAL = {"as printed": (dp_scd, Published), "sequential": (seq_dp_scd, Sequential)}
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, M))
X /= np.linalg.norm(X, axis=1, keepdims=True)


def labels(loss):
    score = X @ [1.0, -1.0, 0.5, 0.0]
    return score if loss == "squared" else np.where(score > 0, 1.0, -1.0)


def model(loss):
    given = {"epsilon": 1.0, "delta": 1e-3, "data_norm": 1.0, "alpha": LAM, "fit_intercept": False}
    if loss == "squared":
        return sv.DPRidge(label_bounds=(-1.0, 1.0), **given)
    return (sv.DPLogisticRegression if loss == "logistic" else sv.DPLinearSVC)(classes=[-1.0, 1.0], **given)


@pytest.mark.parametrize("clip", [0.05, 10.0])
@pytest.mark.parametrize(
    ("loss", "form"),  # of logistic loss the sequential solver takes exact steps, the authors one of Newton's
    [(loss, form) for loss in LOSSES for form in DUAL if (loss, form) != ("logistic", "sequential")],
)
def test_a_batch_without_noise_is_that_of_the_solver(loss, form, clip):
    listing, solver = DUAL[form]
    size, y = 20, labels(loss)
    found = listing(X.T, y, loss, LAM, 1, size, clip, 0.0, np.random.default_rng(3))
    batch = np.random.default_rng(3).choice(N, size, replace=False)
    asked = model(loss).set_params(solver=solver(batch_size=size, clipping_norm=clip, epochs=2))
    plan = sv.plan(asked, N, M)
    rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=Team(1, None))
    moves, tick = batch_moves(plan, rows, y, np.zeros(N), np.zeros(M), batch)
    np.testing.assert_allclose(found.model[batch], moves[:size], rtol=1e-5, atol=2.0 * tick)
    np.testing.assert_allclose(found.v, moves[size:], rtol=1e-5, atol=2.0 * size * tick)
    np.testing.assert_allclose(found.theta, found.v / (LAM * N))


@pytest.mark.parametrize("listing", [dp_scd, seq_dp_scd, primal_dp_scd])
def test_without_noise_each_tends_to_the_optimum(listing):
    y = labels("squared")
    length = np.linalg.norm(X, axis=0) if listing is primal_dp_scd else np.ones(M)
    size = 2 if listing is primal_dp_scd else 15
    found = listing((X / length).T, y, "squared", LAM, 4000, size, 1e6, 0.0, np.random.default_rng(0))
    U = X / length
    best = np.linalg.solve(U.T @ U / N + LAM * np.eye(M), U.T @ y / N)
    np.testing.assert_allclose(found.theta, best, atol=1e-6)


@pytest.mark.parametrize("listing", [dp_scd, seq_dp_scd])
def test_noise_is_the_printed_one_and_each_step_draws_its_batch_anew(listing):
    """Rows of zeros and a loss at its optimum: alpha and v hold nothing but noise."""
    n, d, size, steps, clip, sigma = 4000, 3000, 400, 25, 0.3, 2.5
    nothing, y = np.zeros((d, n)), np.zeros(n)
    found = listing(nothing, y, "squared", 1e12, steps, size, 1e-9 + clip, sigma, np.random.default_rng(0))
    each = (math.sqrt(2.0) if listing is dp_scd else 2.0 * math.sqrt(size * (size + 1.0))) * clip * sigma
    assert found.v.std() == pytest.approx(each * math.sqrt(steps), rel=0.05)
    # a row that is never drawn keeps its zero: shuffle and cut would leave none after ten steps
    unvisited = np.count_nonzero(found.model == 0.0)
    assert unvisited == pytest.approx(n * (1.0 - size / n) ** steps, rel=0.2)


def test_noise_of_the_primal_form_lies_on_every_row():
    n, size, clip, sigma = 5000, 3, 0.1, 2.0
    found = primal_dp_scd(np.zeros((6, n)), np.zeros(n), "squared", 1.0, 9, size, clip, sigma, np.random.default_rng(0))
    assert found.v.std() == pytest.approx(2.0 * clip * math.sqrt(size * (size + 1)) * sigma * 3.0, rel=0.05)


def test_the_primal_form_has_no_step_for_the_hinge():
    with pytest.raises(KeyError):
        primal_dp_scd(X.T, labels("hinge"), "hinge", LAM, 1, 2, 1.0, 0.0, np.random.default_rng(0))
