"""Blocks, samplings and objectives of block-coordinate Frank-Wolfe against brute force."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime, linprog, minimize_scalar

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Hinge, Logistic
from sottovoce.papers import frank_wolfe as bfw

BLOCKS = {
    "box": bfw.Box([-1.0, 0.0, 2.0], [1.0, 0.5, 5.0]),
    "interval": bfw.Box(-2.0, 3.0),
    "l1": bfw.L1Ball(3, 2.0),
    "l2": bfw.L2Ball(3, 0.7),
    "simplex": bfw.Simplex(4, 3.0),
    "point": bfw.Simplex(1, 2.0),
}


def vertices(block):
    if isinstance(block, bfw.Box):
        return np.array(list(product(*zip(block.low, block.high, strict=True))))
    corners = block.radius * np.eye(block.size)
    return np.vstack([corners, -corners]) if isinstance(block, bfw.L1Ball) else corners


def linear_minimum(block, g):
    """By linear programming over the convex hull of the vertices; for the l2 ball by its formula."""
    if isinstance(block, bfw.L2Ball):
        return -block.radius * np.linalg.norm(g)
    corners = vertices(block)
    return linprog(corners @ g, A_eq=np.ones((1, len(corners))), b_eq=[1.0]).fun


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_oracle_attains_the_linear_minimum(block):
    rng = np.random.default_rng(0)
    for g in [*rng.normal(size=(20, block.size)), np.ones(block.size), -np.ones(block.size)]:
        s = block.oracle(g)
        assert block.contains(s, 1e-12)
        assert s @ g == pytest.approx(linear_minimum(block, g), abs=1e-9)
    many = rng.normal(size=(5, block.size))
    assert np.array_equal(block.oracle(many), [block.oracle(g) for g in many])
    assert block.contains(block.oracle(np.zeros(block.size)), 1e-12)
    assert block.contains(block.start(), 1e-12)
    assert not block.contains(block.start() + 10.0, 1e-9)
    assert not block.contains(block.start() - 10.0, 1e-9)


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_diameter_and_differences(block):
    if isinstance(block, bfw.L2Ball):
        assert block.diameter == 1.4
        assert block.extreme_differences() is None
        return
    corners = vertices(block)
    apart = corners[:, None] - corners
    assert block.diameter == pytest.approx(np.linalg.norm(apart, axis=2).max())
    rows = block.extreme_differences()
    for g in np.random.default_rng(1).normal(size=(20, block.size)):  # same hull: same support function
        assert (rows @ g).max() == pytest.approx((apart @ g).max())
        assert (rows @ g).min() == pytest.approx((apart @ g).min())


def test_extremes():
    assert bfw.Box(0, 1, size=25).extreme_differences() is None
    assert bfw.L2Ball(2).oracle(np.array([3e200, 4e200])) == pytest.approx([-0.6, -0.8])


DOMAINS = {
    "mixed": list(BLOCKS.values()),
    "boxes": [bfw.Box(0, 1, size=2), bfw.Box(-1, 1), bfw.Box(-3, [1, 2, 3])],
    "equal": [bfw.Simplex(3)] * 4,
    "same size": [bfw.Simplex(3), bfw.L1Ball(3), bfw.L2Ball(3)],
    "intervals": [bfw.Box(-k, k + 1) for k in range(5)],
}


@pytest.mark.parametrize("blocks", DOMAINS.values(), ids=DOMAINS)
def test_a_product_is_its_blocks_one_by_one(blocks):
    """The vectorised ways give what a loop over the blocks gives."""
    domain = bfw.ProductDomain(blocks)
    rng = np.random.default_rng(2)
    g, x = rng.normal(size=(2, domain.n_coordinates))
    places = [domain.place(i) for i in range(domain.n_blocks)]
    one_by_one = [block.oracle(g[place]) for block, place in zip(blocks, places, strict=True)]
    assert np.array_equal(domain.oracle(g), np.concatenate(one_by_one))
    chosen = np.array([0, 2])
    coordinates = domain.coordinates(chosen)
    assert coordinates.tolist() == [*range(places[0].start, places[0].stop), *range(places[2].start, places[2].stop)]
    assert np.array_equal(domain.oracle(g[coordinates], chosen), np.concatenate([one_by_one[0], one_by_one[2]]))
    expected = [(x[p] - s) @ g[p] for p, s in zip(places, one_by_one, strict=True)]
    assert domain.gaps(x, g) == pytest.approx(expected)
    start = domain.start()
    assert domain.contains(start)
    start[places[2]] += 100.0
    assert not domain.contains(start)
    assert domain.diameters == pytest.approx([block.diameter for block in blocks])


SAMPLINGS = {
    "elementary": bfw.ElementarySampling(6),
    "uniform serial": bfw.UniformSerialSampling(6),
    "nice": bfw.NiceSampling(6, 3),
    "distributed": bfw.DistributedSampling(6, 2, 2),
    "uneven groups": bfw.DistributedSampling(6, 4, 1),
    "independent": bfw.IndependentSampling([0.1, 0.9, 0.5, 1.0, 0.3, 0.7]),
    "explicit": bfw.ExplicitSampling(6, [[0, 1, 2], [3], [], [2, 3, 4, 5], [5]], [0.4, 0.2, 0.1, 0.3, 0.0]),
}


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_pair_probabilities_are_those_of_the_draws(sampling):
    rng, n = np.random.default_rng(3), 20_000
    inside = np.zeros((n, 6))
    for r in range(n):
        chosen = sampling.draw(rng)
        assert np.array_equal(chosen, np.unique(chosen))
        inside[r, chosen] = 1.0
    P = sampling.pair_probabilities
    # 36 frequencies of standard deviation at most .5 / sqrt(n) = .0035: 5.5 of them
    assert np.abs(inside.T @ inside / n - P).max() < 0.0195
    assert np.array_equal(P.diagonal(), sampling.probabilities)
    assert sampling.p_min == sampling.probabilities.min()
    assert sampling.expected_size == pytest.approx(sampling.probabilities.sum())


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_the_listed_sets_give_the_same_pair_probabilities(sampling):
    P, total = np.zeros((6, 6)), 0.0
    for chosen, chance in sampling.support():
        P[np.ix_(chosen, chosen)] += chance
        total += chance
    assert total == pytest.approx(1.0)
    assert sampling.pair_probabilities == pytest.approx(P, abs=1e-12)


def objectives():
    rng = np.random.default_rng(4)
    A = rng.normal(size=(15, 5)) * (rng.random((15, 5)) < 0.6)
    y, signs = rng.normal(size=15), np.sign(rng.normal(size=15))
    return {
        "least squares": bfw.LeastSquares(A, y),
        "sparse least squares": bfw.LeastSquares(sp.csc_array(A), y),
        "logistic": bfw.GeneralizedLinear(A, signs, Logistic()),
        "sparse logistic": bfw.GeneralizedLinear(sp.coo_array(A), signs, Logistic()),
        "quadratic": bfw.Quadratic(A.T @ A, y[:5]),
    }


@pytest.mark.parametrize("name", objectives())
def test_positions_follow_the_function(name):
    objective = objectives()[name]
    rng = np.random.default_rng(5)
    x = rng.normal(size=5)
    position = objective.at(x)
    direction = rng.normal(size=2)
    chosen = np.array([1, 3])

    def f(z):
        return objective.at(z).value()

    assert position.gradient(slice(None)) == pytest.approx(approx_fprime(x, f, 1e-7), abs=1e-5)
    assert position.gradient(chosen) == pytest.approx(position.gradient(slice(None))[chosen])
    if position.gradient(chosen) @ direction > 0:
        direction = -direction
    for length in (0.1, 1.0, 10.0):
        whole = np.zeros(5)
        whole[chosen] = length * direction
        searched = minimize_scalar(lambda g, w=whole: f(x + g * w), bounds=(0, 1), method="bounded",
                                   options={"xatol": 1e-9})  # fmt: skip
        assert objective.at(x).move(chosen, length * direction, None) == pytest.approx(searched.x, abs=1e-4)
        assert objective.at(x).move(chosen, -length * direction, None) == 0.0
    assert position.move(chosen, length * direction, 0.25) == 0.25
    assert position.x == pytest.approx(x + 0.25 * whole)
    assert position.value() == pytest.approx(f(x + 0.25 * whole))
    before = position.gradient(slice(None))
    position.refresh()
    assert position.gradient(slice(None)) == pytest.approx(before)
    assert np.array_equal(x, objective.at(x).x)


@pytest.mark.parametrize("name", ["least squares", "sparse least squares", "logistic", "sparse logistic", "quadratic"])
def test_upper_hessian_is_above_the_function(name):
    """With equality for quadratic functions."""
    objective = objectives()[name]
    Q = objective.upper_hessian()
    rng = np.random.default_rng(6)
    for _ in range(50):
        x, step = rng.normal(size=5), rng.normal(size=5)
        at = objective.at(x)
        rest = objective.at(x + step).value() - at.value() - step @ at.gradient(slice(None))
        assert rest <= 0.5 * step @ Q @ step + 1e-12
        if objective.is_quadratic:
            assert rest == pytest.approx(0.5 * step @ Q @ step)


FAULTS = {
    "box upside down": (lambda: bfw.Box(1, 0), "low must be at most high"),
    "box of nan": (lambda: bfw.Box(np.nan, 1), "low holds NaN"),
    "box without end": (lambda: bfw.Box(0, np.inf), "high holds NaN or infinite"),
    "box of two sizes": (lambda: bfw.Box([0, 0], [1, 1, 1]), "low must be a vector of 3"),
    "radius": (lambda: bfw.L1Ball(3, 0.0), "radius must be"),
    "size": (lambda: bfw.L2Ball(0), "size must be"),
    "no blocks": (lambda: bfw.ProductDomain([]), "blocks must list blocks"),
    "no block": (lambda: bfw.ProductDomain([bfw.Box(0, 1), 7]), "blocks must list blocks"),
    "ends": (lambda: bfw.ProductDomain.intervals([0, 0], 1, n_blocks=2), "low must be a vector of 1"),
    "tau": (lambda: bfw.NiceSampling(3, 4), "tau must be"),
    "tau of a group": (lambda: bfw.DistributedSampling(3, 2, 2), "tau must be .* smallest group"),
    "groups even": (lambda: bfw.DistributedSampling(3, 4, 1), "n_groups must be"),
    "never": (lambda: bfw.IndependentSampling([0.5, 0.0]), r"got array\(\[0\.\]\) for the blocks \[1\]"),
    "too sure": (lambda: bfw.IndependentSampling([0.5, 1.1]), "probabilities must be in"),
    "nan": (lambda: bfw.IndependentSampling([0.5, np.nan]), "probabilities holds NaN"),
    "left out": (lambda: bfw.ExplicitSampling(3, [[0], [1]], [0.5, 0.5]), r"blocks \[2\] are in no set"),
    "left out by chance": (lambda: bfw.ExplicitSampling(2, [[0], [1]], [1.0, 0.0]), r"blocks \[1\] are in no set"),
    "sum": (lambda: bfw.ExplicitSampling(2, [[0], [1]], [0.5, 0.4]), "add up to 0.9"),
    "negative": (lambda: bfw.ExplicitSampling(2, [[0], [1], [0, 1]], [0.9, 0.3, -0.2]), "must be >= 0"),
    "lengths": (lambda: bfw.ExplicitSampling(2, [[0], [1]], [1.0]), "probabilities must be a vector of 2"),
    "set out of range": (lambda: bfw.ExplicitSampling(2, [[0, 2]], [1.0]), r"sets\[0\] must be .*; got 2"),
    "set twice": (lambda: bfw.ExplicitSampling(2, [[0, 0, 1]], [1.0]), "names a block twice"),
    "sets": (lambda: bfw.ExplicitSampling(2, 5, [1.0]), "sets must be a list of lists"),
    "many sets": (lambda: bfw.NiceSampling(100, 50).support(), "too many to be listed"),
    "many coins": (lambda: bfw.IndependentSampling(np.full(30, 0.5)).support(), "too many to be listed"),
    "many choices": (lambda: bfw.DistributedSampling(100, 2, 9).support(), "too many to be listed"),
    "labels": (lambda: bfw.GeneralizedLinear(np.eye(2), [0, 1], Logistic()), "y must hold -1 and"),
    "hinge": (lambda: bfw.GeneralizedLinear(np.eye(2), [-1, 1], Hinge()), "smooth convex loss"),
    "rows": (lambda: bfw.LeastSquares(np.eye(3), [1, 2]), "one entry a row"),
    "table of nan": (lambda: bfw.LeastSquares([[np.nan]], [1]), "A holds NaN"),
    "sparse nan": (lambda: bfw.LeastSquares(sp.csr_array([[np.nan]]), [1]), "A holds NaN"),
    "no columns": (lambda: bfw.LeastSquares(np.zeros((2, 0)), [1, 2]), "A must be a matrix"),
    "not symmetric": (lambda: bfw.Quadratic([[1, 1], [0, 1]]), "square and symmetric"),
    "not convex": (lambda: bfw.Quadratic([[1, 0], [0, -1]]), "positive semidefinite"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "message"), FAULTS.values(), ids=FAULTS)
def test_bad_parts_are_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
