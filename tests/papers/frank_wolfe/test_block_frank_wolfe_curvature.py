"""Expected curvature: exact values against Definition 2 itself, bounds against exact values."""

from itertools import product

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.papers import frank_wolfe as bfw

N = 4
DOMAINS = {
    "intervals": bfw.ProductDomain([bfw.Box(-1, 1), bfw.Box(0, 1), bfw.Box(-2, 0), bfw.Box(0.5, 1)]),
    "boxes": bfw.ProductDomain([bfw.Box(-1, [1, 0]), bfw.Box(0, 2), bfw.Box([0, -3], 1), bfw.Box(0, 1)]),
    "simplices": bfw.ProductDomain.power(bfw.Simplex(3, 2.0), N),
    "mixed": bfw.ProductDomain([bfw.L1Ball(2, 1.5), bfw.Simplex(3), bfw.Box(-1, 1), bfw.Simplex(2)]),
}
SAMPLINGS = {
    "elementary": bfw.ElementarySampling(N),
    "uniform serial": bfw.UniformSerialSampling(N),
    "nice": bfw.NiceSampling(N, 3),
    "distributed": bfw.DistributedSampling(N, 2, 1),
    "uneven groups": bfw.DistributedSampling(N, 3, 1),
    "independent": bfw.IndependentSampling([0.2, 0.9, 0.5, 0.7]),
    "explicit": bfw.ExplicitSampling(N, [[0, 1], [2], [1, 2, 3], []], [0.4, 0.2, 0.3, 0.1]),
}
BOTH = [(d, s) for d in DOMAINS for s in SAMPLINGS]


def problem(domain, seed=0, n_rows=7):
    """Correlations of both signs, so that the signs of a bound matter."""
    rng = np.random.default_rng(seed)
    return bfw.LeastSquares(rng.normal(size=(n_rows, domain.n_coordinates)), rng.normal(size=n_rows))


def definition_2(objective, domain, sampling, x, s, step):
    """Return the bracket of Definition 2, with 2 / step^2 in front of all of it, averaged over the listed sets."""
    at, total = objective.at(x), 0.0
    value, gradient = at.value(), at.gradient(slice(None))
    for chosen, chance in sampling.support():
        direction = np.zeros(len(x))
        c = domain.coordinates(chosen)
        direction[c] = (s - x)[c]
        moved = objective.at(x + step * direction).value()
        total += chance * 2 / step**2 * (moved - value - step * direction @ gradient)
    return total


def vertices(block):
    if isinstance(block, bfw.Box):
        return np.array(list(product(*zip(block.low, block.high, strict=True))))
    corners = block.radius * np.eye(block.size)
    return np.vstack([corners, -corners]) if isinstance(block, bfw.L1Ball) else corners


def curvature_of_set(objective, domain, chosen):
    """Return the largest D'QD over the differences of corners of these blocks."""
    ends = np.array([np.concatenate(c) for c in product(*(vertices(domain.blocks[i]) for i in chosen))])
    c = domain.coordinates(chosen)
    D = (ends[:, None] - ends).reshape(-1, len(c))
    return np.einsum("ri,ri->r", D @ objective.upper_hessian()[np.ix_(c, c)], D).max()


def a_point(domain, rng):
    corners = [vertices(block) for block in domain.blocks]
    return np.concatenate([rng.dirichlet(np.full(len(c), 0.3)) @ c for c in corners])


