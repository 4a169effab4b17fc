"""What "auto" takes from public facts, and what each solver refuses before any noise: one table each.

Strange values of every argument, one by one: `unit/estimators/test_bad_values.py`, `contracts/test_public_numbers.py`.
"""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.central.core import replay
from sottovoce.exceptions import ParameterError
from support.solvers import solved

BUDGET = {"epsilon": 1.0, "delta": 1e-5}
KINDS = {
    "logistic": lambda **given: sv.DPLogisticRegression(**{**BUDGET, "data_norm": 1.0, "classes": [0, 1], **given}),
    "hinge": lambda **given: sv.DPLinearSVC(**{**BUDGET, "data_norm": 1.0, "classes": [0, 1], **given}),
    "ridge": lambda **given: sv.DPRidge(**{**BUDGET, "data_norm": 1.0, "label_bounds": (-5.0, 5.0), **given}),
    "lasso": lambda **given: sv.DPLasso(
        **{**BUDGET, "data_bound": 1.0, "radius": 1.0, "label_bounds": (-1.0, 1.0), **given}
    ),
}
THREE, JOINTLY = {"classes": [0, 1, 2]}, {"solver": "multinomial-scd"}
MAX_WEIGHTS = 4096  # of a matrix that is released
PASSES, LOOSE = {"solver_options": {"n_passes": 9}}, {"accept_delta": 0.1}
SMOOTHED = "smoothed hinge (smoothing 2)"


@pytest.mark.parametrize(
    ("kind", "n", "d", "changed", "taken", "loss"),
    [
        ("logistic", 20_000, 8, {}, "newton", ""),
        ("logistic", 20_000, 8, {"adjacency": "replace-one"}, "newton", ""),
        ("logistic", 1_000, 8, {}, "momentum", ""),  # few rows
        ("logistic", 1_000, 8, {"alpha": 0.01}, "scd", ""),  # a penalty that is meant
        ("logistic", 500, 200, {}, "scd", ""),  # fewer than columns
        ("logistic", 1_000, 300, {}, "momentum", ""),  # and many columns
        ("logistic", 1_000, 300, {"alpha": 0.01}, "scd", ""),
        ("logistic", 30, 8, {"epsilon": 300.0}, "momentum", ""),
        ("logistic", 10, 8, {"epsilon": 800.0}, "scd", ""),  # hardly any noise
        ("logistic", 10_000, 1500, {}, "momentum", ""),  # more columns than the budget tells apart
        ("logistic", 20_000, 1500, {}, "scd", ""),  # and rows enough for dual variables
        ("logistic", 60_000, 20_000, {}, "momentum", ""),
        ("logistic", 10**8, 3000, {"delta": 1e-9}, "scd", ""),  # a matrix that costs more than the passes
        ("logistic", 20_000, 8, THREE, "multinomial-scd", ""),
        ("logistic", 20_000, 8, {**THREE, "solver": "scd"}, "scd", ""),
        ("logistic", 20_000, 8, JOINTLY, "scd", ""),  # of two classes
        ("logistic", 20_000, 8, PASSES, "scd", ""),
        ("hinge", 100, 8, {}, "newton", SMOOTHED),
        ("hinge", 50_000, 8, {"adjacency": "replace-one"}, "newton", "smoothed hinge (smoothing 1)"),
        ("hinge", 1_000, 3000, {}, "scd", SMOOTHED),  # a matrix that costs more than the passes
        ("hinge", 1_000, 8, THREE, "newton", SMOOTHED),
        ("hinge", 4_000, 8, THREE, "scd", SMOOTHED),  # with much to learn from
        ("hinge", 1_000, 8, {"epsilon": 1e4}, "scd", "hinge"),  # hardly any noise: the optimum of the hinge itself
        ("hinge", 1_000, 8, PASSES, "scd", "hinge"),
        ("hinge", 1_000, 8, {"class_weight": {0: 1.0, 1: 2.0}}, "scd", "hinge"),
        ("hinge", 1_000, 8, {"max_rows_per_group": 2}, "scd", "hinge"),
        ("ridge", 4_000, 3, {"epsilon": 2.0, "delta": 1e-6}, "refinement", ""),  # the matrix is seen
        ("ridge", 4_000, 100, {"epsilon": 2.0, "delta": 1e-6}, "scd", ""),
        ("ridge", 100, 3, {"epsilon": 0.1, "delta": 1e-6}, "constant", ""),
        ("ridge", 500, 3, {"epsilon": 0.5, "delta": 1e-6}, "momentum", ""),  # many short steps
        ("ridge", 500, 200, {"epsilon": 0.5, "delta": 1e-6}, "constant", ""),  # fewer than columns ask for
        ("ridge", 500, 3, {"epsilon": 0.5, "delta": 1e-6, "max_rows_per_group": 2}, "constant", ""),
        ("ridge", 500, 3, {"epsilon": 0.5, "delta": 1e-6, "fit_intercept": False}, "scd", ""),
        ("ridge", 10**5, 2000, {"epsilon": 1e3, "delta": 1e-6}, "scd", ""),
        ("ridge", 4_000, 3, {**PASSES, "epsilon": 2.0}, "scd", ""),
    ],
)
def test_what_auto_takes(kind, n, d, changed, taken, loss):
    plan = sv.plan(KINDS[kind](**LOOSE, **changed), n, d)
    assert plan.solver == taken
    assert not loss or plan.loss.name == loss
    assert plan.choice or "solver" in changed
    if taken in ("newton", "refinement") and not loss:
        assert ("mu n / d^1.5 = " if taken == "refinement" else "mu n") in plan.choice


