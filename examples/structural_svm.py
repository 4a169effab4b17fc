"""A structural support vector machine by block-coordinate Frank-Wolfe: its dual is a product of simplices.

An example i has an output y_i and candidates y, each with the difference psi_i(y) of its joint features to those of y_i
and a loss L_i(y). The machine minimises (l2 / 2) |w|^2 + mean_i max_y [L_i(y) - <w, psi_i(y)>]. Its dual has one
simplex for each example: minimise (l2 / 2) |sum_iy a_iy psi_i(y) / (l2 n)|^2 - mean_i sum_y a_iy L_i(y), and
w = sum_iy a_iy psi_i(y) / (l2 n). The gap of Frank-Wolfe is primal less dual (Lacoste-Julien et al., ICML 2013).
"""

from itertools import product

import numpy as np
from sklearn.datasets import load_iris

from sottovoce.papers.frank_wolfe import (
    ImportanceSampling,
    ProductDomain,
    Quadratic,
    Simplex,
    block_curvatures,
    minimize,
)


def dual(psi, losses, l2):
    """Return objective and domain for psi of shape (examples, candidates, features), losses (examples, candidates)."""
    n, n_candidates, _ = psi.shape
    columns = psi.reshape(n * n_candidates, -1) / (l2 * n)
    return Quadratic(l2 * columns @ columns.T, -losses.ravel() / n), ProductDomain.power(Simplex(n_candidates), n)


def structural_svm(psi, losses, l2, *, tol=1e-3, seed=0):
    """Return the weights and the result of the dual."""
    objective, domain = dual(psi, losses, l2)
    sampling = ImportanceSampling.from_curvatures(block_curvatures(objective, domain))
    result = minimize(objective, domain, sampling, step="line-search", tol=tol, max_iter=1_000_000, random_state=seed)
    return result.x @ psi.reshape(len(result.x), -1) / (l2 * len(psi)), result


def multiclass(X, y):
    """Return psi and losses: one vector of weights for each class."""
    units = np.eye(y.max() + 1)
    return np.einsum("nkc,nd->nkcd", units[y][:, None] - units, X).reshape(len(X), len(units), -1), 1.0 - units[y]


def sequences(X, y):
    """Return psi and losses of binary labels along a chain: a state sees features, and follows the state before."""
    outputs = np.array(list(product((0, 1), repeat=y.shape[1])))
    steps = 2 * outputs[:, :-1] + outputs[:, 1:]
    following = np.array([np.bincount(step, minlength=4) for step in steps])
    seen = np.einsum("ot,ntd->nod", outputs, X)
    joint = np.concatenate([seen, np.broadcast_to(following, (len(X), *following.shape))], axis=2)
    own = joint[np.arange(len(X)), y @ 2 ** np.arange(y.shape[1])[::-1]]
    return own[:, None] - joint, (outputs != y[:, None]).mean(2)


if __name__ == "__main__":
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([(X - X.mean(0)) / X.std(0), np.ones(len(X))])
    w, result = structural_svm(*multiclass(X, y), 0.01)
    right = (X @ w.reshape(3, -1).T).argmax(1) == y
    print(f"iris: {right.mean():.3f} right, gap {result.gap:.1e} after {result.n_steps} steps")
