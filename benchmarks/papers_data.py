"""The papers' data sets that do not lie beside the others: read where a user has put their files, in the usual forms.

YearPredictionMSD (463,715 + 51,630 x 90): the text of the UCI repository, plain, as .bz2, .gz or inside a .zip, or the
two files of the LIBSVM page. GISETTE (6,000 + 1,000 x 5,000): the two scaled files of the LIBSVM page, or the four of
the UCI repository. They are looked for in the folder that SOTTOVOCE_DATA names. Without them scripts take a stand-in,
and say so.
"""

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

__all__ = ["YEARS_TRAINING", "Parts", "gisette", "has_year_prediction", "msd_made_up", "year_prediction"]

YEARS_TRAINING = 463_715  # the first rows of YearPredictionMSD are for training, by its documentation
_YEARS_TEST = 51_630
_ENDINGS = ("", ".bz2", ".gz", ".xz")


class Parts(NamedTuple):
    """Features and labels of a training and a test part, dense."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]


def year_prediction(folder: Path, training: int = YEARS_TRAINING) -> Parts | None:
    """Return YearPredictionMSD as it is (90 columns, label: a year); None where ``folder`` has no file of it.

    Parameters
    ----------
    folder : Path
    training : int
        How many of the first rows of the single file of the UCI repository are for training.
    """
    path = _years_file(folder)
    if path is None:
        return _libsvm(folder, "YearPredictionMSD", 90)
    if path.suffix != ".zip":
        return _years(pd.read_csv(path, header=None), training)
    with zipfile.ZipFile(path) as archive:
        inside = next(entry for entry in archive.namelist() if entry.lower().endswith((".txt", ".csv")))
        with archive.open(inside) as file:
            return _years(pd.read_csv(file, header=None), training)


def gisette(folder: Path) -> Parts | None:
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
            return Parts(X / 499.5 - 1.0, np.sign(y.ravel()), X_test / 499.5 - 1.0, np.sign(y_test.ravel()))
    return None


def msd_made_up(sample: Path, rows: int = YEARS_TRAINING, test: int = _YEARS_TEST, seed: int = 0) -> Parts:
    """Return a made-up table with the size of YearPredictionMSD and the shape of a small sample of it.

    A row is a row of the sample plus .3 / sqrt(2) times the difference of two others, label and features alike: a
    smoothed bootstrap. It has the scales and correlations of the sample. It is not YearPredictionMSD.
    """
    table = pd.read_csv(sample, header=None).to_numpy(np.float32)
    rng = np.random.default_rng(seed)
    parts: list[NDArray[Any]] = []
    for size in (rows, test):
        made = table[rng.integers(len(table), size=size)]
        for sign in (0.3, -0.3):
            made += np.float32(sign * 0.5**0.5) * table[rng.integers(len(table), size=size)]
        parts += [made[:, 1:], made[:, 0]]
    return Parts(*parts)


def has_year_prediction(folder: Path) -> bool:
    """Tell whether a folder has YearPredictionMSD, without reading it."""
    return _years_file(folder) is not None or all(_found(folder, f"YearPredictionMSD{part}") for part in ("", ".t"))


def _years_file(folder: Path) -> Path | None:
    """Return the single file of the UCI repository."""
    plain = (_found(folder, name) for name in ("YearPredictionMSD.txt", "YearPredictionMSD.csv"))
    packed = (folder / name for name in ("YearPredictionMSD.txt.zip", "YearPredictionMSD.zip", "yearpredictionmsd.zip"))
    return next((path for path in (*plain, *packed) if path is not None and path.is_file()), None)


def _years(table: pd.DataFrame, training: int) -> Parts:
    values = table.to_numpy(np.float64)
    if values.shape[1] != 91 or len(values) <= training:
        raise ValueError(
            f"the file of YearPredictionMSD must have 91 columns and more than {training} rows; got "
            f"{values.shape[1]} columns and {len(values)} rows. Is the download complete?"
        )
    return Parts(values[:training, 1:], values[:training, 0], values[training:, 1:], values[training:, 0])


def _libsvm(folder: Path, name: str, n_features: int) -> Parts | None:
    """Return the training and the test file of the LIBSVM page."""
    paths = [_found(folder, name), _found(folder, f"{name}.t")]
    if not all(paths):
        return None
    read: list[Any] = []
    for path in paths:
        X, y = load_svmlight_file(str(path), n_features=n_features)
        read += [X.toarray(), y]
    return Parts(*read)


def _found(folder: Path, name: str) -> Path | None:
    """Return a file, compressed or not."""
    return next((folder / f"{name}{ending}" for ending in _ENDINGS if (folder / f"{name}{ending}").is_file()), None)
