"""Second moments of rows that several parties hold: what is opened in step 0, and the matrix made of it.

Each party's own products it computes itself, in whole numbers, with those of the intercept's constant; products of two
parties' columns are computed inside. Everything is opened with noise of every party. Entries beside the diagonal stand
twice in the matrix: multiplied by sqrt(2), the vector of the upper triangle is as long as the matrix (Frobenius), so
they have half the variance, as in `sottovoce.central.noisy_moments`.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.privacy.mechanisms.discrete_gaussian import SharedGaussian
from sottovoce.privacy.mechanisms.exact_coins import whole_gaussian
from sottovoce.vertical.engines.engine import Whole
from sottovoce.vertical.protocols.secure.whole_rows import SQUARE, upper_of_products

if TYPE_CHECKING:
    from sottovoce.vertical.protocols.secure.joint_plan import JointPlan


@dataclass(frozen=True)
class Opening:
    """A secret variable that is opened."""

    name: str
    scales: Whole  # scale of one party's share of the noise, entry by entry; its shape is that of the variable

    def share(self, noise: np.random.Generator) -> Whole:
        drawn = np.zeros(self.scales.shape, np.int64)
        for scale in np.unique(self.scales):
            place = self.scales == scale
            drawn[place] = whole_gaussian(int(scale), int(np.count_nonzero(place)), noise)
        return drawn


def even(name: str, shape: tuple[int, ...], mechanism: SharedGaussian, weight: int = 1) -> Opening:
    return Opening(name, np.full(shape, mechanism.scale(weight), np.int64))


class SecondMoments:
    """What step 0 opens.

    Of its noise entries beside the diagonal have weight 2; products with the label, where these are a release of their
    own, weight 1.
    """

    def __init__(self, plan: "JointPlan") -> None:
        self._plan = plan

    @cached_property
    def all_widths(self) -> tuple[int, ...]:
        """Columns by party; the label is the last column of its holder where it is one."""
        return tuple(block.n_features + self._is_holder(m) for m, block in enumerate(self._plan.blocks))

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Parties whose products are computed inside, in order."""
        return tuple(combinations(range(len(self._plan.blocks)), 2))

    @cached_property
    def openings(self) -> tuple[Opening, ...]:
        """One for each party's own products, then one for each pair."""
        own = []
        for m, width in enumerate(self.all_widths):
            first, second = np.triu_indices(width)
            label = self._is_label(m)
            scales = [self._scales(first == second, label[first] | label[second])]
            if self._plan.constant:
                scales.append(self._scales(np.zeros(width, bool), label))
            own.append(Opening(f"own{m}", np.concatenate(scales)))
        pairs = []
        for a, b in self.pairs:
            label = self._is_label(a)[:, None] | self._is_label(b)[None, :]
            pairs.append(Opening(f"pair{a},{b}", self._scales(np.zeros(label.shape, bool), label)))
        return (*own, *pairs)

    def own(self, columns: Whole) -> Whole:
        """Return what a party computes of its columns, the label's among them, in clear."""
        upper = upper_of_products(columns)
        return np.concatenate([upper, self._plan.constant * columns.sum(axis=0)]) if self._plan.constant else upper

    def matrix(self, opened: Vector) -> tuple[Vector, Vector]:
        """Return the matrix of the features, the intercept's constant last, and the label's products with them.

        Without the label's column the second is empty; with it, its last entry is the label's square.
        """
        width = sum(self.all_widths)
        starts = np.concatenate([[0], np.cumsum(self.all_widths)])
        whole = np.zeros((width + 1, width + 1))
        parts = np.split(opened, np.cumsum([opening.scales.size for opening in self.openings])[:-1])
        for m, (size, part) in enumerate(zip(self.all_widths, parts, strict=False)):
            place = np.arange(starts[m], starts[m + 1])
            first, second = np.triu_indices(size)
            whole[place[first], place[second]] = part[: len(first)]
            if self._plan.constant:
                whole[place, width] = part[len(first) :]
        for (a, b), part in zip(self.pairs, parts[len(self.all_widths) :], strict=True):
            block = part.reshape(self.all_widths[a], self.all_widths[b])
            whole[starts[a] : starts[a + 1], starts[b] : starts[b + 1]] = block
        whole[width, width] = float(self._plan.constant) ** 2 * self._plan.n_samples  # public
        whole = np.triu(whole) + np.triu(whole, 1).T
        label = np.concatenate([self._is_label(m) for m in range(len(self.all_widths))])
        kept = np.flatnonzero(np.append(~label, self._plan.constant > 0))
        at = np.flatnonzero(label)
        return whole[np.ix_(kept, kept)] / SQUARE, whole[np.append(kept, at), at] if at.size else np.zeros(0)

    def _is_holder(self, m: int) -> bool:
        return self._plan.training.with_labels and m == self._plan.holder

    def _is_label(self, m: int) -> Whole:
        label = np.zeros(self.all_widths[m], bool)
        label[-1] = self._is_holder(m)
        return label

    def _scales(self, diagonal: Whole, label: Whole) -> Whole:
        moments, labels = self._plan.training.moments, self._plan.training.labels
        scales = np.where(diagonal, moments.scale(1), moments.scale(2)).astype(np.int64)
        return scales if labels is None else np.where(label, labels.scale(1), scales)
