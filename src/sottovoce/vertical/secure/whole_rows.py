"""What joint training computes on: rows of all parties as whole numbers, none longer than 2^14 with its constant.

A party's part of a row is shortened to the party's public bound and multiplied by the party's weight; the squares of
all weights add up to 1. So no joint row is longer than 1, the constant of the intercept beside it is .3, both are
divided by the length of the two together, multiplied by 2^14, and cut toward zero, which can only shorten them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sottovoce._numerics import PIECE, ROUNDING_SLACK, Vector
from sottovoce.central.data.part import RowUnit
from sottovoce.privacy.mechanisms.discrete_gaussian import SharedGaussian
from sottovoce.privacy.mechanisms.exact_coins import whole_gaussian
from sottovoce.vertical.columns import bounded_pieces
from sottovoce.vertical.engines.engine import Whole
from sottovoce.vertical.engines.programs import Mask
from sottovoce.vertical.secure.agreed_plan import Opening

if TYPE_CHECKING:
    from sottovoce.vertical.secure.joint_plan import JointPlan


ROW: Final = 2**14  # length of the longest row, in whole numbers
SQUARE: Final = ROW**2
CONSTANT: Final = 0.3  # value of the intercept's column, in units of a row


def row_weights(widths: Sequence[int]) -> tuple[float, ...]:
    """Return the weight of each party's part of a row, from the number of its columns; the squares add up to 1.

    A square follows the root of that number: more columns have more to say, though not each as much. Nothing else is
    looked at, as the unit of a party's table is its own affair. See docs/decisions/0019.
    """
    roots = [math.sqrt(width) for width in widths]
    return tuple(math.sqrt(root / math.fsum(roots)) for root in roots)


def longest(beside: float = 0.0) -> int:
    """Return the largest square of the length of a whole row, ``beside`` units of `SQUARE` added; rounded up."""
    return math.ceil(SQUARE * (1.0 + beside) * ROUNDING_SLACK**2) + 1


@dataclass(frozen=True)
class RowPart:
    """One party's part of a row."""

    n_features: int
    data_norm: float  # public bound on the length of the party's rows
    weight: float
    constant: float  # `CONSTANT`, or 0 for none

    @property
    def factor(self) -> float:
        """What a column is multiplied by, before it becomes whole: weights in the table's unit are larger by it."""
        return self.weight * RowUnit(self.data_norm, self.constant).scale

    def whole(self, table: Any) -> Whole:
        """Return the party's columns as whole numbers, whatever the entries are."""
        rows = np.zeros((table.shape[0], self.n_features), np.int64)
        scale = ROW * self.weight / RowUnit(1.0, self.constant).whole
        for place, piece in bounded_pieces(table, self.data_norm):
            rows[place] = np.clip(np.nan_to_num(piece * scale, nan=0.0), -ROW, ROW)  # the cast cuts toward zero
        return rows


def whole_margins(rows: Whole, point: Vector, constant: float, unit: float, bound: float, used: Any) -> Whole:
    """Return rows times weights, plus ``constant``, in steps of 1 / ``unit``, cut at ``bound`` before the cast.

    ``used``: the columns that ``point`` has weights of.
    """
    margins = np.zeros(len(rows), np.int64)
    for low in range(0, len(rows), PIECE):
        place = slice(low, low + PIECE)
        with np.errstate(all="ignore"):
            exact = (rows[place, used].astype(np.float64) @ point / ROW + constant) * unit
        margins[place] = np.rint(np.clip(np.nan_to_num(exact, nan=0.0), -bound, bound))
    return margins


def upper_of_products(columns: Whole) -> Whole:
    """Return the upper triangle of X'X, in exact arithmetic: pieces whose sums stay below 2^53 in double precision."""
    width = columns.shape[1]
    total = np.zeros((width, width), np.int64)
    for low in range(0, len(columns), 2**16):
        piece = columns[low : low + 2**16].astype(np.float64)  # |entries| <= 2^14: sums stay below 2^44
        total += (piece.T @ piece).astype(np.int64)
    return total[np.triu_indices(width)]


# ------------------------------------------------------------------ second moments


