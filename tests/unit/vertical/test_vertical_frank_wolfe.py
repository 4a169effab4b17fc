"""Frank-Wolfe over columns at several parties: pieces against their definitions, fits against the optimum, refusals."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sottovoce.exceptions import ParameterError, PartyError
from sottovoce.losses import Logistic
from sottovoce.losses.base import slope
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import NonPrivateEvent, compose
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.randomness import Streams
from sottovoce.vertical import (
    Party,
    VerticalLasso,
    VerticalLinearSVC,
    VerticalLogisticRegression,
    VerticalSparseLogisticRegression,
)
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.requests.frank_wolfe import (
    LOSSES,
    TrainOnBall,
    pack_places,
    packed_size,
    place_of,
    signed_column,
    unpack_places,
)
from sottovoce.vertical.requests.general import KeepWeights, ShowColumns
from sottovoce.vertical.wire import Payload, Refused
from support.crossing import recorded
from support.party import asked
from support.party import request as ask

N, NAMES = 600, ("bank", "clinic", "shop")
RNG = np.random.default_rng(0)
TABLES = {name: RNG.uniform(-2, 2, (N, 5)) for name in NAMES}
TABLES["shop"][:, 0] = TABLES["bank"][:, 1] + 0.1 * RNG.normal(size=N)
TRUE = {"bank": [0.0, 0.5, 0.0, 0.0, -0.3], "clinic": [0.4, 0.0, 0.0, 0.0, 0.0], "shop": [0.0, 0.0, 0.0, 0.2, 0.0]}
MARGINS = sum(TABLES[name] @ TRUE[name] for name in NAMES)
Y = np.clip(MARGINS + 0.7 + 0.1 * RNG.normal(size=N), -2.0, 4.0)
SIGNS = np.where(MARGINS + 0.3 * RNG.normal(size=N) > 0, "yes", "no")
ALL = np.hstack([np.clip(TABLES[name], -2, 2) for name in NAMES])
PUBLIC = {"epsilon": 5.0, "delta": 1e-4, "radius": 1.4, "random_state": 0}


def parties(**changes):
    facts = {"data_bound": 2.0} | changes
    return InProcessParties([Party(TABLES[name], name=name, **facts) for name in NAMES])


def lasso(**changes):
    return VerticalLasso(**{**PUBLIC, "label_bounds": (-2.0, 4.0), "labels_public": True, **changes})


def logistic(**changes):
    return VerticalSparseLogisticRegression(**{**PUBLIC, "classes": ["no", "yes"], "labels_public": True, **changes})


# --- pieces -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 3000), st.sampled_from([1, -1]))
def test_places_there_and_back(column, sign):
    assert signed_column(place_of(column, sign)) == (column, sign)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, 2 * n - 1), min_size=1))))
def test_places_travel_and_come_back(given):
    n_columns, places = given
    raw = pack_places(places, n_columns)
    assert len(raw) == packed_size(len(places), n_columns) <= 1 + len(places) * np.log2(4 * n_columns) / 8
    assert unpack_places(raw, len(places), n_columns) == places


@pytest.mark.parametrize("byte", [0x33, 0xFF])  # places 12 and 15 of 4 bits each, the lowest first
def test_places_that_are_none_name_the_party(byte, monkeypatch):
    original = TrainOnBall.answer

    def otherwise(self, facts, worker):
        reply = yield from original(self, facts, worker)
        return Payload(reply.numbers, reply.octets[:-1] + bytes([byte]))

    monkeypatch.setattr(TrainOnBall, "answer", otherwise)
    with pytest.raises(PartyError, match=r"'bank' chose the place .*; it has 6 columns"):
        lasso().fit(parties(), Y)


def test_soft_slopes_are_those_of_the_losses():
    for m in (-3.0, 0.0, 0.7):
        for y in (-1.0, 1.0):
            assert slope(LOSSES["logistic"], y, m) == pytest.approx(slope(Logistic(), y, m), abs=1e-15)
        mixed = 0.8 * slope(LOSSES["logistic"], 1 / 0.6, m) + 0.2 * slope(LOSSES["logistic"], -1 / 0.6, m)
        assert mixed == pytest.approx(slope(Logistic(), 1.0, m), abs=1e-12)  # flips of 20 % corrected


# --- without noise ----------------------------------------------------------------------------------------------------


def least(radius):
    """Least mean squared residual over 2 with an intercept's column of 2, by projected gradients."""
    X = np.column_stack([ALL, np.full(N, 2.0)])
    w, step = np.zeros(X.shape[1]), N / np.linalg.norm(X, 2) ** 2
    for _ in range(3000):
        w = w - step * X.T @ (X @ w - (Y - 1.0)) / N
        sizes = np.sort(np.abs(w))[::-1]
        if sizes.sum() > radius:
            over = np.cumsum(sizes) - radius
            last = np.flatnonzero(sizes > over / np.arange(1, len(w) + 1))[-1]
            w = np.sign(w) * np.maximum(np.abs(w) - over[last] / (last + 1), 0.0)
    return 0.5 * np.mean((X @ w - (Y - 1.0)) ** 2)


