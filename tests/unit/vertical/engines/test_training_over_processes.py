"""A joint training in real processes opens, bit for bit, what the reference in one process opens."""

import numpy as np
import pytest

from sottovoce.vertical.protocols.secure import agreed_plan
from sottovoce.vertical.protocols.secure.joint_plan import Block, JointPlan
from support.joint import processes_of
from support.lockstep import run_jointly

pytest.importorskip("spu", reason="SPU has a wheel for Python 3.11 on Linux x86-64 alone")

N = 203


def _tables(n_parties):
    numbers = np.random.default_rng(7)
    tables = {f"p{m}": numbers.normal(size=(N, 3 + m)) for m in range(n_parties)}
    score = sum(table[:, 0] for table in tables.values())
    return tables, score


def _opened(plan, tables, y, engines=None):
    fitting, opened = run_jointly(plan, tables, y, engines=engines)
    return fitting.weights, opened


@pytest.mark.parametrize(
    ("n_parties", "changed"),
    [
        (3, {"loss": "logistic", "n_passes": 2}),
        pytest.param(2, {"loss": "logistic", "n_passes": 2}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_bit_for_bit_the_reference(n_parties, changed, monkeypatch):
    # two pieces, the second not full
    monkeypatch.setattr(agreed_plan, "PIECE", 128)
    tables, score = _tables(n_parties)
    blocks = tuple(Block(name=name, n_features=table.shape[1], data_norm=2.0) for name, table in tables.items())
    facts = {"n_samples": N, "blocks": blocks, "helpers": (), "label_holder": "p1", "alpha": 1e-3}
    plan = JointPlan(**{**facts, "epsilon": 1.0, "delta": 1e-5, "engine": "spu", **changed})
    y = np.where(score > 0, 1.0, -1.0)
    engines = processes_of("spu", len(plan.ranks))
    # the driver starts engines at the first step
    try:
        weights, opened = _opened(plan, tables, y, engines)
    finally:
        for engine in engines:
            engine.close()
    expected_weights, expected = _opened(plan, tables, y)
    assert len(opened) == len(expected) == plan.n_steps + 1
    for mine, theirs in zip(opened, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for name, (coef, intercept) in expected_weights.items():
        np.testing.assert_array_equal(weights[name][0], coef)
        assert weights[name][1] == intercept
