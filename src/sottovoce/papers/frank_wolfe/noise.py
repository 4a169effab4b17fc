r"""The noise of private Frank-Wolfe over distributed columns as published, for reproduction: its claim does not hold.

Formulas of Lou and Cheung [1]_ for a claimed epsilon and delta, n people, K parties, T steps, a ball of size eta for
entries within [-1, 1], slopes within G, and a public Gaussian sketch J of m rows. What they give:
``docs/privacy/published_vertical_frank_wolfe.md``.

References
----------
.. [1] Lou, Cheung (2018). Uplink Communication Efficient Differentially Private Sparse Optimization With Feature-Wise
   Distributed Data. AAAI 2018; Algorithm 2, Theorems 2 and 3.
"""

import math

from sottovoce._validation import number, whole_number
from sottovoce.privacy.events import Event, GaussianEvent, PureEvent, RepeatedEvent, compose

__all__ = ["published_column_std", "published_event", "published_rows", "published_selection_scale", "published_steps"]


def published_steps(n_people: int, epsilon: float) -> int:
    r"""Return T of Theorem 3 with its constants left out, :math:`(n \varepsilon)^{2/3}`, rounded.

    Examples
    --------
    >>> published_steps(10_000, 1.0)
    464
    """
    n, epsilon = whole_number("n_people", n_people, at_least=1), number("epsilon", epsilon, above=0.0)
    return max(1, round(math.pow(n * epsilon, 2.0 / 3.0)))


def published_rows(n_steps: int, delta: float, jl_parameter: float) -> int:
    r"""Return m of the sketch, :math:`\ln(2 T / \delta) / \iota^2` with the constant 1, rounded up.

    Parameters
    ----------
    n_steps : int
        T.
    delta : float, in (0, 1)
    jl_parameter : float, in (0, 1]
        iota, the relative error that a sketched inner product may have.
    """
    n_steps = whole_number("n_steps", n_steps, at_least=1)
    delta = number("delta", delta, above=0.0, below=1.0)
    jl_parameter = number("jl_parameter", jl_parameter, above=0.0, at_most=1.0)
    return math.ceil(math.log(2.0 * n_steps / delta) / jl_parameter**2)


def published_selection_scale(
    slope_bound: float, vertex: float, *, n_people: int, n_steps: int, epsilon: float, delta: float
) -> float:
    r"""Return the scale of the Laplace noise on a partial derivative of the mean loss.

    .. math:: \frac{(2 G \eta / K n) \sqrt{2 T \ln(1 / (\delta / 2))}}{(\varepsilon / 2 K) / 2}
       = \frac{8 G \eta \sqrt{2 T \ln(2 / \delta)}}{n \varepsilon}.

    Parameters
    ----------
    slope_bound : float, > 0
        G.
    vertex : float, > 0
        eta, for entries within [-1, 1].
    n_people, n_steps : int
    epsilon, delta : float
        As claimed.
    """
    root = math.sqrt(2.0 * n_steps * math.log(2.0 / delta))
    return 8.0 * slope_bound * vertex * root / (n_people * epsilon)


def published_column_std(
    sensitivity: float, *, n_people: int, n_parties: int, n_steps: int, epsilon: float, delta: float
) -> float:
    r"""Return pi, the standard deviation of the noise on an entry of a sketched column.

    .. math:: \frac{\sigma(J) \sqrt{K T} \sqrt{2 (\ln(1/\delta) + \varepsilon / 2)}}{n \varepsilon / 2}.

    Parameters
    ----------
    sensitivity : float, > 0
        sigma(J), the leading singular value of the sketch; 1 without one.
    n_people, n_parties, n_steps : int
    epsilon, delta : float
        As claimed.

    Examples
    --------
    >>> facts = {"n_people": 10_000, "n_parties": 4, "n_steps": 464, "epsilon": 1.0, "delta": 1e-5}
    >>> round(published_column_std(24.3, **facts), 2)
    1.03
    """
    root = math.sqrt(n_parties * n_steps) * math.sqrt(2.0 * (math.log(1.0 / delta) + 0.5 * epsilon))
    return sensitivity * root / (0.5 * n_people * epsilon)


def published_event(selection_epsilon: float, column_noise: float, n_steps: int) -> Event:
    """Return what so many steps of one party really cost: a choice and a shared column each.

    Parameters
    ----------
    selection_epsilon : float
        A noisy maximum with Laplace noise of scale b over scores that move by at most D is (2 D / b)-DP.
    column_noise : float
        Standard deviation over what one person can move the sketch by.
    n_steps : int
    """
    return compose(
        RepeatedEvent(PureEvent(selection_epsilon), n_steps), RepeatedEvent(GaussianEvent(column_noise), n_steps)
    )
