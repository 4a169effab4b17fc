"""From a solver's name and public facts to a plan; the closed list of central solvers."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

from sottovoce._validation import choice
from sottovoce.central.objective_perturbation import ObjectivePlan
from sottovoce.central.plan import Plan
from sottovoce.central.primal_scd import PrimalPlan
from sottovoce.central.scd.accelerated import AcceleratedPlan
from sottovoce.central.scd.minibatch import MinibatchPlan
from sottovoce.central.scd.paper import PaperPlan
from sottovoce.central.sdca import NonPrivatePlan
from sottovoce.central.seq_scd import SequentialPlan
from sottovoce.central.sgd import PlainSGDPlan, SGDPlan
from sottovoce.central.sufficient_statistics import SufficientStatisticsPlan
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Loss
from sottovoce.privacy.adjacency import Adjacency

__all__ = ["SOLVERS", "make_plan"]

_KINDS: Final[dict[str, type[Plan]]] = {
    "scd": AcceleratedPlan,
    "minibatch-scd": MinibatchPlan,
    "paper-scd": PaperPlan,
    "objective": ObjectivePlan,
    "sgd": SGDPlan,
    "seq-scd": SequentialPlan,
    "primal-scd": PrimalPlan,
    "adassp": SufficientStatisticsPlan,
}
SOLVERS: Final = ("auto", *_KINDS)


def make_plan(
    solver: str,
    *,
    loss: Loss,
    n_samples: int,
    n_features: int,
    n_models: int,
    alpha: float,
    intercept: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    label_bound: float | None,
    tol: float,
    max_iter: int,
    options: Mapping[str, object] | None = None,
) -> Plan:
    """Return the frozen plan of a run; ``epsilon=inf`` gives the one without noise: SGD for ``"sgd"``, else SDCA.

    Parameters
    ----------
    solver : str
        One of `SOLVERS`; ``"auto"`` is accelerated full-batch DP-SCD.
    loss, n_samples, n_features, n_models, alpha, intercept, epsilon, delta, adjacency, label_bound
        Public facts; see `sottovoce.central.plan.Plan`.
    tol : float
        Stopping tolerance of a run without noise.
    max_iter : int
        Cap on its epochs.
    options : mapping or None
        Public parameters of the solver itself, by the names of its plan's own fields.

    Raises
    ------
    ParameterError
        If the solver is unknown, does not offer the adjacency or has no such option.
    """
    choice("solver", solver, SOLVERS)
    kind = AcceleratedPlan if solver == "auto" else _KINDS[solver]
    own = _options(solver, kind, options)
    facts: dict[str, Any] = {
        "loss": loss,
        "n_samples": n_samples,
        "n_features": n_features,
        "n_models": n_models,
        "alpha": alpha,
        "intercept": intercept,
        "epsilon": epsilon,
        "delta": delta,
        "adjacency": adjacency,
        "label_bound": label_bound,
    }
    if math.isinf(epsilon) and kind is SGDPlan:
        return PlainSGDPlan(**facts, **own)
    if math.isinf(epsilon):
        return NonPrivatePlan(**facts, tol=tol, max_iter=max_iter)
    return kind(**facts, **own)


def _options(solver: str, kind: type[Plan], options: Mapping[str, object] | None) -> dict[str, Any]:
    """Return the options, checked against the fields that the plan adds to the common ones."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ParameterError(f"solver_options must be a dict or None; got {options!r}.")
    common = {field.name for field in dataclasses.fields(Plan)}
    known = [field.name for field in dataclasses.fields(kind) if field.name not in common]
    for name in options:
        if name not in known:
            raise ParameterError(
                f"solver_options has no entry {name!r} for solver={solver!r}; it takes {', '.join(map(repr, known))}."
            )
    return dict(options)
