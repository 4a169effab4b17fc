r"""The noise of ADMM sharing as published, for reproduction: its privacy claim does not hold.

Party m holds the block D (n rows, d of the columns) and weights x. In each round the paper [1]_ adds to the weights

.. math:: \xi \sim N(0, \sigma^2 (D'D)^{-1})

and the party sends D (x + xi). Hence the message carries D xi ~ N(0, sigma^2 P), P the projection on the columns of D:
it never leaves their span. Tables that differ have spans that differ, so one message can tell them apart with certainty
whatever sigma is. Statements, proofs and attacks: ``docs/privacy/published_vertical_noise.md``,
`sottovoce.published.vertical_admm.attacks`.

Where D'D is singular (as on real data: one-hot columns add up to one) the paper's Assumption 1.1 fails and xi is not
defined. We take the pseudo-inverse: xi lies in the span of the rows, and the law of D xi is still N(0, sigma^2 P).

References
----------
.. [1] Hu, Liu, Kong, Niu (2019). Learning Privately over Distributed Features: An ADMM Sharing Approach.
   arXiv:1907.07735, Section 4.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import DataError, ParameterError

__all__ = ["NoiseDraw", "PublishedNoise", "corollary_1", "lemma_1_bound", "theorem_3_std"]

Block = Any  # an ndarray or scipy sparse matrix of shape (n, d)


def lemma_1_bound(d: int, *, penalty: float, curvature: float, rho: float, n_parties: int, norm_bound: float) -> float:
    r"""Return the paper's bound on the sensitivity of D x (Lemma 1). It is false; see `docs/privacy`.

    .. math:: C = \frac{3}{d \rho} [\lambda c_1 + (1 + M \rho) b_1].

    Parameters
    ----------
    d : int, >= 1
        Columns of the party's block, d_m.
    penalty : float, >= 0
        lambda, the factor of the regulariser beside the *sum* of the losses.
    curvature : float, >= 0
        c_1, bound on the second derivative of the regulariser; 1 for half the squared norm.
    rho : float, > 0
        The step of ADMM, by the paper's name (nothing to do with zCDP).
    n_parties : int, >= 1
        M.
    norm_bound : float, >= 0
        b_1, the assumed bound on the norms of weights, z and y.

    Returns
    -------
    float

    Raises
    ------
    ParameterError
        If an argument is out of its range.

    Examples
    --------
    >>> round(lemma_1_bound(57, penalty=1.0, curvature=1.0, rho=1.0, n_parties=2, norm_bound=1.0), 4)
    0.2105
    """
    d = whole_number("d", d, at_least=1)
    penalty = number("penalty", penalty, at_least=0.0)
    curvature = number("curvature", curvature, at_least=0.0)
    rho = number("rho", rho, above=0.0)
    n_parties = whole_number("n_parties", n_parties, at_least=1)
    norm_bound = number("norm_bound", norm_bound, at_least=0.0)
    return 3.0 / (d * rho) * (penalty * curvature + (1.0 + n_parties * rho) * norm_bound)


def theorem_3_std(bound: float, *, epsilon: float, delta: float) -> float:
    r"""Return sigma of Theorem 3, :math:`\sqrt{2 \ln(1.25/\delta)}\, C / \varepsilon`.

    Parameters
    ----------
    bound : float, >= 0
        C, from `lemma_1_bound`.
    epsilon : float, in (0, 1]
        What the paper claims for one round.
    delta : float, in (0, 1)

    Returns
    -------
    float
        In the unit of a message.

    Raises
    ------
    ParameterError
        If an argument is out of its range.
    """
    bound = number("bound", bound, at_least=0.0)
    epsilon = number("epsilon", epsilon, above=0.0, at_most=1.0, remedy="Theorem 3 is stated for epsilon up to 1.")
    delta = number("delta", delta, above=0.0, below=1.0)
    return math.sqrt(2.0 * math.log(1.25 / delta)) * bound / epsilon


def corollary_1(*, epsilon: float, delta: float, delta_prime: float, n_rounds: int) -> tuple[float, float]:
    r"""Return what the paper claims for T rounds (Corollary 1).

    .. math:: \varepsilon' = \sqrt{2 T \ln(1/\delta')}\, \varepsilon + T \varepsilon (e^\varepsilon - 1).

    Parameters
    ----------
    epsilon : float, in (0, 1]
        Claimed for one round.
    delta : float, in (0, 1)
        Claimed for one round.
    delta_prime : float, in (0, 1)
    n_rounds : int, >= 1
        T.

    Returns
    -------
    epsilon, delta : float
        epsilon' and T delta + delta'. What holds is epsilon = infinity.

    Raises
    ------
    ParameterError
        If an argument is out of its range.
    """
    epsilon = number("epsilon", epsilon, above=0.0, at_most=1.0, remedy="Theorem 3 is stated for epsilon up to 1.")
    delta = number("delta", delta, above=0.0, below=1.0)
    delta_prime = number("delta_prime", delta_prime, above=0.0, below=1.0)
    n_rounds = whole_number("n_rounds", n_rounds, at_least=1)
    claimed = math.sqrt(2.0 * n_rounds * math.log(1.0 / delta_prime)) * epsilon
    return claimed + n_rounds * epsilon * math.expm1(epsilon), n_rounds * delta + delta_prime


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
