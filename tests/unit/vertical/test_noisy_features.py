"""Training from noisy columns: what crosses, what is charged, what is refused, and the limit without noise."""

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp

from sottovoce.exceptions import ParameterError, PartyError
from sottovoce.losses import Hinge, Logistic, SigmoidLoss, Squared
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import GaussianEvent, NothingReleased, event_from_dict
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.coordinator.plan import PublicFacts, read_public_facts
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocols.general.messages import Afford, Description
from sottovoce.vertical.protocols.noisy_features.messages import Features, SendFeatures
from sottovoce.vertical.protocols.noisy_features.plan import NoisyFeaturesPlan
from sottovoce.vertical.protocols.scoring.messages import Score, Scores, ShowFeatures, ShownFeatures
from sottovoce.vertical.wire import Done, Refused
from support.party import asked, decode, instead, request

rng = np.random.default_rng(0)
N = 300
BLOCKS = [rng.normal(size=(N, 3)), rng.random((N, 2)), rng.normal(size=(N, 4))]
NAMES = ["bank", "clinic", "shop"]
Y = np.where(BLOCKS[0][:, 0] + 2.0 * BLOCKS[1][:, 0] - 1.0 + BLOCKS[2][:, 1] > 0, 1.0, -1.0)
NORMS = [None, 1.5, 3.0]


def make_parties(blocks=BLOCKS, **changed):
    parties = [
        Party(block, name=name, data_norm=norm, nonnegative=name == "clinic").seed(place)
        for place, (block, name, norm) in enumerate(zip(blocks, NAMES, NORMS, strict=False))
    ]
    for name, values in changed.items():
        for party in parties[1:]:
            setattr(party, name, values)
    return InProcessParties(parties)


def make_plan(parties, **changed):
    facts = PublicFacts(n_samples=N, descriptions=read_public_facts(parties), label_holder="bank")
    given = {"loss": Logistic(), "alpha": 1e-3, "fit_intercept": True, "epsilon": 2.0, "delta": 1e-5}
    return NoisyFeaturesPlan(facts=facts, **{**given, **changed})


def test_events_add_up_to_the_promise_and_scale_the_noise():
    parties = make_parties()
    plan = make_plan(parties, budget_shares={"clinic": 1.0, "shop": 3.0})
    assert accountant_for(plan.event).epsilon(plan.event, 1e-5) == pytest.approx(2.0, rel=1e-6)
    assert accountant_for(plan.event).epsilon(plan.event, 1e-5) <= 2.0
    mu = gaussian_mu(2.0, 1e-5)
    assert plan.mus["clinic"] == pytest.approx(mu * math.sqrt(0.25))
    assert plan.mus["shop"] == pytest.approx(mu * math.sqrt(0.75))
    with parties.recorded() as record:
        solution = plan.solve(parties, Y, "m", Streams(0))
    sent = {item.party: item.message for item in record if item.uplink}
    for name, factor, gram_factor in (
        ("clinic", math.sqrt(2.0 / 0.91), math.sqrt(2.0 / 0.09)),
        ("shop", 2.0, math.sqrt(8.0)),
    ):
        multiplier = event_from_dict(json.loads(sent[name].event)).noise_multiplier
        assert sent[name].rows_noise_std == pytest.approx(factor * multiplier, rel=1e-5)
        assert sent[name].gram_noise_std == pytest.approx(gram_factor * multiplier, rel=1e-5)
        assert parties.parties[name].spent == GaussianEvent(multiplier) == solution.party_events[name]
    assert solution.party_events["bank"] == NothingReleased()
    assert solution.event == plan.event


def test_what_is_sent_has_the_stated_noise():
    """Residuals of 900 and 1,200 entries against chi-square bounds; noise 0.7 or 1.3 times as large fails."""
    parties = make_parties()
    plan = make_plan(parties)
    for name, block, norm in zip(NAMES[1:], BLOCKS[1:], NORMS[1:], strict=True):
        reply = parties.ask(name, SendFeatures(plan.mus[name]), Features)
        bounded = block / np.maximum(norm, np.linalg.norm(block, axis=1, keepdims=True))
        residual = (reply.rows.reshape(block.shape) - bounded) / reply.rows_noise_std
        assert 0.85 < np.std(residual) < 1.15
        gram = reply.gram.reshape(block.shape[1], -1)
        np.testing.assert_array_equal(gram, gram.T)
        assert np.abs(gram - bounded.T @ bounded).max() < 6.0 * reply.gram_noise_std


