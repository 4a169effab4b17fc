"""A thousand deaths: workers are killed at random moments, and every fit gives the same model.

    python -m benchmarks.cluster.kills [--kills 1000] [--docs] [--quick]

Partitions are held by processes of this machine, without an engine in between; what numbers, repeats and rebuilds is
the code that runs on Dask. In each call a worker may be killed (SIGKILL) at a random moment, hang and answer late
(SIGSTOP, then SIGCONT), or lose its answer on the way; operations are delivered twice, and once more after the next
one.

Beside each pass every partition counts the passes that moved its rows, and adds that count up over its rows: a row
that was left out or counted twice in any sum of any pass would show, and the model would be another one.
"""

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import sottovoce as sv
from benchmarks.driver import benchmark
from sottovoce.central.data.operation import Columns, Effect, Holder, Operation, RowSum
from sottovoce.central.data.part import Part
from sottovoce.exceptions import PrivacyWarning
from support.killed_workers import Faults, KilledPool, Rates
from support.pooled_table import PooledTable

N_ROWS, N_FEATURES = 3_000, 12
PASSES = 40
ENDS = (400, 800, 1300, 1900, 2400)
WORKERS = 3
RATES = Rates(killed=0.08, deaf=0.02, hung=0.03, twice=0.1, late=0.1)
HEAD = ("fits|,", "operations|,", "workers killed|,", "hung|,", "answers lost|,",
        "delivered twice or late|,", "double counts|,", "models")  # fmt: skip
HOW = ("killed", "hung", "deaf")


def table(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return made-up rows, and classes: three where the model is of three."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, N_FEATURES)).astype(np.float32)
    score = X @ rng.standard_normal(N_FEATURES) + rng.standard_normal(N_ROWS)
    return X, np.digitize(score, (0.0, 3.0) if seed % 4 == 1 else (0.0,)).astype(np.float64)


@dataclass(frozen=True)
class CountPasses(RowSum):
    """One more pass over each row, and the sum of these counts."""

    effect = Effect.LASTING  # it goes on from one model to the next
    writes: ClassVar[tuple[str, ...]] = ("passes",)

    def on(self, part: Part) -> Any:
        """Begin with none, and count."""
        if "passes" not in part.memory:
            part.memory.new("passes")
        return super().on(part)

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (2,)

    def add(self, rows: Any, views: Sequence[Any], lo: int, hi: int, total: Any) -> None:
        views[0][lo:hi] += 1.0
        total += np.array([hi - lo, views[0][lo:hi].sum()], np.int64)


class Counted(Holder):
    """A holder beside whose passes passes are counted.

    Attributes
    ----------
    double : int
        Passes in which a row was left out, or counted more than once.
    """

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self.n_samples, self.n_features, self.dtype = holder.n_samples, holder.n_features, holder.dtype
        self.n_passes = self.double = self.n_asked = 0

    @property
    def constant(self) -> float:  # type: ignore[override]
        return self.holder.constant

    def ask(self, operation: Operation[Any]) -> Any:
        self.n_asked += 1
        return self.holder.ask(operation)

    def release(self, operation: Operation[Any], *given: Any, **options: Any) -> Any:
        """Release, and count the pass."""
        self.n_asked += 1
        values = self.holder.release(operation, *given, **options)
        if operation.effect is Effect.STEP:
            self.n_passes += 1
            expected = np.array([self.n_samples, self.n_samples * self.n_passes])
            self.double += not np.array_equal(self.holder.ask(CountPasses()), expected)
        return values


def model_of(table: Any, y: Any, seed: int) -> str:
    """Return the digest of a model: logistic in many passes or in Newton steps, of three classes, ridge, by turns."""
    given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 4.0, "random_state": seed}
    few = {"solver": "scd", "solver_options": {"n_passes": PASSES}}
    model = (
        lambda: sv.DPLogisticRegression(classes=[0.0, 1.0], **few, **given),
        lambda: sv.DPLogisticRegression(classes=[0.0, 1.0, 2.0], **few, **given),
        lambda: sv.DPRidge(label_bounds=(0.0, 2.0), **given),
        lambda: sv.DPLogisticRegression(classes=[0.0, 1.0], solver="newton", **given),
    )[seed % 4]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # the same made-up table again and again
        model.fit(table, y)
    return hashlib.sha256(np.r_[np.ravel(model.coef_), np.ravel(model.intercept_)].tobytes()).hexdigest()[:16]


def in_one_process(seed: int) -> str:
    """Return the digest of the model that an array in this process gives."""
    return model_of(*table(seed), seed)


def on_workers(seed: int, faults: Faults) -> tuple[str, Counted]:
    """Train on workers that meet faults."""
    pool, counted = KilledPool(WORKERS, faults), list[Counted]()

    def seen(holder: Holder) -> Holder:
        counted.append(Counted(holder))
        return counted[0]

    try:
        return model_of(PooledTable(pool, *table(seed), ENDS, seen), None, seed), counted[0]
    finally:
        pool.close()


def until_killed(n_kills: int, rates: Rates = RATES, told: Callable[[str], None] = print) -> dict[str, Any]:
    """Fit again and again, until so many processes were killed."""
    total, models, asked, double = Counter[str](), list[bool](), 0, 0
    truth = [in_one_process(seed) for seed in range(4)]  # kernels are compiled before the first fork
    while total["killed"] < n_kills:
        seed = len(models)
        faults = Faults(rates, 1000 * seed)
        model, counted = on_workers(seed, faults)
        asked, double = asked + counted.n_asked, double + counted.double
        models.append(model == (truth[seed] if seed < len(truth) else in_one_process(seed)))
        total += faults.counts
        told(f"fit {seed}: {dict(total)}, double counts {double}, model {'same' if models[-1] else 'ANOTHER'}")
    return {"fits": len(models), "same": sum(models), "operations": asked, "double counts": double, **total}


@benchmark(page="privacy/cluster.md", kills=(1000, 30))
def main(run) -> None:
    found = until_killed(run.kills)
    row = (
        found["fits"], found["operations"], *(found.get(how, 0) for how in HOW),
        found.get("twice", 0) + found.get("late", 0), found["double counts"],
        f"{found['same']} of {found['fits']} the same",
    )  # fmt: skip
    run.table("processes killed at random moments", HEAD, [row], mark="" if run.quick else "kills")
