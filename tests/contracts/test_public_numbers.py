"""Public numbers that nobody would type: a fit keeps its promise with them, or refuses them before it reads the data.

Every public number of every central estimator and solver, over the whole range of doubles: one or two of them at a time
are drawn again, half the time beside a row that is as long as a number can be. Then a fit is recorded on one table and
replayed on a neighbour. It may be refused, in words that name the argument, the same for every table. Or it runs: with
the same control flow on both tables, no release moves further than its noise allows, and the coefficients are numbers.
There is no third case.
"""

import dataclasses
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.central.plan import Plan
from support.grey_box import ALL, CASES, FIXED, NOT_REPLACED, Case, neighbour, shown, special_row
from support.replay import grey_box
from support.solvers import solved

EDGES = (
    0.0, -1.0, math.nan, math.inf, 5e-324, 1e-320, 1e-310, 2.3e-308, 1e-305, 3e-302, 1e-300, 1e-200, 1e-162, 1e-155,
    1e-150, 1e-100, 9e-51, 1e-50, 1.1e-50, 1e-40, 1e-30, 1e-9, 1e-3, 0.5, 1.0, 3.0, 1e3, 1e6, 1.1e6, 1e9, 1e18, 1e30,
    1e40, 9e49, 1e50, 1.1e50, 1e100, 1.1e100, 1e154, 1e160, 1e200, 1e300, 1.7e308,
)  # fmt: skip
WHOLE_EDGES = (-1, 0, 1, 2, 3, 10, 1000, 2**31, 2**53, 2**53 + 1, 10**30, 10**400)


@dataclass(frozen=True)
class Numbers:
    """The public numbers of a case.

    Attributes
    ----------
    case : Case
    own : tuple of str
        Numbers of the constructor.
    options : tuple of str
        Numbers among the solver's options.
    """

    case: Case
    own: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        """All of them."""
        return self.own + self.options


_ROWS = ("epsilon", "delta", "data_norm", "alpha", "intercept_scaling", "n_public", "tol", "max_sample_weight")
_BALL = ("epsilon", "delta", "data_bound", "radius", "n_public", "tol")
_FIRST_ORDER = ("learning_rate", "clipping_norm")
_ALL_ROWS = {"batch_size": 1e9, "epochs": 3.0}


def _numbers(name, kind, solver, given, options=(), adjacencies=ALL, in_place=False):
    own = solved(solver, given)
    ridge = kind is sv.DPRidge
    own |= {"label_bounds": (-1.0, 1.0)} if ridge else {"classes": [-1.0, 1.0]}
    return Numbers(
        Case(name, kind, own, adjacencies, in_place),
        (*_ROWS, "label_bounds" if ridge else "class_weight"),
        tuple(options),
    )


SOLVERS = tuple(
    _numbers(f"{name}, {kind.__name__}", kind, name, given, options, adjacencies, in_place)
    for name, kinds, given, options, adjacencies, in_place in (
        ("scd", (sv.DPLogisticRegression, sv.DPLinearSVC, sv.DPRidge), {"n_passes": 3}, (), ALL, False),
        ("Minibatch", (sv.DPLogisticRegression, sv.DPRidge), _ALL_ROWS, ("batch_size", "epochs"), NOT_REPLACED,
         False),
        ("sgd", (sv.DPLogisticRegression, sv.DPLinearSVC, sv.DPRidge), _ALL_ROWS,
         (*_FIRST_ORDER, "batch_size", "epochs"), ALL, False),
        ("Primal", (sv.DPLogisticRegression, sv.DPRidge), {"epochs": 2}, (*_FIRST_ORDER, "block_size"), ALL, False),
        ("Sequential", (sv.DPLogisticRegression, sv.DPRidge), {"epochs": 1}, ("clipping_norm", "batch_size"), FIXED,
         True),
        ("Published", (sv.DPLogisticRegression, sv.DPRidge), {"epochs": 1, "batch_size": 40},
         ("clipping_norm", "batch_size"), FIXED, True),
        ("adassp", (sv.DPRidge,), {}, (), ALL, False),
        ("adassp", (sv.DPRidge,), {"clip_labels": False}, (), ALL, False),
        ("refinement", (sv.DPRidge,), {"n_passes": 3}, (), ALL, False),
        ("newton", (sv.DPLogisticRegression, sv.DPLinearSVC), {"n_passes": 3}, (), ALL, False),
    )
    for kind in kinds
) + tuple(
    Numbers(case, _BALL + (("label_bounds",) if case.is_regression else ())) for case in CASES if case.is_bounded
)  # fmt: skip


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


