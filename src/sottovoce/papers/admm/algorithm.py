r"""Algorithm 1 of Hu et al. (2019), and the perturbed updates of eq. (16), in the paper's letters and order.

All parties' blocks D_m lie in one place here, which is what the algorithm is there to avoid: this is the listing, to
be read beside the paper. R_m is half the squared norm and l the sum of logistic losses, as in Section 5, so that (6) is
one linear system a party and (7) one scalar problem a record. Everything starts at zero. The same with other forms,
losses and penalties: `sottovoce.papers.admm.admm`. For models that are meant to be used: `sottovoce.vertical`.

The noise of eq. (16), and what is false about it: party m sends D (x + xi), and D xi ~ N(0, sigma^2 P) with P the
projection on the columns of D. It never leaves their span, and tables that differ have spans that differ: one message
can tell them apart with certainty, whatever sigma is. See ``docs/privacy/published_vertical_noise.md``.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]


def admm_sharing(D: Sequence[Array], b: Array, *, lam: float, rho: float) -> Iterator[tuple[list[Array], Array, Array]]:
    """Yield x_1 ... x_M, z and y after each round t of Algorithm 1.

    Parameters
    ----------
    D : sequence of ndarray of shape (n, d_m)
        The parties' columns.
    b : ndarray of shape (n,)
        Labels, -1 and 1.
    lam : float, > 0
        lambda, beside the sum of the losses.
    rho : float, > 0
    """
    return perturbed_admm_sharing(D, b, lam=lam, rho=rho, sigma=[0.0] * len(D), rng=np.random.default_rng(0))


def perturbed_admm_sharing(
    D: Sequence[Array], b: Array, *, lam: float, rho: float, sigma: Sequence[float], rng: np.random.Generator
) -> Iterator[tuple[list[Array], Array, Array]]:
    """Yield the same under eq. (16); its privacy claim does not hold, at any sigma.

    Parameters
    ----------
    D, b, lam, rho
        As for `admm_sharing`.
    sigma : sequence of float
        sigma_m of each party, of Theorem 3.
    rng : numpy.random.Generator
    """
    n, M = len(b), range(len(D))
    x, z, y = [np.zeros(Dm.shape[1]) for Dm in D], np.zeros(n), np.zeros(n)
    shared = [np.zeros(n) for _ in M]  # D_m x_m, or D_m times the noisy x_m
    hessian = [lam * np.eye(Dm.shape[1]) + rho * Dm.T @ Dm for Dm in D]
    root = [half_inverse(Dm) if sigma_m else None for Dm, sigma_m in zip(D, sigma, strict=True)]
    while True:
        # line 3: each party pulls sum_k D_k x_k - z, and y
        pulled = np.sum(shared, axis=0) - z
        for m in M:
            others = pulled - shared[m]  # line 4
            x[m] = np.linalg.solve(hessian[m], D[m].T @ -(y + rho * others))  # line 5, eq. (6)
            if (F := root[m]) is not None:  # eq. (16): xi_m ~ N(0, sigma_m^2 (D_m'D_m)^-1)
                x[m] = x[m] + sigma[m] * (F @ rng.standard_normal(F.shape[1]))
        shared = [D[m] @ x[m] for m in M]  # lines 6 and 9
        total = np.sum(shared, axis=0)
        z = closest(total + y / rho, b, rho)  # line 10, eq. (7)
        y = y + rho * (total - z)  # line 11, eq. (8)
        yield list(x), z, y  # line 12


def half_inverse(Dm: Array) -> Array:
    """Return F with F F' = (D_m'D_m)^-1, so that sigma F N(0, I) is xi of eq. (16).

    Where D_m'D_m is singular, as on real data (one-hot columns add up to one), the paper's Assumption 1.1 fails and xi
    is not defined. We take the pseudo-inverse: xi lies in the span of the rows, and the law of D xi is still
    N(0, sigma^2 P). F has as many columns as D_m has rank; singular values below about 1e-6 of the largest count as 0.
    """
    values, vectors = np.linalg.eigh(Dm.T @ Dm)
    kept = values > max(Dm.shape) * np.finfo(np.float64).eps * values[-1]
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def closest(c: Array, b: Array, rho: float) -> Array:
    """Return the z with the least sum of log(1 + e^(-b z)) + rho / 2 (z - c)^2: Newton's steps, kept in a bracket."""
    low, high = c - 1.0 / rho, c + 1.0 / rho  # the loss has slopes in (-1, 1)
    z = c.copy()
    for _ in range(60):
        p = expit(-b * z)
        slope = rho * (z - c) - b * p
        low, high = np.where(slope < 0.0, z, low), np.where(slope > 0.0, z, high)
        moved = z - slope / (rho + p * (1.0 - p))
        moved = np.where((moved < low) | (moved > high), 0.5 * (low + high), moved)
        if np.abs(moved - z).max() < 1e-13:
            break
        z = moved
    return moved
