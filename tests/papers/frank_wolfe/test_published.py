"""Vertical Frank-Wolfe with the published noise: the algorithm against a plain loop, the receipt, refusals."""

import math
import warnings
from typing import ClassVar

import numpy as np
import pytest

from sottovoce.exceptions import ModelFormatError, ParameterError, PartyError, PrivacyWarning
from sottovoce.papers.frank_wolfe import PROTOCOL, PublishedLasso
from sottovoce.papers.frank_wolfe.attacks import identify_entry, least_error, success_at_most
from sottovoce.papers.frank_wolfe.noise import (
    ColumnRelease,
    Sketch,
    published_column_std,
    published_rows,
    published_selection_scale,
    published_steps,
)
from sottovoce.papers.frank_wolfe.published import PublishedBallStart, PublishedBallStep
from sottovoce.privacy.accounting import accountant_for, gaussian_epsilon
from sottovoce.privacy.events import GaussianEvent, PureEvent, RepeatedEvent, compose
from sottovoce.report.comparison import made_again
from sottovoce.vertical import Party
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.wire import Done, Payload, Refused
from support.party import decode
from support.party import request as ask

N, WIDTH = 400, 6
RNG = np.random.default_rng(5)
TABLES = {"bank": RNG.uniform(-2, 2, (N, WIDTH)), "shop": RNG.uniform(-0.5, 0.5, (N, WIDTH))}
BOUNDS = {"bank": 2.0, "shop": 0.5}
MARGINS = 0.5 * TABLES["bank"][:, 1] - 1.2 * TABLES["shop"][:, 4]
Y = np.clip(MARGINS + 0.05 * RNG.normal(size=N), -3.0, 3.0)
CLAIM = {"epsilon": 1.0, "delta": 1e-5}


def parties(**changes):
    return InProcessParties(
        [Party(TABLES[name], name=name, data_bound=BOUNDS[name], protocols=[PROTOCOL], **changes) for name in TABLES]
    )


def lasso(**changes):
    common = {"label_bounds": (-3.0, 3.0), "labels_public": True, "random_state": 0}
    return PublishedLasso(**{**CLAIM, "radius": 1.5, "n_steps": 12, **common, **changes})


def quiet_fit(model, y=Y, where=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return model.fit(parties() if where is None else where, y)


# --- formulas ---------------------------------------------------------------------------------------------------------


def test_formulas_as_printed():
    n, parties_, steps, epsilon, delta = 5000, 3, 77, 0.8, 1e-6
    std = published_column_std(2.5, n_people=n, n_parties=parties_, n_steps=steps, epsilon=epsilon, delta=delta)
    top = 2.5 * math.sqrt(parties_ * steps) * math.sqrt(2 * (math.log(1 / delta) + epsilon / 2))
    assert std == pytest.approx(top / (n * epsilon / 2))
    scale = published_selection_scale(0.7, 1.3, n_people=n, n_steps=steps, epsilon=epsilon, delta=delta)
    top = (2 * 0.7 * 1.3 / (parties_ * n)) * math.sqrt(2 * steps * math.log(1 / (delta / 2)))
    assert scale == pytest.approx(top / ((epsilon / (2 * parties_)) / 2))
    assert published_steps(1000, 8.0) == 400
    assert published_rows(464, 1e-5, 0.3) == math.ceil(math.log(2 * 464 / 1e-5) / 0.09)


def test_sketch():
    sketch = Sketch(300, 40, 11)
    matrix = np.column_stack([sketch.compress(unit) for unit in np.eye(300)])
    assert np.linalg.norm(matrix, axis=0).max() == pytest.approx(sketch.largest_norm, rel=1e-9)
    assert sketch.leading_singular_value == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-9)
    u, a = np.random.default_rng(1).normal(size=40), np.random.default_rng(2).normal(size=300)
    np.testing.assert_allclose(sketch.spread(u), matrix.T @ u, atol=1e-12)
    np.testing.assert_allclose(sketch.compress(a), matrix @ a, atol=1e-12)
    assert np.array_equal(Sketch(300, 40, 11).compress(a), sketch.compress(a))
    mean = np.mean([Sketch(300, 40, seed).compress(a) @ Sketch(300, 40, seed).compress(a) for seed in range(99)])
    assert mean == pytest.approx(a @ a, rel=0.1)
    # a column that makes one entry of the sketch as large as can be is not cut short
    worst = np.sign(matrix[np.argmax(np.abs(matrix).sum(axis=1))])
    assert sketch.compress(worst).max() <= sketch.largest_sum
    assert sketch.compress(worst).max() == pytest.approx(sketch.largest_sum, rel=1e-9)


