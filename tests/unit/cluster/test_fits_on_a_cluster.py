"""Estimators on a table of workers: the same model, bit by bit, as on one array; and a driver that dies.

`tests/unit/estimators/test_holders.py` has every solver, on partitions of one row and of none, with workers that die.
"""

import math
import os
import signal
import warnings
from itertools import count
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import sottovoce as sv
from sottovoce.cluster.keeper import Call
from sottovoce.exceptions import BudgetError, DataError, ParameterError, PrivacyWarning
from support.forked import needs_fork
from support.parts_pool import PartsPool
from support.pooled_table import PooledTable

N, D = 700, 6
_RNG = np.random.default_rng(5)
X = _RNG.uniform(-1.0, 1.0, (N, D)).astype(np.float32)
YES = np.where(X @ np.linspace(-1.0, 1.0, D) + 0.2 > 0.0, "yes", "no")
VALUE = np.clip(X @ np.linspace(-1.0, 1.0, D) + 0.3, -2.0, 2.0)

NAMED: dict[str, Any] = {"classes": ["no", "yes"]}
GIVEN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 2.0, "random_state": 3}
FEW: dict[str, Any] = {**GIVEN, "solver": "scd", "solver_options": {"n_passes": 6}}
SVC = sv.DPLinearSVC(fit_intercept=False, **NAMED, **FEW)
NEWTON = sv.DPLogisticRegression(solver="newton", **NAMED, **GIVEN)
RIDGE = sv.DPRidge(label_bounds=(-2.0, 2.0), solver="refinement", **GIVEN)
WEIGHTED = sv.DPLogisticRegression(class_weight={"no": 1.0, "yes": 2.0}, **NAMED, **FEW)
ONE_BY_ONE = sv.DPLinearSVC(classes=[0, 1, 2], **FEW)
SPARSE = sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0).astype(np.float64))
WIDE = np.tile(X, 42)[:, :250] * np.random.default_rng(0).uniform(0.1, 0.2, (N, 250))


def table(X: Any, y: Any, *ends: int, pool: PartsPool | None = None) -> PooledTable:
    return PooledTable(PartsPool(2) if pool is None else pool, X, y, ends)


@pytest.mark.parametrize(
    ("model", "rows", "y"),
    [
        pytest.param(WEIGHTED, X, YES, id="weights by class"),
        pytest.param(ONE_BY_ONE, X, np.argmax(X[:, :3], axis=1), id="several classes, one by one"),
        pytest.param(SVC, SPARSE, YES, id="sparse rows"),
        # a product of two threads would be added up otherwise than one of a single thread
        pytest.param(NEWTON, WIDE, YES, id="Newton steps on many columns"),
        pytest.param(RIDGE, WIDE, VALUE, id="refinement on many columns"),
    ],
)
def test_the_same_model_and_receipt_with_workers_that_die(model: Any, rows: Any, y: Any) -> None:
    calls = count()
    fates = dict.fromkeys(range(6, 10_000, 14), "before") | dict.fromkeys(range(13, 10_000, 14), "after")
    dying = PartsPool(3, lambda keeper, call: fates.get(next(calls), "done"))
    with threadpool_limits(2, "blas"):
        here, there = clone(model).fit(rows, y), clone(model).fit(held := table(rows, y, 101, 350, 351, pool=dying))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    np.testing.assert_array_equal(here.intercept_, there.intercept_)
    assert held.partitions.n_rebuilt > 0
    one, other = here.guarantee_, there.guarantee_
    assert (one.event, one.epsilon, one.proof, one.releases) == (
        other.event,
        other.epsilon,
        other.proof,
        other.releases,
    )
    assert [line for line in other.assumptions if line not in one.assumptions] == [
        "rows were held by workers of a cluster: who has a machine of it, or can reach its scheduler, sees them. Each "
        "row counts once in each sum, whichever workers died (docs/privacy/cluster.md)"
    ]


