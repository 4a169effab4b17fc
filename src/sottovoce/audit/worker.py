"""Fit an estimator many times on two neighbouring tables and keep what it releases: run by an interpreter of its own.

The estimator under audit may live in an environment with other versions of everything, or without sottovoce. So this
file imports numpy and the standard library alone, and may be run as a script:

    python worker.py < JOB.json

The job names the class (``package.module.Class``), its parameters, both tables, the number of runs and the first seed.
The outputs, of shape (2, runs, n_outputs), are a line of their own of what is printed.
"""

import importlib
import json
import sys
import warnings
from typing import Any

import numpy as np


def load_class(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    if not module:
        raise ValueError("the estimator must be named as package.module.Class; got " + repr(name))
    return getattr(importlib.import_module(module), attribute)


def released_numbers(model: Any) -> Any:
    """Return coefficients and intercepts of a fitted linear model as one vector."""
    parts = [np.ravel(np.asarray(model.coef_, dtype=np.float64))]
    if getattr(model, "intercept_", None) is not None:
        parts.append(np.ravel(np.asarray(model.intercept_, dtype=np.float64)))
    return np.concatenate(parts)


def seed_of(seed: int, place: int) -> int:
    """Return the seed of one of several parts in a run: their noise must not be the same."""
    return seed if place == 0 else int(np.random.SeedSequence([seed, place]).generate_state(1)[0])


def fit_many(make: Any, tables: Any, runs: int, first_seed: int, release: Any = released_numbers) -> Any:
    """Return what ``runs`` fits on each of two tables release, of shape (2, runs, n_outputs).

    A ``random_state`` that is not None, of the estimator or of one within it, would make every run the same: it becomes
    a new number in each run. None is left alone: the estimator then draws its noise as its users' runs do.
    """
    outputs = []
    with warnings.catch_warnings(action="ignore"):  # also of fits of the same table: that is what an audit does
        for world, (X, y) in enumerate(tables):
            for run in range(runs):
                model = make()
                found = model.get_params()
                seeded = [n for n in found if n.split("__")[-1] == "random_state" and found[n] is not None]
                seed = first_seed + 2 * run + world
                if seeded:
                    model.set_params(**{name: seed_of(seed, k) for k, name in enumerate(sorted(seeded, key=len))})
                outputs.append(release(model.fit(X, y)))
    sizes = {len(output) for output in outputs}
    if len(sizes) != 1:
        raise ValueError("the runs released vectors of different lengths: " + repr(sorted(sizes)))
    return np.array(outputs, dtype=np.float64).reshape(2, runs, sizes.pop())


def main() -> None:
    job = json.load(sys.stdin)
    kind = load_class(job["estimator"])
    tables = [(np.array(X, dtype=np.float64), np.array(y)) for X, y in job["tables"]]
    outputs = fit_many(lambda: kind(**job["parameters"]), tables, job["runs"], job["first"])
    print("\n" + json.dumps(outputs.tolist()))


if __name__ == "__main__":
    main()
