"""Where the runs of an audited estimator happen: in this process, or in an interpreter of another environment."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.audit import worker
from sottovoce.audit.pairs import Pair
from sottovoce.exceptions import AuditError
from sottovoce.randomness import uncounted_fits

Array = NDArray[np.float64]
Release = Callable[[Any], Array]
Runs = Callable[[Pair, int, int], Array]  # number of runs, first seed: what they release, of shape (2, runs, outputs)

_LAST_LINES: Final = 12


def own_runs(make: Callable[[], Any], release: Release | None = None) -> Runs:
    """Run in this process.

    ``make``: returns a fresh, unfitted estimator.
    ``release``: from a fitted estimator to a vector of all that it releases. Default: coefficients and intercepts.
    """

    def run(pair: Pair, n_runs: int, first_seed: int) -> Array:
        try:
            with uncounted_fits():
                told = worker.released_numbers if release is None else release
                outputs: Array = worker.fit_many(make, _tables(pair), n_runs, first_seed, told)
        except Exception as error:
            raise AuditError(
                f"the estimator under audit failed on the pair {pair.name!r}: {type(error).__name__}: {error}"
            ) from error
        return outputs

    return run


@dataclass(frozen=True)
class ForeignRuns:
    """Runs in an interpreter of another environment, which needs numpy and the estimator's package, nothing of ours."""

    estimator: str  # as ``package.module.Class``
    parameters: Mapping[str, Any]  # of its constructor; plain data
    python: str
    n_jobs: int  # processes at the same time

    def __call__(self, pair: Pair, n_runs: int, first_seed: int) -> Array:
        shares = [len(part) for part in np.array_split(np.arange(n_runs), min(self.n_jobs, n_runs))]
        starts = [first_seed + 2 * sum(shares[:place]) for place in range(len(shares))]
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(shares)) as pool:
            paths = [Path(folder) / str(place) for place in range(len(shares))]
            parts = list(pool.map(lambda job: self._one(pair, *job), zip(shares, starts, paths, strict=True)))
        return np.concatenate(parts, axis=1)

    def _one(self, pair: Pair, n_runs: int, first_seed: int, folder: Path) -> Array:
        folder.mkdir()
        (X0, y0), (X1, y1) = _tables(pair)
        np.savez(folder / "tables.npz", X0=X0, y0=y0, X1=X1, y1=y1)
        job = {
            "estimator": self.estimator,
            "parameters": dict(self.parameters),
            "tables": str(folder / "tables.npz"),
            "runs": n_runs,
            "first_seed": first_seed,
            "outputs": str(folder / "outputs.npy"),
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        command = [self.python, str(Path(worker.__file__)), str(folder / "job.json")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise AuditError(f"cannot start the interpreter {self.python!r}: {error.strerror}.") from None
        if done.returncode != 0:
            last = "\n".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
            raise AuditError(f"{self.estimator} failed under {self.python} on the pair {pair.name!r}:\n{last}")
        outputs: Array = np.load(folder / "outputs.npy", allow_pickle=False)
        return outputs


def _tables(pair: Pair) -> list[tuple[Array, NDArray[Any]]]:
    return [(pair.X, pair.y), (pair.X_neighbour, pair.y_neighbour)]
