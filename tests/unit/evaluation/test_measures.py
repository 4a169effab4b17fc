"""With the noise off, the measures are scikit-learn's within what the nodes cost, and exact where nothing is shared."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn import metrics

from sottovoce.evaluation import measures
from sottovoce.evaluation.axes import Axis
from sottovoce.evaluation.evaluating import released_tables
from sottovoce.evaluation.measures import Measure, mean_of, share
from sottovoce.evaluation.plan import PARTS, RANGE_CELLS, EvaluationPlan
from sottovoce.evaluation.tables import PLACING, ScoredRows, Table, axes_of, count
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from sottovoce.randomness import Streams

N = 20_000


@pytest.fixture(autouse=True)
def without_noise(monkeypatch):
    monkeypatch.setattr(
        DiscreteLaplace, "release", lambda self, ticks, noise: (ticks.astype(np.float64) * self.tick, self.event)
    )


def plan_for(task, n_samples, *, n_classes=2, bounds=None):
    return EvaluationPlan(
        task=task, n_classes=n_classes, label_bounds=bounds, epsilon=1.0, delta=0.0, adjacency=Adjacency.ZERO_OUT,
        n_samples=n_samples,
    )  # fmt: skip


def tables_of(task, labels, scores, *, n_classes=2, bounds=None, losses=None, left_out=None):
    plan = plan_for(task, len(labels), n_classes=n_classes, bounds=bounds)
    out = np.zeros(len(labels), bool) if left_out is None else left_out
    rows = ScoredRows(labels.astype(float), scores.astype(float), out, losses)
    return released_tables(plan, rows, Streams(0)).result


def two_classes(prevalence, apart, scale):
    rng = np.random.default_rng(0)
    y = rng.random(N) < prevalence
    z = scale * (rng.normal(size=N) + apart * (y - 0.5)) + math.log(prevalence / (1.0 - prevalence))
    return y, np.clip(z, -8.0, 8.0)


@pytest.mark.parametrize("prevalence", [0.5, 0.05])
@pytest.mark.parametrize(("apart", "scale"), [(0.5, 0.2), (1.5, 1.0), (4.0, 2.0)])
def test_two_classes(prevalence, apart, scale):
    y, z = two_classes(prevalence, apart, scale)
    found = measures.of_binary(tables_of("binary, probabilities", y, z)["table"], 0.95, probabilities=True)
    p, said = expit(z), z > 0.0
    exact = {
        "accuracy": metrics.accuracy_score(y, said),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, said),
        "recall": metrics.recall_score(y, said),
    }
    if said.any():
        exact["precision"] = metrics.precision_score(y, said)
    for name, value in exact.items():
        assert found[name].value == pytest.approx(value, abs=1e-9), name
    assert found["auc"].value == pytest.approx(metrics.roc_auc_score(y, z), abs=0.003)
    assert found["log_loss"].value == pytest.approx(metrics.log_loss(y, p), abs=0.003)
    assert found["brier"].value == pytest.approx(metrics.brier_score_loss(y, p), abs=0.002)
    for one in found.values():
        assert one.low <= one.value <= one.high or math.isnan(one.value)


def test_several_classes():
    rng = np.random.default_rng(1)
    y, said = rng.integers(4, size=N), rng.integers(4, size=N)
    said = np.where(rng.random(N) < 0.6, y, said)
    losses = rng.exponential(0.7, N), rng.uniform(0.0, 2.0, N)
    tables = tables_of("classes, probabilities", y, said, n_classes=4, losses=losses)
    found = measures.of_classes(tables["table"], 0.95) | measures.of_losses(tables["losses"], 0.95)
    exact = {
        "accuracy": metrics.accuracy_score(y, said),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, said),
        "precision": metrics.precision_score(y, said, average="macro"),
        "recall": metrics.recall_score(y, said, average="macro"),
    }
    for name, value in exact.items():
        assert found[name].value == pytest.approx(value, abs=1e-9), name
    assert found["log_loss"].value == pytest.approx(np.minimum(losses[0], 8.0).mean(), abs=1e-4)
    assert found["brier"].value == pytest.approx(losses[1].mean(), abs=1e-4)
    assert np.array_equal(tables["table"].cells, metrics.confusion_matrix(y, said))


def test_numbers():
    rng = np.random.default_rng(2)
    y = np.clip(rng.normal(1.0, 1.0, N), -3.0, 5.0)
    said = np.clip(0.8 * y + 0.2 + rng.normal(0.0, 0.5, N), -3.0, 5.0)
    found = measures.of_numbers(tables_of("regression", y, said, n_classes=0, bounds=(-3.0, 5.0))["table"], 0.95)
    assert found["mse"].value == pytest.approx(metrics.mean_squared_error(y, said), rel=1e-4)
    assert found["rmse"].value == pytest.approx(metrics.root_mean_squared_error(y, said), rel=0.01)
    assert found["mae"].value == pytest.approx(metrics.mean_absolute_error(y, said), rel=0.01)
    assert found["r2"].value == pytest.approx(metrics.r2_score(y, said), abs=0.01)


def test_left_out_rows_have_a_cell_of_their_own():
    y, z = two_classes(0.5, 1.0, 1.0)
    out = np.arange(N) % 10 == 0
    y, z = np.where(out, np.nan, y), np.where(out, np.nan, z)
    table = tables_of("binary, scores", y, z, left_out=out)["table"]
    assert table.left_out == out.sum()
    assert table.cells.sum() == pytest.approx(N - out.sum())


def test_curves():
    y, z = two_classes(0.4, 1.5, 1.0)
    table = tables_of("binary, probabilities", y, z)["table"]
    threshold, false, true, low, high = measures.roc_of(table, 0.95).T
    for at, x, t in zip(threshold[1:-1], false[1:-1], true[1:-1], strict=True):
        assert x == pytest.approx(np.mean(z[~y] > at), abs=0.02)
        assert t == pytest.approx(np.mean(z[y] > at), abs=0.02)
    assert np.all(np.diff(false) >= 0.0)
    assert np.all(np.diff(true) >= 0.0)
    assert np.all((low <= true) & (true <= high))
    predicted, observed, low, high, rows = measures.calibration_of(table, 0.95).T
    assert rows.sum() == pytest.approx(N)
    assert np.all(np.diff(predicted) >= 0.0)
    assert np.all((low <= observed) & (observed <= high))


def test_axis_is_exact_where_the_density_is_linear():
    axis = Axis(((-1.0, -0.2, 0.0), (0.0, 0.5, 2.0)))
    grid = np.linspace(-1.0, 2.0, 300_001)
    grid = 0.5 * (grid[1:] + grid[:-1])
    density = 2.0 + grid  # one line, so also on each piece
    left, right = axis.places(grid, PARTS)
    counts = np.bincount(left, density * (PARTS - right) / PARTS, len(axis))
    counts += np.bincount(left + 1, density * right / PARTS, len(axis))
    for function in (np.square, np.exp, lambda z: (z > 0.7).astype(float)):
        breaks = (0.7,) if function(np.array([0.69]))[0] == 0.0 else ()
        assert counts @ axis.project(function, *breaks) == pytest.approx(density @ function(grid), rel=1e-4)
    below = np.cumsum(density) - 0.5 * density
    assert counts @ axis.above @ counts == pytest.approx(density @ below, rel=1e-4)
    assert axis.above + axis.above.T == pytest.approx(np.ones((len(axis), len(axis))))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, -0.0])
def test_axis_takes_every_number(value):
    for axis in (Axis(((0.0, 1.0, 1.0),), 1.0), Axis(((1.0, 1.0),))):  # no step between two nodes
        left, right = axis.places(np.array([value, 1.0]), PARTS)
        assert (left >= 0).all() and (left < len(axis) - 1).all() and (right >= 0).all() and (right <= PARTS).all()
    axis = Axis(((-1.0, 0.0), (0.0, 1.0)))
    left, right = axis.places(np.array([value]), PARTS)
    assert left[0] in axis.starts
    assert 0 <= right[0] <= PARTS


def test_each_row_counts_as_one_wherever_noise_puts_the_nodes():
    """Between all bounds on labels that are accepted: nodes that fell together made -2^63 ticks of a row."""
    rng, accepted = np.random.default_rng(0), 0
    for width in 2.0 ** rng.uniform(-53, 3, 500):
        low = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-40, 40)
        ends = low, low + abs(low) * width
        try:
            plan = plan_for("regression", 50, n_classes=0, bounds=ends)
        except ParameterError as error:
            assert width < 2.0**-29 and "label_bounds" in str(error)
            continue
        noise = 10.0 ** rng.uniform(0, 9)
        axes = axes_of(plan, "table", {name: (rng.normal(scale=noise, size=RANGE_CELLS), noise) for name in PLACING})
        assert all((np.diff(axis.nodes) > 0.0).all() for axis in axes)
        labels, scores = np.clip(rng.choice(np.linspace(*ends, 5), (2, 50)), *ends)
        ticks = count(plan, "table", axes, ScoredRows(labels, scores, np.zeros(50, bool)))
        assert ticks.min() >= 0 and ticks.sum() == 50 * PARTS
        accepted += 1
    assert accepted > 200


def test_a_score_on_one_side_never_counts_on_the_other():
    axis = Axis(((-1.0, 0.0), (0.0, 1.0)))
    left, right = axis.places(np.array([-1e-300, 0.0, 1e-300]), PARTS)
    assert left.tolist() == [0, 2, 2]
    assert right.tolist() == [PARTS, 0, 0]


def test_intervals_of_a_share():
    table = Table(np.array([[30.0, 70.0]]), 0.0, 0.0, (None, None))
    part, whole = np.array([[1.0, 0.0]]), np.ones((1, 2))
    found = share(table, part, whole, 0.95)
    assert (found.low, found.high) == pytest.approx((0.2189, 0.3958), abs=1e-4)  # Wilson
    wide = share(replace(table, noise_std=5.0), part, whole, 0.95)
    assert wide.low < found.low < found.high < wide.high
    hidden = share(replace(table, noise_std=500.0), part, whole, 0.95)
    assert (hidden.low, hidden.high) == (0.0, 1.0)
    # a squared error of 0, from 0 to 1e5, was told as if it were found, and an AUC of 1, from 1 to 1
    for noise, far in ((1.0, 0.5), (20.0, 0.5), (500.0, 0.5), (1.0, 3.0), (4.0, 2.0), (4.0, 3.0)):
        for cells in ([-far * noise, 90.0], [90.0, -far * noise]):
            found = share(Table(np.array([cells]), 0.0, noise, (None, None)), part, whole, 0.95)
            assert found.low < found.value < found.high or (math.isnan(found.value) and found.high - found.low == 1.0)


def test_a_mean_of_two_measures():
    found = mean_of([Measure(0.5, 0.4, 0.7), Measure(0.3, 0.3, 0.3)])
    assert (found.value, found.low, found.high) == pytest.approx((0.4, 0.35, 0.5))
    unseen = Measure(math.nan, 0.0, 1.0)
    many = mean_of([unseen] * 4)  # each may be anything: their errors do not lessen each other
    assert (many.value, many.low, many.high) == (0.5, 0.0, 1.0)
    hidden = mean_of([Measure(0.5, 0.5, 0.5), Measure(math.nan, 0.0, 1.0)])
    assert (hidden.value, hidden.low, hidden.high) == pytest.approx((0.5, 0.25, 0.75))