# --- the algorithm ----------------------------------------------------------------------------------------------------


def by_hand(radius, steps, rows, sampled=1.0):
    """The mended Algorithm 2 without noise, on a joined table with an intercept's column at the bank."""
    J = np.column_stack([Sketch(N, rows, 3).compress(unit) for unit in np.eye(N)])
    blocks = {"bank": np.column_stack([TABLES["bank"] / 2.0, np.ones(N)]), "shop": TABLES["shop"] / 0.5}
    y, weights, q = Y / 3.0, {name: np.zeros(block.shape[1]) for name, block in blocks.items()}, np.zeros(rows)
    for step in range(steps):
        size = 2 / (step + 2)
        slopes = np.clip(J.T @ q - y, -1, 1)
        q = (1 - size) * q
        for name, block in blocks.items():
            gradient = block.T @ slopes
            column = int(np.argmax(np.abs(gradient)))
            vertex = -np.sign(gradient[column]) * radius * BOUNDS[name] / 3.0
            weights[name] *= 1 - size
            weights[name][column] += size * vertex
            q += size * vertex * (J @ block[:, column])
    return np.concatenate([3.0 * weights["bank"][:-1] / 2.0, 3.0 * weights["shop"] / 0.5]), 3.0 * weights["bank"][-1]


def test_without_noise_to_speak_of_it_is_algorithm_2():
    model = lasso(epsilon=1e6, mechanism_options={"sketch_rows": 350, "sketch_seed": 3})
    quiet_fit(model)
    coefficients, intercept = by_hand(1.5, 12, 350)
    np.testing.assert_allclose(model.coef_, coefficients, rtol=1e-9)
    assert model.intercept_ == pytest.approx(intercept, abs=1e-12)
    assert np.abs(model.coef_).sum() > 1.5  # the sum of two vertices leaves the ball
    assert np.mean((model.predict(parties()) - Y) ** 2) < 0.5 * np.mean(Y**2)


def test_some_columns_are_drawn_for_each_step():
    model = lasso(epsilon=1e6, n_steps=60, fit_intercept=False, mechanism_options={"sampled_columns": 1})
    quiet_fit(model)
    assert model.n_nonzero_ == 2 * WIDTH  # every column was drawn alone and taken
    assert model.guarantee_.parameters["columns drawn for a step"] == 1


# --- the receipt ------------------------------------------------------------------------------------------------------


def test_the_receipt_says_what_holds():
    model = lasso(n_steps=None)
    with pytest.warns(PrivacyWarning, match=r"its claim of epsilon=1 does not hold, the receipt states epsilon="):
        model.fit(parties(), Y)
    plan, receipt = model.plan_, model.guarantee_
    assert plan.n_steps == model.n_rounds_ == published_steps(N, 1.0) == 54
    sketch = plan.public_sketch
    assert sketch.n_rows == published_rows(54, 1e-5, 0.3)
    matrix = np.column_stack([sketch.compress(unit) for unit in np.eye(N)])
    norms = np.linalg.norm(matrix, axis=0)
    std = published_column_std(np.linalg.norm(matrix, 2), n_people=N, n_parties=2, n_steps=54, epsilon=1.0, delta=1e-5)
    assert plan.column.mechanism.noise_std == pytest.approx(std, rel=2e-3)
    mu = math.sqrt(2 * 54) * 2 * norms.max() / std
    assert plan.mu == pytest.approx(mu, rel=2e-6)
    assert receipt.epsilon >= gaussian_epsilon(mu * (1 - 2e-6), 1e-5) > 400
    assert receipt.epsilon <= accountant_for(receipt.event).epsilon(receipt.event, 1e-5)
    # 4 G / (n b) for a move of 2 G / n; eta is 1.5 * 2 / 3 at the bank and 1.5 * .5 / 3 at the shop
    root = math.sqrt(2 * 54 * math.log(2e5))
    for name, eta in (("bank", 1.0), ("shop", 0.25)):
        assert plan.selection_epsilon(name) == pytest.approx(1.0 / (2 * eta * root), rel=1e-6)
        spent = compose(
            RepeatedEvent(PureEvent(plan.selection_epsilon(name)), 54),
            RepeatedEvent(GaussianEvent(plan.column.noise_multiplier), 54),
        )
        assert model.party_guarantees_[name].event == spent
    assert receipt.event == compose(*(model.party_guarantees_[name].event for name in TABLES))
    assert receipt.parameters["epsilon that the paper claims"] == 1.0
    assert receipt.parameters["epsilon that holds"] == receipt.epsilon
    assert receipt.parameters["zCDP of all shared columns together"] == pytest.approx(0.5 * mu * mu, rel=4e-6)
    assert receipt.proof == "docs/privacy/published_vertical_frank_wolfe.md"
    assert "for reproduction" in receipt.mechanism
    with pytest.raises(ModelFormatError, match="no run that this version of sottovoce can make"):
        made_again(receipt)  # no name stands for a form for study: what it says is not checked by a reader


