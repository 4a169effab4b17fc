r"""The noise of ADMM sharing as published, for reproduction: its privacy claim does not hold.

Party m holds the block D (n rows, d of the columns) and weights x. In each round the paper [1]_ adds to the weights

.. math:: \xi \sim N(0, \sigma^2 (D'D)^{-1})

and the party sends D (x + xi). Hence the message carries D xi ~ N(0, sigma^2 P), P the projection on the columns of D:
it never leaves their span. Tables that differ have spans that differ, so one message can tell them apart with certainty
whatever sigma is. Statements, proofs and attacks: ``docs/privacy/published_vertical_noise.md``,
`sottovoce.papers.admm.attacks`.

Where D'D is singular (as on real data: one-hot columns add up to one) the paper's Assumption 1.1 fails and xi is not
defined. We take the pseudo-inverse: xi lies in the span of the rows, and the law of D xi is still N(0, sigma^2 P).

References
----------
.. [1] Hu, Liu, Kong, Niu (2019). Learning Privately over Distributed Features: An ADMM Sharing Approach.
   arXiv:1907.07735, Section 4.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh

from sottovoce._validation import number
from sottovoce.exceptions import DataError, ParameterError

__all__ = ["NoiseDraw", "PublishedNoise"]

Block = Any  # an ndarray or scipy sparse matrix of shape (n, d)


class NoiseDraw(NamedTuple):
    """One draw of the published noise.

    Attributes
    ----------
    weights : ndarray of shape (d,)
        xi, to be added to the weights.
    message : ndarray of shape (n,)
        D xi, what it adds to the message.
    """

    weights: NDArray[np.float64]
    message: NDArray[np.float64]


class PublishedNoise:
    """The published noise of one party: xi ~ N(0, sigma^2 (D'D)^+).

    Parameters
    ----------
    block : ndarray or sparse matrix of shape (n, d)
        Private. Any shape: with d >= n and independent rows D xi is N(0, sigma^2 I).

    Attributes
    ----------
    rank : int
        Rank r of the block, the dimension that the noise fills. Singular values below about 1e-6 of the largest count
        as zero: squared, they are lost in the rounding of the Gram matrix.

    Raises
    ------
    ParameterError
        If the block is not a matrix of numbers.
    DataError
        If it holds NaN or infinity, or numbers whose squares overflow.

    Notes
    -----
    A factor F of shape (d, r) with F F' = (D'D)^+ is computed once, from the eigenvectors of the smaller of D'D and
    DD': time n d min(n, d). A draw takes d r + n d.
    """

    def __init__(self, block: Block) -> None:
        self._block = _matrix(block)
        n, d = self._block.shape
        wide = d > n
        with np.errstate(over="ignore", invalid="ignore"):
            product = self._block @ self._block.T if wide else self._block.T @ self._block
        gram = product.toarray() if _is_sparse(product) else product
        if not np.isfinite(gram).all():
            raise DataError("block holds NaN, infinity or numbers whose squares overflow: replace or rescale them.")
        values, vectors = eigh(gram)
        kept = values > max(n, d) * np.finfo(np.float64).eps * values[-1]
        values, vectors = values[kept], vectors[:, kept]
        # D = U S V': V / S, which for a wide block is D'U / S^2
        self._factor: NDArray[np.float64] = self._block.T @ (vectors / values) if wide else vectors / np.sqrt(values)
        self.rank: int = len(values)

    def draw(self, noise_std: float, rng: np.random.Generator) -> NoiseDraw:
        """Draw xi and D xi.

        Parameters
        ----------
        noise_std : float, >= 0
            sigma: standard deviation of the message in every direction of the span of the columns.
        rng : numpy.random.Generator
            Asked for `rank` Gaussians.

        Raises
        ------
        ParameterError
            If ``noise_std`` is negative, infinite or NaN.
        """
        noise_std = number("noise_std", noise_std, at_least=0.0)
        weights = noise_std * (self._factor @ rng.standard_normal(self.rank))
        return NoiseDraw(weights, self._block @ weights)


def _matrix(block: Block) -> Block:
    if _is_sparse(block):
        matrix = block.tocsr()
    else:
        try:
            matrix = np.asarray(block)
        except ValueError:  # rows of unequal length
            matrix = np.empty(0, dtype=object)
    if not (matrix.ndim == 2 and min(matrix.shape) > 0 and matrix.dtype.kind in "biuf"):
        raise ParameterError(
            f"block must be a matrix of real numbers with at least one row and column; got {type(block).__name__} of "
            f"shape {matrix.shape} and type {matrix.dtype}. Give an array or a sparse matrix of shape (n, d)."
        )
    return matrix.astype(np.float64)


def _is_sparse(block: Block) -> bool:
    return bool(sp.issparse(block))
