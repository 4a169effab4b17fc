r"""Randomised response of labels [1]_: each person's label, -1 or +1, is flipped by a coin of its own.

A label is flipped with probability p = T / 2^64 for a whole number T, so chosen that p is not below 1/(1 + e^epsilon).
The coin is a whole number of 64 random bits below T, so its probability is exact: the two probabilities of an output
never differ by more than the factor (1 - p)/p <= e^epsilon, with no rounding in between.

What is released keeps no part of the truth, but its law is known, so that sums over many labels can be corrected:
`RandomizedResponse.unbiased` for what is linear in the label, a tilt for the logistic loss.

Proof: ``docs/privacy/randomized_response.md``.

References
----------
.. [1] Warner (1965). Randomized Response: A Survey Technique for Eliminating Evasive Answer Bias. JASA 60(309).
"""

import decimal
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import RandomizedResponseEvent

_COINS: Final = 2**64
_LARGEST: Final = 64.0  # beyond it the threshold is 1 in any case
_DIGITS: Final = 60
_DECIMAL_ERROR: Final = decimal.Decimal("1e-30")  # far above what 60 digits lose of a number below 2^64


@dataclass(frozen=True)
class RandomizedResponse:
    """Release labels in {-1, +1}, each flipped with probability 1/(1 + e^epsilon), rounded up to a multiple of 2^-64.

    Parameters
    ----------
    epsilon : float, in [1e-9, 1e300]
        What one person's label costs, alone. Below 1e-9 nothing could be learnt, from any number of labels.
    """

    epsilon: float

    def __post_init__(self) -> None:
        remedy = "With less, the released labels would say nothing: release none. Public labels need no response."
        value = number("epsilon", self.epsilon, at_least=1e-9, at_most=1e300, remedy=remedy)
        object.__setattr__(self, "epsilon", value)

    @property
    def event(self) -> RandomizedResponseEvent:
        """What one release costs a person."""
        return RandomizedResponseEvent(self.epsilon)

    @cached_property
    def _threshold(self) -> int:
        """The number T of coins, out of 2^64, that flip."""
        with decimal.localcontext(decimal.Context(prec=_DIGITS)):
            flips = _COINS / (1 + decimal.Decimal(min(self.epsilon, _LARGEST)).exp())
            return math.floor(flips + _DECIMAL_ERROR) + 1

    @property
    def flip_probability(self) -> float:
        """The probability p that a label is flipped."""
        return self._threshold / _COINS

    @property
    def gain(self) -> float:
        """The expectation 1 - 2p of a released label, relative to the true one; in (0, 1)."""
        return (_COINS - 2 * self._threshold) / _COINS

    @property
    def tilt(self) -> float:
        """The tilt p/(1 - 2p) of the loss whose expectation over the coins is the loss of the true label."""
        return self._threshold / (_COINS - 2 * self._threshold)

    def release(
        self, labels: NDArray[np.float64], generator: np.random.Generator
    ) -> tuple[NDArray[np.float64], RandomizedResponseEvent]:
        """Return the labels after their coins, in {-1, +1}, and the event that pays for them.

        Parameters
        ----------
        labels : ndarray of shape (n_people,)
            Private. -1 or +1, one for each person.
        generator : numpy.random.Generator
            The stream for noise.

        Raises
        ------
        ParameterError
            If a label is neither -1 nor +1.
        """
        true = _signs(labels)
        coins = generator.integers(0, _COINS, true.shape, dtype=np.uint64)
        return np.where(coins < np.uint64(self._threshold), -true, true), self.event

    def unbiased(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return soft labels, whose expectation over the coins is the true label: released labels over 1 - 2p.

        Parameters
        ----------
        labels : ndarray of shape (n_people,)
            As released, -1 or +1.
        """
        return _signs(labels) / self.gain


def _signs(labels: NDArray[np.float64]) -> NDArray[np.float64]:
    signs = np.asarray(labels)
    if signs.dtype.kind not in "fi" or not np.all(np.abs(signs) == 1):
        raise ParameterError(
            f"labels must be an array of -1 and +1 only; got something else, in an array of {signs.dtype}. Map the two "
            "classes to -1 and +1 first."
        )
    return signs.astype(np.float64)
