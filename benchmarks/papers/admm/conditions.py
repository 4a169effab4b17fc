"""Theorem 1 of Hu et al.: whether its conditions hold on a9a, and what the printed updates do where they hold.

    python -m benchmarks.papers.admm.conditions [--docs] [--quick]

``--docs`` writes the tables into docs/measured/data/vertical_solvers. All objectives are sums of losses.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks.common import data_folder
from benchmarks.driver import benchmark
from benchmarks.vertical.data import a9a_parties
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, SigmoidLoss, Squared
from sottovoce.papers.admm.conditions import Theorem1Report, theorem_1_conditions
from sottovoce.papers.admm.sharing import Penalty, admm

FORMS = ("sharing", "proximal", "printed")
ACCURACY = 1e-3  # of the least objective
ROUNDS, ROUNDS_A9A, ROUNDS_QUICK = 5000, 150, 20

Array = NDArray[np.float64]


def rounds_to(blocks: list[Array], loss: Any, y: Array, l2: float, *, form: str, **options: Any) -> tuple[float, float]:
    """Return the first round within ACCURACY of the least objective, and the last objective over the least one."""
    X = np.hstack(blocks)
    fitted = LogisticRegression(C=1.0 / l2, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y).coef_[0]
    best = float(loss.value(y, X @ fitted).sum() + 0.5 * l2 * fitted @ fitted)
    try:
        run = admm(blocks, loss, y, penalty=Penalty(l2), form=form, **{"tol": 1e-8} | options)
    except ParameterError:  # it says by itself that it diverges
        return math.inf, math.inf
    objective = np.array(run.objective)
    there = np.flatnonzero(objective <= best * (1.0 + ACCURACY))
    return float(there[0] + 1) if len(there) else math.inf, float(objective[-1] / best)


def described(report: Theorem1Report) -> list[dict[str, Any]]:
    return [
        {
            "party": f"party {m}",
            "smallest": party.smallest,
            "largest": party.largest,
            "full rank": party.has_full_rank,
            "gamma_m": party.modulus,
            "(b)": party.holds_b,
        }
        for m, party in enumerate(report.parties, 1)
    ]


def on_a9a(most: int) -> dict[str, Any]:
    """Report for l2 = 1 and rho = 1, and the rounds that the forms need all the same."""
    data = a9a_parties(data_folder())
    blocks = data.blocks()
    report = theorem_1_conditions(blocks, Logistic(), penalty=Penalty(1.0), rho=1.0)
    rounds = {}
    for form in FORMS:
        for rho in (0.3, 1.0, 3.0):
            options = {"form": form, "rho": rho, "max_iter": most}
            rounds[f"{form}, rho = {rho:g}"] = rounds_to(blocks, Logistic(), data.y, 1.0, **options)[0]
    return {
        "parties": described(report), "failing": list(report.failing), "least rho": report.least_rho, "rounds": rounds,
    }  # fmt: skip


def where_all_hold(n_parties: int, most: int) -> list[dict[str, Any]]:
    """Independent normal columns, 2,000 rows and 20 columns a party: D'D is near n times the identity."""
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(2000, 20)) for _ in range(n_parties)]
    X = np.hstack(blocks)
    y = np.where(X @ rng.normal(size=X.shape[1]) / 4.0 + rng.normal(size=2000) > 0.0, 1.0, -1.0)
    least = theorem_1_conditions(blocks, Logistic(), penalty=Penalty(1.0), rho=1.0).least_rho
    rows = []
    for rho in (0.3, 1.0, 1.01 * least):
        report = theorem_1_conditions(blocks, Logistic(), penalty=Penalty(1.0), rho=rho)
        printed, end = rounds_to(blocks, Logistic(), y, 1.0, form="printed", rho=rho, max_iter=most)
        sharing, _ = rounds_to(blocks, Logistic(), y, 1.0, form="sharing", rho=rho, max_iter=most)
        rows.append(
            {
                "parties": n_parties,
                "rho": rho,
                "holds": report.holds,
                "printed": printed,
                "end": end,
                "sharing": sharing,
            }
        )
    return rows


