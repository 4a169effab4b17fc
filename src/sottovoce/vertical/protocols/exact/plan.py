"""Training without noise: the optimum of the joint problem, by L-BFGS or ADMM. No protection of anybody."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import choice, number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Loss, SmoothLoss
from sottovoce.privacy.events import Event, NonPrivateEvent
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.history import History
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import SumOfScores, Term, VerticalPlan, VerticalSolution
from sottovoce.vertical.protocols.exact.admm import FORMS, admm
from sottovoce.vertical.protocols.exact.lbfgs import lbfgs
from sottovoce.vertical.protocols.exact.messages import Structure
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.protocols.general.messages import Keep, Prepare
from sottovoce.vertical.table.penalty import Penalty
from sottovoce.vertical.wire import Done

__all__ = ["ExactPlan", "own_model_name", "automatic_rho", "label_unit", "prepare", "train_alone"]

# of the largest second derivative of the loss; measured, docs/measured/vertical_solvers.md
_RHO: Final = 0.4
_RHO_WITHOUT_CURVATURE: Final = 0.4
# Theorem 1's condition 2 (c) for a loss that is not convex: rho of the coordinator's problem above twice the smoothness
_LEAST_RHO_NOT_CONVEX: Final = 2.0
_RHO_NOT_CONVEX: Final = 2.1
_RELAXATION: Final = 1.6


def automatic_rho(smoothness: float) -> float:
    """Return ADMM's penalty parameter for a loss, from its largest second derivative (``inf`` where it jumps)."""
    return _RHO * smoothness if math.isfinite(smoothness) else _RHO_WITHOUT_CURVATURE


def label_unit(loss: SmoothLoss, y: Vector) -> float:
    """Return what `automatic_rho` is divided by: the absolute loss has nothing else to say what is far.

    It is the mean distance of the labels from their median, and 1 for every other loss.
    """
    if math.isfinite(loss.smoothness) or loss.is_classification:
        return 1.0
    distance = float(np.abs(y - np.median(y)).mean())
    return distance if distance > 0.0 else 1.0


def own_model_name(model: str) -> str:
    """Return the name under which the label holder keeps its own exact model beside the joint one."""
    return f"{model} alone"


def prepare(
    parties: Parties, penalty: Penalty | Mapping[str, Penalty], *, intercept_at: str | Sequence[str] | None
) -> None:
    """Open a training at every party; those that are named have a free intercept each, of which only the sum counts.

    The penalty is that of all, or one by party.

    One at every party is the fastest: columns of one-hot codes contain the constant, and where only one party may move
    it for free the others hand theirs over in thousands of rounds of ADMM (`docs/measured/vertical_solvers.md`).
    """
    places = (intercept_at,) if isinstance(intercept_at, str) else tuple(intercept_at or ())
    each = {name: penalty if isinstance(penalty, Penalty) else penalty[name] for name in parties.names}
    parties.exchange({name: Prepare(p.l2, p.l1, p.low, p.high, int(name in places)) for name, p in each.items()}, Done)
    tied = {
        name: Structure(np.array(p.groups, dtype=np.float64), p.ball, p.radius)
        for name, p in each.items()
        if p.is_structured
    }
    if tied:
        parties.exchange(tied, Done)


def train_alone(parties: Parties, plan: VerticalPlan, y: Vector, *models: str) -> None:
    """Train the label holder's own exact model on its own columns and keep it by these names: nothing crosses."""
    holder = plan.facts.label_holder
    l2 = plan.alpha * plan.facts.n_samples
    problem = ScoreProblem(plan.loss, y)
    with parties.inside(holder) as own:
        prepare(own, Penalty(l2), intercept_at=holder if plan.fit_intercept else None)
        if math.isfinite(plan.loss.smoothness):
            lbfgs(own, problem, l2=l2, intercept=plan.fit_intercept)
        else:
            admm(own, problem, rho=automatic_rho(plan.loss.smoothness) / label_unit(plan.loss, y))
        for model in models:
            own.exchange(Keep(model), Done)