@pytest.mark.parametrize(("domain", "sampling"), BOTH)
def test_exact_curvature_is_the_supremum_of_definition_2(domain, sampling):
    domain, sampling = DOMAINS[domain], SAMPLINGS[sampling]
    objective = problem(domain)
    exact = bfw.expected_curvature(objective, domain, sampling)
    rng = np.random.default_rng(1)
    for _ in range(30):
        x, s = a_point(domain, rng), a_point(domain, rng)
        assert definition_2(objective, domain, sampling, x, s, rng.uniform(0.1, 1)) <= exact * (1 + 1e-9)
    corners = [vertices(block) for block in domain.blocks]
    P = np.repeat(np.repeat(sampling.pair_probabilities, domain.sizes, 0), domain.sizes, 1)
    W = P * objective.upper_hessian()
    all_corners = np.array([np.concatenate(c) for c in product(*corners)])
    D = (all_corners[:, None] - all_corners).reshape(-1, domain.n_coordinates)
    values = np.einsum("ri,ri->r", D @ W, D)
    best = int(values.argmax())
    assert exact == pytest.approx(values[best])
    x, s = all_corners[best // len(all_corners)], all_corners[best % len(all_corners)]
    assert abs(definition_2(objective, domain, sampling, x, s, 1.0)) == pytest.approx(exact)


@pytest.mark.parametrize(("domain", "sampling"), BOTH)
def test_bounds_are_above_the_exact_curvature(domain, sampling):
    domain, sampling = DOMAINS[domain], SAMPLINGS[sampling]
    for seed in range(8):
        objective = problem(domain, seed, n_rows=2 + 3 * seed)
        exact = bfw.expected_curvature(objective, domain, sampling)
        slack = 1 + 1e-9
        bound = bfw.curvature_bound(objective, domain, sampling)
        assert exact <= bound * slack
        assert bound <= bfw.proposition_1_bound(objective, domain, sampling)
        if isinstance(sampling, bfw.DistributedSampling):
            assert bound <= bfw.proposition_4_bound(objective, domain, sampling) * slack


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_relations_of_proposition_2(domain):
    objective = problem(domain)
    serial, nice, all_blocks = SAMPLINGS["uniform serial"], SAMPLINGS["nice"], SAMPLINGS["elementary"]
    C_f = bfw.global_curvature(objective, domain)
    C_product = bfw.block_curvatures(objective, domain).sum()
    assert bfw.expected_curvature(objective, domain, all_blocks) == pytest.approx(C_f)
    # <= in general, and equal for quadratic functions
    assert bfw.expected_curvature(objective, domain, serial) == pytest.approx(C_product / N)
    assert bfw.expected_set_curvature(objective, domain, serial) == pytest.approx(C_product / N)
    of_sets = bfw.expected_set_curvature(objective, domain, nice)
    assert bfw.expected_curvature(objective, domain, nice) < of_sets
    each = [curvature_of_set(objective, domain, chosen) for chosen, _ in nice.support()]
    assert of_sets == pytest.approx(np.mean(each))


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_bound_for_logistic_loss(sampling):
    domain = DOMAINS["mixed"]
    rng = np.random.default_rng(2)
    signs = np.sign(rng.normal(size=9))
    objective = bfw.GeneralizedLinear(rng.normal(size=(9, domain.n_coordinates)), signs, Logistic())
    bound = bfw.curvature_bound(objective, domain, sampling)
    seen = [
        definition_2(objective, domain, sampling, a_point(domain, rng), a_point(domain, rng), rng.uniform(0.1, 1))
        for _ in range(100)
    ]
    assert 0.05 * bound < max(seen) <= bound
    with pytest.raises(ParameterError, match="quadratic functions only"):
        bfw.expected_curvature(objective, domain, sampling)


def test_propositions_3_and_4_are_attained():
    """Equal columns, equal intervals: everything adds up, C = E|T|^2 = |T|^2."""
    domain = bfw.ProductDomain.intervals(0, 1, n_blocks=9)
    objective = bfw.Quadratic(np.ones((9, 9)))
    nice, distributed = bfw.NiceSampling(9, 4), bfw.DistributedSampling(9, 3, 2)
    assert bfw.expected_curvature(objective, domain, nice) == pytest.approx(16)
    assert bfw.proposition_4_bound(objective, domain, nice) == pytest.approx(16)
    assert bfw.expected_curvature(objective, domain, distributed) == pytest.approx(36)
    assert bfw.proposition_4_bound(objective, domain, distributed) == pytest.approx(36)


def test_l2_balls():
    domain = bfw.ProductDomain([bfw.L2Ball(3, 2.0), bfw.L2Ball(2), bfw.Box(-1, 1, size=13)])
    objective = problem(domain, n_rows=20)
    Q = objective.upper_hessian()
    first, second = Q[:3, :3], Q[3:5, 3:5]
    balls = bfw.block_curvatures(objective, domain)[:2]
    assert balls == pytest.approx([16 * np.linalg.eigvalsh(first)[-1], 4 * np.linalg.eigvalsh(second)[-1]])
    serial, nice = bfw.UniformSerialSampling(3), bfw.NiceSampling(3, 2)
    exact = bfw.expected_curvature(objective, domain, serial)
    assert exact <= bfw.curvature_bound(objective, domain, serial) * (1 + 1e-9)
    with pytest.raises(ParameterError, match="blocks hang together, with an l2 ball"):
        bfw.expected_curvature(objective, domain, nice)
    bound, rng = bfw.curvature_bound(objective, domain, nice), np.random.default_rng(0)
    D = np.hstack([
        4 * (u := rng.normal(size=(2000, 3))) / np.linalg.norm(u, axis=1, keepdims=True),
        2 * (v := rng.normal(size=(2000, 2))) / np.linalg.norm(v, axis=1, keepdims=True),
        rng.choice([-2.0, 2.0], size=(2000, 13)),
    ])  # fmt: skip
    P = np.repeat(np.repeat(nice.pair_probabilities, domain.sizes, 0), domain.sizes, 1)
    seen = np.einsum("ri,ri->r", D @ (P * Q), D).max()
    assert 0.2 * bound < seen <= bound


def test_serial_sampling_is_exact_whatever_the_number_of_blocks():
    domain = bfw.ProductDomain.intervals(-1, 1, n_blocks=100)
    objective = problem(domain)
    exact = bfw.expected_curvature(objective, domain, bfw.UniformSerialSampling(100))
    assert exact == pytest.approx(4 * np.trace(objective.upper_hessian()) / 100)
    with pytest.raises(ParameterError, match=r"100 blocks hang together.*use curvature_bound"):
        bfw.expected_curvature(objective, domain, bfw.NiceSampling(100, 2))


FAULTS = {
    "coordinates": (lambda f, d, s: bfw.curvature_bound(f, bfw.ProductDomain([bfw.Box(0, 1, size=3)]), s), "3 coo"),
    "blocks": (lambda f, d, s: bfw.expected_curvature(f, d, bfw.UniformSerialSampling(5)), "is one of 5 blocks"),
    "4": (lambda f, d, s: bfw.proposition_4_bound(f, d, s), "Proposition 4 is about"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), FAULTS.values(), ids=FAULTS)
def test_what_does_not_fit_is_refused(call, message):
    domain = DOMAINS["intervals"]
    with pytest.raises(ParameterError, match=message):
        call(problem(domain), domain, SAMPLINGS["independent"])
