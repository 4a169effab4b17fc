"""Real and made-up tables whose columns are held by several parties, with each party's public facts.

Party 1 holds the labels. Attributes stay whole where they are known: a category is at one party. They are dealt in
order, where neighbours in a table mean similar things, or at random. A row bound is the root of the number of a party's
attributes, each within [-1, 1] or one-hot; where columns are counts or pixels each party scales each of its rows to
norm 1 by itself. Nothing is found in the rows.

Rules are chosen on `CHOSEN_ON` and on made-up tables; `SHOWN` is for the confirmation, which is run once.
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

__all__ = ["CHOSEN_ON", "SHOWN", "Divided", "divided", "made_alike", "made_up"]

SHOWN: Final = ("a9a", "blogfeedback", "bank", "credit", "cal_housing", "casp")
CHOSEN_ON: Final = ("phishing", "mushrooms", "w8a", "skin", "german", "mnist_4v9", "madelon", "msd_sample")

# columns of each attribute, in order
_A9A = (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41)
_BANK = (*[1] * 7, 12, 3, 4, 2, 2, 2, 3, 12, 4)
_CREDIT = (*[1] * 20, 2, 4, 3)
_MUSHROOMS = (6, 4, 10, 2, 9, 2, 2, 2, 12, 2, 4, 4, 9, 9, 1, 4, 3, 5, 9, 6, 7)
_BY_ROWS = ("phishing", "mushrooms", "w8a", "mnist_4v9", "msd_sample", "blogfeedback")


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


def divided(
    name: str, n_parties: int, seed: int, *, first: float = 0.0, at_random: bool = False, most: int | None = None
) -> Divided:
    """Return a set divided among parties; ``first`` is party 1's share of the attributes, 0 for equal numbers.

    Sets with a test part of their own ignore the seed, unless attributes are dealt ``at_random``. ``most`` is how many
    people are taken for the training, the first ones of a split.
    """
    X, y, X_test, y_test, public = _split(name, seed)
    X, y, X_test, y_test = X[:most], y[:most], X_test[:most], y_test[:most]
    if name == "blogfeedback" and not at_random and n_parties < 4:
        cuts = [0, 50, 280] if n_parties == 2 else [0, 50, 165, 280]
        return _by_rows(X, y, X_test, y_test, cuts, public)
    known = {"a9a": _A9A, "bank": _BANK, "credit": _CREDIT}
    widths = np.array(known.get(name, (1,) * X.shape[1]))
    if at_random:
        widths = np.array(_MUSHROOMS) if name == "mushrooms" else widths
        X, X_test, widths = _dealt(X, X_test, widths, seed)
    parts = np.array_split(widths, n_parties)
    if first:
        least = max(1, round(first * len(widths)))
        parts = [widths[:least], *np.array_split(widths[least:], n_parties - 1)]
    cuts = [0, *np.cumsum([part.sum() for part in parts]).tolist()]
    if name in _BY_ROWS:
        return _by_rows(X, y, X_test, y_test, cuts, public)
    norms = tuple(float(len(part)) ** 0.5 for part in parts)
    return Divided(
        _cut(X, cuts), y, _cut(X_test, cuts), y_test, norms, name == "a9a", public
    )  # fmt: skip


def _dealt(X: Any, X_test: Any, widths: NDArray[Any], seed: int) -> tuple[Any, Any, NDArray[Any]]:
    """Return whole attributes in an order drawn by the seed, with their widths."""
    order = np.random.default_rng(seed).permutation(len(widths))
    columns = np.split(np.arange(widths.sum()), np.cumsum(widths)[:-1])
    place = np.concatenate([columns[k] for k in order])
    return X[:, place], X_test[:, place], widths[order]


def made_up(n: int, d: int, n_parties: int, seed: int, *, regression: bool = False, first: float = 0.0) -> Divided:
    """Return rows of signs and numbers in [-1, 1] with unequal weights; ``first`` is party 1's share of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n + 4000, d))
    X[:, ::2] = np.sign(X[:, ::2] - rng.uniform(-0.8, 0.8, X[:, ::2].shape[1]))
    X[:, 1::3] = 0.5 * (X[:, 1::3] + X[:, : X[:, 1::3].shape[1]])
    beta = rng.normal(size=d) * np.exp(rng.normal(size=d))
    z = X @ beta - 0.5
    z *= 2.0 / z.std()
    low, high = (-6.0, 6.0) if regression else (-1.0, 1.0)
    y = (
        np.clip(z + rng.normal(size=n + 4000), low, high)
        if regression
        else np.where(rng.random(n + 4000) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    )
    if first:
        cuts = [0, max(1, round(first * d)), d]
        if n_parties == 3:
            cuts.insert(2, (cuts[1] + d) // 2)
    else:
        cuts = [0, *np.cumsum([len(part) for part in np.array_split(np.arange(d), n_parties)]).tolist()]
    public = {"label_bounds": (low, high)} if regression else {"classes": [-1.0, 1.0]}
    norms = tuple(float(b - a) ** 0.5 for a, b in itertools.pairwise(cuts))
    return Divided(_cut(X[:n], cuts), y[:n], _cut(X[n:], cuts), y[n:], norms, False, public)


def made_alike(n: int, d: int, n_parties: int, seed: int, *, correlated: bool) -> Divided:
    """Return columns in [-1, 1] of equal worth, each party's share of them dealt in order, with classes.

    ``correlated``: all columns come from the same four factors, so that parties say the same in part.
    """
    rng = np.random.default_rng(seed)
    size = (n + 4000, d)
    if correlated:
        factors = rng.normal(size=(n + 4000, 4)) @ rng.normal(size=(4, d)) / 2.0
        X = np.tanh(0.7 * (factors + rng.normal(size=size)))
    else:
        X = rng.uniform(-1.0, 1.0, size)
    z = X @ rng.normal(size=d)
    y = np.where(rng.random(n + 4000) < 1 / (1 + np.exp(-2.0 * z / z.std())), 1.0, -1.0)
    cuts = [0, *np.cumsum([len(part) for part in np.array_split(np.arange(d), n_parties)]).tolist()]
    norms = tuple(float(b - a) ** 0.5 for a, b in itertools.pairwise(cuts))
    return Divided(_cut(X[:n], cuts), y[:n], _cut(X[n:], cuts), y[n:], norms, False, {"classes": [-1.0, 1.0]})


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
