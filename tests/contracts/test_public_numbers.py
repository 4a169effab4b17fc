"""Public numbers that nobody would type: a fit keeps its promise with them, or refuses them before it reads the data.

Every public number of every central estimator and solver, over the whole range of doubles: one or two of them at a time
are drawn again, half the time beside a row that is as long as a number can be. Then a fit is recorded on one table and
replayed on a neighbour. It may be refused, in words that name the argument, the same for every table. Or it runs: with
the same control flow on both tables, no release moves further than its noise allows, and no arithmetic warns. There is
no third case.
"""

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
import pytest

from sottovoce.central.plan import Plan
from support.grey_box import CASES, Case, neighbour, special_row, stored
from support.replay import grey_box

EDGES = (
    0.0, -1.0, math.nan, math.inf, 5e-324, 1e-320, 1e-310, 2.3e-308, 1e-305, 3e-302, 1e-300, 1e-200, 1e-162, 1e-155,
    1e-150, 1e-100, 9e-51, 1e-50, 1.1e-50, 1e-40, 1e-30, 1e-9, 1e-3, 0.5, 1.0, 3.0, 1e3, 1e6, 1.1e6, 1e9, 1e18, 1e30,
    1e40, 9e49, 1e50, 1.1e50, 1e100, 1.1e100, 1e154, 1e160, 1e200, 1e300, 1.7e308,
)  # fmt: skip
WHOLE_EDGES = (-1, 0, 1, 2, 3, 10, 1000, 2**31, 2**53, 2**53 + 1, 10**30, 10**400)
# what a constructor or a solver takes besides: names, choices, places, and how much work is done
NO_NUMBERS = {
    "adjacency", "classes", "dataset", "fit_intercept", "ledger", "loss", "n_jobs", "random_state", "solver",
    "solver_options", "verbose", "accept_delta", "feature_names", "n_steps", "max_iter", "constraint",
    "max_rows_per_group",  # a count: tests/contracts/test_grey_box.py
    "n_passes", "clip_labels", "calibration_share", "steps", "n_steps_given", "radius_given",
}  # fmt: skip


def plan_of(case: Case) -> Any:
    public = {"epsilon": 1.0, "delta": 1e-6, "adjacency": case.adjacencies[0], "n_public": 64, **case.given}
    return case.kind(**({} if case.is_bounded else {"data_norm": 1.0}) | public).plan(64, 3)


def numbers_of(case: Case) -> tuple[list[str], list[str]]:
    """Return all numbers of the constructor, and of the solver's options: a new one belongs to them by itself."""
    own = sorted(set(case.kind().get_params()) - NO_NUMBERS)
    if case.is_bounded:
        return own, []
    options = {one.name for one in dataclasses.fields(plan_of(case))} - {one.name for one in dataclasses.fields(Plan)}
    return [name for name in own if case.given.get(name) != "auto"], sorted(options - NO_NUMBERS)


def number_for(name: str, rng: np.random.Generator) -> Any:
    """Draw a public number, from all doubles or all whole numbers."""
    if name in ("n_public", "block_size") or (name == "batch_size" and rng.random() < 0.5):
        value: Any = int(rng.choice(np.array(WHOLE_EDGES, dtype=object)))
    elif rng.random() < 0.5:
        value = float(rng.choice(EDGES))
    elif rng.random() < 0.5:
        value = 10.0 ** rng.uniform(-323.3, 308.2)
    else:  # where steps over the length of a far row are subnormal
        value = 10.0 ** rng.uniform(-20.0, -8.0)
    if name == "epsilon" and math.isinf(value):
        return 1.0  # a fit without noise promises nothing
    if name == "epochs" and 3.0 < value <= 1e6:
        return 3.0  # accepted, and only long
    if name == "epsilon" and 30.0 < value <= 1e6:
        return 30.0  # as well: noise beside a sample, or in an objective, takes long to calibrate
    if name == "batch_size" and 1.0 <= value < 100.0:
        return 100.0  # the tables are smaller, so nothing is sampled: every rate would be calibrated for seconds
    if name == "n_public":
        return min(value, 2**40) if value <= 2**53 else value  # the same
    return value


