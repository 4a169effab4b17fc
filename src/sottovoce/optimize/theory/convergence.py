"""Theorem 1: what is promised of the mean distance to the optimum, and of the gap."""

import numpy as np

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import vector
from sottovoce.optimize.algorithm import universal_step
from sottovoce.optimize.domains import ProductDomain
from sottovoce.optimize.samplings import Sampling

__all__ = ["gap_bound", "inexactness", "serial_bound", "sharp_bound", "theorem_1_bound"]


def inexactness(
    sampling: Sampling, domain: ProductDomain, *, gradient_error: object = 0.0, oracle_error: object = 0.0
) -> float:
    r"""Return rho = sum_i p_i (D_i rho_g^i + rho_l^i), the constant of Theorem 1 for inexact gradients and oracles.

    It is at most E\|T\| (max D_i rho_g + rho_l).

    Parameters
    ----------
    sampling : Sampling
    domain : ProductDomain
    gradient_error : float or array-like of shape (n_blocks,), >= 0
        rho_g: the Euclidean error of the partial gradient of block i is at most rho_g^i gamma_t C / 2.
    oracle_error : float or array-like of shape (n_blocks,), >= 0
        rho_l: the oracle of block i is within rho_l^i gamma_t C / 2 of the least inner product.
    """
    errors = []
    for name, value in (("gradient_error", gradient_error), ("oracle_error", oracle_error)):
        given = np.asarray(value, dtype=np.float64)
        if given.shape not in ((), (domain.n_blocks,)) or not (np.isfinite(given).all() and (given >= 0.0).all()):
            raise ParameterError(f"{name} must be a finite number >= 0, or one for each block; got {value!r}.")
        errors.append(given)
    return float((sampling.probabilities * (domain.diameters * errors[0] + errors[1])).sum())


def theorem_1_bound(t: int, *, start: float, curvature: float, p_min: float, inexactness: float = 0.0) -> float:
    """Return the bound of Theorem 1 on E f(x_t) - min f: 2 (start + (1 + inexactness) C / p_min) / (p_min t + 2).

    Parameters
    ----------
    t : int, >= 0
        Steps made.
    start : float, >= 0
        f(x_0) - min f, or an upper bound such as the duality gap at x_0.
    curvature : float, >= 0
        Expected curvature for the sampling, or an upper bound.
    p_min : float, in (0, 1]
        Least probability of a block.
    inexactness : float, >= 0
        See `inexactness`.
    """
    h0, c, p = _facts(t, start, curvature, p_min, inexactness)
    return universal_step(t, p) * (h0 + c / p)


def sharp_bound(t: int, *, start: float, curvature: float, p_min: float, inexactness: float = 0.0) -> float:
    """Return a bound on E f(x_t) - min f that is never above `theorem_1_bound`; same parameters.

    With c = (1 + inexactness) C: 2 max(c / p, (1 + p / 2) ((1 - p) start + c / 2)) / (p t + 2), and ``start`` at t = 0.
    """
    h0, c, p = _facts(t, start, curvature, p_min, inexactness)
    if t == 0:
        return h0
    return universal_step(t, p) * max(c / p, (1.0 + 0.5 * p) * ((1.0 - p) * h0 + 0.5 * c))


def serial_bound(t: int, *, start: float, curvatures: object, probabilities: object) -> float:
    r"""Return a bound on E f(x_t) - min f where one block moves a step, by balanced steps or by line search.

    :math:`2 \max(\sum_i C_i / p_i, h_0 / p_{\min}) / (t + 2 / p_{\min})`. For large t it is least at p_i in proportion
    to the square root of C_i (`ImportanceSampling.from_curvatures`); uniform sampling has Theorem 1's sharp form.

    Parameters
    ----------
    t : int, >= 0
        Steps made.
    start : float, >= 0
        f(x_0) - min f, or an upper bound.
    curvatures : array-like of shape (n_blocks,), >= 0
        Of each block, see `block_curvatures`, or upper bounds.
    probabilities : array-like of shape (n_blocks,), > 0, of sum 1
        Of each block.
    """
    whole_number("t", t, at_least=0)
    h0, C, p = (
        number("start", start, at_least=0.0),
        vector("curvatures", curvatures),
        vector("probabilities", probabilities),
    )
    if len(C) != len(p) or not (C >= 0.0).all() or not (p > 0.0).all():
        raise ParameterError(
            f"curvatures must be >= 0 and probabilities > 0, one of each for a block; got {len(C)} and {len(p)}."
        )
    least = float(p.min())
    return 2.0 * max(float((C / p).sum()), h0 / least) / (t + 2.0 / least)


def gap_bound(t: int, *, start: float, curvature: float, p_min: float, inexactness: float = 0.0) -> float:
    """Return a bound on the least of E gap(x_0), ..., E gap(x_t); same parameters as `theorem_1_bound`.

    With K = max(start, (1 + inexactness) C / p): 6 K / (p t + 4) + 4 start / (p (t + 1) (p t + 4)).
    """
    h0, c, p = _facts(t, start, curvature, p_min, inexactness)
    return 6.0 * max(h0, c / p) / (p * t + 4.0) + 4.0 * h0 / (p * (t + 1.0) * (p * t + 4.0))


def _facts(t: int, start: float, curvature: float, p_min: float, rho: float) -> tuple[float, float, float]:
    """Return h0, (1 + rho) C and p."""
    whole_number("t", t, at_least=0)
    h0 = number("start", start, at_least=0.0)
    c = number("curvature", curvature, at_least=0.0) * (1.0 + number("inexactness", rho, at_least=0.0))
    return h0, c, number("p_min", p_min, above=0.0, at_most=1.0)
