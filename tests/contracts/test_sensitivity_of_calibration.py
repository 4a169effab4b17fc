"""What one row, or two, can do to the sums that slope and shift are made of: at most what the mechanism was told."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.central import calibration
from sottovoce.central.data.rows import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.sums import shared_counts
from sottovoce.central.sums.shared_counts import Prior, design_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from support.asking import calibrating

TEAM = Team(1, None)
wild = st.floats(allow_nan=False, allow_infinity=False, width=32)


def released_exactly(rows, y, w, adjacency, multiplier, prior, patch):
    seen = []

    def record(self, ticks, noise):
        seen.append((ticks.astype(np.float64) * self.tick, self.l2_sensitivity))
        return ticks.astype(np.float64) * self.tick, self.event

    patch.setattr(GridGaussian, "release", record)
    patch.setattr(calibration, "_fit", lambda *_: (1.0, 0.0))  # post-processing
    calibrating(rows, y, w, 1.0 / multiplier, prior, 0, adjacency=adjacency, n_public=8)
    return seen[0]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@settings(max_examples=60, deadline=None)
@given(
    row=st.lists(st.one_of(wild, st.floats(-3, 3, width=32)), min_size=3, max_size=3),
    other=st.lists(st.one_of(wild, st.floats(-3, 3, width=32)), min_size=3, max_size=3),
    labels=st.tuples(st.sampled_from([-1.0, 1.0]), st.sampled_from([-1.0, 1.0])),
    weights=st.lists(st.one_of(wild, st.floats(-20, 20)), min_size=4, max_size=4),
    adjacency=st.sampled_from(list(Adjacency)),
    exponent=st.floats(-3.0, 12.0),
    share=st.sampled_from([1, 16, 32]),
)
def test_rows_move_the_sums_by_at_most_the_sensitivity(sparse, row, other, labels, weights, adjacency, exponent, share):
    prior = Prior(0.7 * share / 32, 0.45, 1.3 - share / 32)
    rng = np.random.default_rng(0)
    base = rng.normal(size=(7, 3))
    replaced = adjacency is Adjacency.REPLACE_ONE
    tables = [np.vstack([base, [row]]), np.vstack([base, [other]]) if replaced else base]
    sums = []
    with pytest.MonkeyPatch.context() as patch:
        for X, label in zip(tables, labels, strict=True):
            rows = make_rows(sp.csr_array(X) if sparse else X, data_norm=1.0, constant=0.2, names=None, team=TEAM)
            y = np.append(np.ones(7), label)[: len(X)]
            found = released_exactly(rows, y, np.array(weights), adjacency, 10.0**exponent, prior, patch)
            sums.append(found)
    (first, told), (second, again) = sums
    assert told == again  # the noise does not depend on the table
    assert np.isfinite(first).all()
    assert np.linalg.norm(first - second) <= told * (1 + 1e-12)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_bound_is_nearly_reached(adjacency):
    prior = Prior(0.7, 0.45, 0.25)
    largest = 0.0
    with pytest.MonkeyPatch.context() as patch:
        for w in np.linspace(-14, 14, 29):
            found = []
            for X, y in (([[0.5], [1.0]], [1.0, 1.0]), ([[0.5], [-1.0]], [1.0, 1.0])):
                shown = slice(0, 1) if adjacency is not Adjacency.REPLACE_ONE and found else slice(0, 2)
                rows = make_rows(np.array(X)[shown], data_norm=1.0, constant=0.0, names=None, team=TEAM)
                one = released_exactly(rows, np.array(y)[shown], np.array([w]), adjacency, 10.0, prior, patch)
                found.append(one)
            largest = max(largest, float(np.linalg.norm(found[0][0] - found[1][0])) / found[0][1])
    assert 0.6 < largest <= 1.0 if adjacency is Adjacency.REPLACE_ONE else 0.95 < largest <= 1.0


@pytest.mark.parametrize("multiplier", [1e3, 1e8, 1e12])
def test_the_rounding_to_coarse_ticks_is_counted(multiplier):
    """Each entry may be rounded by a tick; two sums, by a tick more than they are apart."""
    prior, seen = Prior(0.7, 0.45, 0.25), []
    rows = make_rows(np.array([[0.5]]), data_norm=1.0, constant=0.0, names=None, team=TEAM)
    design = design_for(prior)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "_fit", lambda *_: (1.0, 0.0))
        patch.setattr(GridGaussian, "release", lambda self, ticks, noise: (seen.append(self), (ticks * 1.0, None))[1])
        calibrating(rows, np.ones(1), np.ones(1), 1.0 / multiplier, prior, 0)
    (mechanism,) = seen
    rounded = mechanism.tick > shared_counts._TICK
    assert rounded == (multiplier > 1e5)
    coarse = mechanism.tick * np.sqrt(len(design.matrix)) if rounded else 0.0
    assert mechanism.l2_sensitivity >= design.longest + coarse
