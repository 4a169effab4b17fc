"""What one row, or one person, can do to the counts of an evaluation: at most what the mechanisms were told.

The whole way from the table to the counts is run, with rows and labels as bad as they come. The released first table
is the same for both neighbours, as in the proof.
"""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from support.pairs import by_pairs
from support.replay import grey_box

wild = st.one_of(st.floats(width=64), st.floats(-3, 3), st.sampled_from([math.nan, math.inf, -math.inf, 1e308, 5e-324]))
rows = st.lists(wild, min_size=3, max_size=3)
CLASSES = {"two": ["no", "yes"], "three": ["a", "b", "c"]}


@cache
def trained(kind, stretched=1.0):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 3))
    budget = {"epsilon": 50.0, "delta": 1e-3, "data_norm": 2.0, "random_state": 0}
    if kind == "regression":
        return stretch(sv.DPRidge(**budget, label_bounds=(-2.0, 3.0)).fit(X, X[:, 0]), stretched)
    estimator = sv.DPLinearSVC if kind == "scores" else sv.DPLogisticRegression
    classes = CLASSES["three" if kind == "three" else "two"]
    return stretch(
        estimator(**budget, classes=classes).fit(X, np.array(classes)[np.arange(60) % len(classes)]), stretched
    )


def stretch(model, factor):
    model.coef_ = model.coef_ * factor
    return model


KINDS = ("two", "scores", "three", "regression")


def moved(model, table, other, **options):
    """Return how far the counts of two tables (X, y, persons) are apart, over what each mechanism was told."""

    def run(X, y, groups=None):
        found = sv.evaluate(model, X, y, epsilon=1.0, groups=groups, random_state=0, **options)
        return [found.accuracy, found.auc, found.n_rows, found.n_left_out] if hasattr(found, "auc") else []

    found = grey_box(run, table, other)
    assert found.fault == found.refusal == ""  # the noise does not depend on the rows
    assert all(one.exact.min() >= 0 for one in found.tape.releases)
    return found.distances


@pytest.mark.parametrize(("kind", "delta"), by_pairs(KINDS, [0.0, 1e-6]))
@settings(max_examples=40, deadline=None)
@given(
    mine=st.lists(rows, min_size=1, max_size=4), others=st.lists(rows, min_size=1, max_size=4), data=st.data(),
    adjacency=st.sampled_from(["zero-out", "add-remove", "replace-one"]), k=st.sampled_from([None, 1, 2, 3]),
)  # fmt: skip
def test_counts_move_by_at_most_the_sensitivity(kind, delta, mine, others, data, adjacency, k):
    labels = st.sampled_from([*CLASSES["three"], "no", "yes", None, "", 7]) if kind != "regression" else wild
    rng = np.random.default_rng(2)
    if k is None:
        mine, others = mine[:1], others[:1]
    base = rng.uniform(-2, 2, (5, 3))
    names = {"two": "no", "scores": "yes", "three": "b", "regression": 0.5}
    tables = []
    for place, added in enumerate((mine, others)):
        if place == 1 and adjacency != "replace-one":
            added = []
        own = data.draw(st.lists(labels, min_size=len(added), max_size=len(added)))
        X = np.vstack([base, np.array(added, dtype=float).reshape(-1, 3)])
        y = np.array([names[kind]] * 5 + own, dtype=object)
        groups = None if k is None else np.array([0, 1, 1, 2, None, *[9] * len(added)], dtype=object)
        tables.append((X, y, groups))
    options = {"adjacency": adjacency, "n_public": 6, "delta": delta, "max_rows_per_group": k, "accept_delta": None}
    assert max(moved(trained(kind), *tables, **options)) <= 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_bounds_are_reached(kind):
    """Two rows far apart, the one in the place of the other, move everything by what was told."""
    model = trained(kind, stretched=1e6)
    X, far = np.zeros((4, 3)), np.zeros((4, 3))
    X[-1], far[-1] = [9.0, 9.0, 9.0], [-9.0, -9.0, -9.0]
    names = {"two": ("no", "yes"), "scores": ("no", "yes"), "three": ("a", "c"), "regression": (-2.0, 3.0)}[kind]
    y = np.array([names[0]] * 4, dtype=object)
    z = y.copy()
    z[-1] = names[1]
    for options in ({}, {"delta": 1e-6}):
        found = moved(model, (X, y), (far, z), adjacency="replace-one", **options)
        # of three classes the table of losses: the other one is reached
        assert found[0 if kind == "three" else -1] == pytest.approx(1.0, rel=1e-5)
