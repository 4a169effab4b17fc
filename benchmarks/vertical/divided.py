"""Real tables whose columns are held by several parties, with each party's public facts.

Party 1 holds the labels. Attributes stay whole where they are known: a category is at one party. They are dealt in
order, where neighbours in a table mean similar things. A row bound is the root of the number of a party's
attributes, each within [-1, 1] or one-hot; where columns are counts or pixels each party scales each of its rows to
norm 1 by itself. Nothing is found in the rows.
"""

import itertools
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from benchmarks.common import blogfeedback, data_folder
from benchmarks.sets import is_regression, whole

SHOWN: Final = ("a9a", "blogfeedback", "bank", "credit", "cal_housing", "casp")

# columns of each attribute, in order
_A9A = (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41)
_BANK = (*[1] * 7, 12, 3, 4, 2, 2, 2, 3, 12, 4)
_CREDIT = (*[1] * 20, 2, 4, 3)


class Divided(NamedTuple):
    """Tables of the parties, training and test part, and their public facts."""

    blocks: tuple[NDArray[np.float64], ...]
    y: NDArray[Any]
    blocks_test: tuple[NDArray[np.float64], ...]
    y_test: NDArray[Any]
    data_norm: tuple[float, ...]
    nonnegative: bool
    public: dict[str, Any]  # classes, or label_bounds

    @property
    def sizes(self) -> tuple[int, ...]:
        """Columns of each party."""
        return tuple(block.shape[1] for block in self.blocks)

    @property
    def is_regression(self) -> bool:
        return "label_bounds" in self.public

    @property
    def facts(self) -> dict[str, dict[str, Any]]:
        """What `split_columns` takes, by party."""
        names = [f"party{k + 1}" for k in range(len(self.blocks))]
        return {
            "data_norm": dict(zip(names, self.data_norm, strict=True)),
            "nonnegative": dict.fromkeys(names, self.nonnegative),
        }


def divided(name: str, n_parties: int, seed: int) -> Divided:
    """Return a set divided among two or three parties; sets with a test part of their own ignore the seed."""
    X, y, X_test, y_test, public = _split(name, seed)
    if name == "blogfeedback":
        cuts = [0, 50, 280] if n_parties == 2 else [0, 50, 165, 280]
        return _by_rows(X, y, X_test, y_test, cuts, public)
    known = {"a9a": _A9A, "bank": _BANK, "credit": _CREDIT}
    parts = np.array_split(np.array(known.get(name, (1,) * X.shape[1])), n_parties)
    cuts = [0, *np.cumsum([part.sum() for part in parts]).tolist()]
    norms = tuple(float(len(part)) ** 0.5 for part in parts)
    return Divided(_cut(X, cuts), y, _cut(X_test, cuts), y_test, norms, name == "a9a", public)


def _by_rows(X: Any, y: Any, X_test: Any, y_test: Any, cuts: list[int], public: dict[str, Any]) -> Divided:
    """Let each party scale its rows to norm 1 by itself."""
    blocks, blocks_test = (tuple(normalize(block) for block in _cut(table, cuts)) for table in (X, X_test))
    positive = all(float(block.min()) >= 0.0 for block in (X, X_test))  # known of counts and pixels
    return Divided(blocks, y, blocks_test, y_test, (1.0,) * len(blocks), positive, public)


def _cut(X: NDArray[np.float64], cuts: list[int]) -> tuple[NDArray[np.float64], ...]:
    return tuple(np.ascontiguousarray(X[:, low:high]) for low, high in itertools.pairwise(cuts))


def _split(name: str, seed: int) -> tuple[Any, ...]:
    if name == "blogfeedback":
        X, y, X_test, y_test, public = _blogfeedback()
        return X, y, X_test, y_test, {"label_bounds": public["label_bounds"]}
    if name == "a9a":
        return _a9a()
    X, y, public = whole(name)
    X = X if isinstance(X, np.ndarray) else X.toarray()
    strata = None if is_regression(name) else y
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=strata)
    public = {key: value for key, value in public.items() if key != "data_norm"}
    return X, y, X_test, y_test, public


@cache
def _blogfeedback() -> tuple[Any, ...]:
    return blogfeedback(0, scale_columns=True)


@cache
def _a9a() -> tuple[Any, ...]:
    parts: list[Any] = []
    for file in ("a9a", "a9a.t"):
        X, y = load_svmlight_file(str(data_folder() / f"{file}.bz2"), n_features=sum(_A9A))
        parts += [X.toarray(), y]
    return (*parts, {"classes": [-1.0, 1.0]})