@pytest.mark.parametrize(
    ("given", "walks"),
    [
        ({}, True), ({"epsilon": 0.01}, True), ({"classes": [0, 1]}, False), ({"alpha": 0.1}, False),
        ({"max_rows_per_group": 3}, False), ({"epsilon": 1e4}, False), (JOINTLY | PASSES, False),
        (JOINTLY | {"solver_options": {"steps": False}}, False), (JOINTLY | {"solver_options": {"steps": True}}, True),
    ],
)  # fmt: skip
def test_where_all_classes_take_steps(given, walks):
    plan = sv.plan(KINDS["logistic"](**{**LOOSE, **THREE, **given}), 20_000, 8)
    kept = replay(plan.asks).kept
    assert ("steps" in kept) is walks
    assert not walks or kept["steps"] == plan.n_steps == plan.summary()["steps"]


SAMPLES = {"adjacency": "add-remove", "n_public": 200}


@pytest.mark.parametrize(
    ("kind", "solver", "options", "changed", "message"),
    [
        ("logistic", "sgd", {"batch_size": 0.5}, {}, "batch_size must be a finite number >= 1; got 0.5"),
        ("logistic", "sgd", {"epochs": 0.0}, {}, "epochs must be a finite number > 0 and <= 1e.06; got 0.0"),
        ("logistic", "sgd", {"learning_rate": -1.0}, {}, "learning_rate must be a finite number >= 1e-50"),
        ("logistic", "sgd", {"clipping_norm": math.nan}, {}, "clipping_norm must be a finite number >= 1e-50"),
        ("logistic", "sgd", {"momentum": 0.9}, {}, "no entry 'momentum' for solver='sgd'; it takes 'learning_rate', "),
        ("logistic", "sgd", {"batch_size": 5}, {"adjacency": "replace-one"}, "Give .*'batch_size': n_samples"),
        ("logistic", "Sequential", {"batch_size": 2.0}, {}, "batch_size must be a whole number >= 1; got 2.0"),
        ("logistic", "Sequential", {"clipping_norm": 0.0}, {}, "clipping_norm must be a finite number >= 1e-50"),
        ("logistic", "Sequential", {"batch_size": 7, "epochs": 0}, {}, "epochs must be a whole number >= 1 and <= "),
        ("logistic", "Sequential", {}, SAMPLES, "'zero-out' or 'replace-one' for .*Sequential"),
        ("logistic", "Published", {}, SAMPLES, "'zero-out' or 'replace-one' for papers.dp_scd.Published"),
        ("logistic", "Primal", {"block_size": 0}, {}, "block_size must be a whole number >= 1 and <= 1000000; got 0"),
        ("logistic", "Primal", {"epochs": 1.5}, {}, "epochs must be a whole number >= 1 and <= .*; got 1.5"),
        ("logistic", "Primal", {"learning_rate": math.inf}, {}, "learning_rate must be a finite number >= 1e-50"),
        *((kind, solver, {"batch_size": size, "epochs": 10.0}, {"delta": 1e-9, **SAMPLES, "n_public": n},
           r"batch_size and epochs make \d+ steps .* Raise solver_options")
          for kind, solver in (("logistic", "sgd"), ("logistic", "Minibatch"))
          for size, n in ((1e9, 2**53), (2.0, 10**6))),
        *(("logistic", "scd", {"calibration_share": share}, {}, "calibration_share")
          for share in (-0.1, 0.6, math.nan, "all", 5e-324, 1e-60)),
        *(("logistic", solver, {}, {"data_norm": "auto"},
           rf"data_norm must be a number for solver={solver}\(.*'scd'.*'auto'")
          for solver in ("Published", "Sequential")),
        *(("logistic", "multinomial-scd", options, THREE, "steps must be")
          for options in ({"steps": 1}, {"steps": "yes"}, {"steps": True, "n_passes": 3})),
        ("logistic", "auto", {"n_passes": 0}, THREE, "n_passes"),
        ("hinge", "multinomial-scd", {}, THREE, r"needs the logistic or multinomial loss; got the .*hinge loss"),
        ("logistic", "newton", {"n_passes": 0}, {}, "n_passes must be"),
        ("logistic", "newton", {"epochs": 3}, {}, "no entry 'epochs' for solver='newton'; it takes 'n_passes'"),
        ("ridge", "newton", {}, {}, "'newton' needs a loss with bounded first and second derivatives"),
        ("logistic", "refinement", {}, {}, r"needs the squared loss; got the logistic loss .* Use solver='auto'"),
        ("ridge", "refinement", {"n_passes": 0}, {}, "n_passes"),
        *((kind, "adassp", {}, {}, r"'adassp' needs the squared loss; got .* Use solver='auto'")
          for kind in ("logistic", "hinge")),
        ("ridge", "adassp", {"n_passes": 3}, {}, "no entry 'n_passes' for solver='adassp'; it takes 'clip_labels'"),
        ("ridge", "adassp", {"clip_labels": 1}, {}, "clip_labels must be True or False; got 1"),
        *((kind, solver, {}, {"n_features": MAX_WEIGHTS}, rf"at most {MAX_WEIGHTS} weights.*n_features = {MAX_WEIGHTS}")
          for kind, solver in (("logistic", "newton"), ("ridge", "refinement"), ("ridge", "adassp"))),
        ("lasso", "", {}, {"data_bound": None}, "data_bound is missing: .* absolute value of every entry"),
        ("lasso", "", {}, {"radius": None}, "radius is missing: .* sum of the absolute coefficients"),
        ("lasso", "", {}, {"n_steps": 0}, "n_steps must be a whole number >= 1"),
        ("lasso", "", {}, {"constraint": "l2"}, "constraint must be one of"),
        ("lasso", "", {}, {"adjacency": "add-remove"}, "n_public is missing"),
    ],
)  # fmt: skip
def test_what_is_refused(kind, solver, options, changed, message, noise_is_forbidden):
    changed, d = dict(changed), changed.get("n_features", 3)
    changed.pop("n_features", None)
    with pytest.raises(ParameterError, match=message):
        KINDS[kind](**(solved(solver, options) if solver else {}), **changed).fit(sp.csr_array((40, d)), np.zeros(40))
