r"""How much the label holder gives for another party's score: from public facts alone.

A private model is part signal and part noise. What it is made of is the sum of labels times rows. With n people, d
columns, labels that weigh b (more where they went through randomised response) and noise of standard deviation s in
each entry of a gradient, the squared length of that sum is about

.. math:: \underbrace{A n^2 / d}_\text{signal} + \underbrace{d s^2}_\text{noise} + \underbrace{b^2 n}_\text{luck},

the last because a row has norm 1 at most. The score of party m counts by the share of the signal,

.. math:: \frac{c}{(M - 1)^p} \, \frac{A n^2}{A n^2 + d\,(d s^2 + b^2 n)}:

most where one party joins and the noise fades, nothing where noise is all there is, and less each where more parties
are likely to say the same. Predictions of numbers that are added up can be arbitrarily far off where all say the same,
so for them p = 1 and c = 1: together the others count once at most. For classes p = 0.3 and c = 0.7, the smallest whose
mean log loss is within 1 % of the best one's: what columns say twice is not public, so that less is safer. The
constants were chosen by `benchmarks.vertical.weights`. Nothing in it depends on a row or a label.
"""

import math
from typing import Final

from sottovoce.vertical.protocols.local_models.released_labels import ReleasedLabelsPlan

__all__ = ["MOST_OF_CLASSES", "public_weight"]

MOST_OF_CLASSES: Final = 0.7  # c, for classes

_CLASSES: Final = (MOST_OF_CLASSES, 0.4, 0.3)  # c, A, p, for labels -1 and +1 as they are
_NUMBERS: Final = (1.0, 0.01, 1.0)  # for numbers, which are seldom at the ends of their bounds


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
    most, strength, power = _CLASSES if is_classification else _NUMBERS
    signal = strength * (plan.unit * n) ** 2
    noise = d * (d * plan.gradient_noise**2 + plan.soft_label_bound**2 * n)
    return most * signal / (signal + noise) / math.pow(n_others, power)
