r"""A slope and a shift for the predictions of finished weights, from one noisy release.

Predictions z = x.w of noisy weights are too long where noise dominates, too short where few damped steps were taken.
sigma(a z + b) with two fitted numbers mends both, and learns the base rate where the weights know nothing.

1. Each row is shared between the two nodes beside its z, on a fixed grid, and gives the vector
   (1 - t) A_k + t A_{k+1}: A has one column for each node and label, none longer than 1. The sum over rows is released
   with Gaussian noise. So a row moves it by at most 1 (two rows by at most the widest gap of two columns), whatever its
   prediction is.
2. A is public: it minimises the noise in the estimating equations below, on average over the slopes and shifts that are
   likely beforehand (a matrix mechanism [1]_). It halves the noise of a plain histogram.
3. (a, b) solve sum_i (sigma(a z_i + b) - t_i) (phi(a z_i), 1) = 0 with phi cut: the score of logistic regression with
   a bounded weight in z. Where a logistic model holds, the cut leaves its root where it is, and takes the noise of far
   rows. It is raised with mu n, from 1.5 on. There is no penalty: it chose the direction, and would make the length
   dishonest.
4. The law of the noise in these equations is public. So the answer is the mean of log a and b under their Gaussian
   likelihood and a prior that the information mu n decides: where it is small the slope is near 0, that is the noise
   of the weights is shrunk away, and the shift is near the logarithm of the odds of the labels.

Everything after step 1 is post-processing. Numbers have sums of their own: ``central/sums/last_factors.py``. Privacy:
``docs/privacy/calibration.md``.

References
----------
.. [1] Li, Miklau, Hay, McGregor, Rastogi (2015). The matrix mechanism: optimizing linear counting queries under
   differential privacy. VLDB Journal 24.
"""

import math
from functools import cache, lru_cache, partial
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude, number
from sottovoce.central.core import Asked, Keep, Release, Unprotected
from sottovoce.central.plan import HARDLY_ANY_NOISE, TrainingFacts
from sottovoce.central.sums.last_factors import LONGEST, cut_for, slope_and_shift
from sottovoce.central.sums.shared_counts import (
    CUT,
    LIMIT,
    NODES,
    PARTS,
    BinnedMargins,
    Prior,
    design_for,
    equations_at,
    grid_around,
    shared_counts,
)
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.privacy.calibration import gaussian_mu

# names in the receipt
SLOPES: Final = "slopes of the calibration (noisy)"
SHIFTS: Final = "shifts of the calibration (noisy)"
_WORDS: Final = "noisy sums over rows that depend on prediction and label: slope and shift of each model follow"

_SPREAD: Final = (0.05, 0.05)  # variance of a row's term in the equations, for the sampling error
_STEEPNESS: Final = (0.3, 0.35)  # of the equations, by row, in log slope and shift
SHORT_BY_WISH: Final = 1e-3  # alpha beyond which the length of the weights is what was asked for
_LEAST_EIGENVALUE: Final = 0.005  # of wide tables: theirs are never spread evenly
_SURE: Final = 3.0  # standard deviations, of noise and rows that move, by which a cut has to be better
_BEYOND: Final = 2.0 * NODES[-1]  # where a cut leaves all rows on one side
_CUTS: Final = np.unique([*np.linspace(-3.0, 3.0, 241), *np.linspace(NODES[0], NODES[-1], 241), -_BEYOND, _BEYOND])


def share_for(information: float) -> float:
    """Return the share of mu^2 that slope and shift of one model get, for mu n of its training.

    Their own noise costs about c / (share (mu n)^2) in log loss, and the share costs about share c' / (mu n) in that of
    the weights: the best share falls with the root of mu n. Its factor was measured
    (``docs/privacy/calibration.md``). Where mu n is next to nothing, so is the share.
    """
    return min(0.5, max(0.005, 1.5 / math.sqrt(information))) if information > 1e-3 else 0.0


def share_by_rule(given: float | None, facts: TrainingFacts) -> float:
    """Return the share that was given, or that of the rule: one model of two classes or of numbers has one."""
    if given is not None:
        return given
    if facts.weight_bound is not None:
        return 0.0  # the odds that weights ask for are not those of the rows
    mu = gaussian_mu(facts.epsilon, facts.delta)
    # the sums for numbers are not cut by person, as passes are: for several rows they would be noise
    of_numbers = not facts.loss.is_classification and facts.neighbours.rows == 1
    is_one = facts.n_models == 1 and (isinstance(facts.loss, Logistic) or of_numbers) and facts.alpha <= SHORT_BY_WISH
    return share_for(mu * facts.n_units) if is_one and mu <= HARDLY_ANY_NOISE else 0.0