def test_without_noise_it_reaches_the_optimum():
    model = lasso(epsilon=math.inf, tol=1e-2, max_iter=1500).fit(parties(), Y)
    found, best = 0.5 * np.mean((ALL @ model.coef_ + model.intercept_ - Y) ** 2), least(1.4)
    start = 0.5 * np.mean((Y - 1.0) ** 2)
    assert model.history_.converged
    assert best - 1e-9 <= found <= best + 1e-2 * start  # the duality gap says so
    assert np.abs(model.coef_).sum() + abs(model.intercept_ - 1.0) / 2.0 <= 1.4 * (1 + 1e-12)
    assert model.history_.stationarity[-1] <= 1e-2 * start
    assert math.isinf(model.guarantee_.epsilon)


@pytest.mark.parametrize("make", [lasso, logistic])
def test_without_noise(make):
    y = Y if make is lasso else SIGNS
    ready = parties()
    model = make(epsilon=math.inf, tol=0.02, max_iter=500).fit(ready, y)
    assert model.history_.converged
    assert model.score(ready, y) > (0.3 if make is lasso else 0.75)
    drop = np.diff(model.history_.objective)
    assert (drop < 1e-9 * N).all()  # exact line search never rises
    sparse = InProcessParties([Party(sp.csr_array(TABLES[name]), name=name, data_bound=2.0) for name in NAMES])
    same = make(epsilon=math.inf, tol=0.02, max_iter=500).fit(sparse, y)
    np.testing.assert_allclose(same.coef_, model.coef_, atol=1e-12)
    assert all(party.spent == NonPrivateEvent() for party in ready.parties.values())


# --- private fits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lasso, logistic])
@pytest.mark.parametrize("public", [True, False])
def test_private_fit(make, public):
    y, ready = (Y if make is lasso else SIGNS), parties()
    model = make(labels_public=public, n_steps=4)
    plan = model.plan(ready)
    assert model.fit(ready, y) is model
    assert model.plan_.words == plan.words
    assert model.guarantee_.event == plan.event
    assert accountant_for(plan.event).epsilon(plan.event, 1e-4) <= 5.0
    assert model.guarantee_.epsilon == 5.0
    # the model is one for everybody: coefficients, parts and scores are the same thing
    np.testing.assert_array_equal(model.coef_, np.concatenate([model.parts_[name].coef for name in NAMES]))
    np.testing.assert_allclose(
        model.decision_function(ready), np.hstack(list(TABLES.values())) @ model.coef_ + model.intercept_, atol=1e-12
    )
    assert model.n_nonzero_ == np.count_nonzero(model.coef_) <= 12
    sizes = {name: np.abs(model.parts_[name].coef).sum() + abs(model.parts_[name].intercept) / 2.0 for name in NAMES}
    assert max(sizes.values()) <= 1.4 / 3 * (1 + 1e-9)
    # what each party was charged is what its receipt says
    for name, party in ready.parties.items():
        own = model.party_guarantees_[name]
        assert own.epsilon < 5.0
        if name != "bank":
            assert party.spent == own.event
    assert ("label" in model.party_guarantees_["bank"].unit) == (not public)
    assert model.guarantee_.seeded


def test_a_large_budget_finds_the_columns():
    n = 20_000
    rng = np.random.default_rng(3)
    X = rng.choice([-1.0, 1.0], (n, 40))
    y = np.clip(0.5 * X[:, 3] - 0.5 * X[:, 33], -1, 1)
    halves = [Party(part, name=name, data_bound=1.0) for name, part in zip("ab", (X[:, :20], X[:, 20:]), strict=True)]
    for public in (True, False):
        options = {"labels_public": public, "label_bounds": (-1, 1), "radius": 1.0, "epsilon": 20.0}
        model = VerticalLasso(delta=1e-5, random_state=1, **options).fit(halves, y)
        assert model.coef_[3] > 0.3, public
        assert model.coef_[33] < -0.3, public
        assert np.mean((X @ model.coef_ + model.intercept_ - y) ** 2) < 0.1 * np.mean(y**2), public


def test_entries_beyond_the_bound_are_clipped():
    clipped = InProcessParties([Party(np.clip(TABLES[name], -0.5, 0.5), name=name, data_bound=0.5) for name in NAMES])
    one = lasso(n_steps=3).fit(parties(data_bound=0.5), Y)
    np.testing.assert_array_equal(one.coef_, lasso(n_steps=3).fit(clipped, Y).coef_)


def test_secret_labels_cross_by_randomised_response_only():
    ready, model = parties(), lasso(labels_public=False)
    with recorded(ready) as record:
        model.fit(ready, Y)
    sent = {crossing.party: crossing.message.labels for crossing in record if isinstance(crossing.message, TrainOnBall)}
    gain = model.plan_.response.gain
    for name in ("clinic", "shop"):
        np.testing.assert_allclose(np.abs(sent[name]), 1.0 / gain)
    np.testing.assert_array_equal(sent["clinic"], sent["shop"])
    np.testing.assert_allclose(sent["bank"], (Y - 1.0) / 3.0)  # its own
    # right on average: a regression of the released on the true ones has slope 1
    many = [model.plan_.soft_labels(ready, Y, Streams(seed))["shop"] for seed in range(60)]
    assert np.mean(many, axis=0) @ sent["bank"] / (sent["bank"] @ sent["bank"]) == pytest.approx(1.0, abs=0.15)


