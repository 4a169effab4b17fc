r"""Algorithms 1 and 2 of Lou and Cheung in the paper's notation; the numbers in comments are those of its lines.

They are for reading and for checks: `sottovoce.papers.frank_wolfe.minimize` is Algorithm 1 to work with, and
`sottovoce.papers.frank_wolfe.published` is Algorithm 2 among real parties. Nothing here protects anybody.

Algorithm 2 does not run word for word. "Mended" marks where a reading had to be chosen; why:
``docs/privacy/published_vertical_frank_wolfe.md``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from sottovoce.papers.frank_wolfe._arrays import Array, Indices


def algorithm_1(
    gradient: Callable[[Array, slice], Array],
    oracle: Callable[[int, Array], Array],
    blocks: Sequence[slice],
    sets: Iterable[Indices],
    x: Array,
    p_min: float,
) -> Iterator[Array]:
    """Block-coordinate Frank-Wolfe with arbitrary sampling: yield x_1, ..., x_T.

    ``gradient(x, block)`` returns the partial derivatives of f in a block, exact or approximate (eq. 5);
    ``oracle(i, g)`` the point of M_i with the least inner product with g, or one nearly as good (eq. 4). ``blocks`` are
    the coordinates of each block, ``sets`` the sets that were drawn, one a step, from any distribution in which every
    block comes; ``p_min`` says how likely the rarest one is drawn. x is the start.
    """
    for t, T_t in enumerate(sets):  # 1, 2
        gamma = 2.0 / (p_min * t + 2.0)
        following = x.copy()
        for i in T_t:  # 3
            g = gradient(x, blocks[i])  # 4
            s = oracle(int(i), g)  # 5
            following[blocks[i]] = x[blocks[i]] + gamma * (s - x[blocks[i]])  # 6
        x = following
        yield x


def algorithm_2(
    A: Sequence[Array],
    y: Array,
    *,
    n: int,
    eta: float,
    T: int,
    tau: int,
    b: float,
    pi: float,
    J: Array | None,
    rng: np.random.Generator,
) -> Array:
    r"""Private Frank-Wolfe with distributed features for the lasso, min \|Ax - y\|^2 / 2n over \|x\|_1 <= eta.

    A_1, ..., A_K are the columns of each user node, y the labels, known to all. The listing knows rows by A'A and A'y
    alone, so any tables with the same ones, such as \sqrt n times a root of A'A / n, stand for those of n people. T
    steps; tau columns that a node draws for each; b, the scale of the Laplace noise "pert"
    (`published_selection_scale`); pi, the standard deviation of the noise on a shared column (`published_column_std`);
    J, the sketch, None for columns as they are.
    """
    JA = list(A) if J is None else [J @ A_k for A_k in A]
    Ay = [A_k.T @ y for A_k in A]
    p = tau / max(A_k.shape[1] for A_k in A)
    x = [np.zeros(A_k.shape[1]) for A_k in A]
    q = np.zeros(len(JA[0]))
    for t in range(T):  # 1 and the second 7
        gamma = 2.0 / (p * t + 2.0)
        shared = np.zeros_like(q)
        for k, x_k in enumerate(x):  # 8: x and q are known to node k
            T_k = rng.permutation(len(x_k))[:tau] if tau < len(x_k) else np.arange(tau)  # 9
            g = JA[k][:, T_k].T @ q - Ay[k][T_k] / n  # 10; mended: J a_i for a_i, and a_i'y over n
            v = np.concatenate([g, -g]) + rng.laplace(0.0, b, 2 * tau)  # 10; mended: both signs, as in subroutine A
            best = int(v.argmax())  # 11
            i, sign = T_k[best % tau], (1.0 if best < tau else -1.0)
            a = JA[k][:, i] + rng.normal(0.0, pi, len(q))  # 12
            x_k *= 1.0 - gamma  # 3, 4
            x_k[i] -= gamma * eta * sign
            shared -= eta * sign * a / n  # mended: eta, which line 3 has
        q = (1.0 - gamma) * q + gamma * shared  # 5; mended: with the index and the column of the same step
    return np.concatenate(x)