def drawn(case: Case, adjacency: str, n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return parameters of which one or two are strange."""
    own, options = numbers_of(case)
    ordinary = {} if case.is_bounded else {"data_norm": 1.0, "alpha": 1e-3}
    given: dict[str, Any] = {
        **ordinary, "epsilon": 1.0, "delta": 1e-6, "adjacency": adjacency, "n_public": n,
        "fit_intercept": bool(rng.random() < 0.5), **case.given,
    }  # fmt: skip

    def give(name: str, value: Any) -> None:
        if isinstance(given["solver"], Plan):
            given["solver"] = dataclasses.replace(given["solver"], **{name: value})
        else:
            given["solver_options"] = {**given["solver_options"], name: value}

    if case.is_sampled:  # all rows
        give("batch_size", 1e9)
    # for zero-out the number of rows is public, and the row that is missing below is there and contributes nothing
    known = [name for name in (*own, *options) if (name, adjacency) != ("n_public", "zero-out")]
    for name in map(str, rng.choice(known, size=1 + (rng.random() < 0.4), replace=False)):
        value = number_for(name, rng)
        if name == "n_public" and value * 10 < n:
            value = n  # a table of more than ten times n_public rows breaks a fact that was declared about it
        if name == "n_public" and "batch_size" in options and value <= 2**53:
            value = min(value, 2**29)  # below a batch of all rows, so nothing is sampled either
        if name in options:
            give(name, value)
        elif name == "label_bounds":
            given[name] = (-value, value) if rng.random() < 0.7 else (value, number_for(name, rng))
        elif name == "class_weight":
            given[name] = {one: rng.choice([1.0, value, number_for(name, rng)]) for one in given["classes"]}
        else:
            given[name] = value
        given["fit_intercept"] |= name == "intercept_scaling"
    return given


def tables(case: Case, given: dict[str, Any], adjacency: str, n: int, rng: np.random.Generator):
    """Return neighbours whose rows and labels are at the bounds that were given, where these are numbers."""
    d, dtype = int(rng.choice([1, 8, 17, 33])), case.precision
    bound = given["data_bound"] if case.is_bounded else given["data_norm"]
    unit = bound if bound != "auto" and math.isfinite(bound) and bound > 0.0 else 1.0
    X = rng.standard_normal((n, d))
    X = np.sign(X) if case.is_bounded else X / np.linalg.norm(X, axis=1, keepdims=True)
    most = float(np.finfo(dtype).max)
    with np.errstate(all="ignore"):
        X = np.clip(X * unit, -most, most).astype(dtype)
    y = rng.choice([-1.0, 1.0], n)
    low, high = given.get("label_bounds", (0.0, 0.0))
    if math.isfinite(low) and math.isfinite(high) and low < high:
        y = rng.choice([low, high], n)
    row = int(rng.choice([0, n // 2, n - 1]))
    if rng.random() < 0.5:  # public numbers are at their ends; so is the row
        X[row] = np.sign(X[row]) * (most * 10.0 ** -rng.uniform(0.0, 2.0) / math.sqrt(d))

    def another() -> tuple[Any, Any]:
        return -X[row] if rng.random() < 0.7 else special_row(d, dtype, rng), y[rng.integers(n)]

    X_other, y_other, facts = neighbour(X, y, row, adjacency, case.in_place, another)
    return (stored(X), y), (stored(X_other), y_other), facts


def refused_unread(run, table, refusal: str) -> bool:
    """Return whether a table of nothing but NaN is refused in the same words: then none of its values was read."""
    X, y = table
    try:
        run(np.full(X.shape, np.nan), np.full(len(y), np.nan))
    except Exception as error:
        return f"{type(error).__name__}: {error}" == refusal
    return False


def trial(case: Case, adjacency: str, rng: np.random.Generator, seed: int) -> str:
    """Return what is wrong with one draw of public numbers, if anything is, and the parameters."""
    n = int(rng.choice([5, 64, 66]))
    given = drawn(case, adjacency, n, rng)
    table, other, facts = tables(case, given, adjacency, n, rng)
    fit = case.run(given)

    def run(X: Any, y: Any) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of the arithmetic
            return fit(X, y)

    found = grey_box(run, table, other, seed=seed, **facts)
    wrong = found.fault
    if not wrong and found.refusal:
        if not found.refusal.startswith(("ParameterError: ", "AccountingError: ")):
            wrong = "another error than a refusal"
        elif not any(name in found.refusal for names in numbers_of(case) for name in names):
            wrong = "the refusal names no argument"
        elif not refused_unread(run, table, found.refusal):
            wrong = "refused after reading"
    elif not found.largest <= 1.0:
        wrong = f"ratio {found.largest!r}"
    return wrong and f"{wrong}: {found.refusal} {given}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("draws", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_a_fit_refuses_public_numbers_or_keeps_its_promise(case, draws):
    """Each that is accepted takes seconds to calibrate where an integral says how much noise."""
    rng, adjacencies = np.random.default_rng([CASES.index(case), draws]), case.adjacencies
    draws = draws // 6 if case.is_sampled or case.name.startswith("Published") else draws
    found = [trial(case, adjacencies[seed % len(adjacencies)], rng, seed) for seed in range(draws)]
    assert [wrong for wrong in found if wrong] == []


def test_the_contract_can_fail(monkeypatch):
    """A range that is not checked."""
    monkeypatch.setattr("sottovoce.estimators.penalised.magnitude", lambda name, value, **_: value)
    rng = np.random.default_rng(0)
    assert any(trial(CASES[0], "add-remove", rng, seed) for seed in range(200))
