"""The frozen plan: made from public facts before any data are read; it scales the noise and it is accounted."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce._notebook import html_table, plan_rows
from sottovoce._numerics import Vector
from sottovoce.central.data.holder import Holder, LocalHolder, hold
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import LABEL, TARGET, WEIGHT
from sottovoce.central.data.rows import Rows
from sottovoce.central.data.targets import Given, Targets
from sottovoce.central.facts import NORM, TrainingFacts
from sottovoce.central.parallel import Team
from sottovoce.central.released_norm import ReleasedNorm
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event, outline
from sottovoce.privacy.unit import unit_of
from sottovoce.randomness import Purpose, Streams

__all__ = ["Fit", "LeastSquares", "Plan", "Progress", "Report", "Solution", "most_rows"]

Progress = Callable[[int, int], None]  # steps done of all models, and their number
Report = Callable[[int], None]  # steps done of one model

_MOST_ROWS: Final = 10  # the true number of rows over its public stand-in, up to which rounding errors are bounded


def most_rows(n_public: int, adjacency: Adjacency) -> int:
    """Return the number of rows for which rounding errors are bounded; under add-remove the true number is secret."""
    return n_public * (_MOST_ROWS if adjacency is Adjacency.ADD_REMOVE else 1)


@dataclass(frozen=True)
class LeastSquares:
    """Unpenalised coefficients with standard errors, made from released statistics alone."""

    # Of shape (n_weights,), for rows of norm at most 1, the intercept's weight last; infinite errors where the data
    # cannot tell.
    estimates: Vector
    standard_errors: Vector


@dataclass(frozen=True)
class Solution:
    """What a solver hands back; everything in it is released."""

    weights: Vector  # of shape (n_models, n_weights); for rows of norm at most 1, the intercept's weight last
    n_steps: int  # noisy steps of one model (passes or mini-batches), or epochs of a run without noise
    event: Event  # what the mechanisms emitted, composed
    chosen: dict[str, object]  # what public rules made of the noisy releases, for the receipt
    offset: float = 0.0  # released location of the labels, to be added to every prediction
    least_squares: LeastSquares | None = None  # for confidence intervals, from solvers that can tell


T = TypeVar("T")


class _Fact(Generic[T]):
    """A fact that a plan shows as an attribute of its own."""

    def __init__(self, read: Callable[[TrainingFacts], T]) -> None:
        self._read = read

    def __get__(self, plan: "Plan", kind: type["Plan"]) -> T:
        return self._read(plan.facts)


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """Public facts and privacy parameters of one training run; a subclass for each solver.

    Parameters
    ----------
    facts : TrainingFacts
        Each of them is an attribute of the plan too; ``intercept`` is the value of the intercept's column.
    choice : str
        Why ``solver="auto"`` took this solver; empty when the user named it.
    """

    # Name of the solver as users give it.
    solver: ClassVar[str]
    # Page with statement and proof.
    proof: ClassVar[str] = "docs/privacy/dp_scd.md"
    # Whether the solver asks the holder of the rows for operations alone, which visit rows in order: then tables on
    # disk and on many machines will do.
    in_order: ClassVar[bool] = False
    # Whether one model of all classes is trained, on one target of whole numbers, in place of one model for each class.
    joint: ClassVar[bool] = False
    # Whether rows may have weights.
    takes_weights: ClassVar[bool] = False
    # Whether the unit may be a person of several rows: all that is released is a sum over rows, or follows from sums.
    takes_persons: ClassVar[bool] = False
    # Whether a bound on the norm of a row can be released first: the budget, the events and the words know of it.
    takes_released_norm: ClassVar[bool] = False

    facts: TrainingFacts
    choice: str = ""

    loss = _Fact(lambda facts: facts.loss)
    n_samples = _Fact(lambda facts: facts.n_samples)
    n_features = _Fact(lambda facts: facts.n_features)
    n_models = _Fact(lambda facts: facts.n_models)
    n_weights = _Fact(lambda facts: facts.n_weights)
    alpha = _Fact(lambda facts: facts.alpha)
    alpha_scaled = _Fact(lambda facts: facts.alpha_scaled)
    intercept = _Fact(lambda facts: facts.constant)
    epsilon = _Fact(lambda facts: facts.epsilon)
    delta = _Fact(lambda facts: facts.delta)
    adjacency = _Fact(lambda facts: facts.adjacency)
    neighbours = _Fact(lambda facts: facts.neighbours)
    n_units = _Fact(lambda facts: facts.n_units)
    max_rows_per_group = _Fact(lambda facts: facts.max_rows_per_group)
    label_bound = _Fact(lambda facts: facts.label_bound)
    weight_bound = _Fact(lambda facts: facts.weight_bound)
    releases_norm = _Fact(lambda facts: facts.releases_norm)
    is_private = _Fact(lambda facts: facts.is_private)

    def __post_init__(self) -> None:  # noqa: B027 - a solver without options has nothing to check; the facts are
        """Check the solver's own options."""

    @property
    @abstractmethod
    def event(self) -> Event:
        """What the run will cost at most; the run's own events are checked against it."""

    def settle(self) -> None:
        """Compute all that the noise follows from, or refuse: a plan that cannot be met fails before data are read.

        Raises
        ------
        ParameterError or AccountingError
            From public facts alone.
        """
        _ = self.event

    def check_size(self, n_rows: int) -> None:  # noqa: B027 - most plans follow any number of rows
        """Refuse a number of rows for which the plan cannot be followed, before noise is drawn."""

    def solve(
        self,
        rows: Rows,
        targets: Sequence[Vector],
        streams: Streams,
        team: Team,
        progress: Progress,
        row_weights: Vector | None = None,
        persons: NDArray[np.int64] | None = None,
        norm: ReleasedNorm | None = None,
    ) -> Solution:
        """Train one model for each target on ``rows`` in memory, which were cut to ``norm`` where that was released."""
        holder = hold(rows, targets, team, row_weights=row_weights, persons=persons)
        return self.solve_held(
            holder, Given(len(targets)), streams, progress,
            weighted=row_weights is not None, grouped=persons is not None, norm=norm,
        )  # fmt: skip

    def solve_held(
        self,
        holder: Holder,
        targets: Targets,
        streams: Streams,
        progress: Progress,
        *,
        weighted: bool = False,
        grouped: bool = False,
        norm: ReleasedNorm | None = None,
    ) -> Solution:
        """Train one model for each target on scaled rows as planned.

        Parameters
        ----------
        holder : Holder
            Of rows that are scaled, and cut to ``norm`` where that was released; with labels, and weights if any.
        targets : Targets
        streams : Streams
        progress : callable
        weighted : bool, default=False
            Whether rows have weights.
        grouped : bool, default=False
            Whether the unit is a person of several rows.
        norm : ReleasedNorm or None, default=None
        """
        spent = () if norm is None or norm.event is None else (norm.event,)
        solution = self.train(Fit(holder, targets, streams, progress, weighted, grouped, spent))
        return solution if norm is None else replace(solution, chosen={NORM: norm.value, **solution.chosen})

    @abstractmethod
    def train(self, fit: "Fit") -> Solution:
        """Train one model for each target, from what there is during a fit."""

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return event and `Solution.chosen` of a run that released these values: what a receipt is checked against.

        Parameters
        ----------
        released : dict
            `Solution.chosen` of that run. What follows from others of its values by a rule is computed again.

        Raises
        ------
        ParameterError
            If a value is missing, or is none that a run releases.
        """
        return self.event, {}

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""

    @property
    @abstractmethod
    def releases(self) -> tuple[str, ...]:
        """What the statement covers, for the receipt."""

    @property
    def promised_epsilon(self) -> float:
        """Epsilon of the receipt; more than `epsilon` only for reproductions of methods whose claim does not hold."""
        return self.epsilon

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Further facts taken as public, for the receipt."""
        if self.adjacency is not Adjacency.ADD_REMOVE:
            return ()
        return (f"the table has at most {_MOST_ROWS} n_public rows (rounding errors are bounded for as many)",)

    def details(self) -> dict[str, object]:
        """Return the solver's own parameters for summary and receipt."""
        return {}

    def norm_details(self) -> dict[str, object]:
        """Return how a bound on the norm of a row is released, for summary and receipt."""
        share = self.facts.share_of_norm
        return {"share of mu^2 for data_norm, which is released first": share} if share else {}

    def summary(self) -> dict[str, object]:
        """Return the plan in plain words and numbers."""
        return {
            "solver": self.solver,
            **({"solver chosen by auto because": self.choice} if self.choice else {}),
            "loss": self.loss.name,
            "n_samples": self.n_samples,
            "n_features": self.n_features,
            "n_models": self.n_models,
            **({"alpha": self.alpha} if self.alpha > 0.0 else {}),
            **({} if self.weight_bound is None else {"largest weight of a row": self.weight_bound}),
            **({} if self.max_rows_per_group is None else {"rows of a person, at most": self.max_rows_per_group}),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            **self.norm_details(),
            **self.details(),
            "event": outline(self.event),
        }

    def _repr_html_(self) -> str:
        hint = "How good a model to expect: sottovoce.forecast." if self.alpha > 0.0 and self.is_private else ""
        unit = unit_of(self.facts.max_rows_per_group)
        return html_table(plan_rows("A fit", self.summary(), unit=unit, private=self.is_private, hint=hint))

    def check_given(self, check: Callable[..., object], *options: str, **limits: float) -> None:
        """Check options of the solver by one of `sottovoce._validation`, but for those that follow a rule (None)."""
        for name in options:
            if getattr(self, name) is not None:
                check(name, getattr(self, name), **limits)


