"""Audits of single releases: sums, counts, histograms and moments, each from the tables that move it furthest.

The adversary knows all other rows, so what is released is Gaussian around one of two points that he can compute: his
best score is the projection on their difference. What a release is made into afterwards is post-processing, and off.
"""

from functools import cache, partial

import numpy as np

import sottovoce as sv
from sottovoce.central import calibration, column_scales
from sottovoce.central.column_scales import ColumnScalesPlan
from sottovoce.central.data.lengths import MeasureRows, ScaleRows, make_rows
from sottovoce.central.data.operation import Held
from sottovoce.central.parallel import Team
from sottovoce.central.released_norm import NormRelease
from sottovoce.central.split import label_location_and_scale
from sottovoce.central.sums import largest_eigenvalue, shared_counts
from sottovoce.central.sums.shared_counts import Prior, design_for
from sottovoce.estimators.search_plan import score, score_mechanism
from sottovoce.losses import Logistic, Squared
from sottovoce.privacy.accounting import accountant_for, gaussian_epsilon
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Streams
from support.asking import answered, calibrating, straightened, table_of
from support.audits.audit import DELTA, SLOW, Audit, Ratios, Scores, note_releases
from support.audits.transcript import Transcript, ratios
from support.labels import plan_on_labels
from support.many_parts import cut, with_labels, with_lengths
from support.noise import Scaled, stream

TEAM = Team(1, None)
ONE = np.array([1.0, 0.0])


def gaussian_on_a_grid(factor, patch):
    """Values at the distance of the sensitivity; every entry is a run."""
    runs, tick = 50_000, 2.0**-20
    mechanism = GridGaussian(1.0, 1.25, tick)
    scores = [
        mechanism.release(np.full(runs, round(value / tick), np.int64), Scaled(stream(seed), factor))[0]
        for seed, value in enumerate((1.0, 0.0))
    ]
    return Scores(*scores, gaussian_epsilon(0.8, DELTA))


def labels_by_bisection(located, moved, factor, patch):
    """The last label goes from one end to the other: 12 of 17 counts move by one for certain, or 5 of 5."""
    mu, scores, seen = 1.5, [], note_releases(patch, factor)
    asks = partial(label_location_and_scale, 9, 1.0, Neighbours(Adjacency.ZERO_OUT), mu, located=located)
    for place, last in enumerate((-1.0 if located else 0.0, 1.0)):
        y, sign, found = np.append(np.zeros(8), last), 1 - 2 * place, []
        for seed in range(place * 2000, (place + 1) * 2000):
            seen.clear()
            answered(asks, with_labels(y), stream(seed))
            # the count is one less on the other table, or one more
            found.append(sum((one.value[0] - one.exact[0] + 0.5 * sign) / one.std**2 for one in seen[:moved]))
        scores.append(found)
    return Scores(*scores, gaussian_epsilon(mu, DELTA))


def slope_and_shift(adjacency, factor, patch):
    """The two columns of the design that are furthest apart, or the longest one against nothing."""
    prior = Prior(0.7, 0.45, 0.25)
    patch.setattr(calibration, "_fit", lambda *_: (1.0, 0.0))
    columns = design_for(prior).matrix.T / shared_counts._FINE
    apart = np.linalg.norm(columns[:, None] - columns, axis=2)
    nodes, n = shared_counts.NODES, len(shared_counts.NODES)
    weights, others = np.array([nodes[-1]]), np.array([[0.1], [-0.4]])
    tables = []
    for cell in np.unravel_index(apart.argmax(), apart.shape):
        X = np.vstack([others, [[nodes[cell % n] / nodes[-1]]]])
        tables.append((X, np.array([1.0, -1.0, 1.0 if cell >= n else -1.0])))
    if adjacency is Adjacency.ADD_REMOVE:
        tables[1] = (others, np.array([1.0, -1.0]))
    held = [(make_rows(X, data_norm=1.0, constant=0.0, names=None, team=TEAM), y) for X, y in tables]

    def run(place, noise):
        calibrating(*held[place], weights, gaussian_mu(1.0, DELTA), prior, noise, adjacency=adjacency, n_public=3)

    return ratios(run, factor, patch)


def line_of_numbers(adjacency, factor, patch):
    """The canary has no prediction, and a residual beyond the cut, on the other side where it is replaced."""
    others, y = np.array([[0.1], [-0.4]]), np.array([0.3, -0.1])
    tables = [(np.vstack([others, [[0.0]]]), np.append(y, 4.0 * sign)) for sign in (1.0, -1.0)]
    if adjacency is Adjacency.ADD_REMOVE:
        tables[1] = (others, y)
    held = [(make_rows(X, data_norm=1.0, constant=0.0, names=None, team=TEAM), y) for X, y in tables]
    given = {"neighbours": Neighbours(adjacency), "n_public": 3}

    def run(place, noise):
        straightened(*held[place], [1.0], 0.5, gaussian_mu(1.0, DELTA), noise, **given)

    return ratios(run, factor, patch)


