"""Where the runs of an audited estimator happen: in this process, or in an interpreter of another environment."""

import json
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import whole_number
from sottovoce.audit import worker
from sottovoce.audit.pairs import Pair
from sottovoce.exceptions import AuditError
from sottovoce.randomness import uncounted_fits

Array = NDArray[np.float64]
Release = Callable[[Any], Array]

_LAST_LINES: Final = 12


class Runs(ABC):
    """Fits an estimator again and again on two tables."""

    @abstractmethod
    def run(self, pair: Pair, n_runs: int, first_seed: int) -> Array:
        """Return what was released, of shape (2, n_runs, n_outputs)."""


class OwnRuns(Runs):
    """Runs in this process.

    ``make``: returns a fresh, unfitted estimator.
    ``release``: from a fitted estimator to a vector of all that it releases. Default: coefficients and intercepts.
    """

    def __init__(self, make: Callable[[], Any], release: Release | None = None) -> None:
        self.make = make
        self.release = worker.released_numbers if release is None else release

    def run(self, pair: Pair, n_runs: int, first_seed: int) -> Array:
        try:
            with uncounted_fits():
                outputs: Array = worker.fit_many(self.make, _tables(pair), n_runs, first_seed, self.release)
        except Exception as error:
            raise AuditError(
                f"the estimator under audit failed on the pair {pair.name!r}: {type(error).__name__}: {error}"
            ) from error
        return outputs


class ForeignRuns(Runs):
    """Runs in an interpreter of another environment, which needs numpy and the estimator's package, nothing of ours.

    ``estimator``: as ``package.module.Class``.
    ``parameters``: of its constructor; plain data.
    ``python``: the interpreter.
    ``n_jobs``: processes at the same time.
    """

    def __init__(
        self,
        estimator: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        python: str | Path = sys.executable,
        n_jobs: int = 1,
    ) -> None:
        self.estimator = estimator
        self.parameters = dict(parameters or {})
        self.python = str(python)
        self.n_jobs = whole_number("n_jobs", n_jobs, at_least=1)

    def run(self, pair: Pair, n_runs: int, first_seed: int) -> Array:
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
            "parameters": self.parameters,
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
