"""Noisy ADMM: what crosses, what is charged, what is refused, and the limit without noise, bounds and clips."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sottovoce.vertical.protocols.exact.admm import admm
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.protocols.noisy_admm.messages import NoisyScores, NoisyStart, NoisyStep
from sottovoce.vertical.protocols.noisy_admm.plan import NoisyAdmmPlan

from sottovoce.exceptions import ParameterError, PartyError
from sottovoce.losses import Hinge, Logistic, SigmoidLoss, SmoothedHinge, Squared
from sottovoce.privacy.accounting import accountant_for, flatten
from sottovoce.privacy.events import GaussianEvent, NothingReleased, RandomizedResponseEvent, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.coordinator.plan import PublicFacts, read_public_facts
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocols.general.messages import Afford, Keep, Prepare
from sottovoce.vertical.wire import Done
from support.party import Line, asked, instead, request, worker_of

rng = np.random.default_rng(0)
N = 200
BLOCKS = [rng.normal(size=(N, 3)), rng.random((N, 2))]
NAMES = ["bank", "clinic"]
Y = np.where(BLOCKS[0][:, 0] + 2.0 * BLOCKS[1][:, 0] - 1.0 > 0, 1.0, -1.0)


def make_parties(norm=3.0, budget=None, kind=np.asarray):
    parties = [
        Party(kind(block), name=name, data_norm=norm, budget=budget, answers=budget and {"noisy-admm"}).seed(place)
        for place, (block, name) in enumerate(zip(BLOCKS, NAMES, strict=True))
    ]
    return InProcessParties(parties)


def make_plan(parties, **changed):
    facts = PublicFacts(n_samples=N, descriptions=read_public_facts(parties), label_holder="bank")
    given = {"loss": Logistic(), "alpha": 1e-2, "fit_intercept": True, "epsilon": 2.0, "delta": 1e-5}
    return NoisyAdmmPlan(facts=facts, **{**given, **changed})


@pytest.fixture
def silent(monkeypatch):
    """No noise in any release."""

    def exact(self, ticks, noise):
        return ticks.astype(np.float64) * self.tick, self.event

    monkeypatch.setattr(GridGaussian, "release", exact)


@pytest.mark.parametrize("labels_public", [False, True])
@pytest.mark.parametrize("rounds", [1, 3])
def test_events_add_up_to_the_promise_and_scale_the_noise(labels_public, rounds, monkeypatch):
    parties = make_parties()
    plan = make_plan(parties, labels_public=labels_public, max_iter=rounds, budget_shares={"bank": 1.0, "clinic": 2.0})
    assert accountant_for(plan.event).epsilon(plan.event, 1e-5) == pytest.approx(2.0, rel=1e-6)
    assert accountant_for(plan.event).epsilon(plan.event, 1e-5) <= 2.0
    used = []
    original = GridGaussian.release

    def record(self, ticks, noise):
        used.append(self)
        return original(self, ticks, noise)

    monkeypatch.setattr(GridGaussian, "release", record)
    solution = plan.solve(parties, Y, "m", Streams(0))
    assert len(used) == 2 * rounds
    spent = {}
    for name in NAMES:
        release = plan.release_of(name)
        assert release.mechanism in used
        assert release.mechanism.noise_multiplier == release.event.noise_multiplier == 1.0 / plan.mus[name]
        assert release.mechanism.l2_sensitivity >= release.sensitivity
        spent[name] = RepeatedEvent(release.event, rounds)
        assert flatten(parties.parties[name].spent) == flatten(spent[name])
    assert plan.mus["clinic"] == pytest.approx(plan.mus["bank"] * math.sqrt(2.0))
    label = NothingReleased() if labels_public else RandomizedResponseEvent(1.5)
    assert solution.event == plan.event == compose(label, *spent.values())
    assert solution.party_events == {"bank": compose(label, spent["bank"]), "clinic": spent["clinic"]}


def test_only_what_is_announced_crosses():
    """Uplink: nothing but noisy scores, clipped before the noise; the last update sends nothing."""
    parties = make_parties()
    plan = make_plan(parties, max_iter=2)
    with parties.recorded() as record:
        plan.solve(parties, Y, "m", Streams(0))
    uplink = [item.message for item in record if item.uplink]
    downlink = [item.message for item in record if not item.uplink]
    assert [type(message) for message in uplink if not isinstance(message, Done)] == [NoisyScores] * 6
    assert [len(message.scores) for message in uplink if isinstance(message, NoisyScores)] == [N, N, N, N, 0, 0]
    assert {type(message) for message in downlink} == {Afford, Prepare, NoisyStart, NoisyStep, Keep}


def test_what_is_sent_down_is_a_function_of_what_was_released(monkeypatch):
    """With the released labels held fast, true labels change nothing that crosses."""
    monkeypatch.setattr(RandomizedResponse, "release", lambda self, labels, generator: (Y, self.event))
    records = []
    for labels in (Y, -Y):
        parties = make_parties()
        with parties.recorded() as record:
            make_plan(parties, max_iter=2).solve(parties, labels, "m", Streams(0))
        records.append([item.message.encode() for item in record])
    assert records[0] == records[1]


def test_the_next_targets_come_from_the_noisy_message():
    """From the exact scores they would differ between neighbours, and the rounds would not compose."""
    rng = np.random.default_rng(1)
    parties = make_parties()
    parties.exchange(Prepare(2.0, 0.0, -math.inf, math.inf, 0), Done)
    parties.exchange(NoisyStart(0.5, 1.0, 100.0, 3.0, 1.0), Done)
    first, second = rng.normal(size=(2, N))
    sent = parties.exchange(NoisyStep(first, 1), NoisyScores)["clinic"].scores
    parties.exchange(NoisyStep(second, 0), NoisyScores)
    rows = BLOCKS[1] / np.maximum(3.0, np.linalg.norm(BLOCKS[1], axis=1, keepdims=True))
    targets = np.clip(sent + first + 2.0 * second, -3.0, 3.0)
    expected = np.linalg.solve(0.5 * rows.T @ rows + 2.0 / 9.0 * np.eye(2), 0.5 * rows.T @ targets)
    np.testing.assert_allclose(worker_of(parties.parties["clinic"]).x, expected / 3.0, rtol=1e-8)


def test_labels_are_released_by_randomised_response_unless_they_are_public():
    """The first shift tells each released label: a quarter of epsilon 2 x .75 flips about 18 % of them."""
    for public in (False, True):
        parties = make_parties()
        with parties.recorded() as record:
            make_plan(parties, labels_public=public).solve(parties, Y, "m", Streams(0))
        first = next(item.message for item in record if isinstance(item.message, NoisyStep))
        flipped = np.mean(np.sign(first.shift) != Y)
        assert flipped == 0.0 if public else 0.08 < flipped < 0.29  # 4 standard deviations


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Squared()], ids=lambda loss: loss.name)
def test_without_noise_and_with_wide_bounds_it_is_admm(loss):
    """Scores of 300 rounds against sharing ADMM without relaxation, whose parties have the same penalties."""
    wide = {"score_bound": 1e3, "norm_bound": 1e3, "target_bound": 1e6, "rho": 0.5}
    parties = make_parties(norm=10.0)
    plan = make_plan(parties, loss=loss, labels_public=True, fit_intercept=False, max_iter=300, epsilon=50.0, **wide)
    scores = plan.solve(parties, Y, "m", Streams(0)).scorer.scores(parties, "m")
    other = make_parties()
    other.exchange(Prepare(1e-2 * N, 0.0, -math.inf, math.inf, 0), Done)
    admm(other, ScoreProblem(loss, Y), rho=0.5, relaxation=1.6, max_iter=2000, tol=1e-9)
    expected = sum(block @ worker_of(other.parties[name]).x for name, block in zip(NAMES, BLOCKS, strict=True))
    np.testing.assert_allclose(scores, expected, atol=2e-2 * np.abs(expected).max())


@pytest.mark.usefixtures("silent")
def test_bounds_hold():
    parties = make_parties()
    plan = make_plan(parties, labels_public=True, score_bound=0.05, norm_bound=0.2, alpha=1e-6)
    with parties.recorded() as record:
        plan.solve(parties, Y, "m", Streams(0))
    sent = np.concatenate([item.message.scores for item in record if isinstance(item.message, NoisyScores)])
    assert np.abs(sent).max() == pytest.approx(0.05)
    for name in NAMES:
        part = parties.parties[name].part("m")
        assert 0.0 < np.linalg.norm(part.coef) * 3.0 <= 0.21


@pytest.mark.usefixtures("silent")
def test_the_intercept_is_with_the_label_holder_and_part_of_its_score():
    parties = make_parties()
    solution = make_plan(parties, labels_public=True).solve(parties, Y, "m", Streams(0))
    bank, clinic = (parties.parties[name].part("m") for name in NAMES)
    assert bank.intercept != 0.0
    assert clinic.intercept == 0.0
    expected = BLOCKS[0] @ bank.coef + bank.intercept + BLOCKS[1] @ clinic.coef
    np.testing.assert_allclose(solution.scorer.scores(parties, "m"), 6.0 * expected)
    worker = worker_of(parties.parties["bank"])
    short = np.linalg.norm(BLOCKS[0], axis=1) <= 3.0
    scores = worker._rows @ worker._weights * worker.release.score_bound
    np.testing.assert_allclose(scores[short], (BLOCKS[0] @ bank.coef + bank.intercept)[short])


def test_scores_are_scaled_to_logarithms_of_odds():
    parties = make_parties()
    assert make_plan(parties).scale == 6.0  # 1.5 / score_bound
    assert make_plan(parties, score_bound=0.1).scale == pytest.approx(15.0)
    assert make_plan(parties, score_bound=100.0, norm_bound=100.0).scale == 1.0
    assert make_plan(parties, loss=SmoothedHinge(0.5), labels_public=True).scale == 1.0
    scores = []
    for scale in (None, 2.0):
        parties = make_parties()
        plan = make_plan(parties, score_scale=scale)
        scores.append(plan.solve(parties, Y, "m", Streams(0)).scorer.scores(parties, "m"))
        assert plan.details()["scores times"] == (scale or 6.0)
    np.testing.assert_allclose(scores[0], 3.0 * scores[1])


def test_without_messages_nothing_but_labels_is_spent():
    parties = make_parties()
    plan = make_plan(parties, max_iter=0, labels_public=True)
    assert plan.event == NothingReleased()
    solution = plan.solve(parties, Y, "m", Streams(0))
    assert solution.event == NothingReleased()
    assert parties.parties["clinic"].spent == NothingReleased()


def test_sparse_columns_give_the_same():
    scores = []
    for kind in (np.asarray, sp.csr_array):
        parties = make_parties(kind=kind)
        solution = make_plan(parties).solve(parties, Y, "m", Streams(0))
        scores.append(solution.scorer.scores(parties, "m"))
    np.testing.assert_allclose(*scores, atol=1e-9)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"epsilon": math.inf}, "epsilon must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"max_iter": 1.5}, "max_iter must be a whole number"),
        ({"max_iter": -1}, "max_iter must be"),
        ({"rho": math.nan}, "rho must be"),
        ({"score_scale": 0.0}, "score_scale must be"),
        ({"score_bound": 0.0}, "score_bound must be"),
        ({"norm_bound": math.inf}, "norm_bound must be"),
        ({"target_bound": -1.0}, "target_bound must be"),
        ({"label_share": 1.0}, "label_share must be"),
        ({"loss": Squared()}, "needs the logistic loss.*local-models.*labels_public=True"),
        ({"loss": Hinge()}, "needs the logistic loss.*local-models.*labels_public=True"),
        ({"loss": SigmoidLoss(), "labels_public": True}, "convex loss.*local-models"),
        ({"budget_shares": {"bank": 1.0}}, "one share for each of 'bank', 'clinic'"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_asked(changed, match):
    with pytest.raises(ParameterError, match=match):
        make_plan(make_parties(), **changed)


def test_a_missing_bound_names_the_party_and_the_remedy():
    with pytest.raises(ParameterError, match=r"data_norm of party 'bank'.*Party\(\.\.\., name='bank', data_norm="):
        make_plan(make_parties(norm=None))


def test_a_party_charges_before_it_computes_and_refuses_what_its_budget_does_not_cover(monkeypatch):
    parties = make_parties(budget=(1.0, 1e-5))
    with pytest.raises(PartyError, match="its budget is epsilon=1"):
        make_plan(parties, labels_public=True, epsilon=4.0).solve(parties, Y, "m", Streams(0))
    assert parties.parties["clinic"].spent == NothingReleased()
    monkeypatch.setattr(GridGaussian, "release", lambda *_: 1 / 0)
    plan = make_plan(parties, labels_public=True, epsilon=1.0)
    with pytest.raises(PartyError, match="failed there"):
        plan.solve(parties, Y, "m", Streams(0))
    assert parties.parties["clinic"].spent == GaussianEvent(1.0 / plan.mus["clinic"])


def test_a_party_refuses_what_makes_no_sense():
    party = make_parties().parties["clinic"]

    answer = Line(party).ask
    start = NoisyStart(0.3, 1.0, 1.0, 1.0, 1.0)
    assert "quadratic" in answer(start).reason
    answer(Prepare(1.0, 0.0, -math.inf, math.inf, 0))
    assert "without its start" in answer(NoisyStep(np.zeros(N), 1)).reason
    for place, name in enumerate(("rho", "score_bound", "norm_bound", "target_bound", "mu")):
        values = [0.3, 1.0, 1.0, 1.0, 1.0]
        values[place] = 0.0
        assert f"{name} must be a finite number >= " in answer(NoisyStart(*values)).reason
    assert isinstance(answer(start), Done)
    assert "for 200 rows" in answer(NoisyStep(np.zeros(N + 1), 1)).reason
    party.data_norm = None
    assert "data_norm" in answer(start).reason


def test_a_coordinator_may_send_anything():
    """Targets are clipped, also where sums of shifts overflow."""
    party = make_parties().parties["clinic"]
    request(party, Prepare(1.0, 0.0, -math.inf, math.inf, 0))
    request(party, NoisyStart(0.3, 1.0, 1.0, 1.0, 1.0))
    for shift in (1e308, 1e308, -1e308, -1e308, -1e308, 0.0):
        reply = request(party, NoisyStep(np.full(N, shift), 1))
        assert isinstance(reply, NoisyScores)
        assert np.isfinite(reply.scores).all()


def test_an_event_that_was_not_planned_is_refused():
    parties = make_parties()
    plan = make_plan(parties)
    honest = parties.parties["clinic"]

    class Liar:
        name = "clinic"

        def handle(self, raw):
            start = asked(raw)
            if isinstance(start, NoisyStart):
                fields = (start.rho, start.score_bound, start.norm_bound, start.target_bound)
                raw = instead(raw, NoisyStart(*fields, 1.1 * start.mu))
            return honest.handle(raw)

    parties.parties["clinic"] = Liar()
    with pytest.raises(PartyError, match="'clinic' says that it spent"):
        plan.solve(parties, Y, "m", Streams(0))


def test_the_receipt():
    plan = make_plan(make_parties())
    assert plan.name == "noisy-admm"
    assert plan.releases[0].startswith("labels by randomised response")
    assert len(plan.releases) == 3
    assert plan.details()["epsilon of the randomised response of labels"] == 1.5
    public = make_plan(make_parties(), labels_public=True)
    assert len(public.releases) == 2
    assert "not covered" in public.unit
