"""Change points of several series at once, by block-coordinate Frank-Wolfe: the dual is a product of l2 balls.

The group fused lasso minimises |X - Y|^2 / 2 + penalty sum_t |x_{t+1} - x_t|_2 over X, the rows of which are times. Its
dual is min |Y - D'U|^2 / 2 over |u_t|_2 <= penalty, D the differences of neighbours, and X = Y - D'U: one ball for each
pair of neighbours. Where the penalty is not reached, |u_t| < penalty, X does not jump.
"""

import numpy as np
from scipy.sparse import diags_array, eye_array, kron

from sottovoce.papers.frank_wolfe import L2Ball, LeastSquares, ProductDomain, UniformSerialSampling, minimize


def dual(Y, penalty):
    """Return objective (divided by the number of entries of Y) and domain."""
    n, d = Y.shape
    differences = diags_array([-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
    objective = LeastSquares(kron(differences.T, eye_array(d), format="csc"), Y.ravel())
    return objective, ProductDomain.power(L2Ball(d, penalty), n - 1)


def group_fused_lasso(Y, penalty, *, tol=1e-4, seed=0):
    """Return X, the times before which it jumps, and the result of the dual."""
    objective, domain = dual(Y, penalty)
    result = minimize(
        objective, domain, UniformSerialSampling(domain.n_blocks), step="line-search", tol=tol, max_iter=1_000_000,
        random_state=seed,
    )  # fmt: skip
    U = result.x.reshape(-1, Y.shape[1])
    X = Y - np.vstack([-U[:1], U[:-1] - U[1:], U[-1:]])
    reached = np.linalg.norm(U, axis=1) > penalty * (1.0 - 1e-3)
    return X, np.flatnonzero(reached) + 1, result


def steps_with_noise(n=60, d=3, noise=0.4, seed=0):
    """Return series that jump together at a third and at two thirds, and the same with noise."""
    rng = np.random.default_rng(seed)
    levels = np.array([np.zeros(d), [2.0, -1.5, 1.0], [0.5, 1.5, 2.0]])
    truth = np.repeat(levels, n // 3, axis=0)
    return truth, truth + noise * rng.normal(size=truth.shape)


if __name__ == "__main__":
    truth, Y = steps_with_noise()
    X, jumps, result = group_fused_lasso(Y, 4.0)
    print(f"changes at {jumps.tolist()}, gap {result.gap:.1e} after {result.n_steps} steps")
    print(f"mean square error {((X - truth) ** 2).mean():.3f}, of the data {((Y - truth) ** 2).mean():.3f}")
