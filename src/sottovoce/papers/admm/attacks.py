r"""Attacks on the published noise of ADMM sharing: demonstrations that its privacy claim does not hold.

A release is the message v = D (x + xi) of one party, eq. (16). No attacker needs to know the noise level, the weights
x, or anything about other parties; what each knows besides is said below.
Proofs: ``docs/privacy/published_vertical_noise.md``.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, lstsq, qr

from sottovoce._validation import whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.papers.admm.bounds import lemma_1_bound
from sottovoce.papers.admm.conditions import theorem_1_conditions
from sottovoce.papers.admm.sharing import Penalty

Array = NDArray[np.float64]

_RANK_CUT = 1e-10  # singular values below this part of the largest count as zero


def distance_to_columns(release: Array, block: Array) -> float:
    """Return the distance of a release to the span of a block's columns, as a part of the release's length.

    Rounding aside it is 0 for the block that the release was made from. For a block whose columns do not span all that
    those of the first span it is positive with probability 1, whatever the noise level. Of two blocks with different
    spans at least one is told from the other so: its releases leave the other's span.

    Parameters
    ----------
    release : ndarray of shape (n,)
    block : ndarray of shape (n, d)
        What the attacker thinks the party's block may be.

    Returns
    -------
    float
        In [0, 1]: 1e-13 or less stands for 0.
    """
    release, block = _fitting(release, block)
    return float(np.linalg.norm(release - block @ _weights(block, release)) / np.linalg.norm(release))


def identify_rows(release: Array, rows: NDArray[np.intp], known: Array, candidates: Array) -> NDArray[np.intp]:
    """Return which candidate each unknown row of the block is, from one release.

    The known rows give the noisy weights x + xi themselves, without any further error. So the release holds the exact
    product of each unknown row with known numbers, and these differ for every two candidates with probability 1.

    Parameters
    ----------
    release : ndarray of shape (n,)
    rows : ndarray of shape (k,)
        Places of the known rows: all but one, or as few as the rank.
    known : ndarray of shape (k, d)
        These rows of the block. Unknown rows that are not in their span are guessed wrongly.
    candidates : ndarray of shape (n_candidates, d)
        Different rows, among them every unknown one. One outside the span of the known rows may be taken for another.

    Returns
    -------
    ndarray of shape (n - k,)
        Numbers of candidates, for the unknown rows in order.
    """
    release = np.asarray(release, dtype=np.float64)
    seen, known = _fitting(release[rows], known)
    candidates = np.asarray(candidates, dtype=np.float64)
    if not (candidates.ndim == 2 and len(candidates) and candidates.shape[1] == known.shape[1]):
        raise ParameterError(
            f"candidates must be rows with the {known.shape[1]} columns of known; got shape {candidates.shape}."
        )
    products = candidates @ _weights(known, seen)
    order = np.argsort(products)
    middles = 0.5 * (products[order][1:] + products[order][:-1])
    return order[np.searchsorted(middles, np.delete(release, rows))]


def rows_to_know(releases: Array) -> NDArray[np.intp]:
    """Return which rows of the block are worth knowing for `recover_block`: one for each release, far from singular.

    Parameters
    ----------
    releases : ndarray of shape (n, r)
        Releases of one block of rank at least r, each a column.

    Returns
    -------
    ndarray of shape (r,)
        Places of rows, by pivoted QR on the span of the releases.
    """
    pivots = qr(_basis(releases).T, mode="r", pivoting=True)[1]
    return np.asarray(pivots[: np.shape(releases)[1]], dtype=np.intp)


def recover_block(releases: Array, rows: NDArray[np.intp], known: Array) -> Array:
    """Return the whole block from as many releases as its rank, and as many of its rows.

    The releases span the columns of the block with probability 1: they are Q for some orthonormal Q, and the block is
    Q W. The known rows give W.

    Parameters
    ----------
    releases : ndarray of shape (n, r)
        Releases of one block of rank r, each a column. The weights behind them may differ.
    rows : ndarray of shape (r,)
        Places of the known rows, say from `rows_to_know`. Any r rows that are linearly independent will do.
    known : ndarray of shape (r, d)
        These rows of the block.

    Returns
    -------
    ndarray of shape (n, d)
    """
    basis = _basis(releases)
    return np.asarray(basis @ np.linalg.solve(basis[rows], np.asarray(known, dtype=np.float64)))


def labels_from_dual(dual: Array) -> Array:
    r"""Return the label of every row from the dual variable of logistic regression.

    After an update of z the dual variable is the derivative of the loss, :math:`y_i = -b_i / (1 + e^{b_i z_i})`, with
    the label b_i: its sign is that of -b_i, at any z.

    Parameters
    ----------
    dual : ndarray of shape (n,)
        y of eq. (8) of the paper, as every party is sent it.

    Returns
    -------
    ndarray of shape (n,)
        -1 and 1; 0 only where the dual variable is 0 in double precision.
    """
    return -np.sign(np.asarray(dual, dtype=np.float64))


@dataclass(frozen=True)
class Lemma1Counterexample:
    r"""Two neighbouring blocks, all of the paper's assumptions true, whose messages differ by more than Lemma 1 allows.

    Rows come in k pairs. Column 0 holds 1/2 and -1/2 in each pair, column j holds sqrt(3)/2 in both rows of pair j:
    rows have norm 1. In the neighbour the sign of one entry of column 0 is changed: one column differs, by a matrix of
    norm 1. The party minimises ``lambda/2 |x|^2 + rho/2 |D x - z|^2`` with z the normalised column 0, y = 0, and
    nothing from the other party. As lambda goes to 0 the message moves by 1/sqrt(k); the bound is about 6/(k + 1).

    Parameters
    ----------
    n_pairs : int, >= 4
        k; the block has 2k rows and d = k + 1 columns. From 35 on the bound is exceeded.
    """

    n_pairs: int

    penalty = 1e-9  # lambda
    norm_bound = 1.0  # b_1

    def __post_init__(self) -> None:
        whole_number("n_pairs", self.n_pairs, at_least=4)

    @property
    def rho(self) -> float:
        return 4.0 * self.n_pairs

    @cached_property
    def block(self) -> Array:
        k = self.n_pairs
        out = np.zeros((2 * k, k + 1))
        out[:, 0] = np.tile([0.5, -0.5], k)
        out[np.arange(2 * k), 1 + np.repeat(np.arange(k), 2)] = np.sqrt(0.75)
        return out

    @cached_property
    def neighbour(self) -> Array:
        out = self.block.copy()
        out[0, 0] *= -1.0
        return out

    @property
    def target(self) -> Array:
        column = self.block[:, 0]
        return column / np.linalg.norm(column)

    def weights(self, block: Array) -> Array:
        hessian = self.penalty * np.eye(block.shape[1]) + self.rho * block.T @ block
        return np.asarray(cho_solve(cho_factor(hessian), self.rho * (block.T @ self.target)))

    @property
    def bound(self) -> float:
        """What Lemma 1 allows two parties; the regulariser, half the squared norm, has a second derivative of 1."""
        facts = {"penalty": self.penalty, "curvature": 1.0, "rho": self.rho, "norm_bound": self.norm_bound}
        return lemma_1_bound(self.block.shape[1], n_parties=2, **facts)

    @cached_property
    def change(self) -> float:
        """How much the message moves: ``|D x - D' x'|``, x' minimised for D'. Privacy depends on this."""
        block, neighbour = self.block, self.neighbour
        return float(np.linalg.norm(block @ self.weights(block) - neighbour @ self.weights(neighbour)))

    @cached_property
    def change_at_fixed_weights(self) -> float:
        """The sensitivity as Definition 2 of the paper is printed: ``|D x - D' x|``, with the same x."""
        return float(np.linalg.norm((self.block - self.neighbour) @ self.weights(self.block)))

    def assumptions(self) -> dict[str, bool]:
        """Return whether each assumption about numbers holds for both blocks, computed (to rounding).

        The others hold by form: logistic loss and half the squared norm are convex, smooth and at least 0.
        """
        both, difference = (self.block, self.neighbour), self.block - self.neighbour
        lengths = [np.linalg.norm(value) for value in (self.target, *map(self.weights, both))]
        return {
            "one column differs": int(np.count_nonzero(difference.any(axis=0))) == 1,
            "|D - D'| <= 1": bool(np.linalg.norm(difference) <= 1.0),
            "1": theorem_1_conditions(both, Logistic(), penalty=Penalty(self.penalty), rho=self.rho).holds,
            "2.1: iterates within b_1": bool(max(lengths) <= self.norm_bound * (1.0 + 1e-12)),
            "2.3: rows of norm 1": np.allclose(np.linalg.norm(np.vstack(both), axis=1), 1.0, rtol=0.0, atol=1e-12),
        }


