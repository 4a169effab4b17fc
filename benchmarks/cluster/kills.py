"""A thousand deaths: workers and drivers are killed at random moments, and every fit gives the same model.

    python -m benchmarks.cluster.kills [--kills 1000] [--docs] [--quick]

Partitions are held by processes of this machine, without an engine in between; what numbers, repeats and rebuilds is
the code that runs on Dask. In each call a worker may be killed (SIGKILL) at a random moment, hang and answer late
(SIGSTOP, then SIGCONT), or lose its answer on the way; operations are delivered twice, and once more after the next
one. The driver is killed as well, at a random moment, and started again with the same log until the fit has ended.

Beside each pass every partition counts the passes that moved its rows, and adds that count up over its rows: a row
that was left out or counted twice in any sum of any pass would show, and the model would be another one.
"""

import hashlib
import json
import os
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import sottovoce as sv
from benchmarks.driver import benchmark
from sottovoce.central.data.holder import Holder
from sottovoce.central.data.operation import Columns, Effect, Operation, RowSum
from sottovoce.central.data.part import Part
from sottovoce.cluster.log import Log, open_log
from sottovoce.exceptions import PrivacyWarning
from support.killed_workers import Faults, KilledPool, Rates
from support.pooled_table import PooledTable

N_ROWS, N_FEATURES = 3_000, 12
PASSES = 40
ENDS = (400, 800, 1300, 1900, 2400)
WORKERS = 3
RATES = Rates(killed=0.08, deaf=0.02, hung=0.03, twice=0.1, late=0.1)
DRIVER_LIVES = 2.0  # seconds, on average, where drivers are killed
HEAD = ("fits|,", "operations|,", "workers killed|,", "drivers killed|,", "hung|,", "answers lost|,",
        "delivered twice or late|,", "double counts|,", "models")  # fmt: skip
HOW = ("killed", "driver killed", "hung", "deaf")


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

    def __init__(self, holder: Holder, log: Log) -> None:
        self.holder, self.log = holder, log
        self.n_samples, self.n_features, self.dtype = holder.n_samples, holder.n_features, holder.dtype
        self.n_passes = self.double = self.n_asked = 0

    @property
    def constant(self) -> float:  # type: ignore[override]
        return self.holder.constant

    def ask(self, operation: Operation[Any]) -> Any:
        self.n_asked += 1
        return self.holder.ask(operation)

    def release(self, operation: Operation[Any], *given: Any, **options: Any) -> Any:
        """Release, and count the pass; one that is in the log asks no row, and there is nothing to count."""
        before = self._n_kept
        self.n_asked += 1
        values = self.holder.release(operation, *given, **options)
        if operation.effect is Effect.STEP and (before is None or before < self._n_kept):
            self.n_passes += 1
            expected = np.array([self.n_samples, self.n_samples * self.n_passes])
            self.double += not np.array_equal(self.holder.ask(CountPasses()), expected)
        return values

    @property
    def _n_kept(self) -> Any:
        return self.log.n_kept if isinstance(self.log, Log) else None


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


def on_workers(seed: int, faults: Faults, log: Path | None = None) -> tuple[str, Counted]:
    """Train on workers that meet faults."""
    pool, counted = KilledPool(WORKERS, faults), list[Counted]()

    def seen(holder: Holder) -> Holder:
        counted.append(Counted(holder, kept))
        return counted[0]

    kept = open_log(log)
    try:
        return model_of(PooledTable(pool, *table(seed), ENDS, kept, seen), None, seed), counted[0]
    finally:
        pool.close()
        if kept is not None:
            kept.close()


def with_drivers(seed: int, rates: Rates, folder: Path, tally: Path, rng: np.random.Generator) -> dict[str, Any]:
    """Train, and kill drivers at random moments until one has ended; return what that one says."""
    told = folder / "told.json"
    for life in range(1000):
        driver = os.fork()
        if driver == 0:
            try:
                digest, counted = on_workers(seed, Faults(rates, 1000 * seed + life, tally), folder / "log")
                said = {"model": digest, "asked": counted.n_asked, "double": counted.double}
                told.with_suffix(".new").write_text(json.dumps(said))
                told.with_suffix(".new").replace(told)
            finally:
                os._exit(0)
        until = time.monotonic() + rng.exponential(DRIVER_LIVES * (1.0 + 0.2 * life))
        while os.waitpid(driver, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                with tally.open("a") as file:
                    file.write("driver killed\n")
                os.kill(driver, signal.SIGKILL)
                os.waitpid(driver, 0)
                break
            time.sleep(0.01)
        if told.exists():
            said = json.loads(told.read_text())
            assert isinstance(said, dict)
            return said
    raise RuntimeError("no driver has lived long enough")


def until_killed(n_kills: int, rates: Rates = RATES, told: Callable[[str], None] = print) -> dict[str, Any]:
    """Fit again and again, every other time with drivers that are killed, until so many processes were killed."""
    rng, total, models = np.random.default_rng(7), Counter[str](), list[bool]()
    asked = double = 0
    for seed in range(4):
        in_one_process(seed)  # kernels are compiled before the first fork
    with tempfile.TemporaryDirectory() as folder:
        tally = Path(folder, "faults.txt")
        while total["killed"] + total["driver killed"] < n_kills:
            seed = len(models)
            if seed % 2:
                own = Path(folder, f"fit-{seed}")
                own.mkdir()
                said = with_drivers(seed, rates, own, tally, rng)
            else:
                digest, counted = on_workers(seed, Faults(rates, 1000 * seed, tally))
                said = {"model": digest, "asked": counted.n_asked, "double": counted.double}
            asked, double = asked + said["asked"], double + said["double"]
            models.append(said["model"] == in_one_process(seed))
            total = Counter(tally.read_text().splitlines())
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
