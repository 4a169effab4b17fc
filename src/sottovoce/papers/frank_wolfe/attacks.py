r"""Attacks on the published noise of private Frank-Wolfe over distributed columns: its claim does not hold.

What is attacked is the noisy sketch J a + N(0, pi^2 I) of a column a that a party sends in every step, J public, see
`sottovoce.papers.frank_wolfe.published`. The adversary is that of differential privacy: it knows the column but
for one person's entry, and two or more values that this entry may have. For two values at a distance D the likelihood
test is right with probability :math:`\Phi(D \, |J e_i| / 2 \pi)`, and over several releases with
:math:`\Phi(\mu / 2)`, mu the root of the sum of (D |J e_i| / pi)^2: no test can do better.

Statements: ``docs/privacy/published_vertical_frank_wolfe.md``.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.papers.frank_wolfe._arrays import matrix, vector
from sottovoce.papers.frank_wolfe.noise import Sketch


def identify_entry(releases: ArrayLike, others: ArrayLike, person: int, candidates: ArrayLike, sketch: Sketch) -> float:
    """Return the candidate that makes the releases most likely: what the person's entry is.

    Parameters
    ----------
    releases : array-like of shape (n_releases, m) or (m,)
        Noisy sketches of one column, all with the same noise.
    others : array-like of shape (n,)
        The column; what it holds at ``person`` is not looked at.
    person : int
    candidates : array-like of shape (n_candidates,)
    sketch : Sketch
    """
    seen, column = matrix("releases", np.atleast_2d(releases)), vector("others", others, size=sketch.n_people)
    values = vector("candidates", candidates)
    if seen.shape[1] != sketch.n_rows:
        raise ParameterError(f"releases must hold sketches of {sketch.n_rows} numbers; got shape {seen.shape}.")
    if not len(values):
        raise ParameterError("candidates must be a list of values; got none.")
    place = whole_number("person", person, at_least=0, at_most=sketch.n_people - 1)
    column[place] = 0.0
    own = np.zeros(sketch.n_people)
    own[place] = 1.0
    direction = sketch.compress(own)
    # least squares along J e_i: the mean of the releases is all that counts
    estimate = float(direction @ (seen.mean(axis=0) - sketch.compress(column))) / float(direction @ direction)
    return float(values[np.argmin(np.abs(values - estimate))])


def success_at_most(mu: float) -> float:
    """Return how often the best test between two equally likely tables is right, at a mean shift ``mu``."""
    return float(ndtr(0.5 * number("mu", mu, at_least=0.0)))


def least_error(mu: float) -> float:
    """Return one minus `success_at_most`, which does not round to 0 where that rounds to 1."""
    return float(ndtr(-0.5 * number("mu", mu, at_least=0.0)))
