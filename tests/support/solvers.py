"""Every central solver: those with a name, and the objects of `sottovoce.papers.dp_scd`, by one list of names."""

from typing import Any

from sottovoce.estimators._solvers import SOLVERS
from sottovoce.papers import dp_scd

OBJECTS = {kind.__name__: kind for kind in dp_scd.SOLVERS}
EVERY = (*SOLVERS, *OBJECTS)


def by_name(name: str, options: dict[str, Any] | None = None) -> Any:
    """Return what ``solver=`` takes; options are for objects alone."""
    return OBJECTS[name](**(options or {})) if name in OBJECTS else name


def solved(name: str, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the arguments of an estimator that ask for a solver with these options."""
    own = name in OBJECTS
    return {"solver": by_name(name, options), "solver_options": None if own else options}