def test_only_what_is_announced_crosses():
    """May it cost that, one request, one reply; none of the label holder. Columns themselves cross to predict only."""
    parties = make_parties()
    plan = make_plan(parties)
    with parties.recorded() as record:
        solution = plan.solve(parties, Y, "m", Streams(0))
    assert [(item.party, item.uplink, type(item.message)) for item in record] == [
        ("clinic", False, Afford),
        ("shop", False, Afford),
        ("clinic", True, Done),
        ("shop", True, Done),
        ("clinic", False, SendFeatures),
        ("shop", False, SendFeatures),
        ("clinic", True, Features),
        ("shop", True, Features),
    ]
    assert len(plan.releases) == 2
    with parties.recorded() as record:
        solution.scorer.scores(parties, "m")
    asked = {(item.party, type(item.message)) for item in record if not item.uplink}
    assert asked == {("bank", Score), ("clinic", ShowFeatures), ("shop", ShowFeatures)}


def test_no_message_to_another_party_depends_on_labels_or_on_the_label_holders_columns():
    records = []
    for blocks, labels in ((BLOCKS, Y), ([5.0 - BLOCKS[0][::-1], *BLOCKS[1:]], -Y)):
        parties = make_parties(blocks)
        with parties.recorded() as record:
            solution = make_plan(parties).solve(parties, labels, "m", Streams(len(records)))
            solution.scorer.scores(parties, "m")
        records.append([item.message.encode() for item in record if item.party != "bank"])
    assert records[0] == records[1]


def test_scores_are_the_own_model_plus_the_held_coefficients():
    parties = make_parties()
    solution = make_plan(parties).solve(parties, Y, "m", Streams(0))
    part = parties.parties["bank"].part("m")
    expected = BLOCKS[0] @ part.coef + part.intercept
    for name, block in zip(NAMES[1:], BLOCKS[1:], strict=True):
        expected = expected + block @ solution.scorer.coefficients[name]
    np.testing.assert_allclose(solution.scorer.scores(parties, "m"), expected)
    assert solution.scorer.needed == ("bank", "clinic", "shop")


@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=lambda loss: loss.name)
def test_without_noise_it_is_one_newton_step_from_the_own_model(loss, monkeypatch):
    """Cross-fitting aside: with the label holder's columns all 0 and no intercept, every fold gives scores 0."""

    def exact(self, ticks, noise):
        return ticks.astype(np.float64) * self.tick, self.event

    monkeypatch.setattr(GridGaussian, "release", exact)
    parties = make_parties([np.zeros((N, 1)), *BLOCKS[1:]])
    plan = make_plan(parties, loss=loss, fit_intercept=False, alpha=1e-2, epsilon=1e5, delta=0.5)
    solution = plan.solve(parties, Y, "m", Streams(0))
    zero = np.zeros(N)
    curvature, residual = loss.curvature(Y, zero).mean(), -loss.derivative(Y, zero)
    for name, block, norm in zip(NAMES[1:], BLOCKS[1:], NORMS[1:], strict=True):
        rows = block / np.maximum(norm, np.linalg.norm(block, axis=1, keepdims=True))
        for_noise = 2.0 * plan.release_of(name).rows_noise_std * np.linalg.norm(residual)
        ridge = 1e-2 * N / norm**2 + for_noise
        assert for_noise < 0.5 * ridge
        hessian = 2.0 * curvature * rows.T @ rows + ridge * np.eye(block.shape[1])  # two other parties
        expected = np.linalg.solve(hessian, rows.T @ residual) / norm
        np.testing.assert_allclose(solution.scorer.coefficients[name], expected, rtol=2e-3, atol=1e-5)


def test_residuals_are_cross_fitted():
    """A wide table of noise, which the own model fits almost perfectly: residuals must not be those of that fit."""
    wide = np.random.default_rng(5).normal(size=(N, 250))
    parties = make_parties([wide, *BLOCKS[1:]])
    plan = make_plan(parties, alpha=1e-4)
    held_out, _ = plan._local_model(parties.only("bank"), Y, "m", Streams(0))
    fitted = own_scores(parties)
    assert np.mean(np.sign(fitted) == Y) > 0.95
    assert np.mean(np.sign(held_out) == Y) < 0.75


def own_scores(parties):
    return parties.ask("bank", Score("m"), Scores).scores


def test_it_learns_from_the_others():
    """At a large epsilon, on 300 people: better than the label holder alone, by far."""
    parties = make_parties()
    solution = make_plan(parties, epsilon=300.0).solve(parties, Y, "m", Streams(0))
    joint = np.mean(np.sign(solution.scorer.scores(parties, "m")) == Y)
    own = np.mean(np.sign(own_scores(parties)) == Y)
    assert joint > own + 0.1


