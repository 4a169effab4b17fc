"""What one replaced row can do to the sums behind training on released labels: at most what scales their noise.

The second table sees the values that were released on the first, as adaptive composition has it.
"""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team
from sottovoce.losses import Logistic, Squared
from sottovoce.randomness import Streams
from support.labels import plan_on_labels
from support.noise import exact_releases

TEAM = Team(1, None)
N, D = 40, 3
GRAM, NO_GRAM = 2.0, 0.1  # mu with which the matrix is released with the logistic loss, and not
wild = st.floats(allow_nan=False, allow_infinity=False, width=32)
row = st.lists(st.one_of(wild, st.floats(-3, 3, width=32), st.just(0.0)), min_size=D, max_size=D).map(np.array)


def releases(plan, X, labels, replay=None):
    """Return (exact value, sensitivity) of each release of a run; ``replay`` stands for what is released."""
    numbers = itertools.count()
    with exact_releases(replay and (lambda exact: replay(next(numbers), exact))) as seen:
        rows = make_rows(X, data_norm=1.0, constant=plan.intercept, names=None, team=TEAM)
        plan.solve(rows, labels, Streams(0), TEAM)
    return [(one.exact, one.mechanism.l2_sensitivity) for one in seen]


def ratios(plan, one, other, label, *, sparse=False, dtype=np.float64, replay=None):
    """Return for each release the distance of the exact values over the declared sensitivity."""
    rng = np.random.default_rng(0)
    X, y = np.abs(rng.normal(size=(N - 1, D))), np.where(rng.random(N - 1) < 0.5, 1.0, -1.0)
    tables = [np.vstack([X, extra]).astype(dtype) for extra in (one, other)]
    first, second = (sp.csr_array(table) if sparse else table for table in tables)
    seen = releases(plan, first, np.append(y, label), replay)
    again = releases(plan, second, np.append(y, label), lambda k, _: seen[k][0] if replay is None else replay(k, _))
    assert [s for _, s in seen] == [s for _, s in again]  # the noise does not depend on the data
    return np.array([np.linalg.norm(a - b) / s for (a, s), (b, _) in zip(seen, again, strict=True)])


def plan_of(**changed):
    return plan_on_labels(**{"loss": Logistic(), "n_samples": N, "n_features": D, "alpha": 1e-3, "mu": GRAM, **changed})


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("loss", "mu"), [(Logistic(), GRAM), (Logistic(), NO_GRAM), (Squared(), 1.0)], ids=["gram", "no gram", "squared"]
)
@settings(max_examples=25)
@given(
    one=row,
    other=row,
    label=st.sampled_from([-1.0, 1.0]),
    nonnegative=st.booleans(),
    intercept=st.sampled_from([0.0, 0.3, 2.0, 1e9]),
    p=st.sampled_from([0.0, 0.2, 0.45]),
)
def test_replacing_a_row(loss, mu, dtype, sparse, one, other, label, nonnegative, intercept, p):
    plan = plan_of(loss=loss, mu=mu, nonnegative=nonnegative, intercept=intercept, flip_probability=p)
    assert plan.releases_gram == (mu != NO_GRAM)
    if nonnegative:
        one, other = np.abs(one), np.abs(other)
    assert (ratios(plan, one, other, label, sparse=sparse, dtype=dtype) <= 1.0).all()


@settings(max_examples=60)
@given(one=row, other=row, label=st.floats(-1, 1), bound=st.sampled_from([1.0, 50.0]))
def test_replacing_a_row_with_numbers_as_labels(one, other, label, bound):
    plan = plan_of(loss=Squared(), label_bound=bound)
    assert (ratios(plan, one, other, bound * label) <= 1.0).all()


@pytest.mark.parametrize("intercept", [0.0, 0.3, 1.0, 100.0])
@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize(
    ("loss", "mu"), [(Logistic(), GRAM), (Logistic(), NO_GRAM), (Squared(), 1.0)], ids=["gram", "no gram", "squared"]
)
def test_the_bound_on_the_moments_is_reached(loss, mu, nonnegative, intercept):
    """So that the tests above could fail: a bound 0.7 times as large would be exceeded."""
    plan = plan_of(loss=loss, mu=mu, nonnegative=nonnegative, intercept=intercept, flip_probability=0.2)
    cosine = 0.0 if nonnegative else -1.0
    if plan.releases_gram and not nonnegative:  # the best x.z lies between -1 and the constant's square
        product = max(1.0 - plan.widest_gap, -((plan.label_weight * plan.soft_label_bound) ** 2))
        cosine = product * (1.0 + intercept**2) - intercept**2
    other = np.array([cosine, np.sqrt(1.0 - cosine**2), 0.0])
    reached = ratios(plan, np.array([1.0, 0.0, 0.0]), other, 1.0)[0]
    assert reached == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_bound_on_the_slopes_is_reached(nonnegative):
    """Two rows that hardly differ, on two sides of weights that earlier noise made huge."""
    plan = plan_of(mu=NO_GRAM, nonnegative=nonnegative)
    one, other = np.array([0.7, 0.71, 0.0]), np.array([0.71, 0.7, 0.0])
    steep = np.array([1e9, -1e9, 0.0, 0.0])
    reached = ratios(plan, one, other, 1.0, replay=lambda k, exact: steep if k == 0 else 0.0 * exact)
    assert reached[1:].max() > 0.99
    assert (reached <= 1.0).all()
