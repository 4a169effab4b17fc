"""Public facts, checked once, and the frozen plan that is made of them before any data are read.

The plan scales the noise, and it is what is accounted.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Flag, auto
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._plain_data import OBJECT
from sottovoce._shown import html_table, ten_lines
from sottovoce._validation import number, privacy_budget, whole_number
from sottovoce.central.core import Asked, replay
from sottovoce.central.data.operation import Change
from sottovoce.central.data.part import RowUnit
from sottovoce.central.released_norm import NormRelease, largest_norm
from sottovoce.central.sums.whole_gram import MAX_WEIGHTS, MOST_ROWS
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Loss, Multinomial
from sottovoce.privacy.adjacency import Adjacency, Neighbours, checked_max_rows, unit_of
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event, outline

HARDLY_ANY_NOISE: Final = 30.0  # mu: an epsilon of some 600


class _Derived:
    """What follows from the facts."""

    is_private: bool
    neighbours: Neighbours  # how far sums over rows can move: what mechanisms are made from
    n_units: float  # what a rule takes for the number of rows against the noise: with k rows a person, n / k persons
    n_weights: int
    entry: float  # of the intercept's column in a row as solvers see it; 0 where there is none
    alpha_scaled: float  # L2 penalty for rows at most 1 long with the intercept's column, and a weight of at most 1
    is_for_accuracy: bool  # whether the intercept of two classes is moved to where most rows are right


@dataclass(frozen=True, kw_only=True)
class TrainingFacts(_Derived):
    """What is known of a training run before any data are read.

    Raises ParameterError if a number is out of its range.
    """

    loss: Loss
    n_samples: int  # public number of rows (a stand-in for it under add-remove adjacency)
    n_features: int
    n_models: int  # binary models trained on the same rows (one-vs-rest); each gets an equal part of the budget
    alpha: float  # L2 penalty for rows in units of ``data_norm``, the intercept's column included; 0 for none
    constant: float  # value of the intercept's column in units of ``data_norm``; 0 for none
    epsilon: float
    delta: float
    adjacency: Adjacency
    label_bound: float | None  # public bound on |y| after centring (squared loss)
    # Public bound on the weight of a row; None where rows have none. Solvers see the weights divided by it, so that the
    # heaviest row counts as one.
    weight_bound: float | None = None
    # Public number of rows of a person that are used, at most; None where the unit is a row.
    max_rows_per_group: int | None = None
    # Whether there is no public bound on the norm of a row: one that most rows keep is released first of all.
    releases_norm: bool = False
    # What predictions of two classes are for: honest probabilities, or as few errors as the counts can tell.
    objective: str = "probability"

    def __post_init__(self) -> None:
        for name in ("n_samples", "n_features", "n_models"):
            whole_number(name, getattr(self, name), at_least=1, at_most=2**53)
        number("alpha", self.alpha, at_least=0.0)
        number("constant", self.constant, at_least=0.0)
        privacy_budget(self.epsilon, self.delta)
        for name in ("label_bound", "weight_bound"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), above=0.0)
        if self.max_rows_per_group is not None:
            checked_max_rows(self.max_rows_per_group)
        unit, rows = RowUnit(1.0, self.constant), self.max_rows_per_group or 1
        vars(self).update(
            is_private=math.isfinite(self.epsilon), neighbours=Neighbours(self.adjacency, rows),
            n_units=self.n_samples / rows, n_weights=self.n_features + (self.constant > 0.0), entry=unit.entry,
            alpha_scaled=self.alpha / unit.square / (1.0 if self.weight_bound is None else self.weight_bound),
            is_for_accuracy=self.objective == "accuracy" and self.constant > 0.0 and self.n_models == 1,
        )  # fmt: skip

    @cached_property
    def norm_release(self) -> NormRelease | None:
        """How a bound on the norm of a row is released; None where it is public, and without privacy."""
        if not (self.releases_norm and self.is_private):
            return None
        mu = gaussian_mu(self.epsilon, self.delta)
        return NormRelease(mu, self.n_units, self.neighbours, keeps_all=mu > HARDLY_ANY_NOISE)

    @cached_property
    def share_of_norm(self) -> float:
        """Share of mu^2 that this release takes."""
        return 0.0 if self.norm_release is None else self.norm_release.share

    def norm(self) -> Asked[float | None]:
        """Release a bound on the lengths of measured rows: noisy, or without privacy the largest; None where public."""
        if not self.releases_norm:
            return None
        return (yield from largest_norm() if self.norm_release is None else self.norm_release.asks())


@dataclass(frozen=True)
class Unpenalised:
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
    offset: float = 0.0  # released location of the labels, to be added to every prediction
    unpenalised: Unpenalised | None = None  # for confidence intervals, from solvers that can tell
    norm: float | None = None  # released bound on the norm of a row, where none is public


class FrozenPlan(ABC):
    """Whatever follows from public facts and spends a budget: what a fit asks of it, and what it shows of itself."""

    what: ClassVar[str]  # with its article, for the first words
    max_rows_per_group: int | None = None
    epsilon: float
    delta: float
    adjacency: Adjacency
    n_samples: int
    n_features: int

    @property
    def event(self) -> Event:
        """What the run costs at most; a plan that no noise can meet has none, and is refused before data are read."""
        raise NotImplementedError

    @property
    def is_private(self) -> bool:
        """False where no noise is added."""
        return math.isfinite(self.epsilon)

    @property
    def promised_epsilon(self) -> float:
        """Epsilon of the receipt; more than `epsilon` only for reproductions of methods whose claim does not hold."""
        return self.epsilon

    def details(self) -> dict[str, object]:
        """Return the plan's own parameters for summary and receipt."""
        return {}

    def event_in_words(self) -> str:
        """Return what the run costs at most, for people."""
        return outline(self.event)

    def summary(self) -> dict[str, object]:
        """Return the plan in plain words and numbers."""
        return {
            "n_samples": self.n_samples,
            "n_features": self.n_features,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            **self.details(),
            "event": self.event_in_words(),
        }

    def hint(self) -> str:
        """Return one more sentence for whoever looks at the plan."""
        return ""

    def _rows(self) -> list[tuple[str, str]]:
        """Return the summary as (heading, text) pairs, in plain words first."""
        found, unit = self.summary(), unit_of(self.max_rows_per_group)
        told = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in found.items()}
        words = (
            f"{self.what} would be ({told['epsilon']}, {told['delta']})-differentially private for {unit}."
            if self.is_private
            else f"{self.what} would add no noise: nothing is promised to anybody."
        )
        size = f"The table has {found['n_samples']:,} rows and {found['n_features']:,} columns. No data were read."
        return [("in short", f"{words} {size} {self.hint()}".rstrip()), *told.items()]

    def __str__(self) -> str:
        return ten_lines(self._rows(), "all of it: .summary()")

    def _repr_html_(self) -> str:
        return html_table(self._rows())


