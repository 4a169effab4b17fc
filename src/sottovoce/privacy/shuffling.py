r"""Amplification by shuffling: what locally private reports cost in the central sense once a trusted party mixed them.

If n people each send one report of an epsilon_0-LDP mechanism and somebody whom all trust puts the reports in random
order and strips everything that tells whose they are, what comes out is (epsilon, delta)-DP for neighbours that differ
in one person's record, with [1]_

.. math:: \epsilon = \log\Bigl(1 + \frac{e^{\epsilon_0} - 1}{e^{\epsilon_0} + 1}
          \Bigl(\frac{8 \sqrt{e^{\epsilon_0} \log(4/\delta)}}{\sqrt n} + \frac{8 e^{\epsilon_0}}{n}\Bigr)\Bigr),

where epsilon_0 <= log(n / (16 log(2/delta))). It is a statement about the mixed reports only: against the collector who
takes the reports from the devices the loss remains epsilon_0.

References
----------
.. [1] Feldman, McMillan, Talwar (2021). Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy
   Amplification by Shuffling. FOCS 2021, Theorem 3.1 (replace-one neighbours).
"""

import math

from sottovoce._validation import number, whole_number


def shuffled_epsilon(epsilon: float, n: int, delta: float) -> float:
    """Return the central epsilon of n shuffled reports at ``delta``; ``epsilon`` itself where the theorem says nothing.

    Parameters
    ----------
    epsilon : float
        Of one report, pure local differential privacy, the same mechanism for everybody: seeds must be random, not
        derived from anything that tells the person.
    n : int
        Reports that were mixed.
    delta : float, in (0, 1)

    Returns
    -------
    float
        Rounded up by 1e-12 of itself; never more than ``epsilon``.
    """
    epsilon = number("epsilon", epsilon, above=0.0)
    n = whole_number("n", n, at_least=1)
    delta = number("delta", delta, above=0.0, below=1.0)
    if epsilon > math.log(n) - math.log(16.0 * math.log(2.0 / delta)):
        return epsilon
    e = math.exp(epsilon)
    gain = 8.0 * math.sqrt(e * math.log(4.0 / delta) / n) + 8.0 * e / n
    return min(epsilon, math.log1p(math.tanh(0.5 * epsilon) * gain) * (1.0 + 1e-12))
