r"""How much the label holder gives for another party's score: from public facts alone.

A private model is part signal and part noise. What it is made of is the sum of labels times rows. With n people, d
columns, labels that weigh b (more where they went through randomised response) and noise of standard deviation s in
each entry of a gradient, the squared length of that sum is about

.. math:: \underbrace{A n^2 / d}_\text{signal} + \underbrace{d s^2}_\text{noise} + \underbrace{b^2 n}_\text{luck},

the last because a row has norm 1 at most. The score of party m counts by the share of the signal,

.. math:: \frac{1}{(M - 1)^p} \, \frac{A n^2}{A n^2 + d\,(d s^2 + b^2 n)}:

fully where one party joins and the noise fades, nothing where noise is all there is, and less each where more parties
are likely to say the same. Predictions of numbers that are added up can be arbitrarily far off where all say the same,
so for them p = 1: together the others count once at most. For classes p = 0.3. The constants were chosen by
`benchmarks.vertical.weights`. Nothing in it depends on a row or a label.
"""

import math
from typing import Final

from sottovoce.vertical.protocols.local_models.released_labels import ReleasedLabelsPlan

__all__ = ["public_weight"]

_CLASSES: Final = 0.4  # A, for labels -1 and +1 as they are
_NUMBERS: Final = 0.01  # A, for numbers, which are seldom at the ends of their bounds
_CROWD_OF_CLASSES: Final = 0.3  # p
_CROWD_OF_NUMBERS: Final = 1.0


def public_weight(plan: ReleasedLabelsPlan, *, n_others: int, is_classification: bool) -> float:
    """Return the weight of one other party's score.

    Parameters
    ----------
    plan : ReleasedLabelsPlan
        Of its training.
    n_others : int
        Parties beside the label holder.
    is_classification : bool
        Whether labels are classes.
    """
    n, d = float(plan.n_samples), float(plan.n_features)
    strength, power = (_CLASSES, _CROWD_OF_CLASSES) if is_classification else (_NUMBERS, _CROWD_OF_NUMBERS)
    signal = strength * (plan.unit * n) ** 2
    noise = d * (d * plan.gradient_noise**2 + plan.soft_label_bound**2 * n)
    return signal / (signal + noise) / math.pow(n_others, power)
