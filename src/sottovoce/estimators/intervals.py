"""Confidence intervals for the coefficients of a model, from what its solver released."""

from typing import Any, Final

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from sottovoce._numerics import Vector
from sottovoce._parameters import attribute
from sottovoce._validation import number
from sottovoce.central.plan import Plan, Solution
from sottovoce.exceptions import ParameterError

STANDARD_ERRORS: Final[Any] = attribute(
    "ndarray of the same shape, or None",
    "Their standard errors, for sampling and noise together; infinite where the noise hides the coefficients.",
)


def unpenalised(model: Any, plan: Plan, solution: Solution, offset: float = 0.0) -> tuple[Vector | None, Vector | None]:
    """Return unpenalised coefficients and standard errors in the user's units, the intercept last where there is one.

    ``offset``: what is added to the intercept.
    """
    found = solution.unpenalised
    if found is None:
        return None, None
    coef, intercept = model._unscaled(plan, np.stack([found.estimates, found.standard_errors]))
    if not model.fit_intercept:
        return coef[0], coef[1]
    return np.append(coef[0], intercept[0] + offset), np.append(coef[1], intercept[1])


def intervals(model: Any, estimates: str, level: float, needs: str, remedy: str) -> Vector:
    """Return confidence intervals of a level around unpenalised coefficients, the intercept last.

    ``estimates``: the attribute that has them.
    ``needs``, ``remedy``: what a model without them lacks, and how to fit one that has it.
    """
    check_is_fitted(model)
    level = number("level", level, above=0.0, below=1.0)
    if model.max_rows_per_group is not None:
        raise ParameterError(
            "confidence intervals are for independent rows, and those of one person are not independent; this model "
            f"has max_rows_per_group={model.max_rows_per_group!r}."
        )
    centre, errors = getattr(model, estimates), model.standard_errors_
    if centre is None or errors is None:
        raise ParameterError(
            f"confidence intervals need {needs}; this model has solver {model.guarantee_.parameters['solver']!r} and "
            f"adjacency {model.adjacency!r}. Fit it with {remedy}."
        )
    half = float(ndtri(0.5 + 0.5 * level)) * errors
    return np.column_stack([centre - half, centre + half])
