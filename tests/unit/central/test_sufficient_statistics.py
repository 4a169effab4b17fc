"""The solver "adassp": the plan, its refusals, its limits, and what is kept of a model."""

import json
import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.data.labels import hold
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.noisy_moments import NoisyMoments
from sottovoce.central.parallel import Team
from sottovoce.central.sums.whole_gram import Gram, LabelColumn, gram
from sottovoce.estimators.persistence import model_from_json, model_to_json
from sottovoce.exceptions import ModelFormatError, ParameterError
from support.asking import answered

TEAM = Team(1, None)
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (4000, 3))
Y = X @ [1.0, -0.5, 0.0] + 1.0 + 0.2 * rng.normal(size=4000)


def ridge(**changed):
    return sv.DPRidge(**{
        "epsilon": 2.0, "delta": 1e-6, "data_norm": 3**0.5, "label_bounds": (-5.0, 5.0), "solver": "adassp",
        "random_state": 0, **changed,
    })  # fmt: skip


def test_without_noise_least_squares_and_its_errors_are_the_classical_ones():
    U = np.column_stack([X / 3, np.full(len(X), 0.2)])
    t = Y / 5
    stack = np.column_stack([U, t])
    found = NoisyMoments(stack.T @ stack, 1.0, 1e-9).least_squares(len(X))
    exact = np.linalg.lstsq(U, t, rcond=None)[0]
    variance = np.sum((t - U @ exact) ** 2) / (len(X) - 4)
    np.testing.assert_allclose(found.estimates, exact, rtol=1e-7)
    np.testing.assert_allclose(found.standard_errors, np.sqrt(variance * np.diag(np.linalg.inv(U.T @ U))), rtol=1e-6)


def test_the_noise_in_the_matrix_has_the_law_that_intervals_take_for_granted(monkeypatch):
    """Diagonal s^2, beside it s^2 / 2, symmetric; the expectations behind the sandwich follow from it."""
    plan = sv.plan(ridge(), 4000, 3)
    mechanism = plan.gram_mechanism()
    rows, label = make_rows(X, data_norm=3**0.5, constant=0.2, names=None, team=TEAM), LabelColumn(clip=5.0)
    holder, noise = hold(rows, [Y], TEAM), np.random.default_rng(1)
    triangle = holder.ask(Gram(label))
    exact = triangle.matrix
    monkeypatch.setattr(holder, "ask", lambda operation: triangle)  # made once
    asks = partial(gram, mechanism, "", label=label)
    drawn = np.array([answered(asks, holder, noise).result - exact for _ in range(4000)])
    np.testing.assert_array_equal(drawn, drawn.transpose(0, 2, 1))
    wanted = mechanism.noise_std * np.where(np.eye(5, dtype=bool), 1.0, 0.5**0.5)
    np.testing.assert_allclose(drawn.std(axis=0), wanted, rtol=0.06)


def test_noise_that_hides_the_coefficients_gives_infinite_intervals_and_a_finite_model():
    for changed, table in (({"epsilon": 0.01}, X), ({}, np.column_stack([X[:, 0], X[:, 0], X[:, 1]]))):
        model = ridge(**changed).fit(table, Y)
        assert np.isfinite(model.coef_).all()
        np.testing.assert_array_equal(model.confidence_intervals(), [[-math.inf, math.inf]] * 4)


def test_residual_variance_is_positive_whatever_the_noise():
    """A perfect fit, where the noisy residual sum of squares is negative every other time."""
    for seed in range(40):
        model = ridge(random_state=seed, epsilon=5.0).fit(X, X @ [1.0, -0.5, 0.0])
        assert (model.standard_errors_ > 0).all()


def test_constant_labels_and_empty_rows():
    model = ridge().fit(np.zeros((100, 3)), np.full(100, 2.0))
    assert np.isfinite(model.coef_).all()
    assert math.isfinite(model.intercept_)


def test_the_example_of_the_guide_prints_what_the_guide_says(capsys):
    page = (Path(__file__).parents[3] / "docs" / "guide" / "intervals.md").read_text(encoding="utf-8")
    code, printed = re.search(r"```python\n(.*?)```.*?```\n(.*?)```", page, re.DOTALL).groups()
    exec(compile(code, "intervals.md", "exec"), {})
    assert capsys.readouterr().out == printed


class TestIntervals:
    def test_other_solvers_have_none(self):
        for changed in ({"solver": "scd"}, {"epsilon": math.inf}, {"adjacency": "add-remove", "n_public": 4000}):
            model = ridge(**changed).fit(X, Y)
            assert model.standard_errors_ is None
            with pytest.raises(ParameterError, match=r"need the released second moments.*Fit it with solver='adassp'"):
                model.confidence_intervals()

    def test_a_second_fit_forgets_those_of_the_first(self):
        model = ridge().fit(X, Y).set_params(solver="scd").fit(X, Y)
        assert model.least_squares_ is None and model.standard_errors_ is None

    @pytest.mark.parametrize("level", [0.0, 1.0, 95, math.nan, None])
    def test_level(self, level):
        with pytest.raises(ParameterError, match="level "):
            ridge().fit(X, Y).confidence_intervals(level)

    @pytest.mark.parametrize("intercept", [True, False])
    def test_units(self, intercept):
        """Columns and labels in other units give the same intervals in those units."""
        one = ridge(fit_intercept=intercept).fit(X, Y)
        other = ridge(fit_intercept=intercept, data_norm=10 * 3**0.5, label_bounds=(-35.0, 35.0)).fit(10 * X, 7 * Y)
        scale = np.append(np.full(3, 0.7), 7.0)[: 3 + intercept]
        np.testing.assert_allclose(
            other.confidence_intervals(), scale[:, None] * one.confidence_intervals(), rtol=1e-6, atol=1e-7
        )

    @pytest.mark.parametrize("changed", [{}, {"fit_intercept": False}, {"epsilon": 0.01}])
    def test_they_are_kept_with_the_model(self, changed):
        model = ridge(**changed).fit(X, Y)
        loaded, _ = model_from_json(model_to_json(model))
        assert loaded.confidence_intervals().tobytes() == model.confidence_intervals().tobytes()

    def test_older_and_damaged_files(self):
        content = json.loads(model_to_json(ridge().fit(X, Y)))
        content["fitted"]["standard_errors_"].pop()
        with pytest.raises(ModelFormatError, match=r"has the shape \(3,\) instead of \(4,\): damaged file"):
            model_from_json(json.dumps(content))
        del content["fitted"]["standard_errors_"], content["fitted"]["least_squares_"]
        loaded, _ = model_from_json(json.dumps(content))
        with pytest.raises(ParameterError, match="confidence intervals need"):
            loaded.confidence_intervals()
