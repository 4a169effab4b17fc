"""A joint training in clear, in lockstep: what is opened is bit for bit what one table of whole numbers gives."""

import dataclasses

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.secure import agreed_plan
from sottovoce.vertical.secure.agreed_plan import Block
from sottovoce.vertical.secure.joint_plan import JointPlan
from support.joint_clear import JointClear
from support.lockstep import CountingEngine, run_jointly
from support.pairs import by_pairs

N = 301


def people(seed=0, widths=(3, 2, 4)):
    rng = np.random.default_rng(seed)
    tables = {f"p{m}": rng.normal(size=(N, width)) for m, width in enumerate(widths)}
    score = sum(table[:, 0] for table in tables.values())
    return tables, np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-score)), 1.0, -1.0), score


def plan(tables, **changed):
    blocks = tuple(Block(name=name, n_features=table.shape[1], bound=2.0) for name, table in tables.items())
    facts = {
        "n_samples": N, "blocks": blocks, "helpers": (), "label_holder": "p1", "loss": "logistic", "alpha": 1e-3,
        "epsilon": 1.0, "delta": 1e-5, "engine": "in-process",
    }  # fmt: skip
    return JointPlan(**{**facts, **changed})


@pytest.mark.parametrize("pieces", [1, 4], ids=lambda n: f"{n} pieces")
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"fit_intercept": False, "helpers": ("h",)},
        {"loss": "smoothed hinge", "n_passes": 3},
        {"loss": "squared", "label_bounds": (-2.0, 3.0)},
        {"loss": "squared", "label_bounds": (-2.0, 3.0), "n_passes": 0},
        {"loss": "squared", "label_bounds": (-2.0, 3.0), "fit_intercept": False},
        {"engine": "shamir"},
        {"engine": "shamir", "loss": "smoothed hinge", "fit_intercept": False},
    ],
    ids=str,
)
def test_what_is_opened_is_that_of_one_table(changed, pieces, monkeypatch):
    monkeypatch.setattr(agreed_plan, "PIECE", -(-N // pieces))
    tables, signs, score = people()
    one = plan(tables, **changed)
    assert one.n_pieces == pieces
    y = score if one.loss == "squared" else signs
    rng = np.random.default_rng(1)
    drawn = {(step, name): one.shares(step, name, rng) for step in range(one.n_steps + 1) for name in one.ranks}
    totals = [
        [sum(shares) for shares in zip(*(drawn[step, name] for name in one.ranks), strict=True)]
        for step in range(one.n_steps + 1)
    ]
    fitting, opened = run_jointly(one, tables, y, noise=lambda step, name: drawn[step, name])
    clear, again, points = JointClear(one, tables, y), one.fitting(), None
    for step, seen in enumerate(opened):
        exact = clear.step(step, points) if step else clear.moments()
        expected = np.concatenate([(each + noise).ravel() for each, noise in zip(exact, totals[step], strict=True)])
        np.testing.assert_array_equal(seen, expected.astype(np.float64))
        points = again.take(seen)
    for name, (coef, intercept) in again.weights.items():
        np.testing.assert_array_equal(coef, fitting.weights[name][0])
        assert intercept == fitting.weights[name][1]


def test_nothing_that_is_not_masked_is_opened():
    """What the plan lists is opened, and nothing else; after a training no noise and no margin is left."""
    tables, y, _ = people()
    one = plan(tables, n_passes=2)
    engines = [CountingEngine(b"first", rank, 3) for rank in range(3)]
    run_jointly(one, tables, y, engines=engines)
    for engine in engines:
        assert engine.opened == ["opened"] * sum(len(one.openings(step)) for step in range(3))
        assert {name.split(".")[0] for name in engine.names} == {"rows0", "rows1", "rows2", "y", "a"}
    ridge = dataclasses.replace(one, loss="squared", label_bounds=(-1.0, 1.0), n_passes=0)
    engines = [CountingEngine(b"second", rank, 3) for rank in range(3)]
    run_jointly(ridge, tables, y, engines=engines)
    assert all(engine.names == set() for engine in engines)


@pytest.mark.parametrize(("kind", "half"), by_pairs(["squared", "logistic", "smoothed hinge", "cubic"], [0, 1]))
def test_public_numbers_of_any_size_give_a_model_or_a_refusal(kind, half):
    """No warning, no NaN and no other error, whatever the public numbers are and the noise makes of them."""
    tables, y, _ = people(widths=(2, 1))
    changes = [{name: size} for name in ("alpha", "epsilon") for size in (1e-50, 1e-9, 1e-3, 1e3, 1e6, 1e50)]
    changes += [{"delta": 1e-300}, {"delta": 0.99}, {"n_passes": 1}, {"colluding": 2}, {"fit_intercept": False}]
    changes += [
        {"data_norm": 1e-50},
        {"data_norm": 1e50},
        {"label_bounds": (-1e50, 1e50)},
        {"label_bounds": (0, 1e-50)},
    ]
    finished = 0
    for change in changes[half::2]:
        facts = {"loss": "logistic", "engine": "shamir"} if kind == "cubic" else {"loss": kind}
        if kind == "squared":
            facts["label_bounds"] = (-1.0, 1.0)
        elif "label_bounds" in change:
            continue
        norm = change.get("data_norm", 2.0)
        facts |= {name: value for name, value in change.items() if name != "data_norm"}
        blocks = tuple(Block(name, table.shape[1], norm) for name, table in tables.items())
        try:
            one = plan(tables, **{"helpers": ("h",), **facts, "blocks": blocks})
        except ParameterError:
            continue
        fitting, _ = run_jointly(one, tables, y)
        for coef, intercept in fitting.weights.values():
            assert np.isfinite(coef).all()
            assert np.isfinite(intercept)
        finished += 1
    assert finished >= 4
