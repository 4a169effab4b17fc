"""Training over columns at several parties without noise: seconds a round, set-up and memory as the table grows.

    python -m benchmarks.vertical.scale [--quick] [--rows 10000,100000,300000,1000000] [--parties 2,5] [--docs]

Each party holds 200 dense columns in float32; all parties run in one process, logistic regression, alpha = 1/n.
"Reading once" is the time to add up all entries of the tables, the pace of memory. A size runs in a process of its own,
whose peak memory (tables included) is shown. ``--one M,n`` runs one size and prints JSON. With real data
the rounds that a9a takes (66 and 57 columns, C = 1) are counted too.
"""

import json
import resource
import time
from typing import Any

import numpy as np

from benchmarks.driver import HIDDEN, benchmark, option
from benchmarks.vertical.data import a9a_parties
from sottovoce.losses import Logistic
from sottovoce.vertical import InProcessParties, Party, split_columns
from sottovoce.vertical.protocols.exact.lbfgs import ScoreProblem, lbfgs
from support.data import data_folder

COLUMNS = 200
ROUNDS = 10


def one(n_parties: int, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((n, COLUMNS), dtype=np.float32) for _ in range(n_parties)]
    scores = np.zeros(n)
    for table in tables:
        weights = rng.standard_normal(COLUMNS).astype(np.float32) / np.float32(np.sqrt(COLUMNS * n_parties))
        scores += 2.0 * (table @ weights)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-scores)), 1.0, -1.0)
    held = peak()
    tick = time.perf_counter()
    for table in tables:
        table.sum()
    out: dict[str, Any] = {"parties": n_parties, "rows": n, "reading once, s": time.perf_counter() - tick}
    parties = InProcessParties([Party(table, name=f"party{m}") for m, table in enumerate(tables)])
    ticks = [time.perf_counter()]
    history = lbfgs(
        parties, ScoreProblem(Logistic(), y), l2=1.0, intercept=True, max_iter=ROUNDS, tol=1e-14,
        after=lambda _: ticks.append(time.perf_counter()),
    )  # fmt: skip
    rounds = np.diff(ticks)
    # the first round makes the factor; it is made again now and then, which the median leaves out
    out["lbfgs"] = {
        "round, s": float(np.median(rounds[1:])), "set-up, s": float(rounds[0] - np.median(rounds[1:])),
        "all rounds, s": rounds.tolist(), "objective": history.objective[-1], "peak memory, GB": peak(),
    }  # fmt: skip
    out["tables, GB"] = sum(table.nbytes for table in tables) / 1e9
    out["peak before, GB"] = held
    return out


def rounds_of_a9a(levels: tuple[float, ...]) -> list[int]:
    """Return the rounds until the objective is so near to the best of a hundred, relatively."""
    data = a9a_parties(data_folder())
    parties = split_columns(data.X, [block.shape[1] for block in data.blocks()])
    found = lbfgs(parties, ScoreProblem(Logistic(), data.y), l2=1.0, intercept=True, max_iter=100, tol=1e-14).objective
    return [next(t for t, value in enumerate(found, start=1) if value / min(found) <= 1.0 + level) for level in levels]


def peak() -> float:
    """Return the peak memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def row(found: dict[str, Any]) -> tuple[str, ...]:
    once = found["reading once, s"]
    cells = [str(found["parties"]), f"{found['rows']:,}", f"{found['tables, GB']:.2f}", f"{once:.3f}"]
    part = found["lbfgs"]
    cells += [f"{part['set-up, s']:.2f}", f"{part['round, s']:.3f}", f"{part['round, s'] / once:.1f}"]
    return (*cells, f"{found['lbfgs']['peak memory, GB']:.2f}")


HEAD = (
    "parties", "rows", "tables, GB", "reading once, s",
    "L-BFGS: set-up, s", "round, s", "over reading", "peak memory, GB",
)  # fmt: skip


@benchmark(
    page="measured/vertical_solvers.md", rows=("10000,100000,300000,1000000", "3000,10000"), parties="2,5",
    one=option(help=HIDDEN),
)  # fmt: skip
def main(run) -> None:
    if run.one:
        print(json.dumps(one(*map(int, run.one.split(",")))))
        return
    sizes = ((n, n_parties) for n in run.rows.split(",") for n_parties in run.parties.split(","))
    found = (json.loads(run.again("--one", f"{n_parties},{n}")) for n, n_parties in sizes)
    title = f"{COLUMNS} float32 columns a party"
    run.table(title, HEAD, (row(each) for each in found), mark="scale")
    if data_folder():
        run.table("a9a: rounds of L-BFGS", ("to 1e-3", "to 1e-6"), [rounds_of_a9a((1e-3, 1e-6))])
