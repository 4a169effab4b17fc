"""Training with the published noise: the printed updates, its noise, and a receipt that promises nothing."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from sottovoce.exceptions import ModelFormatError, ParameterError, PartyError
from sottovoce.losses import Logistic, SigmoidLoss
from sottovoce.papers.admm import PROTOCOL, Perturbed, perturbed, printed
from sottovoce.papers.admm.bounds import corollary_1, lemma_1_bound, theorem_3_std
from sottovoce.papers.admm.perturbed import PerturbedStart
from sottovoce.privacy.events import NonPrivateEvent, NothingReleased
from sottovoce.randomness import Streams
from sottovoce.report.rebuilding import made_again
from sottovoce.vertical import VerticalLogisticRegression, split_columns
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.coordinator.plan import PublicFacts, read_public_facts
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocols.exact.admm import admm
from sottovoce.vertical.protocols.exact.messages import AdmmReply, AdmmStart, AdmmStep
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.protocols.general.messages import Prepare
from sottovoce.vertical.wire import Done, Refused
from support.party import request, worker_of

rng = np.random.default_rng(0)
N = 60
BLOCKS = [rng.normal(size=(N, 3)), rng.normal(size=(N, 2))]
Y = np.where(BLOCKS[0][:, 0] + BLOCKS[1][:, 0] > 0, 1.0, -1.0)


def make_parties(budget=None, kind=np.asarray):
    names = ("bank", "clinic")
    return InProcessParties(
        [
            Party(kind(block), name=name, budget=budget, protocols=[PROTOCOL]).seed(place)
            for place, (block, name) in enumerate(zip(BLOCKS, names, strict=True))
        ]
    )


def make_plan(parties, **changed):
    facts = PublicFacts(n_samples=N, descriptions=read_public_facts(parties), label_holder="bank")
    given = {"loss": Logistic(), "alpha": 0.05, "fit_intercept": True, "epsilon": 1.0, "delta": 1e-5}
    return Perturbed(facts=facts, **{**given, **changed})


def messages(parties, plan):
    with parties.recorded() as record:
        solution = plan.solve(parties, Y, "m", Streams(0))
    return solution, [item.message.scores for item in record if isinstance(item.message, AdmmReply)]


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_without_noise_it_is_the_printed_form(fit_intercept, monkeypatch):
    monkeypatch.setattr(perturbed, "theorem_3_std", lambda *_, **__: 0.0)
    solution, sent = messages(make_parties(), make_plan(make_parties(), max_iter=5, fit_intercept=fit_intercept))
    other = make_parties()
    for name in other.names:
        other.ask(name, Prepare(0.05 * N, 0.0, -math.inf, math.inf, int(fit_intercept and name == "bank")), Done)
    with other.recorded() as record:
        history = printed(other, ScoreProblem(Logistic(), Y), rho=1.0, max_iter=5, tol=0.0)
    expected = [item.message.scores for item in record if isinstance(item.message, AdmmReply)]
    np.testing.assert_allclose(sent, expected, atol=1e-12)
    np.testing.assert_allclose(solution.history.objective, history.objective)
    assert solution.n_rounds == 5


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_the_noise_is_that_of_theorem_3_in_the_span_of_the_columns(kind, monkeypatch):
    """First messages of 200 runs against the one without noise: within 4 standard deviations of the stated variance."""
    plan = make_plan(make_parties(), max_iter=1)
    bound = lemma_1_bound(2, penalty=0.05 * N, curvature=1.0, rho=1.0, n_parties=2, norm_bound=1.0)
    std = theorem_3_std(bound, epsilon=1.0, delta=1e-5)
    assert plan.noise_stds["clinic"] == pytest.approx(std)
    noisy = []
    for seed in range(200):
        parties = make_parties(kind=kind)
        parties.parties["clinic"].seed(seed)
        noisy.append(messages(parties, plan)[1][1])
    monkeypatch.setattr(perturbed, "theorem_3_std", lambda *_, **__: 0.0)
    exact = messages(make_parties(kind=kind), plan)[1][1]
    noise = np.array(noisy) - exact
    basis = np.linalg.qr(BLOCKS[1])[0]
    np.testing.assert_allclose(noise, noise @ basis @ basis.T, atol=1e-8)
    variance = np.mean((noise @ basis) ** 2) / std**2
    assert abs(variance - 1.0) < 4.0 * math.sqrt(2.0 / (2 * len(noisy)))


def test_the_noisy_coefficients_are_kept_and_are_what_was_sent():
    parties = make_parties()
    solution, sent = messages(parties, make_plan(parties, max_iter=3))
    np.testing.assert_allclose(BLOCKS[1] @ parties.parties["clinic"].part("m").coef, sent[-1], atol=1e-9)
    np.testing.assert_allclose(solution.scorer.scores(parties, "m"), sent[-2] + sent[-1], atol=1e-9)


def test_plain_admm_after_it_has_no_noise():
    parties = make_parties()
    make_plan(parties, max_iter=1).solve(parties, Y, "m", Streams(0))
    parties.exchange(Prepare(1.0, 0.0, -math.inf, math.inf, 0), Done)
    runs = []
    for _ in range(2):
        admm(parties, ScoreProblem(Logistic(), Y), rho=1.0, max_iter=3)
        runs.append(worker_of(parties.parties["clinic"]).x)
    np.testing.assert_array_equal(*runs)


def test_the_receipt_promises_nothing_and_says_why():
    parties = make_parties()
    plan = make_plan(parties, max_iter=4, norm_bound=2.0)
    solution = plan.solve(parties, Y, "m", Streams(0))
    assert plan.event == solution.event == NonPrivateEvent()
    assert set(solution.party_events.values()) == {NonPrivateEvent()}
    assert plan.promised_epsilon == math.inf
    assert not plan.is_private
    details = plan.details()
    assert details["epsilon that the paper claims for one round"] == 1.0
    claimed = corollary_1(epsilon=1.0, delta=1e-5, delta_prime=1e-5, n_rounds=4)
    assert details["epsilon that the paper claims for all rounds"] == claimed[0]
    assert details["delta that the paper claims for all rounds"] == claimed[1]
    assert "docs/privacy/published_vertical_noise.md" in details["why the claim does not hold"]


def test_a_party_with_a_budget_refuses():
    parties = make_parties(budget=(10.0, 1e-5))
    with pytest.raises(PartyError, match=r"it does not answer Prepare, which is part of .*'admm-perturbed'"):
        make_plan(parties).solve(parties, Y, "m", Streams(0))
    for party in parties.parties.values():
        party.answers |= {"admm-perturbed"}
    with pytest.raises(PartyError, match="its budget"):
        make_plan(parties).solve(parties, Y, "m", Streams(0))


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"epsilon": 1.5}, "epsilon must be .* Theorem 3"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"rho": 0.0}, "rho must be"),
        ({"norm_bound": -1.0}, "norm_bound must be"),
        ({"loss": SigmoidLoss()}, "convex loss"),
    ],
)
def test_bad_parameters_are_refused(changed, match):
    with pytest.raises(ParameterError, match=match):
        make_plan(make_parties(), **changed)


@pytest.mark.parametrize("budget", [(0.0, 0.0), (1.0, 1e-6), (1e6, 0.5)])
@pytest.mark.parametrize("message", [PerturbedStart(1.0, 1.0, 1e-6, 1.0, 2), AdmmStart(1.0, 0.0, 1.0, 1)])
def test_no_budget_covers_it_whatever_the_owner_allows(message, budget):
    party = Party(BLOCKS[1], name="p", budget=budget, answers={"admm-perturbed"}, protocols=[PROTOCOL])
    assert isinstance(request(party, Prepare(1.0, 0.0, -math.inf, math.inf, 0)), Done)
    assert "its budget is epsilon=" in request(party, message).reason
    assert isinstance(request(party, AdmmStep(np.zeros(N))), Refused)
    assert isinstance(party.spent, NothingReleased)


def test_a_start_that_makes_no_noise_is_refused_in_words():
    party = Party(BLOCKS[1], name="p", protocols=[PROTOCOL])
    for rho, epsilon, why in ((0.0, 1.0, "rho > 0"), (1.0, 9.0, "up to 1")):
        request(party, Prepare(1.0, 0.0, -math.inf, math.inf, 0))
        assert why in request(party, PerturbedStart(rho, epsilon, 1e-6, 1.0, 2)).reason


def test_an_estimator_trains_with_it_and_its_receipt_covers_nothing():
    parties = split_columns(np.hstack(BLOCKS), [3, 2], protocols=dict.fromkeys(("party1", "party2"), (PROTOCOL,)))
    model = VerticalLogisticRegression(
        epsilon=1.0, delta=1e-5, classes=[-1, 1], mechanism=Perturbed, mechanism_options={"max_iter": 3}, random_state=0
    ).fit(parties, Y)
    receipt = model.guarantee_
    assert receipt.epsilon == math.inf
    assert receipt.parameters["mechanism"] == receipt.parameters["arguments"]["mechanism"] == "admm-perturbed"
    assert receipt.not_covered == ("everything: the published claim does not hold, and epsilon is infinite",)
    assert model.plan_.noise_stds["party1"] > 0.0
    with pytest.raises(ModelFormatError, match="mechanism must be"):
        made_again(receipt)
    with pytest.raises(PartyError, match="no message has kind 147 here"):
        model.fit(split_columns(np.hstack(BLOCKS), [3, 2]), Y)