def _weights(block: Array, release: Array) -> Array:
    """Return the shortest x with block x nearest to the release."""
    return np.asarray(lstsq(block, release, cond=_RANK_CUT, lapack_driver="gelsy")[0])


def _basis(releases: Array) -> Array:
    """Return an orthonormal basis of the span of the releases."""
    releases = np.asarray(releases, dtype=np.float64)
    if not (releases.ndim == 2 and releases.shape[0] >= releases.shape[1] > 0 and np.isfinite(releases).all()):
        raise ParameterError(
            f"releases must be finite, one column for each release and no more of them than rows; got shape "
            f"{releases.shape}. Stack the messages with numpy.column_stack."
        )
    return np.asarray(np.linalg.qr(releases)[0])


def _fitting(release: Array, block: Array) -> tuple[Array, Array]:
    release, block = np.asarray(release, dtype=np.float64), np.asarray(block, dtype=np.float64)
    if not (release.ndim == 1 and block.ndim == 2 and len(release) == len(block) and block.shape[1] > 0):
        raise ParameterError(
            f"release and block must have the same number of rows; got shapes {release.shape} and {block.shape}."
        )
    if not (np.isfinite(release).all() and release.any() and np.isfinite(block).all()):
        raise ParameterError("release and block must be finite and the release not zero: there is nothing to attack.")
    return release, block
