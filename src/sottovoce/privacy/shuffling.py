r"""What pure local reports cost in the central model, if a trusted shuffler has mixed them first.

n people each send a report that is e0-DP by itself; a shuffler that everybody trusts hands them on in random order,
with nothing else. If e0 <= log(n / (16 log(2/delta))), the whole output is (e, delta)-DP for one person [1]_,

.. math:: e = \log\Bigl(1 + \frac{e^{e_0} - 1}{e^{e_0} + 1}
          \Bigl(\frac{8 \sqrt{e^{e_0} \log(4/\delta)}}{\sqrt n} + \frac{8 e^{e_0}}{n}\Bigr)\Bigr),

for neighbours that differ in one person's data. Otherwise, and where this is not less, e0 itself is what is known.

References
----------
.. [1] Feldman, McMillan, Talwar (2021). Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy
   Amplification by Shuffling. arXiv:2012.12803, Theorem 3.1.
"""

import math

from sottovoce._validation import number, whole_number

__all__ = ["shuffled_epsilon"]


def shuffled_epsilon(epsilon: float, n: int, delta: float) -> float:
    """Return the central epsilon, at ``delta``, of n shuffled reports.

    Parameters
    ----------
    epsilon : float, > 0
        Of one report, pure and local.
    n : int, >= 1
        Number of reports. Public.
    delta : float, in (0, 1)
    """
    local = number("epsilon", epsilon, above=0.0)
    n = whole_number("n", n, at_least=1)
    delta = number("delta", delta, above=0.0, below=1.0, remedy="Choose it well below 1 / n.")
    if local > math.log(n / (16.0 * math.log(2.0 / delta))):
        return local
    growth = math.exp(local)
    spread = 8.0 * math.sqrt(growth * math.log(4.0 / delta) / n) + 8.0 * growth / n
    central = math.log1p(math.tanh(0.5 * local) * spread) * (1.0 + 1e-14)
    return min(local, central)