def check_share(given: float | None, facts: TrainingFacts) -> None:
    """Refuse a share that is none, or one for rows with weights."""
    if given is not None and number("calibration_share", given, at_least=0.0, at_most=0.5) != 0.0:
        magnitude("calibration_share", given, remedy="0 leaves the calibration out.")
    if given and facts.weight_bound is not None:
        raise ParameterError(
            "calibration_share must be 0 or None where rows have weights (class_weight, max_sample_weight): the "
            f"odds that weights ask for are not those of the rows; got {given!r}."
        )


def prior_for(information: float, facts: TrainingFacts, eigenvalue: float, precision: float) -> Prior:
    """Return the prior for mu n of a model's training and a released lambda_max of noise 1 / ``precision``.

    Weights that noise dominates have a slope near (mu n)^2 lambda_max times a constant: the share of the signal in the
    variance of their predictions. Where the signal dominates, slopes are between .4 and 2. In between the share is
    rounded to 32nds, so that few designs are ever computed.
    """
    width = facts.n_weights
    noise = facts.neighbours.sum_factor / precision
    # the released value is about two standard deviations too large, and the constant column alone gives its square
    low = max(1.0 / width, _LEAST_EIGENVALUE, eigenvalue - 4.0 * noise - facts.entry**2)
    signal = (information / facts.adjacency.sum_factor) ** 2 * low
    share = max(1, round(32.0 * signal / (signal + 150.0))) / 32.0 if signal > 1.0 else 2.0**-7
    shift = 0.25 * share + 1.3 * (1.0 - share) if facts.constant > 0.0 else 0.0
    # with more information the cut is raised, and the equations become those of the objective itself
    cut = CUT * 2.0 ** (0.5 * max(0, round(math.log2(max(information, 1.0) / 3000.0))))
    return Prior(0.7 * share, 0.45 * share + 0.7 * (1.0 - share), shift, cut)


def shrunk(weights: Vector, scale: float, mu: float, facts: TrainingFacts, model: int) -> Asked[Vector]:
    """Release slope and shift of the predictions of numbers, and return the weights with them.

    ``scale``: > 0; released; of the labels. The rest is as in `calibrated`.
    """
    cut = cut_for(scale, mu * facts.n_units)
    reach = cut if facts.constant > 0.0 else 0.0
    found = yield from slope_and_shift(weights, cut, facts.n_samples, facts.neighbours, mu)
    slope: float = yield Keep(SLOPES, found[0], partial(number, at_least=0.0, at_most=LONGEST), 1.0, model)
    shift = min(max(-reach, found[1]), reach)
    shift = yield Keep(SHIFTS, shift, partial(number, at_least=-reach, at_most=reach), 0.0, model)
    return _moved(weights, slope, shift, facts)


def calibrated(weights: Vector, prior: Prior, mu: float, facts: TrainingFacts, model: int) -> Asked[Vector]:
    """Release slope and shift of the predictions of some weights, and return the weights with them.

    Asked of rows with labels -1 and +1 as targets.

    ``weights``: of shape (n_weights,); released.
    ``mu``: > 0; Gaussian-DP parameter to spend.
    ``model``: which of several it is.
    """
    mechanism = shared_counts(prior, 1.0 / mu, facts.neighbours)
    noisy = yield Release(_WORDS, BinnedMargins(weights, prior), mechanism)

    @cache
    def found() -> tuple[float, float]:
        noise_std, across = mechanism.noise_std, design_for(prior).inverse
        slope, shift = _fit(prior, noisy, noise_std, facts.n_samples)
        if facts.is_for_accuracy:
            shift = accurate_shift(across @ noisy, across, noise_std, slope, shift)
        return slope, shift

    slope: float = yield Keep(SLOPES, lambda: found()[0], partial(number, above=0.0), 1.0, model)
    shift = yield Keep(SHIFTS, lambda: found()[1], number, 0.0, model)
    return _moved(weights, slope, shift, facts)


def moved_for_accuracy(weights: Vector, facts: TrainingFacts) -> Asked[Vector]:
    """Return weights with the intercept where most rows are right, by exact counts: for a run without noise."""
    parts = yield Release("", BinnedMargins(weights), Unprotected())
    counts = np.ravel(parts) / PARTS
    return _moved(weights, 1.0, accurate_shift(counts, np.zeros((len(counts), 1)), 0.0, 1.0, 0.0), facts)


def _moved(weights: Vector, slope: float, shift: float, facts: TrainingFacts) -> Vector:
    moved: Vector = slope * weights
    if facts.constant > 0.0:
        moved[-1] += shift / facts.entry
    return moved


