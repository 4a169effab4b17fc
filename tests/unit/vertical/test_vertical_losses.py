"""Losses beyond the defaults in the vertical estimators: sigmoid, Huber; against independent solvers."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Huber, SigmoidLoss
from sottovoce.report.comparison import made_again
from sottovoce.vertical import VerticalLinearSVC, VerticalRidge, split_columns
from sottovoce.vertical.protocols.exact.lbfgs import ScoreProblem, line_search

N, D = 300, 6
generator = np.random.default_rng(19)
X = generator.uniform(0.0, 1.0, (N, D))
SCORES = X @ np.array([3.0, -2.0, 1.0, 2.0, -3.0, 1.0]) - 1.0
TRUTH = np.where(SCORES > 0.0, 1, -1)
FLIPPED = np.where(generator.random(N) < 0.2, -TRUTH, TRUTH)
NUMBERS = SCORES + 0.1 * generator.standard_t(2, size=N)
SPLITS = pytest.mark.parametrize("sizes", [[6], [4, 2], [3, 2, 1]], ids=len)
ALPHA = 1e-2


def parts(sizes=(3, 2, 1), X=X):
    return split_columns(X, list(sizes))


def weights(model):
    return np.concatenate([part.coef for part in model.parts_.values()]), sum(
        part.intercept for part in model.parts_.values()
    )


def objective(loss, y, w, b, alpha=ALPHA, X=X):
    return float(loss.value(y, X @ w + b).mean()) + 0.5 * alpha * float(w @ w)


def slopes(loss, y, w, b, alpha=ALPHA, X=X):
    """Gradient of the objective in the coefficients and in the intercept."""
    each = loss.derivative(y, X @ w + b) / len(y)
    return np.append(X.T @ each + alpha * w, each.sum())


@SPLITS
def test_huber_is_the_joined_tables(sizes):
    loss = Huber(0.2)
    model = VerticalRidge(epsilon=math.inf, loss="huber", threshold=0.2, alpha=ALPHA, tol=1e-13, max_iter=5000).fit(
        parts(sizes), NUMBERS
    )
    theirs = minimize(
        lambda x: objective(loss, NUMBERS, x[:-1], x[-1]),
        np.zeros(D + 1),
        jac=lambda x: slopes(loss, NUMBERS, x[:-1], x[-1]),
        method="BFGS",
        options={"gtol": 1e-10},
    )
    assert np.append(*weights(model)) == pytest.approx(theirs.x, abs=1e-6)
    assert model.guarantee_.parameters["loss"] == "Huber (threshold 0.2)"


@SPLITS
def test_sigmoid_ends_at_a_stationary_point(sizes):
    model = VerticalLinearSVC(epsilon=math.inf, loss="sigmoid", alpha=ALPHA, tol=1e-13, max_iter=1000).fit(
        parts(sizes), FLIPPED
    )
    w, b = weights(model)
    assert np.abs(slopes(SigmoidLoss(), FLIPPED, w, b)).max() < 1e-8  # .25 at the start
    assert objective(SigmoidLoss(), FLIPPED, w, b) == pytest.approx(model.history_.objective[-1] / N, rel=1e-9)
    assert np.diff(model.history_.objective).max() < 1e-5 * N
    assert model.history_.converged
    # the slope is 0 at a maximum also: nothing near is lower
    step = 1e-3 * np.random.default_rng(0).normal(size=(200, D + 1))
    least = min(objective(SigmoidLoss(), FLIPPED, w + s[:-1], b + s[-1]) for s in step)
    assert least >= objective(SigmoidLoss(), FLIPPED, w, b) - 1e-12


def test_sigmoid_has_the_same_model_in_every_run_and_says_what_it_reaches():
    def fitted(**changed):
        return VerticalLinearSVC(epsilon=math.inf, loss="sigmoid", **changed).fit(parts(), FLIPPED)

    first, again, other = fitted(), fitted(), fitted(random_state=5)
    for model in (again, other):
        assert np.array_equal(weights(first)[0], weights(model)[0])
    told = first.guarantee_.parameters
    assert told["loss"] == "sigmoid"
    assert told["reaches"] == "a stationary point, from coefficients 0: the loss is not convex"
    assert made_again(first.guarantee_) == first.guarantee_
    assert "reaches" not in VerticalLinearSVC(epsilon=math.inf).fit(parts(), FLIPPED).guarantee_.parameters


def test_the_line_search_never_climbs():
    """Along a line the sigmoid loss may have several lowest points; plain Newton ends 1.4 above the start here."""
    problem = ScoreProblem(SigmoidLoss(), np.ones(3))
    z, change, square = np.array([0.0, 3.0, 5.0]), np.array([3.0, -8.0, -12.0]), 1e-3
    step = line_search(problem, z, change, 0.0, square)
    assert step > 0.0
    assert problem.value(z + step * change) + 0.5 * square * step**2 < problem.value(z) - 0.01


def test_wrong_labels_pull_the_sigmoid_less():
    """A tenth of the labels, farthest from the boundary and all on one side of it: accuracy on the true ones."""
    labels = np.where(np.quantile(SCORES, 0.9) < SCORES, -1, TRUTH)
    scores = {
        loss: VerticalLinearSVC(epsilon=math.inf, loss=loss, alpha=1e-4).fit(parts(), labels).score(parts(), TRUTH)
        for loss in ("hinge", "sigmoid")
    }
    assert scores["sigmoid"] > scores["hinge"] + 0.04


def test_far_labels_pull_huber_less():
    y = NUMBERS.copy()
    y[::20] += 100.0
    wanted = X @ np.array([3.0, -2.0, 1.0, 2.0, -3.0, 1.0]) - 1.0
    errors = {
        loss: float(
            np.abs(
                VerticalRidge(epsilon=math.inf, loss=loss, alpha=1e-4, max_iter=400, tol=1e-2)
                .fit(parts(), y)
                .predict(parts())
                - wanted
            ).mean()
        )
        for loss in ("squared", "huber")
    }
    assert errors["huber"] < 0.2 < 2.0 < errors["squared"]


def test_a_comparison_has_the_loss_that_was_trained():
    report = VerticalLinearSVC(epsilon=math.inf, loss="sigmoid").fit(parts(), FLIPPED).compare(parts(), FLIPPED)
    assert set(report.joint) == {"accuracy", "sigmoid loss"}
    assert report.joint["sigmoid loss"] < report.local["sigmoid loss"]
    report = VerticalRidge(epsilon=math.inf, loss="huber").fit(parts(), NUMBERS).compare(parts(), NUMBERS)
    assert set(report.joint) == {"mean absolute error", "mean squared error", "R^2"}
    assert "mean absolute error" in report.improved


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (VerticalLinearSVC(epsilon=1.0, delta=1e-4, classes=[-1, 1], loss="sigmoid"), "loss='sigmoid' is for a train"),
        (VerticalRidge(epsilon=1.0, delta=1e-4, label_bounds=(-4, 4), loss="huber"), "Use loss='squared'"),
        (
            VerticalLinearSVC(epsilon=math.inf, loss="logistic"),
            "loss must be one of .hinge., .sigmoid.; got",
        ),
        (VerticalRidge(epsilon=math.inf, loss="hinge"), "loss must be one of 'squared', 'huber'; got"),
        (VerticalRidge(epsilon=math.inf, loss="huber", threshold=0.0), "threshold must be a finite number > 0; got 0"),
        (VerticalRidge(epsilon=math.inf, loss="absolute"), "loss must be one of 'squared', 'huber'; got 'absolute'"),
    ],
)
def test_refusals(model, message):
    with pytest.raises(ParameterError, match=message):
        model.plan(parts())


def test_the_losses_of_before_are_trained_as_before():
    """What a default is made of did not change with the parameter ``loss``."""
    assert VerticalRidge(epsilon=math.inf).plan(parts()).loss.name == "squared"
    assert VerticalLinearSVC(epsilon=math.inf).plan(parts()).loss.name == "smoothed hinge (smoothing 0.5)"