def test_a_budget_of_the_claimed_size_is_refused():
    limited = parties(budget=(10.0, 1e-5), answers=[PROTOCOL.name])
    with pytest.raises(PartyError, match="budget"):
        quiet_fit(lasso(), where=limited)


def test_epsilon_where_no_distribution_of_losses_reaches():
    """More than 1,024 choices, and columns far from private: the exact epsilon of the columns, plus all choices."""
    plan = lasso(epsilon=50.0, n_steps=600).plan(parties())
    accountant = accountant_for(plan.event)
    assert accountant.name == "privacy loss distribution"
    choices = 600 * sum(plan.selection_epsilon(name) for name in TABLES)
    assert plan.promised_epsilon == pytest.approx(gaussian_epsilon(plan.mu, 1e-5) + choices, rel=1e-12)
    assert accountant.delta(plan.event, plan.promised_epsilon * (1 + 1e-9)) <= 1e-5
    assert accountant.delta(plan.event, plan.promised_epsilon * 0.999) > 1e-5
    assert accountant.delta(plan.event, 0.5 * choices) == 1.0


# --- what a party does ------------------------------------------------------------------------------------------------


def start(**changes):
    common = {
        "loss": "squared", "labels": [1.0, 0.0], "clip": 1.0, "selection": 1.0, "column_noise": 1.0, "n_steps": 3000,
        "sampled": 1, "intercept": 0, "sketch_rows": 4, "sketch_seed": 0,
    }  # fmt: skip
    return PublishedBallStart(**{**common, **changes})


def test_noise_of_a_choice_and_of_a_column():
    """Two signed columns of scores -1 and 1 (over n = 2), two draws of Laplace noise: as often as their law says."""
    party = Party(np.array([[1.0], [0.0]]), name="a", data_bound=1.0, protocols=[PROTOCOL]).seed(0)
    scale, draws = 1.4, 3000
    assert isinstance(ask(party, start(selection=scale, column_noise=0.3)), Done)
    replies = [ask(party, PublishedBallStep(k, np.zeros(4))) for k in range(draws)]
    assert all(isinstance(reply, Payload) for reply in replies)
    z = 1.0 / scale  # the difference of the two means, 2 / n, over the scale
    chance = 1.0 - 0.5 * math.exp(-z) * (1.0 + 0.5 * z)
    right = np.mean([reply.numbers[0] == 0 for reply in replies])  # label 1 and a prediction of 0: a step up
    assert right == pytest.approx(chance, abs=4 * math.sqrt(chance * (1 - chance) / draws))
    assert [reply.numbers[1] for reply in replies] == pytest.approx([4.0 / (2 * scale)] * draws, rel=1e-6)
    release = ColumnRelease(0.3, Sketch(2, 4, 0))
    columns, std = np.array([release.read(reply.octets) for reply in replies]), release.mechanism.noise_std
    assert std == pytest.approx(0.6 * release.sketch.largest_norm, rel=1e-3)  # .3 of a move of 2
    assert columns.std(axis=0) == pytest.approx(std, rel=0.07)
    assert columns.mean(axis=0) == pytest.approx(release.sketch.compress(np.array([1.0, 0.0])), abs=4 * std / 50)


def test_a_party_refuses_what_was_not_charged():
    party = Party(np.array([[1.0], [0.0]]), name="a", data_bound=1.0, protocols=[PROTOCOL]).seed(0)
    for message, why in [
        (PublishedBallStep(0, np.zeros(4)), "without its start"),
        (start(selection=0.0), "selection must be positive"),
        (start(column_noise=0.0), "column_noise must be positive"),
        (start(labels=[1.0]), "labels has 1 numbers for 2 rows"),
        (start(sketch_rows=3), "sketch_rows must be"),
    ]:
        reply = ask(party, message)
        assert isinstance(reply, Refused)
        assert why in reply.reason
    ask(party, start(n_steps=1, sampled=2))
    assert "2 of 1 columns cannot be drawn" in ask(party, PublishedBallStep(0, np.zeros(4))).reason
    ask(party, start(n_steps=1))
    assert "1 numbers where 4 are due" in ask(party, PublishedBallStep(0, [0.0])).reason
    assert "step 0 is due, not 1" in ask(party, PublishedBallStep(1, np.zeros(4))).reason
    first = ask(party, PublishedBallStep(0, np.zeros(4)))
    assert ask(party, PublishedBallStep(0, np.zeros(4))).octets == first.octets  # it is not drawn again
    assert "all steps that were charged" in ask(party, PublishedBallStep(1, np.zeros(4))).reason


