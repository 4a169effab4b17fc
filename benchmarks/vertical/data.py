"""Tables whose columns are held by several parties: LIBSVM a9a, and a wide set made from digits."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file


class Tables(NamedTuple):
    """Features and labels of a training and a test part, dense."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]


class Parties(NamedTuple):
    """Dense features and labels -1, 1 of both parts; party m holds the columns cuts[m]:cuts[m + 1]."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.float64]
    cuts: tuple[int, ...]

    def blocks(self) -> list[NDArray[np.float64]]:
        """Return the training columns of each party."""
        return [self.X[:, low:high] for low, high in zip(self.cuts, self.cuts[1:], strict=False)]


def a9a_parties(folder: Path) -> Parties:
    """Return a9a (32,561 x 123, binary, rows as they are) with 66 columns at party 1 and 57 at party 2, as Hu et al."""
    return Parties(*_read(folder, "a9a", 123), *_read(folder, "a9a.t", 123), (0, 66, 123))


def wide_set(folder: Path, seed: int = 0) -> Parties:
    """Return 6,000 and 1,000 rows with 5,000 columns in [-1, 1]: 2,000 at party 1, 2,000 at party 2, 1,000 at party 3.

    GISETTE itself where the folder has its files, which is said. Else its recipe on MNIST digits 4 and 9: 300 pixels,
    2,200 products of two pixels, and as many probes, which are these columns with their rows permuted. Not the GISETTE
    file.
    """
    if (true := gisette(folder)) is not None:
        print("wide set: GISETTE itself")
        return Parties(*true, (0, 2000, 4000, 5000))
    rng = np.random.default_rng(seed)
    X, y = _read(folder, "mnist_4v9", 784)
    X_test, y_test = _read(folder, "mnist_4v9.t", 784)

    def balanced(labels: Any, size: int) -> Any:
        return np.concatenate([rng.choice(np.flatnonzero(labels == sign), size, replace=False) for sign in (1.0, -1.0)])

    train = balanced(y, 3000)
    rng.shuffle(train)
    test = balanced(y_test, 500)
    digits = np.vstack([X[train], X_test[test]]) / 255.0
    middle = np.arange(784).reshape(28, 28)[3:24, 4:24].ravel()
    pixels = rng.choice(middle, 300, replace=False)
    first, second = rng.choice(middle, (2, 2200))
    table = np.empty((7000, 5000))
    table[:, :300] = digits[:, pixels]
    table[:, 300:2500] = digits[:, first] * digits[:, second]
    for column in range(2500):
        table[:, 2500 + column] = table[rng.permutation(7000), column]
    table = np.take(table, rng.permutation(5000), axis=1)
    low, high = table[:6000].min(axis=0), table[:6000].max(axis=0)
    table = np.where(high > low, 2 * (table - low) / np.where(high > low, high - low, 1) - 1, 0.0).clip(-1, 1)
    return Parties(table[:6000], y[train], table[6000:], y_test[test], (0, 2000, 4000, 5000))


def gisette(folder: Path) -> Tables | None:
    """Return GISETTE, columns within [-1, 1], labels -1 and 1; None where ``folder`` has no files of it.

    The four files of the UCI repository hold whole numbers from 0 to 999, which are moved to [-1, 1]; its validation
    part (1,000 rows) is the test part, as on the LIBSVM page.
    """
    if (scaled := _libsvm(folder, "gisette_scale", 5000)) is not None:
        return scaled
    for home in (folder, folder / "gisette", folder / "GISETTE"):
        paths = [_found(home, f"gisette_{part}.{kind}") for part in ("train", "valid") for kind in ("data", "labels")]
        if all(paths):
            tables = [np.asarray(pd.read_csv(path, header=None, sep=r"\s+"), np.float64) for path in paths]
            X, y, X_test, y_test = tables
            return Tables(X / 499.5 - 1.0, np.sign(y.ravel()), X_test / 499.5 - 1.0, np.sign(y_test.ravel()))
    return None


def _libsvm(folder: Path, name: str, n_features: int) -> Tables | None:
    """Return the training and the test file of the LIBSVM page."""
    paths = [_found(folder, name), _found(folder, f"{name}.t")]
    if not all(paths):
        return None
    read: list[Any] = []
    for path in paths:
        X, y = load_svmlight_file(str(path), n_features=n_features)
        read += [X.toarray(), y]
    return Tables(*read)


def _found(folder: Path, name: str) -> Path | None:
    """Return a file, compressed or not."""
    return next(
        (folder / f"{name}{ending}" for ending in ("", ".bz2", ".gz", ".xz") if (folder / f"{name}{ending}").is_file()),
        None,
    )


def _read(folder: Path, name: str, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    X, y = load_svmlight_file(str(Path(folder) / f"{name}.bz2"), n_features=d)
    return X.toarray(), np.where(y > 0, 1.0, -1.0)