def scales_of_columns(adjacency, factor, patch):
    """Both rounds look at all columns, in the same cells: what they show is then one Gaussian vector."""
    rng = np.random.default_rng(0)
    others = np.column_stack([rng.normal(1990.0, 1.0, 99), rng.normal(0.0, 1.0, 99)])
    tables = [np.vstack([others, [[2047.0, 1.5]]])]
    tables.append(np.vstack([others, [[-3.0, -1e-3]]]) if adjacency is Adjacency.REPLACE_ONE else others)
    plan = ColumnScalesPlan(
        epsilon=2.0, delta=DELTA, adjacency=adjacency, n_samples=100, n_features=2,
        bounds=((1980.0, -3.0), (2000.0, 3.0))
    )  # fmt: skip
    assert len(plan.rounds) == 2
    patch.setattr(column_scales, "_from_cells", lambda *_, **__: (np.full(2, 16.0), np.full(2, 1.0)))

    def run(place, noise):
        answered(lambda: column_scales.column_scales(plan), table_of(tables[place]), noise)

    return ratios(run, factor, patch, 2.0)


def released_norm(adjacency, factor, patch):
    """The canary is far longer than all others, so its three bins hold nothing else."""
    n = 50
    planned = NormRelease(10.0, n, Neighbours(adjacency))
    others = np.random.default_rng(0).uniform(0.5, 1.0, n - 1)
    ends = (1e9, 1e-9 if adjacency is Adjacency.REPLACE_ONE else 0.0)
    tables = [np.append(others, last) for last in ends]

    def run(place, noise):
        answered(planned.asks, with_lengths(tables[place]), noise)

    epsilon = accountant_for(planned.mechanism.event).epsilon(planned.mechanism.event, DELTA)
    return ratios(run, factor, patch, epsilon)


def eigenvalue(row, factor, patch):
    """Rows in two parts; the exact value is made once. Wide rows are projected: MAX_GRAM is 50 here."""
    patch.setattr(largest_eigenvalue, "MAX_GRAM", 50)
    holders = [cut(np.vstack([np.tile(row, (9, 1)), last]), None, [4]) for last in (row, 0.0 * row)]
    for holder in holders:
        holder.ask(MeasureRows())
        holder.ask(ScaleRows(1.0, 0.0))
        patch.setattr(holder, "ask", cache(holder.ask))
    facts = holders[0].n_weights, 10, Neighbours(Adjacency.ZERO_OUT), gaussian_mu(1.0, DELTA)
    asks = partial(largest_eigenvalue.largest_eigenvalue, *facts, entry=holders[0].constant)
    return ratios(lambda place, noise: answered(asks, holders[place], noise), factor, patch)


def score_of_a_trial(adjacency, factor, patch):
    """The plan's noise on the score, one trial: the last of six held-out rows is there or not, or is right or wrong."""
    model = sv.DPLogisticRegression(data_norm=1.0, classes=[-1, 1], adjacency=adjacency, n_public=16)
    plan = sv.plan(sv.DPSearchCV(model, {"alpha": [1e-3]}, epsilon=1.0, delta=DELTA, n_iter=1), 16, 2)
    losses = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    neighbour = losses[:-1] if adjacency == "add-remove" else np.append(losses[:-1], 1.0)
    tables, mechanism = (losses, neighbour), score_mechanism(plan.adjacency, plan.noise_multiplier)
    asks = partial(score, plan.score_bound, mechanism)
    return ratios(lambda place, noise: answered(asks, Held(tables[place]), noise), factor, patch)


def training_on_released_labels(loss, factor, patch):
    """The next value is Gaussian around one of two points that follow from the values released so far."""
    mu, rng = 3.0, np.random.default_rng(0)
    X, y = np.abs(rng.normal(size=(9, 2))), np.where(rng.random(10) < 0.5, 1.0, -1.0)
    plan = plan_on_labels(
        loss=loss, n_samples=10, n_features=2, alpha=0.1, mu=mu, nonnegative=True, flip_probability=0.45, intercept=0.0
    )
    held = [make_rows(np.vstack([X, extra]), data_norm=1.0, constant=0.0, names=None, team=TEAM) for extra in np.eye(2)]
    fits = [lambda seed, rows=rows: plan.solve(rows, y, Streams(seed), TEAM) for rows in held]
    return Ratios(*Transcript(patch, factor).scores(fits, 400), gaussian_epsilon(mu, DELTA))


AUDITS = (
    Audit("Gaussian on a grid", gaussian_on_a_grid, least=0.85),
    Audit("labels by bisection: location and scale", partial(labels_by_bisection, True, 12), least=0.4, **SLOW),
    Audit("labels by bisection: scale alone", partial(labels_by_bisection, False, 5), least=0.4, **SLOW),
    *(
        Audit(f"{name}, {one.value}", partial(run, one), **SLOW)
        for name, run in (("slope and shift", slope_and_shift), ("line of numbers", line_of_numbers))
        for one in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
    ),
    *(
        Audit(f"{name}, {one.value}", partial(run, one), **SLOW)
        for name, run in (("scales of columns", scales_of_columns), ("released norm", released_norm))
        for one in (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
    ),
    Audit("lambda_max", partial(eigenvalue, np.eye(3)[0]), **SLOW),
    Audit("lambda_max of projected rows", partial(eigenvalue, np.eye(100)[0]), **SLOW),
    *(
        Audit(f"search: score of a trial, {one}", partial(score_of_a_trial, one))
        for one in ("add-remove", "replace-one")
    ),
    *(
        Audit(f"training on released labels, {loss.name}", partial(training_on_released_labels, loss), **SLOW)
        for loss in (Logistic(), Squared())
    ),
)  # fmt: skip