class Lying(InProcessParties):
    """Parties of which one answers a step with something else."""

    lie: ClassVar[dict[str, object]] = {}

    def _send(self, requests):
        replies = super()._send(requests)
        first = next(iter(replies))
        reply = decode(replies[first])
        if isinstance(reply, Payload):
            names = ("place", "selection_epsilon", "column_noise")
            told = dict(zip(names, reply.numbers, strict=True)) | {"ticks": reply.octets} | self.lie
            replies[first] = Payload([told[name] for name in names], told["ticks"]).encode()
        return replies


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        ({"place": 2 * WIDTH + 2}, "chose the place 14; it has 7"),
        ({"column_noise": 1.0}, "says that a step cost"),
        ({"selection_epsilon": 1.0}, "says that a step cost"),
        ({"ticks": b"1234"}, "answered with something that is not a column"),
    ],
)
def test_a_wrong_answer_ends_the_training(lie, why):
    liars = type("Liars", (Lying,), {"lie": lie})(
        [Party(TABLES[name], name=name, data_bound=BOUNDS[name], protocols=[PROTOCOL]) for name in TABLES]
    )
    with pytest.raises(PartyError, match=why):
        quiet_fit(lasso(), where=liars)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"labels_public": False}, "needs labels_public=True"),
        ({"epsilon": math.inf, "delta": None}, "give a finite epsilon"),
        ({"mechanism_options": {"tau": 3}}, "has no entry 'tau'; there are jl_parameter, sampled_columns, "),
        ({"mechanism_options": 3}, "mechanism_options must be a dict or None; got 3"),
        ({"mechanism_options": {"jl_parameter": 2.0}}, "jl_parameter must be .* got 2.0"),
        ({"mechanism_options": {"sampled_columns": 7}}, "sampled_columns must be .* got 7.* smallest party has 6"),
        ({"mechanism_options": {"sketch_rows": 3}}, "sketch_rows must be"),
        ({"mechanism_options": {"sketch_seed": -1}}, "sketch_seed must be"),
        ({"aggregation": "secure"}, "aggregation and radius_shares are for VerticalLasso"),
        ({"radius_shares": {"bank": 1, "shop": 2}}, "aggregation and radius_shares are for VerticalLasso"),
    ],
)
def test_refusals_before_anything_is_released(changes, why):
    with pytest.raises(ParameterError, match=why):
        lasso(**changes).fit(parties(), Y)


# --- the attack -------------------------------------------------------------------------------------------------------


def test_the_attack_is_the_likelihood_test():
    sketch, rng = Sketch(50, 12, 4), np.random.default_rng(0)
    column = rng.uniform(-1, 1, 50)
    direction = sketch.compress(np.eye(50)[7])
    release = sketch.compress(column) + 0.3 * rng.normal(size=(3, 12))
    values = np.array([-1.0, -0.2, 0.4, 1.0])
    likelihood = [
        -((release - sketch.compress(np.where(np.arange(50) == 7, value, column))) ** 2).sum() for value in values
    ]
    assert identify_entry(release, column, 7, values, sketch) == values[int(np.argmax(likelihood))]
    assert identify_entry(sketch.compress(column), column, 7, [*values, column[7]], sketch) == column[7]
    assert np.linalg.norm(direction) > 0
    assert success_at_most(1.2) + least_error(1.2) == pytest.approx(1.0)
    assert least_error(60.0) > 0.0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"releases": np.zeros(3)}, "releases must hold sketches of 12 numbers"),
        ({"others": np.zeros(3)}, "others must be a vector of 50 numbers"),
        ({"candidates": []}, "candidates must be a list"),
        ({"person": 50}, "person must be"),
        ({"others": np.full(50, np.nan)}, "others holds NaN"),
    ],
)
def test_wrong_uses_of_the_attack(changes, why):
    common = {"releases": np.zeros(12), "others": np.zeros(50), "person": 0, "candidates": [0.0, 1.0]}
    with pytest.raises(ParameterError, match=why):
        identify_entry(**{**common, **changes}, sketch=Sketch(50, 12, 4))
