"""What one row can do to the released second moments: at most the sensitivity that scales their noise."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

wild = st.floats(allow_nan=False, allow_infinity=False, width=32)
numbers = st.one_of(wild, st.floats(-3, 3, width=32), st.just(0.0))
N, D = 40, 3


def about_to_be_noised(X, y, **changed):
    """Return the exact value in the unit of the release, and the sensitivity declared for it."""
    seen = []

    def record(self, ticks, noise):
        seen.append((ticks.astype(np.float64) * self.tick, self.l2_sensitivity))
        return seen[-1][0], self.event

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GridGaussian, "release", record)
        sv.DPRidge(**{
            "epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "label_bounds": (-1.0, 1.0), "solver": "adassp",
            "solver_options": {"clip_labels": False}, "random_state": 0, **changed,
        }).fit(X, y)  # fmt: skip
    assert len(seen) == 1
    return seen[0]


def others():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N - 1, D)), rng.uniform(-1, 1, N - 1)


def distance(row, label, other_row, other_label, *, sparse=False, dtype=np.float64, **changed):
    """Return the distance of the moments with the one row and with the other (None: no row), over the sensitivity."""
    X, y = others()
    values = []
    for extra, target in ((row, label), (other_row, other_label)):
        full = np.vstack([X, extra]) if extra is not None else X
        full = full.astype(dtype)
        labels = np.append(y, target) if extra is not None else y
        values.append(about_to_be_noised(sp.csr_array(full) if sparse else full, labels, **changed))
    assert values[0][1] == values[1][1]  # the noise does not depend on the data
    return np.linalg.norm(values[0][0] - values[1][0]) / values[0][1]


rows = st.lists(numbers, min_size=D, max_size=D).map(np.array)
targets = st.floats(-1, 1)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=40)
@given(row=rows, label=targets, intercept=st.booleans())
def test_adding_a_row(sparse, dtype, row, label, intercept):
    public = {"adjacency": "add-remove", "n_public": N, "fit_intercept": intercept}
    assert distance(row, label, None, None, sparse=sparse, dtype=dtype, **public) <= 1.0


@settings(max_examples=80)
@given(row=rows, label=targets, other=rows, other_label=targets, intercept=st.booleans())
def test_replacing_a_row(row, label, other, other_label, intercept):
    assert distance(row, label, other, other_label, adjacency="replace-one", fit_intercept=intercept) <= 1.0


def test_the_bounds_are_reached():
    """So that the tests above could fail."""
    one = np.array([1.0, 0.0, 0.0])
    added = distance(one, 1.0, None, None, adjacency="add-remove", n_public=N, fit_intercept=False)
    assert added == pytest.approx(1.0, abs=1e-4)
    # |uu' - ww'| is sqrt(2) |u|^2 when u and w are orthogonal: u = (x, c), w = (z, c) with x.z = -c^2 = -1/2
    other = np.array([-0.5, np.sqrt(0.75), 0.0])
    replaced = distance(one, 1.0, other, 1.0, adjacency="replace-one", fit_intercept=False)
    assert replaced == pytest.approx(1.0, abs=1e-4)


def test_the_secret_number_of_rows_does_not_touch_the_noise():
    X, y = others()
    public = {"adjacency": "add-remove", "n_public": 100}
    _, small = about_to_be_noised(X[:20], y[:20], **public)
    _, large = about_to_be_noised(X, y, **public)
    assert small == large