@dataclass(frozen=True)
class Fit:
    """What there is during a fit."""

    holder: Holder  # of the rows, their labels and all that is remembered of them
    targets: Targets  # what each model is trained on
    streams: Streams
    progress: Progress  # told how many steps of all models are done, and their number
    weighted: bool = False  # whether rows have weights
    grouped: bool = False  # whether the unit is a person, of several rows perhaps
    spent_before: tuple[Event, ...] = ()  # what the bound on the rows has cost

    @property
    def noise(self) -> np.random.Generator:
        return self.streams.generator(Purpose.NOISE)

    def each_model(self, n_steps: int, train: Callable[[int, Report], Vector]) -> Vector:
        """Train one model of ``n_steps`` for each target, one after the other; return their weights, one a line."""
        n_models = self.targets.n_models

        def train_one(model: int) -> Vector:
            return train(model, lambda step: self.progress(model * n_steps + step, n_steps * n_models))

        return np.stack([train_one(model) for model in range(n_models)])

    # --- for solvers that visit rows in another order than theirs: rows in this process, in memory

    def each_target(self, n_steps: int, train: Callable[[Vector, Report], Vector]) -> Vector:
        """Do the same as `each_model`, with the target of each model."""
        return self.each_model(n_steps, lambda model, report: train(self.target(model), report))

    @property
    def part(self) -> Part:
        assert isinstance(self.holder, LocalHolder)
        return self.holder.part

    @property
    def rows(self) -> Rows:
        return self.part.rows

    @property
    def team(self) -> Team:
        return self.part.team

    def target(self, model: int) -> Vector:
        return self.targets.of(self.part.memory.whole(LABEL), model)

    @property
    def current_target(self) -> Vector:
        return self.part.memory.whole(TARGET)

    @property
    def row_weights(self) -> Vector | None:
        """The weights of the rows over their public bound, within [0, 1]; None where rows have none."""
        return self.part.memory.whole(WEIGHT) if self.weighted else None