# --- budgets, refusals ------------------------------------------------------------------------------------------------


def start(**changes):
    values = {
        "loss": "squared", "labels": np.zeros(N), "vertex": 1.0, "clip": 1.0, "n_steps": 2, "selection": 0.5,
        "intercept": 0, "unit": 1.0, "model": "m",
    }  # fmt: skip
    return TrainOnBall(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"loss": "hinge"}, "no Frank-Wolfe for the loss 'hinge'"),
        ({"labels": np.zeros(3)}, "labels has 3 numbers for 600 rows"),
        ({"vertex": 0.0}, "vertex must be positive"),
        ({"clip": -1.0}, "clip must be positive"),
        ({"n_steps": 0}, "n_steps must be positive"),
        ({"selection": 0.0}, "selection must be positive"),
        ({"n_steps": 10**12}, "n_steps is at most 1,000,000"),
        ({"intercept": 2}, "intercept is 0 or 1"),
        *(
            ({field: value}, f"{field} must be within [1e-50, 1e+50]")  # or ticks would overflow
            for field in ("clip", "vertex", "unit", "selection")
            for value in (1e-305, 1e60)
        ),
    ],
)
def test_starts_that_are_refused(changes, reason):
    party = Party(TABLES["bank"], name="bank", data_bound=2.0)
    reply = ask(party, start(**changes))
    assert isinstance(reply, Refused)
    assert reason in reply.reason
    assert party.spent == compose()


def test_other_requests_that_are_refused():
    party = Party(TABLES["bank"], name="bank")
    assert "no data_bound" in ask(party, start()).reason
    for count in (0, 5, 7):
        assert f"{count} weights came for 5 columns" in ask(party, KeepWeights("m", np.ones(count))).reason
    limited = Party(TABLES["bank"], name="bank", data_bound=2.0, budget=(1.0, 1e-6))
    assert "budget" in ask(limited, ShowColumns()).reason


def test_a_party_that_spends_something_else_is_found_out(monkeypatch):
    original = TrainOnBall.answer

    def otherwise(self, facts, worker):
        reply = yield from original(self, facts, worker)
        return Payload([2.0 * self.selection], reply.octets)

    monkeypatch.setattr(TrainOnBall, "answer", otherwise)
    with pytest.raises(PartyError, match="says that each of its choices spent"):
        lasso().fit(parties(), Y)


def test_the_mechanism_gets_the_planned_range(monkeypatch):
    """The event that is accounted and the range that is drawn with come from one number."""
    widths, original = [], ExponentialMechanism.select
    monkeypatch.setattr(
        ExponentialMechanism, "select", lambda self, *rest: (widths.append(self.epsilon), original(self, *rest))[1]
    )
    model = lasso(n_steps=3).fit(parties(), Y)
    planned = [each for each in model.plan_.event.releases() if each[0].kind == "bounded-range"]
    assert [(event.epsilon, times) for event, times in planned] == [(widths[0], 9)]
    assert widths == [widths[0]] * 9


def test_a_joint_model_has_no_model_of_the_label_holder():
    model = lasso(n_steps=2).fit(parties(), Y)
    for asked_for in (model.local_decision_function, lambda given: model.compare(given, Y)):
        with pytest.raises(ParameterError, match="no model of the label holder"):
            asked_for(parties())


class _Changed(Party):
    """Its owner takes the mechanism back between the question and the training."""

    def handle(self, raw):
        if isinstance(asked(raw), TrainOnBall):
            self.answers = frozenset({"secure"})
        return super().handle(raw)


@pytest.mark.parametrize("public", [False, True])
def test_an_error_after_labels_have_left_says_so(public):
    others = [_Changed(TABLES[name], name=name, data_bound=2.0) for name in NAMES[1:]]
    model = lasso(labels_public=public, random_state=None)
    with pytest.raises(PartyError, match="refused") as caught:
        model.fit([Party(TABLES["bank"], name="bank", data_bound=2.0), *others], Y)
    assert ("The labels had been released by then: epsilon = 2.5 of" in str(caught.value)) is not public


@pytest.mark.parametrize(
    "model",
    [
        VerticalLogisticRegression(epsilon=math.inf, max_iter=2), VerticalLinearSVC(epsilon=math.inf, max_iter=2),
        VerticalSparseLogisticRegression(epsilon=math.inf, radius=1.4, max_iter=2, tol=1e-9),
    ],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_a_training_without_noise_warns_where_it_did_not_arrive_and_nowhere_else(model):
    with pytest.warns(ConvergenceWarning, match="max_iter=2") as caught:
        model.fit(parties(), SIGNS)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(model).set_params(max_iter=1000, tol=0.01).fit(parties(), SIGNS)