def drawn(numbers: Numbers, adjacency: str, n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return parameters of which one or two are strange."""
    given: dict[str, Any] = {
        "epsilon": 1.0, "delta": 1e-6, "adjacency": adjacency, "n_public": n, "fit_intercept": bool(rng.random() < 0.5),
        **numbers.case.given,
    }  # fmt: skip
    if not numbers.case.is_bounded:
        given |= {"data_norm": 1.0, "alpha": 1e-3}
    # for zero-out the number of rows is public, and the row that is missing below is there and contributes nothing
    known = [name for name in numbers.known if (name, adjacency) != ("n_public", "zero-out")]
    names = [str(name) for name in rng.choice(known, size=1 + (rng.random() < 0.4), replace=False)]
    for name in names:
        value = number_for(name, rng)
        if name == "n_public" and value * 10 < n:
            value = n  # a table of more than ten times n_public rows breaks a fact that was declared about it
        if name == "n_public" and "batch_size" in numbers.options and value <= 2**53:
            value = min(value, 2**29)  # below a batch of all rows, so nothing is sampled either
        if name in numbers.options and isinstance(given["solver"], Plan):
            given["solver"] = dataclasses.replace(given["solver"], **{name: value})
        elif name in numbers.options:
            given["solver_options"] = {**given["solver_options"], name: value}
        elif name == "label_bounds":
            given[name] = (-value, value) if rng.random() < 0.7 else (value, number_for(name, rng))
        elif name == "class_weight":
            given[name] = {-1.0: value, 1.0: 1.0 if rng.random() < 0.5 else number_for(name, rng)}
        else:
            given[name] = value
    if "intercept_scaling" in names:
        given["fit_intercept"] = True
    return given


def tables(numbers: Numbers, given: dict[str, Any], adjacency: str, n: int, rng: np.random.Generator):
    """Return neighbours whose rows and labels are at the bounds that were given, where these are numbers."""
    d, dtype = int(rng.choice([1, 8, 17, 33])), rng.choice([np.float32, np.float64])
    bound = given["data_bound"] if numbers.case.is_bounded else given["data_norm"]
    unit = bound if math.isfinite(bound) and bound > 0.0 else 1.0
    X = rng.standard_normal((n, d))
    X = np.sign(X) if numbers.case.is_bounded else X / np.linalg.norm(X, axis=1, keepdims=True)
    most = float(np.finfo(dtype).max)
    with np.errstate(all="ignore"):
        X = np.clip(X * unit, -most, most).astype(dtype)
    y = rng.choice([-1.0, 1.0], n)
    if "label_bounds" in given:
        low, high = given["label_bounds"]
        usable = math.isfinite(low) and math.isfinite(high) and low < high
        y = rng.choice([low, high], n) if usable else y
    row = int(rng.choice([0, n // 2, n - 1]))
    if rng.random() < 0.5:  # public numbers are at their ends; so is the row
        X[row] = np.sign(X[row]) * (most * 10.0 ** -rng.uniform(0.0, 2.0) / math.sqrt(d))

    def another() -> tuple[Any, Any]:
        return -X[row] if rng.random() < 0.7 else special_row(d, dtype, rng), y[rng.integers(n)]

    X_other, y_other, facts = neighbour(X, y, row, adjacency, numbers.case.in_place, another)
    if numbers.case.is_sparse(dtype):
        X, X_other = sp.csr_array(X), sp.csr_array(X_other)
    return (X, y), (X_other, y_other), facts


def run_of(numbers: Numbers, given: dict[str, Any]):
    """Return a function that fits, with every warning of the arithmetic an error."""

    def run(X: Any, y: Any) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", sv.exceptions.SottovoceWarning)
            return shown(numbers.case.kind(**given).fit(X, y))

    return run


def refused_unread(run, table, refusal: str) -> bool:
    """Return whether a table of nothing but NaN is refused in the same words: then none of its values was read."""
    X, y = table
    nothing = np.full(X.shape, np.nan)
    try:
        run(nothing, np.full(len(y), np.nan) if y.dtype.kind == "f" else y)
    except Exception as error:
        return f"{type(error).__name__}: {error}" == refusal
    return False


def trial(numbers: Numbers, adjacency: str, rng: np.random.Generator, seed: int) -> tuple[str, dict[str, Any]]:
    """Return what is wrong with one draw of public numbers, if anything is, and the parameters."""
    n = int(rng.choice([5, 64, 66]))
    given = drawn(numbers, adjacency, n, rng)
    table, neighbour, facts = tables(numbers, given, adjacency, n, rng)
    run = run_of(numbers, given)
    found = grey_box(run, table, neighbour, seed=seed, **facts)
    if found.fault:
        return found.fault, given
    if found.refusal:
        if not found.refusal.startswith(("ParameterError: ", "AccountingError: ")):
            return found.refusal, given
        if not any(name in found.refusal for name in numbers.known):
            return f"the refusal names no argument: {found.refusal}", given
        return "" if refused_unread(run, table, found.refusal) else f"refused after reading: {found.refusal}", given
    if not found.largest <= 1.0:
        return f"ratio {found.largest!r}", given
    return "", given


def _trials(numbers: Numbers, share: float) -> int:
    """Return how many draws; each that is accepted takes seconds to calibrate where an integral says how much noise."""
    return round(share * (10 if numbers.case.name.startswith(("Minibatch", "Published")) else 100))


@pytest.mark.parametrize(
    ("numbers", "adjacency"),
    [
        pytest.param(numbers, adjacency, id=f"{numbers.case.name}, {adjacency}")
        for numbers in SOLVERS
        for adjacency in numbers.case.adjacencies
    ],
)
@pytest.mark.parametrize("share", [0.4, pytest.param(1.0, marks=pytest.mark.slow)])
def test_a_fit_refuses_public_numbers_or_keeps_its_promise(numbers, adjacency, share):
    place = [SOLVERS.index(numbers), numbers.case.adjacencies.index(adjacency)]
    rng = np.random.default_rng(place)
    wrong = [found for seed in range(_trials(numbers, share)) if (found := trial(numbers, adjacency, rng, seed))[0]]
    assert wrong == []


def test_every_number_of_an_estimator_is_drawn():
    """A new constructor parameter or option that is a number belongs here too."""
    not_numbers = {
        "adjacency", "classes", "dataset", "fit_intercept", "ledger", "loss", "n_jobs", "random_state", "solver",
        "solver_options", "verbose", "accept_delta", "feature_names", "n_steps", "max_iter",
        "constraint", "max_rows_per_group",  # a count: tests/contracts/test_grey_box.py
    }  # fmt: skip
    for numbers in SOLVERS:
        given = set(numbers.case.kind().get_params()) - not_numbers
        assert given <= set(numbers.own), numbers.case.name
        if not numbers.case.is_bounded:
            plan = numbers.case.kind(**{
                "epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0, "adjacency": numbers.case.adjacencies[0],
                "n_public": 64, **numbers.case.given,
            }).plan(64, 3)  # fmt: skip
            whole = {"n_passes", "clip_labels", "calibration_share"}  # work, choices, a share
            options = {one.name for one in dataclasses.fields(plan)} - {one.name for one in dataclasses.fields(Plan)}
            assert options - whole <= {*numbers.options, "epochs", "batch_size"}, numbers.case.name


def test_the_contract_can_fail(monkeypatch):
    """A range that is not checked, and a sensitivity of 0.7 times the clip."""
    numbers = SOLVERS[0]
    monkeypatch.setattr("sottovoce.estimators.penalised.magnitude", lambda name, value, **_: value)
    rng = np.random.default_rng(0)
    assert any(trial(numbers, "add-remove", rng, seed)[0] for seed in range(200))
