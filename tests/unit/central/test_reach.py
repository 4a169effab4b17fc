"""How far the weights of several classes go: released losses alone decide, and the receipt follows from them."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central import reach
from sottovoce.central.core import replay
from sottovoce.central.plan import Plan
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import GaussianAccountant, accountant_for

pytestmark = pytest.mark.filterwarnings("ignore::sottovoce.exceptions.SottovoceWarning")
LOSSES = "mean losses of the trials (noisy)"
CHOICES = [(1.0, 1.1), (1.0, 0.5, 0.6), (1.0, 0.5, 0.4, 0.45), (1.0, 0.5, 0.4, 0.3)]  # of losses, and one trial each


def plan_of(n=20_000, d=8, **given):
    model = sv.DPLogisticRegression(**{
        "epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0, "classes": [0, 1, 2], "n_public": n, **given
    })  # fmt: skip
    return sv.plan(model, n, d)


def kept(plan: Plan, losses):
    """Return what a run keeps that released these losses."""
    seen = dict(replay(plan.asks).kept)
    return {name: list(losses) if name == LOSSES else value for name, value in seen.items()}


@pytest.mark.parametrize("losses", CHOICES)
@pytest.mark.parametrize("adjacency", ["zero-out", "add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_every_path_spends_the_budget_and_no_more(losses, adjacency, epsilon):
    plan = plan_of(adjacency=adjacency, epsilon=epsilon)
    found = replay(plan.asks, kept(plan, losses))
    mu = sum((count**0.5 / event.noise_multiplier) ** 2 for event, count in found.counts.items()) ** 0.5
    assert mu == pytest.approx(plan.split.whole, rel=1e-9)
    assert accountant_for(found.event).epsilon(found.event, 1e-6) == pytest.approx(epsilon, rel=1e-6)
    assert isinstance(accountant_for(found.event), GaussianAccountant)
    assert found.kept["trials of longer steps that paid"] == int(np.sum(np.diff(losses) < -0.003))


@pytest.mark.parametrize("losses", [(), (1.0,), (1.0, 1.1, 1.0), (1.0, 0.5), (1.0, 0.5, 0.4, 0.3, 0.2), (1.0, np.nan)])
def test_no_other_list_of_losses_is_one_of_a_run(losses):
    plan = plan_of()
    with pytest.raises(ParameterError, match="mean losses"):
        replay(plan.asks, kept(plan, losses))


@pytest.mark.parametrize(
    ("given", "tried"),
    [({}, True), ({"classes": [0, 1]}, False), ({"epsilon": 0.01}, False), ({"alpha": 0.1}, False),
     ({"max_rows_per_group": 3}, False), ({"epsilon": 1e4}, False),
     *(({"solver": "multinomial-scd", "solver_options": o}, t)
       for o, t in (({"n_passes": 30}, False), ({"trials": False}, False), ({"trials": True}, True)))],
)  # fmt: skip
def test_where_trials_are_made_follows_from_public_facts(given, tried):
    assert (LOSSES in replay(plan_of(**given).asks).kept) is tried


@pytest.mark.parametrize("options", [{"trials": 1}, {"trials": "yes"}, {"trials": True, "n_passes": 3}])
def test_what_trials_may_be(options):
    with pytest.raises(ParameterError, match="trials must be"):
        plan_of(solver="multinomial-scd", solver_options=options)


def test_badly_conditioned_columns_are_reached(monkeypatch):
    """Two clouds a class on columns whose scales fall: the rule in n, d and mu stops far short of them."""
    rng = np.random.default_rng(5)
    n, d, k = 12_000, 16, 10
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    cloud, centres = rng.integers(2 * k, size=n), 1.6 * rng.standard_normal((2 * k, d))
    X = ((centres[cloud] + rng.standard_normal((n, d))) * 0.8 ** np.arange(d)) @ rotation
    X, y = np.clip(X / np.abs(X).max(), -1, 1), cloud % k
    model = sv.DPLogisticRegression(epsilon=1.0, delta=1e-5, data_norm=4.0, classes=list(range(k)), random_state=0)

    def accuracy():
        return model.fit(X[:9000], y[:9000]).score(X[9000:], y[9000:])

    found = accuracy()
    monkeypatch.setattr(reach, "_ENOUGH", np.inf)
    assert found > accuracy() + 0.04
