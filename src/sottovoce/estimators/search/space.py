"""The space of a search: public lists and distributions, from which each trial draws its parameters."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from sottovoce._validation import choice
from sottovoce.exceptions import ParameterError

# What a trial may choose: public choices that leave adjacency, budget and the checks of the data as they are.
SEARCHABLE: Final = ("alpha", "data_norm", "fit_intercept", "intercept_scaling", "solver", "solver_options")
_MOST_CHECKED: Final = 4096  # combinations of listed values that are checked before the data are read


def check_space(space: object) -> None:
    """Refuse what is no dict from searchable parameters to lists or distributions."""
    if not isinstance(space, Mapping) or not space:
        raise ParameterError(
            f"param_distributions must be a dict from names to lists or distributions, not empty; got {space!r}."
        )
    for name, values in space.items():
        choice("param_distributions", name, SEARCHABLE, remedy="Others are the same in every trial.")
        listed = isinstance(values, (list, tuple)) or (isinstance(values, np.ndarray) and values.ndim == 1)
        if not hasattr(values, "rvs") and not (listed and len(values)):
            raise ParameterError(
                f"param_distributions[{name!r}] must be a list, not empty, or have a method rvs; got {values!r}."
            )


def combinations(space: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Go through the listed values, up to a few thousand; those with a distribution stay as the estimator has them."""
    listed = {name: values for name, values in space.items() if not hasattr(values, "rvs")}
    for chosen in itertools.islice(itertools.product(*listed.values()), _MOST_CHECKED):
        yield {name: _plain(value) for name, value in zip(listed, chosen, strict=True)}


def draw(space: Mapping[str, Any], chance: np.random.Generator) -> dict[str, Any]:
    """Draw each parameter by itself, with replacement: trials have to be independent and alike."""
    drawn = {}
    for name, values in space.items():
        listed = not hasattr(values, "rvs")
        drawn[name] = _plain(values[chance.integers(len(values))] if listed else values.rvs(random_state=chance))
    return drawn


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
