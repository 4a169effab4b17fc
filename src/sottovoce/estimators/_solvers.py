"""From a solver, by name or as an object, and public facts to a plan; the closed list of names."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

from sottovoce._plain_data import OBJECT
from sottovoce._validation import choice, in_full
from sottovoce.central.calibration import share_by_rule
from sottovoce.central.plan import HARDLY_ANY_NOISE, Plan, Takes, TrainingFacts
from sottovoce.central.solvers.accelerated import AcceleratedPlan
from sottovoce.central.solvers.descent import DescentPlan, MomentumPlan
from sottovoce.central.solvers.multinomial import MultinomialPlan, NonPrivateMultinomialPlan
from sottovoce.central.solvers.newton import NewtonPlan
from sottovoce.central.solvers.one_step import OneStepPlan
from sottovoce.central.solvers.refinement import RefinementPlan
from sottovoce.central.solvers.sgd import SGDPlan
from sottovoce.central.solvers.sufficient_statistics import ConstantPlan, SufficientStatisticsPlan
from sottovoce.central.solvers.without_noise import NonPrivatePlan
from sottovoce.central.sums.largest_eigenvalue import MAX_GRAM
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Hinge, Logistic, Loss, Multinomial, SmoothedHinge
from sottovoce.privacy.calibration import gaussian_mu

_PLANS: Final[tuple[type[Plan], ...]] = (
    AcceleratedPlan, SGDPlan, SufficientStatisticsPlan, MultinomialPlan, NewtonPlan, RefinementPlan, ConstantPlan,
    DescentPlan, MomentumPlan, OneStepPlan,
)  # fmt: skip
_KINDS: Final = {plan.solver: plan for plan in _PLANS}
SOLVERS: Final = ("auto", *_KINDS)
_ENOUGH_SQUARED: Final = 7.0  # mu n / d^1.5, from which the squared loss is left to refinement
# Mu n, and mu n over the root of the number of weights, below which the noise of slopes is more than they explain
# (squared loss): of steps, where predictions get a slope, and where they do not; and mu n at which steps end, and from
# which refinement does without a slope.
_STEPS, _HIDDEN, _BARE, _REFINED = (22.0, 6.0), (22.0, 10.0), (60.0, 20.0), 100.0
_LITTLE: Final = 60.0  # mu n below which a slope and a shift of finished predictions would be noise (logistic loss)
_PLENTY: Final = 1000.0  # mu n below which many short clips beat second moments and dual variables, or
_PLENTY_EACH: Final = 4.0  # mu n over the number of weights, up to
_FAR: Final = 4000.0  # mu n, and beyond it 1; where mu n is at least the number of weights, or that is above
_MANY: Final = 240  # from which on the reach of steps falls no more; and
_MOST_REFINED: Final = 1024  # weights up to which the eigenvectors of X'X cost less than the passes that they save
_FEW: Final = 500.0  # mu n of each of several hinges, below which they are left to Newton steps
_ENOUGH: Final = 500.0  # mu n, and
_ENOUGH_EACH: Final = 4.0  # mu n over the number of weights, from which the logistic loss is left to Newton steps
_CLEAR: Final = 100.0  # mu n over the number of weights, from which the corner of the hinge is drawn sharper
_WEIGHTED: Final = "rows have weights, which no other solver takes"
_TOGETHER: Final = "what the rows of a person add is cut together, so that several cost little more noise than one"


def make_plan(
    solver: str | Plan,
    facts: TrainingFacts,
    options: Mapping[str, object] | None = None,
    *,
    tol: float,
    max_iter: int,
) -> Plan:
    """Return the frozen plan of a run; ``epsilon=inf`` gives the one without noise.

    Raises ParameterError if the solver is unknown, does not offer the adjacency or has no such option.

    ``solver``: one of `SOLVERS`, or an object; ``"auto"`` chooses from public facts, and the plan says why.
    ``options``: public parameters of the solver itself, by the names of its plan's own fields. None for an object,
        which has them.
    ``tol``: stopping tolerance of a run without noise.
    ``max_iter``: cap on its epochs.
    """
    asked: type[Plan] | None
    if isinstance(solver, Plan):
        if options is not None:
            raise ParameterError(f"solver_options must be None: solver={solver!r} has its options; got {options!r}.")
        asked, options = type(solver), solver.options()
        facts = dataclasses.replace(facts, loss=solver.loss_for(facts.loss))
    else:
        asked = _named(solver, facts.loss)
    _refuse_facts(solver, asked, facts)
    if isinstance(facts.loss, Hinge) and (asked is NewtonPlan or (asked is None and _smooths(facts, options))):
        facts = dataclasses.replace(facts, loss=_smoothed(facts))
    name, why = _automatic(facts, options) if asked is None else ("", "")
    kind = asked or _KINDS[name]
    if kind is MultinomialPlan and isinstance(facts.loss, Logistic):
        kind = _KINDS[accelerated_solver(facts.loss, facts.n_models)]  # with two classes it is the one binary model
    if kind.joint and isinstance(facts.loss, Logistic):
        facts = dataclasses.replace(facts, loss=Multinomial(facts.n_models))
    own = _options(solver, kind, options)
    if facts.is_private:
        return kind(facts=facts, choice=why, **own)
    exact = NonPrivateMultinomialPlan if kind.joint else NonPrivatePlan
    return exact(facts=facts, tol=tol, max_iter=max_iter)


def automatic_alpha(n_samples: int, *, private: bool) -> float:
    """Return the penalty that ``alpha="auto"`` stands for: 1 / (2 n) within public limits.

    Without noise it falls with the sampling error of n rows. With noise the number of passes and their average
    regularise already, and less than 1e-5 would only ask for more passes (``docs/measured/data/solvers/notes.txt``).
    """
    return min(1e-3, max(0.5 / n_samples, 1e-5 if private else 1e-7))


def accelerated_solver(loss: Loss, n_models: int) -> str:
    """Return the accelerated solver for a loss: all classes jointly where that is possible and there are several."""
    return MultinomialPlan.solver if isinstance(loss, Logistic) and n_models > 1 else AcceleratedPlan.solver


def _automatic(facts: TrainingFacts, options: Mapping[str, object] | None) -> tuple[str, str]:
    """Return the solver that ``"auto"`` takes, from public facts only, and why; measured in docs/guide/solvers.md."""
    usual = accelerated_solver(facts.loss, facts.n_models)
    if facts.weight_bound is not None:
        return AcceleratedPlan.solver, _WEIGHTED if facts.is_private else ""
    if not facts.is_private:
        return usual, ""
    if options is not None and (not isinstance(options, Mapping) or options):
        return usual, "solver_options were given, and without a solver's name they are those of 'scd'"
    known = gaussian_mu(facts.epsilon, facts.delta) * facts.n_units
    slope = share_by_rule(None, facts) > 0.0
    steps, hidden = (
        max(least, each * math.sqrt(facts.n_weights)) for least, each in (_STEPS, _HIDDEN if slope else _BARE)
    )
    located = facts.loss.name == "squared" and facts.constant > 0.0
    if located and slope and steps <= known < _REFINED:
        return "momentum", (
            f"squared loss, {facts.n_weights} weights and mu n = {known:.3g}, from {steps:.3g} to {_REFINED:g}: many "
            "short steps from a noisy mean of the labels need no slope and no matrix, which would be noise"
        )
    if located and known < hidden:
        return ConstantPlan.solver, (
            f"squared loss, {facts.n_weights} weights and mu n = {known:.3g}, below {hidden:.3g}: noise would hide the "
            "slopes, and a noisy mean of the labels is more accurate"
        )
    if isinstance(facts.loss, Logistic) and facts.n_models == 1 and facts.neighbours.rows == 1 and known < _LITTLE:
        return "gd", (
            f"logistic loss and mu n = {known:.3g}, below {_LITTLE:g}: short steps from a noisy base rate are hardly "
            "worse than a constant, and no budget goes to a slope and a shift that would be noise"
        )
    if facts.neighbours.rows > 1:
        return usual, _TOGETHER
    information = gaussian_mu(facts.epsilon, facts.delta) * facts.n_samples / math.sqrt(facts.n_models)
    seen = information / facts.n_weights**1.5
    refined = (known >= _REFINED or not slope) and facts.n_weights <= _MOST_REFINED
    if facts.loss.name == "squared" and refined and seen >= _ENOUGH_SQUARED:
        return "refinement", (
            f"squared loss, {facts.n_weights} weights and mu n / d^1.5 = {seen:.3g}, at least {_ENOUGH_SQUARED:g}: a "
            "noisy X'X shows most of what rows determine, and passes correct its errors"
        )
    smoothed = isinstance(facts.loss, SmoothedHinge)
    if smoothed and facts.n_weights <= MAX_GRAM and (facts.n_models == 1 or information < _FEW):
        return "newton", (
            f"hinge loss, smoothed, {facts.n_weights} weights and mu n = {information:.0f} (mu of Gaussian DP for one "
            "model): within half a point of the most accurate, in some ten passes"
        )
    if smoothed:
        return "scd", "hinge loss, smoothed: as accurate as any for so many weights, or models"
    if usual == MultinomialPlan.solver:
        return usual, (
            f"{facts.n_models} classes jointly need less noise than one model for each class: a person pays once"
        )
    plenty = max(_PLENTY, min(_PLENTY_EACH * facts.n_weights, max(_FAR, facts.n_weights)))
    reaches = information >= facts.n_weights or facts.n_weights > _MANY
    if isinstance(facts.loss, Logistic) and slope and reaches and information < plenty:
        return "momentum", (
            f"logistic loss, {facts.n_weights} weights and mu n = {information:.0f} (mu of Gaussian DP), below "
            f"{plenty:g}: many short steps leave less noise in the weights than passes or Newton steps"
        )
    enough = max(_ENOUGH, _ENOUGH_EACH * facts.n_weights)
    if isinstance(facts.loss, Logistic) and facts.n_weights <= MAX_GRAM and information >= enough:
        return "newton", (
            f"logistic loss, {facts.n_weights} weights and mu n = {information:.0f} (mu of Gaussian DP), at least "
            f"{enough:.0f}: within half a point of the most accurate, in some thirty passes"
        )
    return "scd", "the most accurate for this loss, number of rows and budget"


def _smooths(facts: TrainingFacts, options: Mapping[str, object] | None) -> bool:
    """Tell whether ``"auto"`` smooths the hinge: not where hardly any noise would hide its corner."""
    plain = facts.weight_bound is None and facts.neighbours.rows == 1
    given = options is not None and (not isinstance(options, Mapping) or bool(options))
    noisy = facts.is_private and gaussian_mu(facts.epsilon, facts.delta) <= HARDLY_ANY_NOISE
    return plain and noisy and not given


def _smoothed(facts: TrainingFacts) -> Loss:
    """Return what is minimised in place of the hinge (docs/decisions/0024-the-hinge-by-newton-steps.md)."""
    if not facts.is_private:
        return facts.loss
    known = gaussian_mu(facts.epsilon, facts.delta) * facts.n_units / math.sqrt(facts.n_models)
    return SmoothedHinge(1.0 if known >= _CLEAR * facts.n_weights else 2.0)


def _named(solver: object, loss: Loss) -> type[Plan] | None:
    if isinstance(solver, Mapping) and OBJECT in solver:
        raise ParameterError(
            f"solver was the object {solver[OBJECT]!r} when this was written. What is read again has its description "
            "alone: give the object itself."
        )
    if not (isinstance(solver, str) and solver in SOLVERS):
        own = [name for name in SOLVERS if name not in _KINDS or _KINDS[name].serves(loss)]
        choice("solver", solver, own, remedy="Or give a solver object, as those of sottovoce.papers.dp_scd.")
    return _KINDS.get(str(solver))


def _refuse_facts(solver: object, kind: type[Plan] | None, facts: TrainingFacts) -> None:
    """Refuse facts that the solver has no proof for; ``"auto"`` takes one that has."""
    if kind is None:
        return
    if facts.weight_bound is not None and Takes.WEIGHTS not in kind.takes:
        raise ParameterError(
            f"solver={solver!r} takes no weights. With class_weight or max_sample_weight use solver='scd' (what 'auto' "
            "then is), or leave both None."
        )
    if facts.max_rows_per_group is not None and Takes.PERSONS not in kind.takes:
        able = ", ".join(repr(name) for name, each in _KINDS.items() if Takes.PERSONS in each.takes)
        raise ParameterError(
            f"solver={solver!r} has no proof for persons of several rows. With max_rows_per_group use one of {able} "
            "(or 'auto', which takes one of them), or leave max_rows_per_group None where each person has one row."
        )
    if facts.norm_release is not None and Takes.RELEASED_NORM not in kind.takes:
        others = ", ".join(repr(name) for name, each in _KINDS.items() if Takes.RELEASED_NORM in each.takes)
        raise ParameterError(
            f"data_norm must be a number for solver={solver!r}, which reproduces an algorithm that releases no bound "
            f"on the rows; got 'auto'. Give a public bound, or use one of {others}, or solver='auto'."
        )


def _options(solver: object, kind: type[Plan], options: Mapping[str, object] | None) -> dict[str, Any]:
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
                f"solver_options has no entry {name!r} for solver={solver!r}; it takes "
                f"{', '.join(map(repr, known)) or 'none: leave solver_options None'}."
            )
    return {name: in_full(value) for name, value in options.items()}
