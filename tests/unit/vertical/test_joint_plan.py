"""The plan of a joint training: its text, its refusals, its programs, and what it costs."""

import dataclasses
import json
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import GaussianAccountant
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.vertical.engines.programs import AddSlopes, MoveDuals
from sottovoce.vertical.requests.secure import plan_from_text
from sottovoce.vertical.secure.agreed_plan import Block
from sottovoce.vertical.secure.column_plan import ColumnPlan
from sottovoce.vertical.secure.joint_plan import JointPlan
from sottovoce.vertical.secure.slope_passes import Opened, calibrated
from sottovoce.vertical.secure.whole_rows import ROW, row_weights

BLOCKS = (Block(name="bank", n_features=3, bound=1.5), Block(name="shop", n_features=2, bound=0.5))


def plan(**changed):
    facts = {
        "n_samples": 1000, "blocks": BLOCKS, "helpers": ("helper",), "label_holder": "bank", "loss": "logistic",
        "alpha": 1e-3, "epsilon": 1.0, "delta": 1e-5, "engine": "in-process",
    }  # fmt: skip
    return JointPlan(**{**facts, **changed})


KINDS = [
    {},
    {"fit_intercept": False},
    {"loss": "smoothed hinge", "smoothing": 0.25},
    {"loss": "squared", "label_bounds": (-1.0, 3.0)},
    {"loss": "squared", "label_bounds": (-1.0, 3.0), "n_passes": 0},
    {"engine": "shamir"},
    {"engine": "shamir", "loss": "smoothed hinge"},
    {"engine": "spu", "n_passes": 4},
    {"colluding": 2},
]


def columns(**changed):
    facts = {
        "n_samples": 1000, "blocks": (Block("bank", 3, 2.0), Block("shop", 2, 0.5)), "helpers": ("helper",),
        "label_holder": "bank", "loss": "logistic", "radius": 1.5, "epsilon": 1.0, "delta": 1e-5, "engine": "spu",
    }  # fmt: skip
    return ColumnPlan(**{**facts, **changed})


PLANS = [plan(**changed) for changed in KINDS] + [columns(), columns(loss="squared", label_bounds=(-1.0, 3.0))]
NO_VALUES = [
    None, True, -1, 0, 2, 1.5, 10**400, math.nan, math.inf, "", "1", "bank", "\ud800", "x" * 30_000, {}, {"a": 1}, [],
    [1], ["a"], [0, 1], [[1]], [{"a": 1}],
]  # fmt: skip


def canonical(content):
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("one", PLANS, ids=lambda one: f"{type(one).__name__} {one.loss} {one.engine}")
def test_a_text_is_a_plan_or_refused(one):
    """Each plan has one text; any value in any place, or none, is another plan with the text as its own, or refused."""
    other = plan_from_text(one.text())
    assert (other, type(other)) == (one, type(one))
    assert (other.digest, other.programs_digest) == (one.digest, one.programs_digest)
    assert (other.event, other.details()) == (one.event, one.details())
    good = json.loads(one.text())
    (first, *rest), texts = good["blocks"], ["", "[]", "{}", "null", one.text() + " ", json.dumps(good), "[" * 100_000]
    texts += [canonical({name: value for name, value in good.items() if name != each}) for each in good]
    texts += [canonical({**good, name: value}) for name in (*good, "more") for value in NO_VALUES]
    texts += [
        canonical({**good, "blocks": [{**first, name: value}, *rest]})
        for name in (*first, "more")
        for value in NO_VALUES
    ]
    for text in texts:
        try:
            read = plan_from_text(text)
        except ParameterError:
            continue
        assert read.text() == text


def test_numbers_of_any_kind_are_the_same_plan():
    one = plan(epsilon=1, alpha=np.float32(0.5), n_samples=np.int64(1000), helpers=["helper"], blocks=list(BLOCKS))
    other = plan(epsilon=1.0, alpha=0.5)
    assert one.text() == other.text()
    squared = plan(loss="squared", label_bounds=[0, np.int64(1)])
    assert plan_from_text(squared.text()) == squared


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"epsilon": math.inf}, "finite"),
        ({"delta": 0.0}, "delta"),
        ({"blocks": BLOCKS[:1]}, "two parties"),
        ({"label_holder": "helper"}, "label_holder"),
        ({"helpers": ("bank",)}, "names of their own"),
        ({"engine": "spu", "helpers": ("a", "b")}, "2 to 3 parties"),
        ({"engine": "shamir", "helpers": ()}, "3 to 16 parties"),
        ({"engine": "spu", "colluding": 2}, "colluding"),
        ({"engine": "shamir", "colluding": 2}, "colluding"),
        ({"colluding": 0}, "colluding"),
        ({"colluding": 3}, "colluding"),
        ({"loss": "squared"}, "label_bounds"),
        ({"label_bounds": (0.0, 1.0)}, "label_bounds"),
        ({"loss": "smoothed hinge", "smoothing": 1e-3}, "smoothing"),
        ({"blocks": (dataclasses.replace(BLOCKS[0], n_features=4095), BLOCKS[1])}, "4096 weights"),
        ({"n_samples": 2**31}, "n_samples must be at most"),
        ({"n_samples": 10**6, "engine": "shamir"}, "n_samples must be at most"),
        ({"n_passes": 0}, "n_passes"),
        ({"epsilon": 1e-9, "delta": 1e-300}, "2\\*\\*50"),
    ],
    ids=str,
)
def test_refusals_follow_from_public_facts(changed, words):
    with pytest.raises(ParameterError, match=words):
        plan(**changed)