def test_sparse_columns_give_the_same():
    released = []
    for kind in (np.asarray, sp.csr_array):
        party = Party(kind(BLOCKS[1]), name="clinic", data_norm=1.5, nonnegative=True).seed(1)
        released.append(request(party, SendFeatures(0.5)).encode())
        shown = request(party, ShowFeatures())
        assert isinstance(shown, ShownFeatures)
        np.testing.assert_array_equal(shown.rows.reshape(BLOCKS[1].shape), BLOCKS[1])
    assert released[0] == released[1]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"epsilon": 0.0}, "epsilon must be .* got 0.0"),
        ({"epsilon": math.inf}, "epsilon must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"loss": Hinge()}, "smooth convex loss; .*local-models"),
        ({"loss": SigmoidLoss()}, "smooth convex loss; .*local-models"),
        ({"budget_shares": {"clinic": 1.0}}, "one share for each of 'clinic', 'shop'"),
        ({"budget_shares": {"clinic": 1.0, "shop": math.nan}}, r"budget_shares\['shop'\]"),
        ({"budget_shares": {"clinic": 1.0, "shop": 0.0}}, r"budget_shares\['shop'\]"),
        ({"budget_shares": 0.5}, "one share for each"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_asked(changed, match):
    with pytest.raises(ParameterError, match=match):
        make_plan(make_parties(), **changed)


def test_a_missing_bound_names_the_party_and_the_remedy():
    with pytest.raises(ParameterError, match=r"data_norm of party 'clinic'.*Party\(\.\.\., name='clinic', data_norm="):
        make_plan(make_parties(data_norm=None))


def test_a_label_holder_alone_is_refused():
    facts = PublicFacts(n_samples=N, descriptions={"bank": Description(N, 3, math.inf, 0)}, label_holder="bank")
    with pytest.raises(ParameterError, match="needs a second party"):
        NoisyFeaturesPlan(facts=facts, loss=Logistic(), alpha=1.0, fit_intercept=True, epsilon=1.0, delta=1e-5)


def test_a_party_charges_before_it_computes_and_refuses_what_its_budget_does_not_cover(monkeypatch):
    party = Party(BLOCKS[1], name="clinic", data_norm=1.5, budget=(1.0, 1e-5))
    affordable = gaussian_mu(1.0, 1e-5)
    monkeypatch.setattr(GridGaussian, "release", lambda *_: 1 / 0)
    assert isinstance(request(party, SendFeatures(1.01 * affordable)), Refused)
    assert party.spent == NothingReleased()
    reply = request(party, SendFeatures(0.9 * affordable))
    assert reply.reason.startswith("it failed there")
    assert party.spent == GaussianEvent(1.0 / (0.9 * affordable))
    assert "budget" in request(party, SendFeatures(0.9 * affordable)).reason
    assert "budget" in request(party, ShowFeatures()).reason


@pytest.mark.parametrize("mu", [0.0, -1.0])
def test_a_party_refuses_what_makes_no_sense(mu):
    party = Party(BLOCKS[1], name="clinic", data_norm=1.5)
    assert "mu must be positive" in request(party, SendFeatures(mu)).reason
    assert party.spent == NothingReleased()
    unbounded = Party(BLOCKS[1], name="clinic")
    assert "data_norm" in request(unbounded, SendFeatures(1.0)).reason


@pytest.mark.parametrize(
    ("field", "match"),
    [
        ("event", "says that it spent"),
        ("noise", "noise that was not planned"),
        ("rows", "numbers where 600 were asked for"),
    ],
)
def test_replies_that_do_not_fit_the_plan_are_refused(field, match):
    parties = make_parties()
    plan = make_plan(parties)
    honest = parties.parties["clinic"]

    class Liar:
        name = "clinic"

        def handle(self, raw):
            send = asked(raw)
            if not isinstance(send, SendFeatures):
                return honest.handle(raw)
            if field == "event":
                return honest.handle(instead(raw, SendFeatures(1.1 * send.mu)))
            reply = decode(honest.handle(raw))
            return Features(
                reply.rows[:-1] if field == "rows" else reply.rows,
                reply.gram,
                reply.rows_noise_std * (0.9 if field == "noise" else 1.0),
                reply.gram_noise_std,
                reply.event,
            ).encode()

    parties.parties["clinic"] = Liar()
    with pytest.raises(PartyError, match=match):
        plan.solve(parties, Y, "m", Streams(0))


def test_the_receipt_says_where_the_model_is():
    plan = make_plan(make_parties())
    assert plan.name == "noisy-features"
    assert any("scored" in line for line in plan.not_covered)
    assert any("must not be published" in line for line in plan.not_covered)
    assert set(plan.details()) >= {"mu (Gaussian DP) of party 'shop'"}
    assert plan.promised_epsilon == 2.0
