"""Reports made in JavaScript follow the stated law, keep epsilon, and say on average what they should.

Tests of chance accept above p = 1e-9 and reject below it, and are run on a device whose coin is wrong on purpose too.
The random bytes are a key stream of AES with a fixed key, so no outcome changes from run to run.
"""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.audit.threshold import epsilon_lower_bound
from sottovoce.local import Aggregator, Protocol, Randomizer
from sottovoce.local.candidates import candidates
from sottovoce.local.wire import parse, parse_many, seed_of
from support.javascript import Node, start_node

LEVEL = 1e-9
TOKEN = b"one"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    process = start_node()
    yield process
    process.close()


def vector(**rest) -> Protocol:
    sizes = {"n_features": 2, "completion": "slack", "intercept": 0.0, "epsilon": 1.0, "K": 8, "m": 3, "b": 1.0}
    return Protocol(**{**sizes, **rest})


def indices(node: Node, protocol: Protocol, x: list[float], y: int, n: int, key: int, lazy: bool = False) -> np.ndarray:
    """Return the indices of n reports for one token; a lazy device tosses coins of epsilon / 0.7."""
    raw = node.ask(
        "reports", text=protocol.to_json(), records=[x] * n, labels=[y] * n, key=key, token=TOKEN.hex(),
        coins=protocol.epsilon / 0.7 if lazy else None,
    )  # fmt: skip
    seeds, index, rejected = parse_many(bytes.fromhex(raw), protocol)
    assert not rejected
    assert set(seeds.tolist()) == {seed_of(protocol.id, TOKEN)}
    return index


@pytest.mark.parametrize(("K", "m"), [(8, 3), (5, 4), (3, 1)])
def test_the_sampler_follows_the_stated_law(node: Node, K: int, m: int) -> None:
    n, x = 8_000, [0.4, -0.3]
    protocol = vector(K=K, m=m)
    law = Randomizer(protocol).law(seed_of(protocol.id, TOKEN), protocol.encode(x))
    expected = n * np.array([float(p) for p in law])
    right = np.bincount(indices(node, protocol, x, 1, n, key=1), minlength=K)
    wrong = np.bincount(indices(node, protocol, x, 1, n, key=1, lazy=True), minlength=K)
    assert chisquare(right, expected).pvalue > LEVEL
    assert chisquare(wrong, expected).pvalue < LEVEL


def test_the_audit_cannot_exceed_epsilon_and_finds_a_wrong_coin(node: Node) -> None:
    n, x = 8_000, [0.6, 0.8]
    protocol = vector(epsilon=2.0, K=4, m=2, b=0.0)
    likely = Randomizer(protocol).top(seed_of(protocol.id, TOKEN), protocol.encode(x))
    bounds = {}
    for lazy in (False, True):
        scores = [likely[indices(node, protocol, x, y, n, key=y + 2, lazy=lazy)].astype(float) for y in (1, -1)]
        bounds[lazy] = epsilon_lower_bound(*scores, delta=0.0)
    assert 0.8 * protocol.epsilon < bounds[False] <= protocol.epsilon < bounds[True]


def people(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = 0.4 * rng.standard_normal((n, 3)) + [0.3, 0.0, -0.2]
    return X, np.where(X[:, 0] + X[:, 1] + 0.3 * rng.standard_normal(n) > 0, 1, -1)


@pytest.mark.parametrize(("K", "m", "b"), [(16, 3, 1.0), (16, 1, 0.0)])
def test_moments_of_the_people(node: Node, K: int, m: int, b: float) -> None:
    """First and second moments, entry by entry, within 3 standard errors for a fixed stream; and a model from them."""
    n = 8_000
    X, y = people(n, 0)
    protocol = Protocol(n_features=3, epsilon=3.0, K=K, m=m, b=b)
    raw = bytes.fromhex(node.ask("reports", text=protocol.to_json(), records=X.tolist(), labels=y.tolist(), key=4))
    aggregator = Aggregator(protocol)
    assert aggregator.add(raw) == n
    assert aggregator.health().is_plausible
    A = aggregator.constants.A
    seeds, index, _ = parse_many(raw, protocol)
    g = candidates(seeds, index, protocol.d)
    Z = protocol.encode_many(X) * y[:, None]
    first = g.mean(axis=0) / A[0]
    assert (np.abs(first - Z.mean(axis=0)) < 3.0 * g.std(axis=0) / A[0] / math.sqrt(n)).all()
    second = (g.T @ g / n - np.eye(protocol.d)) / A[1]
    error = (g[:, :, None] * g[:, None, :]).std(axis=0) / A[1] / math.sqrt(n)
    assert (np.abs(second - Z.T @ Z / n) < 3.0 * error).all()
    share = (aggregator.fit().predict(X) == y).mean()
    assert share > 0.8


def test_seeds_are_different_and_use_all_bits(node: Node) -> None:
    protocol = vector()
    reports = [
        bytes.fromhex(node.ask("report", text=protocol.to_json(), record=[0.1, 0.1], label=1)) for _ in range(200)
    ]
    seeds = {parse(report, protocol).seed for report in reports}
    assert len(seeds) == 200
    assert np.bitwise_or.reduce([np.uint64(seed) for seed in seeds]) == 2**64 - 1
