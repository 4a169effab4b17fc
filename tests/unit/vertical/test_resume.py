"""A run that is cut off at any step and resumed from disk is the run that was not cut off, and is charged once."""

import json
import math

import numpy as np
import pytest

from sottovoce.privacy.accounting import Accountant
from sottovoce.vertical import VerticalLasso, VerticalLogisticRegression
from support.interrupted import BUDGET, HOME, OTHERS, Federation, Killed, at, draws_by_place, tables

# few rounds: what is resumed need not have arrived
pytestmark = pytest.mark.filterwarnings("ignore:no convergence in max_iter")

TABLES, LABELS = tables()
ROWS = {"data_norm": 1.0}
CELLS = {"data_bound": 1.0}
EXACT = {"epsilon": math.inf}
PRIVATE = {"epsilon": 2.0, "delta": 1e-6, "classes": [-1, 1]}
SPARSE = {"epsilon": 4.0, "delta": 1e-6, "label_bounds": (-1, 1), "radius": 2.0, "n_steps": 2}

RUNS = {
    "exact": (lambda **more: VerticalLogisticRegression(**EXACT, max_iter=4, **more), {}),
    "exact Frank-Wolfe": (
        lambda **more: VerticalLasso(**EXACT, label_bounds=(-1, 1), radius=2.0, max_iter=3, **more), CELLS,
    ),
    "local models": (lambda **more: VerticalLogisticRegression(**PRIVATE, **more), ROWS),
    "Frank-Wolfe": (lambda **more: VerticalLasso(**SPARSE, **more), CELLS),
}  # fmt: skip


def federation(folder, run):
    make, facts = RUNS[run]
    limited = not run.startswith("exact")
    made = Federation(folder, TABLES, facts, limited=limited)

    def fit(cut=None):
        parties = made.start(cut=cut)
        charged = {"ledger": made.ledger("labels"), "dataset": "people"} if limited else {}
        model = make(**charged).fit(parties, LABELS)
        return {
            "model": model.model_,
            "coefficients": getattr(model, "coef_", np.empty(0)).tobytes(),
            "parts": {
                name: (part.coef.tobytes(), part.intercept)
                for name in (HOME, *OTHERS)
                for part in made.parties[name]._models.values()
            },
            "bytes": (model.uplink_bytes_, model.downlink_bytes_),
            "receipt": json.dumps(model.guarantee_.to_dict(), default=str) if model.charge_ is None else "",
        }, parties.n_exchanges

    return made, fit


@pytest.fixture(scope="module", autouse=True)
def _remembered():
    """Count the cost of an event once, not in each of a thousand fits."""
    known, count = {}, Accountant.epsilon

    def epsilon(self, event, delta):
        key = (type(self), repr(event), delta)
        if key not in known:
            known[key] = count(self, event, delta)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Accountant, "epsilon", epsilon)
        draws_by_place(patch)
        yield


@pytest.fixture(scope="module", params=RUNS)
def whole(request, tmp_path_factory):
    """Return the name of a run, what it gives when it is not cut off, its charges and the number of its exchanges."""
    made, fit = federation(tmp_path_factory.mktemp("whole"), request.param)
    result, n_exchanges = fit()
    charges = made.charges()
    made.end(HOME, *OTHERS)
    return request.param, result, charges, n_exchanges


CUTS = {
    "both before": ("before", Killed(), (HOME, *OTHERS)),
    "both after": ("after", Killed(), (HOME, *OTHERS)),
    "coordinator": ("after", Killed(), (HOME,)),
    "one party": ("bank", ConnectionError(), ("bank", HOME)),
}


@pytest.mark.parametrize(
    "kind",
    [
        "both after",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("one party", "both before", "coordinator")),
    ],
)
def test_a_run_that_is_cut_off_goes_on(tmp_path, whole, kind):
    run, expected, charges, n_exchanges = whole
    when, error, dead = CUTS[kind]
    for number in range(1, n_exchanges + 1):
        made, fit = federation(tmp_path / str(number), run)
        try:
            fit(cut=at(number, when, error))
        except BaseException as raised:
            assert isinstance(raised, Killed) or "is gone" in str(raised), raised
        made.end(*dead)
        result, _ = fit()
        assert result == expected, number
        assert made.charges() == charges, number
        made.end(HOME, *OTHERS)


@pytest.mark.parametrize("run", ["local models", "Frank-Wolfe"])
def test_a_run_that_takes_the_whole_budget_goes_on(tmp_path, monkeypatch, run):
    """A party that has paid is asked again whether it can pay."""
    made, fit = federation(tmp_path / "one", run)
    _, n_exchanges = fit()
    spent, large = [made.ledger(name).spent("people")[0] for name in OTHERS], BUDGET["epsilon"]
    made.end(HOME, *OTHERS)
    for number in range(1, n_exchanges + 1):
        monkeypatch.setitem(BUDGET, "epsilon", large)  # of the labels
        made, fit = federation(tmp_path / str(number), run)
        monkeypatch.setitem(BUDGET, "epsilon", 1.2 * max(spent))
        with pytest.raises(Killed):
            fit(cut=at(number, "after", Killed()))
        made.end(HOME, *OTHERS)
        fit()
        made.end(HOME, *OTHERS)