@dataclass(frozen=True)
class NoisySum(Opening):
    """Whole numbers with discrete Gaussians of all parties."""

    scales: Whole  # of one party's share of the noise, entry by entry; its shape is that of the variable

    @property
    def size(self) -> int:
        return self.scales.size

    def share(self, noise: np.random.Generator) -> Whole:
        drawn = np.zeros(self.scales.shape, np.int64)
        for scale in np.unique(self.scales):
            place = self.scales == scale
            drawn[place] = whole_gaussian(int(scale), int(np.count_nonzero(place)), noise)
        return drawn

    @classmethod
    def even(cls, name: str, width: int, mechanism: SharedGaussian, weight: int = 1) -> "NoisySum":
        return cls((name,), Mask(), np.full(width, mechanism.scale(weight), np.int64))


class SecondMoments:
    """What step 0 opens: ``openings`` has one for each party's own products, then one for each of ``pairs``.

    Each party's own products it computes itself, in whole numbers, with those of the intercept's constant; products of
    two parties' columns are computed inside. Everything is opened with noise of every party. Entries beside the
    diagonal stand twice in the matrix: multiplied by sqrt(2), the vector of the upper triangle is as long as the matrix
    (Frobenius), so they have half the variance, as in `sottovoce.central.noisy_moments`.

    All columns stand in one order, the label's as its holder's last where it is one (``with_labels``), the intercept's
    constant behind all. Of the noise entries beside the diagonal have weight 2; products with the label, where these
    are a release of their own, weight 1.

    ``widths``: columns by party.
    ``pairs``: parties whose products are computed inside.
    """

    def __init__(self, plan: "JointPlan") -> None:
        self._constant, self._n_samples = plan.constant, plan.n_samples
        training = plan.training
        self.with_labels = training.with_labels
        has_label = [self.with_labels and m == plan.holder for m in range(len(plan.blocks))]
        self.widths = [block.n_features + more for block, more in zip(plan.blocks, has_label, strict=True)]
        self.pairs = list(combinations(range(len(plan.blocks)), 2))
        last = sum(self.widths)
        columns = np.split(np.arange(last), np.cumsum(self.widths)[:-1])
        self._label = columns[plan.holder][-1] if self.with_labels else None
        places: list[Sequence[Whole]] = []  # of the numbers of each opening in the matrix
        for own in columns:
            first, second = np.triu_indices(len(own))
            beside = own if plan.constant else own[:0]
            places.append((np.append(own[first], beside), np.append(own[second], np.full_like(beside, last))))
        places += (np.meshgrid(columns[a], columns[b], indexing="ij") for a, b in self.pairs)
        names = [*(f"own{m}" for m in range(len(columns))), *(f"pair{a},{b}" for a, b in self.pairs)]
        self.openings = []
        for name, (i, j) in zip(names, places, strict=True):
            scales = np.where(i == j, training.moments.scale(1), training.moments.scale(2))
            if training.labels is not None:
                scales[(i == self._label) | (j == self._label)] = training.labels.scale(1)
            self.openings.append(NoisySum((name,), Mask(), scales))
        self._first, self._second = (np.concatenate([each[k].ravel() for each in places]) for k in (0, 1))

    def own(self, columns: Whole) -> Whole:
        """Return what a party computes of its columns, the label's among them, in clear."""
        upper = upper_of_products(columns)
        return np.concatenate([upper, self._constant * columns.sum(axis=0)]) if self._constant else upper

    def matrix(self, opened: Vector) -> tuple[Vector, Vector]:
        """Return the matrix of the features, the intercept's constant last, and the label's products with them.

        Without the label's column the second is empty; with it, its last entry is the label's square.
        """
        last = sum(self.widths)
        whole = np.zeros((last + 1, last + 1))
        whole[self._first, self._second] = whole[self._second, self._first] = opened
        whole[last, last] = float(self._constant) ** 2 * self._n_samples  # public
        kept = np.array([k for k in range(last + bool(self._constant)) if k != self._label], dtype=np.int64)
        moments = whole[np.ix_(kept, kept)] / SQUARE
        return moments, np.zeros(0) if self._label is None else whole[np.append(kept, self._label), self._label]
