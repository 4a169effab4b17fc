"""What an adversary makes of the counts by which a fit finds a bound that most rows keep."""

import math

GRID = [2.0 ** (-k / 2.0) for k in range(24, -1, -1)]
COUNTS = 5


def bound_and_score(releases, *, n, others, inside, zeroed):
    """Return the bound, the log-likelihood ratio of a canary of norm 1 in these counts, and the other releases.

    Parameters
    ----------
    releases : list of tuple
        Values, standard deviation and whatever else of each release of a run.
    n : int
        Public number of rows.
    others, inside : int, float
        Number and norm of the other rows.
    zeroed : bool
        Whether the neighbouring table has a row of zeros in the place of the canary, which is counted as short.
    """
    first, last, score = 0, len(GRID) - 1, 0.0
    for value, std, *_ in releases[:COUNTS]:
        place = (first + last) // 2
        counted = others * (inside <= GRID[place])
        score += ((value[0] - counted - zeroed) ** 2 - (value[0] - counted) ** 2) / (2.0 * std**2)
        if value[0] >= min(0.98, max(0.8, 1.0 - 2.0 * std / n)) * n + std:
            last = place
        else:
            first = min(place + 1, last)
    bound = GRID[last] if GRID[last] <= 0.5 else 1.0
    assert math.isclose(GRID[-1], 1.0)
    return bound, score, releases[COUNTS:]


def shortened(norm, bound):
    """Return the norm of a row for rows in units of a bound."""
    return norm / max(norm + 2e-8, bound) if bound < 1.0 else norm