def _fit(prior: Prior, noisy: Vector, noise_std: float, n_public: int) -> tuple[float, float]:
    """Return the slope (of the mean of its logarithm) and the mean shift, given the noisy sums and the prior.

    On a grid that covers the prior first, then on two finer ones around the mean.
    """
    grid = math.log(prior.slope), prior.slope_spread, 0.0, prior.shift_spread
    added = n_public * np.array(_SPREAD)
    # noise alone must not speak for any point: the same without a root there, as wide as the prior lets it be
    reach = n_public * np.array([_STEEPNESS[0] * prior.slope_spread, _STEEPNESS[1] * prior.shift_spread])
    for turn in range(3):
        slopes, shifts, log_prior, equations, products = (_first_look if turn == 0 else _look)(prior, *grid)
        left, variances = equations @ noisy, noise_std**2 * products
        weight = log_prior - 0.5 * (_squares(left, variances, added) - _squares(left, variances, added + reach**2))
        weight = np.exp(weight - weight.max())
        weight /= weight.sum()
        grid = (
            *_mean_and_spread(weight.sum(axis=1), slopes, grid[1]),
            *_mean_and_spread(weight.sum(axis=0), shifts, grid[3]),
        )
    return math.exp(grid[0]), grid[2]


def _look(prior: Prior, *grid: float) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    """Return the grid and the logarithm of the prior there, the equations, and their products, each once, in order."""
    slopes, shifts, log_prior = grid_around(prior, *grid)
    equations = equations_at(np.exp(slopes), shifts, design_for(prior))
    products = [np.einsum("abk,abk->ab", one, other) for k, one in enumerate(equations) for other in equations[k:]]
    return slopes, shifts, log_prior, equations, np.array(products)


_first_look = lru_cache(maxsize=16)(_look)  # it follows from public facts alone


def _squares(vectors: Vector, products: Vector, added: Vector) -> Vector:
    """Return v' C^-1 v for each vector v, of one or two entries; C are the products, and more on their diagonal."""
    first = products[0] + added[0]
    squares: Vector = vectors[0] ** 2 / first
    if len(products) > 1:
        share = products[1] / first
        rest = np.maximum(products[2] - share * products[1], 0.0) + added[1]
        squares = squares + (vectors[1] - share * vectors[0]) ** 2 / rest
    return squares


def _mean_and_spread(weight: Vector, values: Vector, spread: float) -> tuple[float, float]:
    """Return the mean, and a spread for the next grid: at least two steps of this one."""
    mean = float(weight @ values)
    steps = 2.0 * LIMIT * spread / max(1, len(values) - 1)
    return mean, min(spread, max(math.sqrt(float(weight @ (values - mean) ** 2)), 2.0 * steps / LIMIT))


def accurate_shift(counts: Vector, across: Vector, noise_std: float, slope: float, shift: float) -> float:
    """Return the shift of the cut that puts most rows right; the given one, unless another is surely better.

    A calibrated model says class 1 where that is more likely than not: the best cut if the odds are logistic. Where
    they are not, another one errs less. The counts were released anyway, so the choice is post-processing.

    Parameters
    ----------
    counts : array of shape (2 * nodes,)
        Rows of label -1 at each node, then those of label +1; noisy.
    across : array of shape (2 * nodes, n)
        What n independent terms of noise, of standard deviation ``noise_std``, add to the counts.
    slope, shift : float
        Of the calibrated predictions.
    """
    cut = np.array([-shift / slope])
    more = _all() - _below(cut)  # rows of label -1 that are right then, less those of +1 that were
    signed = counts[: len(NODES)] - counts[len(NODES) :]
    noise = more @ (across[: len(NODES)] - across[len(NODES) :])
    moved = np.abs(more) @ np.maximum(counts[: len(NODES)] + counts[len(NODES) :], 0.0)
    gains = more @ signed - _SURE * np.sqrt(noise_std**2 * np.square(noise).sum(axis=1) + moved)
    best = int(gains.argmax())
    return float(-slope * _CUTS[best]) if gains[best] > 0.0 else shift


def _below(cuts: Vector) -> Vector:
    """Return which share of the rows of each node is below each cut, of shape (cuts, nodes).

    A row was shared between the nodes beside it, so the rows of a node lie in a triangle.
    """
    gaps = np.diff(NODES)
    left, right = np.append(1.0, gaps), np.append(gaps, 1.0)
    away = cuts[:, None] - NODES
    rising = np.square(np.clip(away + left, 0.0, left)) / left
    falling = right - np.square(np.clip(right - away, 0.0, right)) / right
    shares: Vector = (rising + np.where(away > 0.0, falling, 0.0)) / (left + right)
    return shares


@cache
def _all() -> Vector:
    return _below(_CUTS)
