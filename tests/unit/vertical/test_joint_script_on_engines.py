"""Whole joint trainings on real engines, a process a party: every opening, bit for bit, is that of one table.

Three parties of SPU, and ridge with Shamir's shares: `test_joint_training.py`, through real parties.
"""

import numpy as np
import pytest

from sottovoce.vertical.engines.process import EngineProcess
from sottovoce.vertical.engines.site import available_engines
from sottovoce.vertical.protocols.secure import agreed_plan
from sottovoce.vertical.protocols.secure.joint_plan import Block, JointPlan
from support.joint import free_addresses
from support.joint_clear import JointClear
from support.lockstep import run_jointly

pytestmark = pytest.mark.slow
N = 151


@pytest.mark.parametrize(
    ("engine", "helpers", "facts"),
    [
        ("spu", (), {"loss": "smoothed hinge", "n_passes": 2, "fit_intercept": False}),
        ("shamir", ("helper",), {"loss": "logistic"}),
    ],
    ids=["CHEETAH hinge", "Shamir logistic"],
)
def test_bit_for_bit(engine, helpers, facts, monkeypatch):
    if engine not in available_engines():
        pytest.skip(f"{engine} is not to be had here")
    monkeypatch.setattr(agreed_plan, "PIECE", 100)
    rng = np.random.default_rng(0)
    tables = {"a": rng.normal(size=(N, 3)), "b": rng.normal(size=(N, 2))}
    y = np.sign(tables["a"][:, 0] + tables["b"][:, 1])
    plan = JointPlan(
        n_samples=N, blocks=(Block("a", 3, 2.0), Block("b", 2, 2.0)), helpers=helpers, label_holder="b", alpha=1e-3,
        epsilon=2.0, delta=1e-5, engine=engine, **facts,
    )  # fmt: skip
    drawn = {(step, name): plan.shares(step, name, rng) for step in range(plan.n_steps + 1) for name in plan.ranks}
    addresses = free_addresses(len(plan.ranks))
    engines = [EngineProcess(engine, rank, addresses, timeout=60.0) for rank in range(len(plan.ranks))]
    try:
        _, opened = run_jointly(plan, tables, y, noise=lambda step, name: drawn[step, name], engines=engines)
    finally:
        for each in engines:
            each.close()
    clear, fitting, points = JointClear(plan, tables, y), plan.fitting(), None
    for step, seen in enumerate(opened):
        exact = clear.step(step, points) if step else clear.moments()
        noise = [sum(shares) for shares in zip(*(drawn[step, name] for name in plan.ranks), strict=True)]
        expected = np.concatenate([(each + added).ravel() for each, added in zip(exact, noise, strict=True)])
        np.testing.assert_array_equal(seen, expected.astype(np.float64))
        points = fitting.take(seen)