class _Shown:
    """The facts that a plan shows as attributes of its own."""

    loss: Loss
    n_samples: int
    n_features: int
    n_models: int
    n_weights: int
    alpha: float
    alpha_scaled: float
    intercept: float  # value of the intercept's column, 0 where there is none
    epsilon: float
    delta: float
    adjacency: Adjacency
    neighbours: Neighbours
    n_units: float
    max_rows_per_group: int | None
    label_bound: float | None
    weight_bound: float | None
    releases_norm: bool


class Takes(Flag):
    """What a solver takes beside rows in memory, without weights, each of another person, with a public bound."""

    NOTHING_MORE = 0
    # Rows on many machines, or on disk without a copy: it asks for operations alone, which visit rows in order.
    ROWS_IN_ORDER = auto()
    WEIGHTS = auto()
    # The unit may be a person of several rows: all that is released is a sum over rows, or follows from sums.
    PERSONS = auto()
    # A bound on the norm of a row can be released first: the budget, the events and the words know of it.
    RELEASED_NORM = auto()
    SUMS = ROWS_IN_ORDER | PERSONS | RELEASED_NORM


@dataclass(frozen=True, kw_only=True)
class Plan(_Shown, FrozenPlan):
    """A solver, whose fields are its options, and with public facts the frozen plan of one training run.

    Without facts it is what ``solver=`` takes in place of a name.

    Parameters
    ----------
    facts : TrainingFacts
        Each of them is an attribute of the plan too; ``intercept`` is the value of the intercept's column.
    choice : str
        Why ``solver="auto"`` took this solver; empty when the user named it.
    """

    what = "A fit"
    # Name of the solver as users give it.
    solver: ClassVar[str]
    # Page with statement and proof.
    proof: ClassVar[str] = "docs/privacy/dp_scd.md"
    # Losses that it has steps for; none: any loss. With `alone` it trains one model: of two classes, or of numbers.
    losses: ClassVar[tuple[type, ...]] = ()
    alone: ClassVar[bool] = False
    takes: ClassVar[Takes] = Takes.NOTHING_MORE
    # Whether one model of all classes is trained, on one target of whole numbers, in place of one model for each class.
    joint: ClassVar[bool] = False
    # Whether what the rows of a person add is cut together, so that they must lie in one place.
    cuts_persons: ClassVar[bool] = False

    facts: TrainingFacts = field(default=None, repr=False)  # type: ignore[assignment]
    choice: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.facts is not None:
            shown = {name: getattr(self.facts, name, None) for name in _Shown.__annotations__}
            vars(self).update({**shown, "intercept": self.facts.constant})
            wanted = (Multinomial,) if self.joint else self.losses
            if (wanted and not isinstance(self.loss, wanted)) or (self.alone and self.n_models > 1):
                names = " or ".join(kind.__name__.lower() for kind in self.losses)
                raise ParameterError(
                    f"solver={self.solver!r} needs the {names} loss{' and two classes' if self.alone else ''}; got the "
                    f"{self.loss.name} loss and n_models = {self.n_models}. Use solver='auto'."
                )
            self.check()

    def check(self) -> None:
        """Check the solver's own options."""

    @classmethod
    def serves(cls, loss: Loss) -> bool:
        """Whether an estimator with this loss may name the solver."""
        return not cls.losses or isinstance(loss, cls.losses)

    def options(self) -> dict[str, object]:
        """Return the solver's own options by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("facts", "choice")}

    def loss_for(self, loss: Loss) -> Loss:
        """Return the loss of an estimator as the solver's steps take it."""
        return loss

    def plain_data(self) -> dict[str, object]:
        """Return name and options as plain data, for `sottovoce._plain_data.encode`."""
        return {OBJECT: self.solver, **self.options()}

    @cached_property
    def event(self) -> Event:
        """What the run will cost at most; the run's own event is checked against it."""
        return replay(self.asks).event

    def check_size(self, n_rows: int) -> None:
        """Refuse a number of rows for which the plan cannot be followed, before noise is drawn."""

    def asks(self, scaled: Callable[[float | None], Change] | None = None) -> Asked[Solution]:
        """Train one model for each target: the whole run, from rows whose lengths were measured.

        Parameters
        ----------
        scaled : callable or None
            Makes what cuts rows to their bound, from the released one where none is public. A replay needs none.
        """
        norm = yield from self.facts.norm()
        if scaled is not None:
            yield scaled(norm)
        solution = yield from self.train()
        return replace(solution, norm=norm)

    @abstractmethod
    def train(self) -> Asked[Solution]:
        """Train on scaled rows: the releases of the solver, one after the other."""

    def solution(self, weights: Sequence[Vector], n_steps: int, *, offset: float = 0.0) -> Solution:
        """Return the solution of some models, one after the other, or of all at once."""
        found = np.concatenate([np.atleast_2d(each) for each in weights])
        return Solution(np.broadcast_to(found, (len(found), self.n_weights)).copy(), n_steps, offset)

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Further facts taken as public, for the receipt."""
        if self.adjacency is not Adjacency.ADD_REMOVE:
            return ()
        return (f"the table has at most {MOST_ROWS} n_public rows (rounding errors are bounded for as many)",)

    def norm_details(self) -> dict[str, object]:
        """Return how a bound on the norm of a row is released, for summary and receipt."""
        share = self.facts.share_of_norm
        return {"share of mu^2 for data_norm, which is released first": share} if share else {}

    def objective_details(self) -> dict[str, object]:
        """Return what predictions are for, where the intercept is moved for it: by counts for slope and shift."""
        moves = not self.is_private or getattr(getattr(self, "split", None), "calibration", 0.0) > 0.0
        return {"objective": self.facts.objective} if self.facts.is_for_accuracy and moves else {}

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
            **self.objective_details(),
            **({} if self.weight_bound is None else {"largest weight of a row": self.weight_bound}),
            **({} if self.max_rows_per_group is None else {"rows of a person, at most": self.max_rows_per_group}),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            **self.norm_details(),
            **self.details(),
            "event": self.event_in_words(),
        }

    def hint(self) -> str:
        return "How good a model to expect: sottovoce.forecast." if self.alpha > 0.0 and self.is_private else ""

    def __str__(self) -> str:
        return repr(self) if self.facts is None else super().__str__()

    def check_given(self, check: Callable[..., object], *options: str, **limits: float) -> None:
        """Check options of the solver by one of `sottovoce._validation`, but for those that follow a rule (None)."""
        for name in options:
            if getattr(self, name) is not None:
                check(name, getattr(self, name), **limits)

    def refuse_many_weights(self) -> None:
        """Refuse a plan that releases the matrix of more weights than fit."""
        if self.n_weights > MAX_WEIGHTS:
            raise ParameterError(
                f"solver={self.solver!r} takes at most {MAX_WEIGHTS} weights, because it releases a matrix of their "
                f"square; got n_features = {self.n_features}. Use solver='scd'."
            )
