"""What a collection is predicted to give: laws, limits, agreement with simulated reports, and the command."""

import json
import math
import re

import numpy as np
import pytest
from scipy.special import expit
from typer.testing import CliRunner

from sottovoce.cli import app
from sottovoce.exceptions import ParameterError
from sottovoce.local import Aggregator, CategoricalFeature, NumericFeature, Protocol
from sottovoce.local.planning import LOGIT_SPREADS, people_needed, plan_collection, predict_accuracy_range
from sottovoce.privacy.shuffling import shuffled_epsilon
from support.schemas import schema_text
from support.simulated_reports import simulate

SMALL = {"epsilon": 4.0, "K": 16, "m": 3, "b": 1.0}


def invoke(*arguments, code=0):
    result = CliRunner().invoke(app, ["local", "plan", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return re.sub(r"\s+", " ", result.output)


def test_more_people_more_epsilon_and_fewer_features_help():
    base = predict_accuracy_range(30_000, 8, 2.0, draws=4)
    assert predict_accuracy_range(1_000_000, 8, 2.0, draws=4).high > base.high
    assert predict_accuracy_range(30_000, 8, 4.0, draws=4).high > base.high
    assert predict_accuracy_range(30_000, 20, 2.0, draws=4).high < base.high
    for row, spread in zip(base.rows, LOGIT_SPREADS, strict=True):
        assert row.logit_spread == spread
        assert 0.5 < row.accuracy < row.without_privacy < 1
    assert base.low < base.high
    assert base == predict_accuracy_range(30_000, 8, 2.0, draws=4)


def test_many_people_reach_the_limit_and_few_learn_nothing():
    rows = predict_accuracy_range(10**9, 5, 4.0, draws=2).rows
    assert all(row.accuracy == pytest.approx(row.without_privacy, abs=0.005) for row in rows)
    few = predict_accuracy_range(100, 20, 1.0, draws=4)
    assert few.degree == 0
    assert few.edge > 0.2
    assert few.high < 0.65


def test_agreement_with_simulated_reports():
    """People of the model population, their reports by the exact law, the default fit: the middle row."""
    n, d, rng = 20_000, 5, np.random.default_rng(7)
    predicted = predict_accuracy_range(n, d, 2.0, draws=10).rows[1]
    protocol = Protocol.create(n_expected=n, epsilon=2.0, n_features=d)
    sizes = 1 / np.arange(1, d + 1)
    sizes *= 0.5 / sizes.sum()
    found = []
    for _ in range(12):
        X = rng.standard_normal((n, d)) * np.sqrt(sizes)
        X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
        margin = X @ (rng.choice([-1.0, 1.0], d) / math.sqrt(d))
        y = np.where(rng.random(n) < expit(4.0 * margin / margin.std()), 1, -1)
        aggregator = Aggregator(protocol)
        aggregator.moments.add(simulate(protocol, protocol.encode_many(X) * y[:, None], rng))
        found.append(aggregator.fit().score(X, y))
    assert np.mean(found) == pytest.approx(predicted.accuracy, abs=0.012)


def test_the_number_of_people_is_the_first_that_is_enough():
    """The search's answer against the prediction of that number and of the one before."""
    protocol = Protocol(n_features=4, **SMALL)
    needed = people_needed(protocol=protocol)
    before = {1: needed // 2, 2: needed // 2, 5: needed * 2 // 5}[int(str(needed)[0])]

    def share(n):
        row = predict_accuracy_range(n, protocol=protocol, draws=30).rows[1]
        return (row.accuracy - 0.5) / (row.without_privacy - 0.5)

    assert share(needed) > 0.78
    assert share(before) < 0.82
    assert people_needed(protocol=Protocol(n_features=4, **{**SMALL, "epsilon": 1.0})) > needed
    assert people_needed(protocol=protocol, share=0.95) > needed
    assert people_needed(protocol=Protocol(n_features=4, epsilon=0.001, K=2, m=1, b=0.0)) is None


def test_the_error_of_few_people_counts_too():
    """With a huge epsilon the reports are nearly exact, and 30 people are few all the same."""
    few = predict_accuracy_range(30, protocol=Protocol(n_features=10, epsilon=32.0, K=256, m=1, b=0.0)).rows[2]
    assert few.accuracy < few.without_privacy - 0.1


def test_a_protocol_is_planned_with_its_own_sizes():
    features = [NumericFeature("age", 0, 9), CategoricalFeature("work", ["a", "b", "c"])]
    given = Protocol(features=features, completion="slack", intercept=0.0, degree=0, **SMALL)
    plan = plan_collection(20_000, protocol=given)
    assert (plan.protocol, plan.accuracy.d, plan.accuracy.degree) == (given, 4, 0)
    weaker = plan_collection(20_000, protocol=Protocol(features=features, completion="slack", intercept=0.0, degree=0,
                                                       **{**SMALL, "epsilon": 0.5}))  # fmt: skip
    assert weaker.accuracy.high < plan.accuracy.high
    assert plan.delta == 0.01 / 20_000
    assert plan.central_epsilon == shuffled_epsilon(4.0, 20_000, plan.delta)
    assert plan_collection(20_000, protocol=given, delta=1e-3).central_epsilon < plan.central_epsilon
    assert plan_collection(100, protocol=given).central_epsilon == 4.0


@pytest.mark.parametrize(
    ("arguments", "options", "why"),
    [
        ((100,), {}, "give d and epsilon, or a protocol"),
        ((100, 3), {}, "give d and epsilon, or a protocol"),
        ((100, 3, 1.0), {"protocol": Protocol(n_features=3, **SMALL)}, "not both"),
        ((9,), {"protocol": Protocol(n_features=3, **SMALL)}, "n must be"),
        ((100.0, 3, 1.0), {}, "n must be"),
        ((100, 0, 1.0), {}, "d must be"),
        ((100, 501, 1.0), {}, "d must be"),
        ((100, 3, 0.0), {}, "epsilon"),
        ((100, 3, math.nan), {}, "epsilon"),
        ((100,), {"protocol": Protocol(n_features=501, **SMALL)}, "columns of the protocol"),
        ((100,), {"protocol": Protocol(n_features=3, **SMALL), "delta": 0.0}, "delta must be"),
    ],
)
def test_bad_input_is_refused(arguments, options, why):
    with pytest.raises(ParameterError, match=why):
        plan_collection(*arguments, **options)
    with pytest.raises(ParameterError, match="share must be"):
        people_needed(3, 1.0, share=1.0)


def test_the_command(tmp_path):
    said = invoke("--n", 5000, "--d", 3, "--epsilon", "2,4")
    assert "5,000 people, 3 features after encoding epsilon 2 epsilon 4" in said
    assert "only if a trusted party shuffles" in said
    arguments = ["local", "plan", "--n=5000", "--d=3", "--epsilon=4", "--json"]
    content = json.loads(CliRunner().invoke(app, arguments).stdout)
    (entry,) = content["plans"]
    plan = plan_collection(5000, 3, 4.0)
    assert (content["n"], content["d"], entry["epsilon"], entry["report_bytes"]) == (5000, 3, 4.0, 22)
    assert entry["people_for_a_useful_model"] == plan.n_useful
    assert [row["accuracy"] for row in entry["predicted_accuracy"]] == [row.accuracy for row in plan.accuracy.rows]
    assert f"{plan.accuracy.rows[1].accuracy:.3f} +- {plan.accuracy.rows[1].spread:.3f}" in said

    path = tmp_path / "protocol.json"
    path.write_text(Protocol(n_features=3, task="regression", label_bounds=(0, 1), **SMALL).to_json())
    said = invoke(path, "--n", 20)
    assert "1; 16, 3, 1" in said
    assert "read the line of weak labels" in said
    assert "lose them in noise" in said
    (tmp_path / "schema.toml").write_text(schema_text("ill", age=(0, 9), ill=["no", "yes"]))
    alike = ("--n", 5000, "--epsilon", "1,2")  # where other protocols than the one for 5,000 need fewer people
    assert invoke("--schema", tmp_path / "schema.toml", "--missing", *alike) == invoke("--d", 2, *alike)
    short, whole = invoke(path), invoke(path, "--n", 10_000)  # the shortest lines; what they assume is said
    assert short == whole.replace("10,000 people", "10,000 people, as no --n says how many")
    rest = ("--d", 10, "--epsilon", 1, "--json")
    assert invoke(*rest) == invoke(*rest, "--n", 10_000)

    for arguments, why in [
        (("--d", 3), "--epsilon is missing"),
        (("--epsilon", "1,x", "--d", 3), "--epsilon must be numbers with commas"),
        (("--epsilon", "1,1", "--d", 3), "--epsilon must be at most 8 different numbers"),
        (("--epsilon", 1, "--d", 3, "--target", "ill"), "--target is for --schema"),
        (("--epsilon", 1, "--d", 3, "--schema", tmp_path / "schema.toml"), "--d cannot be given together"),
        ((path, "--epsilon", 1), "--epsilon cannot be given together with PROTOCOL"),
        ((tmp_path / "none.json",), "cannot read the protocol"),
    ]:
        assert why in invoke(*arguments, "--n", 100, code=2)
