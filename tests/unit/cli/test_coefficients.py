"""Coefficients as data: whoever has them, and the bounds beside them, has the model."""

import json

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.cli.show import coefficients_as_json
from sottovoce.estimators.reading import shares_within

N = 2_000


@pytest.mark.parametrize("named", [True, False])
def test_a_model_that_cuts_its_columns_says_where(named):
    rng = np.random.default_rng(0)
    days = np.where(rng.random(N) < 0.85, -1.0, rng.uniform(1, 900, N))
    X = np.column_stack([rng.normal(50, 15, N), days, rng.normal(1990, 10, N)])
    y = np.where(X[:, 0] > 50, "yes", "no")
    table = pd.DataFrame(X, columns=["age", "days", "year"]) if named else X
    pipeline = sv.DPPipeline(
        [("scale", sv.DPScaler()), ("model", sv.DPLogisticRegression(classes=["no", "yes"]))],
        epsilon=1.0, delta=1e-6, random_state=0,
    ).fit(table, y)  # fmt: skip
    folded = pipeline.folded()
    told = json.loads(json.dumps(coefficients_as_json(folded, None)))
    bounds, scores = told["columns are cut to"], told["scores"][0]
    assert list(bounds) == (["age", "days", "year"] if named else ["feature 1", "feature 2", "feature 3"])
    coefficients = {one["feature"]: one["coefficient"] for one in scores["coefficients"]}
    found = scores["intercept"] + sum(
        coefficients[name] * np.clip(X[:, place], *bounds[name]) for place, name in enumerate(bounds)
    )
    near = (
        shares_within(np.clip(X, *zip(*bounds.values(), strict=True)), told["rows are shortened to"], folded.row_unit_)
        == 1.0
    )
    assert 0.5 < near.mean() < 1.0
    np.testing.assert_allclose(found[near], pipeline.decision_function(table)[near], rtol=1e-6, atol=1e-6)


def test_a_model_that_cuts_nothing_says_nothing_of_it():
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    model = sv.DPRidge(epsilon=1.0, delta=1e-5, data_norm=2.0, label_bounds=(-1, 1), random_state=0).fit(X, X[:, 0])
    assert set(coefficients_as_json(model, None)) == {"model", "scores"}
