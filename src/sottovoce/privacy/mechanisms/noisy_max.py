r"""The exponential mechanism: choose one of N candidates, r with probability proportional to exp(score_r / scale).

It is the same as adding independent Gumbel noise to the scores and reporting where the largest one is ("noisy max")
[1]_. Let the score of candidate r move by d_r between neighbours. Then log P(r)/P'(r) = d_r / scale - log(Z/Z'), so all
losses lie in one window of width (max d - min d) / scale: the mechanism is bounded-range, and composes better than a
pure guarantee says [2]_. (Permute-and-flip is more accurate for one selection at the same pure epsilon, but it is not
bounded-range, so that many selections in a row cost more.)

Nothing real-valued is released, only a candidate; what floating point can do wrong is to change the probabilities. The
scores are whole numbers, each weight exp((score - max) / scale) is one double that is right to 2e-13 of itself, and
candidates are drawn by rejection: one uniformly, kept with exactly that probability. So every probability is right to
a relative 1e-12, also the smallest ones, and the range is reduced by more than that. Sums of weights play no part.

Proof: ``docs/privacy/frank_wolfe.md``.

References
----------
.. [1] McSherry, Talwar (2007). Mechanism Design via Differential Privacy. FOCS 2007.
.. [2] Durfee, Rogers (2019). Practical Differentially Private Top-k Selection with Pay-what-you-get Composition.
   NeurIPS 2019, arXiv:1905.04273; Definition 3.1.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import BoundedRangeEvent

LEAST_EPSILON: Final = 1e-8  # of one release
MOST_EPSILON: Final = 1e6

# Weights are not below exp(-700) times the largest: a double could not hold them. The floor max(score, max - 700 scale)
# moves no further between neighbours than the scores do, so the range is the same.
LEAST_EXPONENT: Final = -700.0
_ROUNDING: Final = 1e-10  # of the range, far above what the rounding of the weights adds to it
_BITS: Final = 53
_COINS: Final = 2**_BITS


@dataclass(frozen=True)
class ExponentialMechanism:
    """Release the place of a large score.

    Parameters
    ----------
    epsilon : float, in [1e-8, 1e6]
        Width of the window that holds the privacy losses of one release.
    score_range : float, > 0
        Bound on max_r d_r - min_r d_r, in the unit of the scores, where d_r is how far the score of candidate r moves
        between neighbours.
    """

    epsilon: float
    score_range: float

    def __post_init__(self) -> None:
        number("epsilon", self.epsilon, at_least=LEAST_EPSILON, at_most=MOST_EPSILON)
        number("score_range", self.score_range, above=0.0)

    @property
    def event(self) -> BoundedRangeEvent:
        return BoundedRangeEvent(self.epsilon)

    @property
    def rate(self) -> float:
        """The reciprocal of the scale: what a score is multiplied by in the exponent."""
        return (self.epsilon - _ROUNDING) / self.score_range

    def select(self, scores: NDArray[np.int64], noise: np.random.Generator) -> tuple[int, BoundedRangeEvent]:
        """Return the place of the candidate that was drawn, and the event that pays for it.

        Parameters
        ----------
        scores : ndarray of int64, of shape (n_candidates,)
            Private whole numbers below 2^62 in size.
        noise : numpy.random.Generator
        """
        if scores.dtype != np.int64 or scores.ndim != 1 or not scores.size:
            raise ParameterError(
                f"scores must be a 1-d int64 array of at least one; got shape {scores.shape} of {scores.dtype}."
            )
        weights = self.rate * (scores - scores.max())
        np.exp(np.maximum(weights, LEAST_EXPONENT, out=weights), out=weights)  # in place: there may be millions
        # about as many trials as are needed; their number changes no probability
        trials = min(65_536, 16 + math.ceil(2.0 * scores.size / float(weights.sum())))
        while True:
            places = noise.integers(scores.size, size=trials)
            wanted = weights[places] * _COINS  # exact: a power of two
            coins = noise.integers(_COINS, size=trials)
            for trial in np.flatnonzero(coins <= wanted).tolist():
                if coins[trial] < math.floor(wanted[trial]) or _happens(math.fmod(float(wanted[trial]), 1.0), noise):
                    return int(places[trial]), self.event


def _happens(probability: float, noise: np.random.Generator) -> bool:
    """Return True with exactly this probability, comparing its binary digits with random ones, 53 at a time."""
    while probability > 0.0:
        probability *= _COINS
        whole = math.floor(probability)
        coin = int(noise.integers(_COINS))
        if coin != whole:
            return coin < whole
        probability -= whole
    return False