@needs_fork
@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.PrivacyWarning")
def test_a_driver_that_is_killed_anywhere_leaves_its_charge(tmp_path: Any) -> None:
    """Before a row is read, between two passes, at the end: a new fit pays again, or is refused and asks no row."""
    url = f"sqlite:///{tmp_path}/book.db"

    def fit(dataset: str, pool: PartsPool) -> float:
        ledger = sv.Ledger(url)
        clone(WEIGHTED).set_params(random_state=None, ledger=ledger, dataset=dataset).fit(table(X, YES, 300, pool=pool))
        return ledger.spent(dataset)[0]

    def killed(dataset: str, at: int) -> None:
        calls = count()

        def fate(keeper: str, call: Call) -> str:
            if next(calls) == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return "done"

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside a test runner's threads
            child = os.fork()
        if child == 0:
            try:
                fit(dataset, PartsPool(2, fate))
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    ledger = sv.Ledger(url)
    ledger.create("whole", epsilon=1.0, delta=1e-4)
    spent, n_calls = fit("whole", honest := PartsPool(2)), len(honest.calls)
    for at in (0, 5, n_calls - 1):
        ledger.create(f"died at {at}", epsilon=1.0, delta=1e-4)
        killed(f"died at {at}", at)
        assert ledger.spent(f"died at {at}")[0] == spent > 0.8
        with pytest.raises(BudgetError):
            fit(f"died at {at}", idle := PartsPool(2))
        assert not idle.calls
    ledger.create("twice", epsilon=3.0, delta=1e-4)
    killed("twice", n_calls // 2)
    assert fit("twice", PartsPool(2)) > 1.3 * spent  # another fit: nothing is taken up again


@pytest.mark.parametrize("kind", ["scaler", "model", "pipeline"])
def test_people_that_a_table_tells_are_those_that_are_given(kind: str) -> None:
    """Whatever is fitted: noise is made for the few rows of a person, and no more of them count."""
    budget: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "random_state": 3, "max_rows_per_group": 2}
    model, scaler, people = clone(NEWTON).set_params(**budget), sv.DPScaler(**budget), [f"p{k // 6}" for k in range(N)]
    steps = [("scaler", sv.DPScaler()), ("model", sv.DPLogisticRegression(solver="newton", **NAMED))]
    made = {"model": model, "scaler": scaler, "pipeline": sv.DPPipeline(steps, **budget)}[kind]
    rows = table(X, YES, 200, 500)
    rows._groups = lambda: people
    here, there = clone(made).fit(X, YES, groups=people), clone(made).fit(rows)
    assert here.guarantee_.event == there.guarantee_.event
    fitted = ([step for _, step in getattr(each, "steps_", [("", each)])] for each in (here, there))
    for one, other in zip(*fitted, strict=True):
        for name in ("scale_", "coef_", "intercept_"):
            np.testing.assert_array_equal(getattr(one, name, 0), getattr(other, name, 0))


def test_classes_that_no_list_names() -> None:
    """They are counted over all partitions, with the warning of a fit in memory."""
    with pytest.warns(PrivacyWarning):
        fitted = clone(SVC).set_params(classes=None).fit(table(X, np.sort(YES), 300))
    assert fitted.classes_.tolist() == ["no", "yes"]


def test_errors_about_data_name_rows_of_the_whole_table() -> None:
    broken = X.copy()
    broken[[150, 400], 2] = np.nan
    wrong = np.where(np.isin(np.arange(N), [250, 260]), "of", YES)
    for rows, y, words in (
        (broken, YES, r"NaN: row 150, column 2 \(2 row\(s\) hold NaN"),
        (X, wrong, r"label 'of' \(row 250, 2 row\(s\) in all\)"),
    ):
        with pytest.raises(DataError, match=words):
            clone(SVC).fit(table(rows, y, 100, 200))


def test_what_tables_on_a_cluster_do_not_take() -> None:
    with pytest.raises(ParameterError, match="y must be None"):
        clone(SVC).fit(table(X, YES, 300), YES)
    with pytest.raises(ParameterError, match="needs all rows in one process"):
        clone(SVC).set_params(epsilon=math.inf).fit(table(X, YES, 300))
    with pytest.raises(ParameterError, match="names no target"):
        clone(SVC).fit(table(X, None, 300))
