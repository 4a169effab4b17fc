"""What one row can do to the histograms of columns: at most what the mechanism was told, on the worst rows."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sottovoce.central import column_scales
from sottovoce.central.column_scales import ColumnScalesPlan
from sottovoce.central.sums.histograms import CELLS, columns_mechanism
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from support.asking import answered, table_of

wild = st.floats(allow_nan=False, allow_infinity=False)
entry = st.one_of(wild, st.sampled_from([0.0, -0.0, 5e-324, -1e-320, 2.0**-40, 1.0, -1.0, 2.0**41, 1.7e308, -1.7e308]))
row = st.lists(entry, min_size=3, max_size=3)


def plan(n_samples=30, n_features=3, **changed):
    public = {"epsilon": 20.0, "delta": 1e-5, "adjacency": Adjacency.ZERO_OUT} | changed
    return ColumnScalesPlan(n_samples=n_samples, n_features=n_features, **public)


def exact_counts(X, facts, patch, answers=None):
    """Return the ticks of every release and its mechanism; each is answered as on the first table."""
    seen = []

    def release(self, ticks, noise):
        exact = ticks * self.tick
        answer = exact if answers is None else answers[len(seen)]
        seen.append((exact, self, answer))
        return answer, self.event

    patch.setattr(GridGaussian, "release", release)
    answered(lambda: column_scales.column_scales(facts), table_of(X), 0)
    return seen


@pytest.mark.parametrize("bounds", [None, ((0.0, -1e100, 0.0), (1.0, 1e100, 1e-100))], ids=["unbounded", "bounds"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@settings(max_examples=80)
@given(one=row, other=row, adjacency=st.sampled_from(list(Adjacency)))
@example(one=[1.0, 1.0, 1.0], other=[-1.0, 2.0, 1e308], adjacency=Adjacency.REPLACE_ONE)
def test_a_row_moves_all_histograms_by_at_most_the_sensitivity(sparse, bounds, one, other, adjacency):
    rng = np.random.default_rng(0)
    base = np.column_stack([rng.normal(1990.0, 1.0, 8), rng.normal(size=8), np.zeros(8)])
    replaced = adjacency is Adjacency.REPLACE_ONE
    tables = [np.vstack([base, one]), np.vstack([base, other]) if replaced else base]
    facts = plan(adjacency=adjacency, centred=not sparse, bounds=bounds)
    assert len(facts.rounds) == (1 if sparse else 3) - (bounds is not None and not sparse)
    with pytest.MonkeyPatch.context() as patch:
        first, answers = [], None
        for X in tables:
            found = exact_counts(sp.csr_array(X) if sparse else X, facts, patch, answers)
            if answers is None:
                first, answers = found, [answer for _, _, answer in found]
    assert len(first) == len(found)  # which rounds there are follows from what was released
    for (here, told, _), (there, again, _) in zip(first, found, strict=True):
        assert told == again  # the noise does not depend on the table
        assert np.isfinite(here).all()
        assert np.linalg.norm(here - there) <= told.l2_sensitivity


def test_the_bound_is_reached():
    for adjacency, other, moved in (
        (Adjacency.ZERO_OUT, None, 3**0.5),
        (Adjacency.REPLACE_ONE, [[2.0, -2.0, 0.0]], 6**0.5),
    ):
        with pytest.MonkeyPatch.context() as patch:
            facts = plan(adjacency=adjacency)
            (here, told, _), *_ = exact_counts(np.ones((2, 3)), facts, patch)
            (there, _, _), *_ = exact_counts(
                np.vstack([np.ones((1, 3)), *([] if other is None else [other])]), facts, patch
            )
        assert math.isclose(np.linalg.norm(here - there), moved)
        assert math.isclose(told.l2_sensitivity, moved, rel_tol=1e-9)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 50.0])
@pytest.mark.parametrize("rows", [1, 7])
def test_the_noise_of_a_round_is_that_of_the_plan(epsilon, rows):
    facts = plan(epsilon=epsilon, max_rows_per_group=None if rows == 1 else rows, n_samples=2**37, n_features=5)
    for share in (0.25, 1.0):
        mechanism = columns_mechanism(2, 2 * 161, facts.per_column, share**0.5 * facts.mu)
        assert mechanism.l2_sensitivity >= rows * 2**0.5
        assert math.isclose(mechanism.noise_std, rows * 2**0.5 / (share**0.5 * facts.mu), rel_tol=1e-6)


@pytest.mark.parametrize("share", [1.0, 0.1])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("bounds", [None, ((0.0,) * 3, (1.0,) * 3)])
def test_the_rounds_cost_the_budget_and_no_more(share, centred, bounds):
    facts = plan(epsilon=1.0, n_samples=100_000, share=share, centred=centred, bounds=bounds)
    assert math.isclose(sum(facts.rounds), 1.0)
    mu = math.sqrt(share) * gaussian_mu(1.0, 1e-5)
    assert math.isclose(facts.mu, mu)
    whole = accountant_for(facts.event).epsilon(facts.event, 1e-5)
    assert whole <= 1.0 + 1e-9 if share == 1.0 else whole < 0.5
    assert share < 1.0 or whole > 0.999


def test_what_is_zoomed_follows_from_released_numbers_alone():
    """A column that noise shows elsewhere is looked at there; nothing is taken from the table itself."""
    seen = []
    X = np.full((50, 2), 7.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            GridGaussian, "release", lambda self, ticks, noise: (seen.append(self), (np.zeros(ticks.shape), None))[1]
        )
        public = plan(n_samples=50, n_features=2)
        location, scale = answered(lambda: column_scales.column_scales(public), table_of(X), 0).result
    assert len(seen) == 1  # nothing was seen, so nothing is narrow
    assert np.allclose(location, 0.0) and (scale >= 1.0).all()
    assert CELLS == 161