@pytest.mark.parametrize("changed", KINDS, ids=str)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 50.0])
def test_the_event_is_within_the_budget(changed, epsilon):
    """A little of mu is kept for what the proof leaves out."""
    one = plan(**changed, epsilon=epsilon)
    assert 0.999 * epsilon < GaussianAccountant().epsilon(one.event, one.delta) <= epsilon
    spent = math.fsum(times / event.noise_multiplier**2 for event, times in one.event.releases())
    assert spent <= (gaussian_mu(one.epsilon, one.delta) * (1.0 - 2.0**-41)) ** 2


@pytest.mark.parametrize("changed", KINDS, ids=str)
def test_shares_are_as_large_as_the_event_says(changed):
    """The scales cover sensitivity over mu for what colluding parties do not know; checked from the scales alone."""
    one, square = plan(**changed), 0.0
    free = len(one.ranks) - one.colluding
    for step in range(one.n_steps + 1):
        for m, opening in enumerate(one.openings(step)):
            assert opening.scales.min() >= 64
            if step and m == 0:
                program = one.training.program(step)
                most = program.clip if isinstance(program, MoveDuals) else one.training.most
                square += (2.0 * most * ROW) ** 2 / (free * float(opening.scales[0]) ** 2)
    moments = one.training.moments
    square += moments.square / (free * float(moments.scale()) ** 2)
    if one.training.labels is not None:
        square += (2.0 * ROW) ** 2 / (free * float(one.training.labels.scale()) ** 2)
    assert 0.999 < math.sqrt(square) / gaussian_mu(one.epsilon, one.delta) < 1.0


def test_programs_follow_from_the_plan():
    programs = plan().programs
    assert sum(isinstance(each, MoveDuals) for each in programs) == plan().n_steps > 5
    assert [type(each) for each in plan(engine="shamir").programs[3:]] == [AddSlopes] * 3
    numbers = {"loss": "squared", "label_bounds": (0.0, 1.0)}
    assert plan(**numbers).n_steps == 8
    assert plan(**numbers, n_passes=0).n_steps == plan(**numbers, engine="shamir").n_steps == 0
    assert plan(**numbers, n_samples=10**8).n_steps == 0  # so many rows are not kept inside


def test_whole_numbers_are_bounded_whatever_the_table_holds():
    one = plan()
    rows = one.rows("bank", np.array([[1e300, -1e300, 1e308], [1e-300, 0.0, 0.0], [3.0, 4.0, 0.0]]))
    assert (np.linalg.norm(rows, axis=1) <= ROW * row_weights([3, 2])[0]).all()
    for point in (np.full(4, 1e308), np.array([1e308, -1e308, 0.0, 0.0]), np.zeros(4)):
        assert np.abs(one.margins("bank", rows, point)).max() <= 2**36
    squared = plan(loss="squared", label_bounds=(-1.0, 3.0))
    labels = squared.whole_labels(np.array([np.inf, -np.inf, np.nan, 1.0, 3.0, 1e308]))
    assert labels.tolist() == [11585, -11585, 0, 0, 11585, 11585]
    assert one.whole_labels(np.array([1.0, -1.0, np.nan, 5.0])).tolist() == [1, -1, -1, 1]


N, CONSTANT = 20_000, 0.3
X = np.column_stack([np.random.default_rng(0).normal(0.2, 1.0, (N, 3)), np.full(N, CONSTANT)])
WEIGHTS = np.array([0.5, -0.3, 0.1, -1.0])


def after(*, noise=0.0, matrix_noise=0.0, at_constant=0.0, along=0.0):
    """Return the finished weights where the link is exact, so that only what is given here can move them."""
    left = np.append(along * N * WEIGHTS[:3], at_constant * N * CONSTANT)
    answer = np.linalg.inv(X.T @ X / 4)
    opened = Opened(X.T @ X, matrix_noise, CONSTANT, N, left, noise, answer)
    return calibrated(WEIGHTS, opened, lambda z: expit(z) - 0.5)


def test_more_noise_leaves_shorter_weights_of_the_same_direction():
    slopes = [after(noise=noise)[:3] / WEIGHTS[:3] for noise in (200.0, 400.0, 800.0, 1200.0, 1e9)]
    for slope in slopes:
        np.testing.assert_allclose(slope, slope[0], rtol=1e-9, atol=1e-12)
    found = [float(slope[0]) for slope in slopes]
    assert all(more < less for less, more in pairwise(found))
    assert 0.8 < found[0] < 1.0
    assert 0.0 <= found[-1] < 1e-9


@pytest.mark.parametrize("noise", [1000.0, 1e9])
@pytest.mark.parametrize("at_constant", [-0.1, 0.0, 0.1])
def test_what_is_left_at_the_constant_moves_the_rate(noise, at_constant):
    rate, wanted = (
        expit(X @ after(noise=noise, at_constant=at_constant)).mean(),
        expit(X @ WEIGHTS).mean() + at_constant,
    )
    assert abs(rate - wanted) < 0.005


def test_weights_are_never_longer_and_stay_where_nothing_can_be_seen():
    """A pull that is left would lengthen them; noise of the second moments hides how long predictions are."""
    assert after(along=1e-2) is WEIGHTS
    assert after(noise=1000.0, matrix_noise=1e9) is WEIGHTS
    assert np.all(np.abs(after(along=-1e-2)[:3]) < np.abs(WEIGHTS[:3]))