def not_convex(most: int) -> dict[str, Any]:
    """Run the sigmoid loss on two parties, at the least rho."""
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(2000, 20)) for _ in range(2)]
    y = np.where(np.hstack(blocks) @ rng.normal(size=40) / 4.0 + rng.normal(size=2000) > 0.0, 1.0, -1.0)
    least = theorem_1_conditions(blocks, SigmoidLoss(), penalty=Penalty(1.0), rho=1.0).least_rho
    report = theorem_1_conditions(blocks, SigmoidLoss(), penalty=Penalty(1.0), rho=1.01 * least)
    run = admm(
        blocks, SigmoidLoss(), y, penalty=Penalty(1.0), rho=1.01 * least, form="printed", max_iter=most, tol=1e-4
    )
    return {
        "rho": 1.01 * least, "holds": report.holds, "rounds": len(run.objective), "converged": run.converged,
        "falls": bool((np.diff(run.objective[1:]) <= 1e-9).all()), "V first": run.stationarity[0],
        "V last": run.stationarity[-1],
    }  # fmt: skip


def same_column(n_parties: int, rho: float) -> dict[str, Any]:
    """Parties that hold one and the same column, squared loss, no penalty: all conditions hold from rho = 2."""
    rng = np.random.default_rng(0)
    column = rng.normal(size=(1000, 1))
    column /= np.linalg.norm(column)
    y = column[:, 0] + 0.1 * rng.normal(size=1000)
    blocks = [column] * n_parties
    report = theorem_1_conditions(blocks, Squared(), penalty=Penalty(), rho=rho)
    found = {"parties": n_parties, "rho": rho, "holds": report.holds}
    try:
        run = admm(blocks, Squared(), y, penalty=Penalty(), rho=rho, form="printed", max_iter=200, tol=1e-6)
    except ParameterError:  # it says by itself that it diverges
        return found | {"converged": False, "rounds": math.inf, "excess": math.inf}
    best = 0.5 * float(y @ y - (column[:, 0] @ y) ** 2)
    return found | {
        "converged": run.converged, "rounds": len(run.objective), "excess": run.objective[-1] / best - 1.0,
    }  # fmt: skip


def yes(holds: bool) -> str:
    return "yes" if holds else "no"


def count(rounds: float, most: int) -> str:
    return f"{rounds:.0f}" if math.isfinite(rounds) else f"more than {most}"


def tables(found: dict[str, Any]) -> dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
    a9a, most = found["a9a"], found["most"]
    rhos = ("0.3", "1", "3")
    ends = [
        f"converged in {row['rounds']}" if row["converged"]
        else f"objective {row['excess']:.1e} above the optimum, relatively"
        for row in found["same column"]
    ]  # fmt: skip
    return {
        "a9a": (
            ("a9a", "smallest eigenvalue of D'D|.3g", "largest|,.0f", "full column rank", "gamma_m at rho = 1|.3g",
             "2 (b)"),
            [(row["party"], row["smallest"], row["largest"], yes(row["full rank"]), row["gamma_m"], yes(row["(b)"]))
             for row in a9a["parties"]],
        ),
        "rounds": (
            ("rounds on a9a", *(f"rho = {rho}" for rho in rhos)),
            [(form, *(count(a9a["rounds"][f"{form}, rho = {rho}"], most[0]) for rho in rhos)) for form in FORMS],
        ),
        "hold": (
            ("parties", "rho|.3g", "all conditions", "rounds, printed", "rounds, sharing"),
            [(row["parties"], row["rho"], yes(row["holds"]), count(row["printed"], most[1]),
              count(row["sharing"], most[1])) for row in found["normal"]],
        ),
        "same": (
            ("parties with one column", "rho", "all conditions", "printed form after 200 rounds or fewer"),
            [(row["parties"], row["rho"], yes(row["holds"]), end)
             for row, end in zip(found["same column"], ends, strict=True)],
        ),
    }  # fmt: skip


@benchmark(page="measured/vertical_solvers.md")
def main(run) -> None:
    most = (ROUNDS_QUICK, ROUNDS_QUICK) if run.quick else (ROUNDS_A9A, ROUNDS)
    found = {
        "most": most,
        "a9a": on_a9a(most[0]),
        "normal": [row for n_parties in (2, 3) for row in where_all_hold(n_parties, most[1])],
        "sigmoid": not_convex(most[1]),
        "same column": [same_column(M, rho) for M, rho in ((2, 2.5), (3, 2.0), (3, 2.4), (3, 2.6), (10, 5.0))],
    }
    run.tables(tables(found))
    print(*found["a9a"]["failing"], f"least rho {found['a9a']['least rho']}", found["sigmoid"], sep="\n")
    run.keep("vertical_conditions", found)