@dataclass(frozen=True, kw_only=True)
class ExactPlan(VerticalPlan):
    """Training without noise.

    Attributes
    ----------
    solver : {"lbfgs", "admm"}
    l1_ratio : float, in [0, 1]
        alpha * ((1 - l1_ratio) / 2 |w|^2 + l1_ratio |w|_1).
    coef_bounds : (low, high)
    groups : dict
        Sizes of groups of columns, by party; their coefficients are 0 all or not. The L1 penalty of such a party is
        alpha * l1_ratio * sum_g sqrt(p_g) |w_g|.
    balls : dict
        Norm (``"l1"`` or ``"l2"``) and radius of the ball in which the coefficients of a party stay.
    admm_penalty : float or None
        rho; None follows `automatic_rho`, and for a loss that is not convex condition 2 (c) of the paper's Theorem 1:
        then rho, or rho / M in the sharing form, is above twice the smoothness.
    admm_form : {"sharing", "proximal"}
    relaxation : float or None
        None is 1.6, and 1 for a loss that is not convex: over-relaxed it settles more slowly, and not evenly.
    memory : int
    precondition : bool
    max_iter : int
    tol : float
    """

    name: ClassVar[str] = "none"
    proof: ClassVar[str] = "docs/privacy/published_vertical_noise.md"
    options: ClassVar[tuple[str, ...]] = ("admm_form", "admm_penalty", "memory", "precondition", "relaxation")

    solver: str = "lbfgs"
    l1_ratio: float = 0.0
    coef_bounds: tuple[float, float] = (-math.inf, math.inf)
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    balls: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    admm_penalty: float | None = None
    admm_form: str = "sharing"
    relaxation: float | None = None
    memory: int = 30
    precondition: bool = True
    max_iter: int = 200
    tol: float = 1e-6

    def __post_init__(self) -> None:
        if self.admm_penalty is not None:
            number("solver_options['admm_penalty']", self.admm_penalty, above=0.0)
        choice("solver_options['admm_form']", self.admm_form, FORMS)
        if self.relaxation is not None:
            number("solver_options['relaxation']", self.relaxation, above=0.0, below=2.0)
        whole_number("solver_options['memory']", self.memory, at_least=1)
        low, high = self.coef_bounds
        low = -number("coef_bounds[0]", -low, at_least=0.0, infinite=True, remedy="It is at most 0; -inf for none.")
        high = number("coef_bounds[1]", high, at_least=0.0, infinite=True, remedy="It is at least 0; inf for none.")
        if self.l1_ratio == 1.0 and self.solver == "lbfgs":
            raise ParameterError("l1_ratio=1 leaves no L2 penalty, which solver='lbfgs' needs; use solver='admm'.")
        object.__setattr__(self, "coef_bounds", (low, high))  # as floats, whatever kind of number was given
        object.__setattr__(self, "max_iter", whole_number("max_iter", self.max_iter, at_least=1))
        object.__setattr__(self, "tol", number("tol", self.tol, above=0.0))
        if (self.groups or self.balls) and self.coef_bounds != (-math.inf, math.inf):
            raise ParameterError("coef_bounds goes with neither groups nor coef_set. Leave one of them out.")
        if self.groups and self.l1_ratio == 0.0:
            raise ParameterError(
                "groups needs l1_ratio > 0: that share of alpha is the penalty on the groups' norms; got l1_ratio=0. "
                "Give l1_ratio=1 for the group LASSO."
            )
        both = [name for name in self.groups if self.balls.get(name, ("", 0.0))[0] == "l1"]
        if both:
            raise ParameterError(f"groups does not go with an l1 ball at party {both[0]!r}. Use an l2 ball there.")
        smooth = self.penalty.is_quadratic and not self.groups and not self.balls
        if self.solver == "lbfgs" and not (smooth and math.isfinite(self.loss.smoothness)):
            raise ParameterError(
                "solver='lbfgs' needs a smooth loss and a plain L2 penalty; use solver='admm' with l1_ratio > 0, "
                "groups, coef_set, coef_bounds or a loss with a corner (hinge, absolute)."
            )
        if self.solver == "admm" and not self.is_convex and not self.rho > self._rho_unit * _LEAST_RHO_NOT_CONVEX:
            raise ParameterError(
                f"solver_options['admm_penalty'] must be above {self._rho_unit * _LEAST_RHO_NOT_CONVEX:.6g} with the "
                f"{self.loss.name} loss, which is not convex: only there the theory knows that ADMM ends; got "
                f"{self.rho!r}. Leave it out for {self._rho_unit * _RHO_NOT_CONVEX:.6g}, or use solver='lbfgs'."
            )

    @property
    def is_convex(self) -> bool:
        """Whether the loss is."""
        return isinstance(self.loss, Loss)

    @property
    def _rho_unit(self) -> float:
        """The smoothness, times what the sharing form divides rho by in the coordinator's problem."""
        return self.loss.smoothness * (len(self.facts.names) if self.admm_form == "sharing" else 1)

    @property
    def penalty(self) -> Penalty:
        """Penalty for the sum of losses, of a party without groups and ball."""
        strength = self.alpha * self.facts.n_samples
        return Penalty(strength * (1.0 - self.l1_ratio), strength * self.l1_ratio, *self.coef_bounds)

    @property
    def penalties(self) -> dict[str, Penalty]:
        """Penalty of each party."""
        return {name: self._penalty_of(name) for name in self.facts.names}

    def _penalty_of(self, name: str) -> Penalty:
        ball, radius = self.balls.get(name, ("", math.inf))
        return self.penalty._replace(groups=self.groups.get(name, ()), ball=ball, radius=radius)

    @property
    def rho(self) -> float:
        """ADMM's penalty parameter."""
        if self.admm_penalty is not None:
            return self.admm_penalty
        return automatic_rho(self.loss.smoothness) if self.is_convex else _RHO_NOT_CONVEX * self._rho_unit

    @property
    def own_relaxation(self) -> float:
        """How far each round goes beyond its plain update."""
        if self.relaxation is not None:
            return self.relaxation
        return _RELAXATION if self.is_convex else 1.0

    @property
    def event(self) -> Event:
        """No protection."""
        return NonPrivateEvent()

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        """Train; see `VerticalPlan.solve`."""
        train_alone(parties, self, y, own_model_name(model))
        prepare(parties, self.penalties, intercept_at=parties.names if self.fit_intercept else None)
        problem = ScoreProblem(self.loss, y)
        history: History
        if self.solver == "lbfgs":
            history = lbfgs(
                parties, problem, l2=self.penalty.l2, intercept=self.fit_intercept, memory=self.memory,
                precondition=self.precondition, max_iter=self.max_iter, tol=self.tol,
            )  # fmt: skip
        else:
            unit = label_unit(self.loss, y) if self.admm_penalty is None else 1.0
            history = admm(
                parties, problem, rho=self.rho / unit, form=self.admm_form, relaxation=self.own_relaxation,
                max_iter=self.max_iter, tol=self.tol,
            )  # fmt: skip
        parties.exchange(Keep(model), Done)
        return VerticalSolution(
            scorer=SumOfScores({name: Term() for name in parties.names}),
            event=self.event,
            party_events=dict.fromkeys(parties.names, self.event),
            n_rounds=history.n_rounds,
            history=history,
            chosen={"converged": history.converged},
        )

    @property
    def _in_label_units(self) -> bool:
        """Whether ADMM's penalty parameter follows the labels: nothing else says what is far for the absolute loss."""
        jumps = math.isinf(self.loss.smoothness) and not self.loss.is_classification
        return self.solver == "admm" and self.admm_penalty is None and jumps

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        solver = "block-preconditioned L-BFGS" if self.solver == "lbfgs" else f"ADMM sharing ({self.admm_form} form)"
        return f"{solver} on exact scores, without noise"

    @property
    def releases(self) -> tuple[str, ...]:
        """What leaves whom for whom, for the receipt."""
        return (
            "to the coordinator: each party's exact score of every record in every round",
            "to every party: one number a record and round, from which labels and the other parties' sum of scores can "
            "be told",
        )

    def details(self) -> dict[str, object]:
        """Return the solver's parameters for the receipt."""
        own: dict[str, object]
        if self.solver == "lbfgs":
            own = {"memory": self.memory}
        else:
            unit = " / mean distance of the labels from their median" if self._in_label_units else ""
            own = {
                "admm_penalty": f"{self.rho:g}{unit}" if unit else self.rho,
                "admm_form": self.admm_form,
                "relaxation": self.own_relaxation,
            }
        if self.groups:
            own["groups"] = {name: list(sizes) for name, sizes in self.groups.items()}
        if self.balls:
            own["coefficients within"] = {
                name: f"{norm} ball of radius {radius:g}" for name, (norm, radius) in self.balls.items()
            }
        if not self.is_convex:
            own["reaches"] = "a stationary point, from coefficients 0: the loss is not convex"
        return {"solver": self.solver, "l1_ratio": self.l1_ratio, **own, "max_iter": self.max_iter, "tol": self.tol}
