"""``sottovoce compile``: the machine code of the kernels, made when a machine or an image is set up."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from sottovoce._compiling import FOLDER, plain_times
from sottovoce.cli._echo import echo
from sottovoce.estimators.l1_ball import DPLasso, DPSparseLogisticRegression
from sottovoce.estimators.penalised_models import DPLinearSVC, DPLogisticRegression, DPRidge
from sottovoce.exceptions import PrivacyWarning, StorageError
from sottovoce.randomness import uncounted_fits

_ROWS: Final = {"few": 100, "many": 20_000}  # at which `solver="auto"` takes one solver or another
_FORMS: Final[dict[str, Callable[[Any], Any]]] = {
    "float64": np.ascontiguousarray,
    "float32": lambda X: X.astype(np.float32),
    "sparse": sp.csr_array,
}


def compile() -> None:  # noqa: A001
    """Compile the kernels of all estimators now, so that no first fit waits for it. Uses random numbers, reads no data.

    For container images and for machines that are set up by one user for others: whoever cannot write where the package
    is installed gets a copy. Another version of sottovoce or numba, or another kind of processor, compiles anew.
    """
    if FOLDER is None:
        raise StorageError(
            "there is no place for machine code: neither the folder of the package nor the user's cache nor temporary "
            "files can be written. Set NUMBA_CACHE_DIR to a folder that can."
        )
    plain_times()
    begun = time.perf_counter()
    with warnings.catch_warnings(), uncounted_fits():
        warnings.simplefilter("ignore", PrivacyWarning)
        for fit, X, y in _trainings():
            fit(X, y)
    size = sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file())
    echo(f"Compiled in {time.perf_counter() - begun:.0f} s: {size / 1e6:.1f} MB in {FOLDER}")


def _trainings() -> Iterator[tuple[Any, Any, Any]]:
    """Yield what `fit` is called on: every estimator on every form of rows, with as many as bring another solver."""
    chance = np.random.default_rng(0)
    budget: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
    ball: dict[str, Any] = {"data_bound": 0.5, "radius": 1.0, "n_steps": 3}
    for n in _ROWS.values():
        raw = chance.uniform(-0.5, 0.5, (n, 4))
        halves, thirds = (raw[:, 0] > 0).astype(int), np.digitize(raw[:, 1], (-0.2, 0.2))
        for form in _FORMS.values():
            X = form(raw)
            two = DPLogisticRegression(**budget, data_norm=1.0, classes=[0, 1])
            models = [
                (two, halves),
                (DPLogisticRegression(**budget, data_norm=1.0, classes=[0, 1, 2]), thirds),
                (DPLinearSVC(**budget, data_norm=1.0, classes=[0, 1]), halves),
                (DPRidge(**budget, data_norm=1.0, label_bounds=(-0.5, 0.5)), raw[:, 2]),
                (DPLasso(**budget, **ball, label_bounds=(-0.5, 0.5)), raw[:, 2]),
                (DPSparseLogisticRegression(**budget, **ball, classes=[0, 1]), halves),
            ]
            for model, y in models:
                yield model.fit, X, y
                yield lambda X, y, model=model: model.predict(X), X, y
