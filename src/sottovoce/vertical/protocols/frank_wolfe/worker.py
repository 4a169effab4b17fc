"""A party's side of private Frank-Wolfe on the l1 ball: what it computes from its own columns and what it was told.

`BallSteps` holds the state: its own part of the predictions, made from signed columns that were released, and what the
released columns of others predict. Sums of slopes are whole ticks, as in `sottovoce.central.solvers.frank_wolfe`, whose
scores are used.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numba import njit

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce.central.data.lengths import make_bounded_rows
from sottovoce.central.parallel import Team
from sottovoce.central.sums.selection import TICKS, DenseScores, SparseScores
from sottovoce.losses import Squared
from sottovoce.losses._sigmoid import sigmoid
from sottovoce.losses.base import provides_slope
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, to_ticks
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.vertical.protocol import Announced, PartyFacts, Training
from sottovoce.vertical.protocols.frank_wolfe.columns import ColumnRelease, bounded_column, place_of, signed_column
from sottovoce.vertical.wire import decode

if TYPE_CHECKING:
    from sottovoce.vertical.protocols.frank_wolfe.messages import BallStart, TrainOnBall

_WIDTH: Final = 4.0 * TICKS * ROUNDING_SLACK  # both signs of a replaced person's term, which is at most TICKS each

_LARGEST_SENT: Final = 1e100


def cut(sent: Vector) -> Vector:
    """Cut what a coordinator sent to a public size, so that no sum of a few such numbers leaves the doubles."""
    return np.clip(sent, -_LARGEST_SENT, _LARGEST_SENT)


def selection_mechanism(width: float) -> ExponentialMechanism:
    """Return how a signed column is chosen, at a bounded range of ``width``; scores are ticks."""
    return ExponentialMechanism(width, _WIDTH)


def score_mechanism(noise_multiplier: float) -> GridGaussian:
    """Return how the score of one column is released; a replaced person moves it by 2 terms, in ticks."""
    exact = 2.0 * TICKS * ROUNDING_SLACK
    tick = max(1.0, power_of_two_below(exact * noise_multiplier / 128.0))
    # a tick of 1 rounds nothing
    return GridGaussian(exact + (tick if tick > 1.0 else 0.0), noise_multiplier, tick)


def column_release(request: "BallStart", n_people: int) -> ColumnRelease | None:
    """Return how columns are shared, from public facts alone; None where none are."""
    return ColumnRelease(n_people, request.column_noise) if request.n_columns else None


def choose_alone(
    table: Any, data_bound: float, request: "TrainOnBall", noise: np.random.Generator, team: Team
) -> tuple[list[int], Vector]:
    """Return the places that the steps took, in order, and the weights that they make, for the table as it is."""
    rows = make_bounded_rows(table, data_bound=data_bound, constant=float(request.intercept), names=None, team=team)
    kind = SparseScores if sp.issparse(table) else DenseScores
    scores = kind(rows, cut(request.labels), LOSSES[request.loss], request.clip, TICKS, team)
    mechanism, step = selection_mechanism(request.selection), request.vertex / request.n_steps
    places = []
    for _ in range(request.n_steps):
        column, sign = scores.select(mechanism, noise)
        scores.move(column, sign * step)
        places.append(place_of(column, sign))
    return places, weights_of(places, rows.n_weights, step)


def weights_of(places: list[int], n_columns: int, step: float) -> Vector:
    """Return the sum of the steps, one number a column."""
    taken = np.zeros(n_columns, np.int64)
    for place in places:
        column, sign = signed_column(place)
        taken[column] += sign
    return np.asarray(taken * step, dtype=np.float64)


class _JointScores(DenseScores):
    """Scores whose predictions have a part that others released."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._heard = np.zeros_like(self._margins)

    @property
    def predicted(self) -> tuple[Vector, Vector]:
        """What is predicted, and the part of it that others released."""
        return self._margins, self._heard

    @predicted.setter
    def predicted(self, predicted: tuple[Vector, Vector]) -> None:
        self._margins, self._heard = predicted

    def hear(self, others: Vector) -> None:
        """Take over what the columns of others predict."""
        others = cut(others)
        self._margins += others - self._heard
        self._heard = others


class BallSteps:
    """Steps that are taken together with other parties, all of them charged at their start."""

    def __init__(self, table: Any, data_bound: float, start: "BallStart") -> None:
        self._table, self._data_bound, self._start = table, data_bound, start
        team = Team(1, None)  # the parties work at the same time; a party's training lasts longer than a pool should
        rows = make_bounded_rows(table, data_bound=data_bound, constant=float(start.intercept), names=None, team=team)
        self._scores = _JointScores(rows, cut(start.labels), LOSSES[start.loss], start.clip, TICKS, team)
        self._release = column_release(start, rows.n_samples)
        self._n_columns = rows.n_weights
        self._chosen: list[int] = []
        self._taken: list[int] = []
        self._shared: set[int] = set()

    def as_arrays(self) -> Mapping[str, Any]:
        """Return it as named arrays; the table is not among them."""
        margins, heard = self._scores.predicted
        return {
            "start": np.frombuffer(self._start.encode(), np.uint8), "margins": margins, "heard": heard,
            "chosen": np.array(self._chosen, np.int64), "taken": np.array(self._taken, np.int64),
            "shared": np.array(sorted(self._shared), np.int64),
        }  # fmt: skip

    @classmethod
    def restored(cls, held: Mapping[str, Any], training: Training, table: Any, facts: PartyFacts) -> "BallSteps":
        from sottovoce.vertical.protocols.frank_wolfe.messages import BallStart

        start = decode(held["start"].tobytes(), (BallStart,))
        steps = cls(table, facts.entry_bound, cast("BallStart", start))
        steps._scores.predicted = held["margins"], held["heard"]
        steps._chosen, steps._taken = held["chosen"].tolist(), held["taken"].tolist()
        steps._shared = set(held["shared"].tolist())
        return steps

    @property
    def next_choice(self) -> Announced:
        """The choice that comes next, with its score: as many are charged as there are steps."""
        return Announced(f"choice {len(self._chosen) + 1}")

    @property
    def next_column(self) -> Announced:
        return Announced(f"column {len(self._shared) + 1}")

    @property
    def column_noise(self) -> float:
        return self._start.column_noise

    def why_not(self, *, place: int | None = None, column: int | None = None) -> str:
        """Return why a request goes beyond what was charged, or asks for what was not chosen; empty if it does not."""
        if place is None and column is None:
            return "" if len(self._chosen) < self._start.n_steps else "all choices that were charged have been made"
        if place is not None:
            if len(self._taken) >= self._start.n_steps:
                return "all steps have been taken"
            return "" if place in self._chosen else f"place {place} was never chosen"
        if self._release is None or len(self._shared) >= self._start.n_columns:
            return "all columns that were charged have been shared"
        if column in self._shared:
            return f"column {column} has been shared"
        return "" if any(signed_column(at)[0] == column for at in self._chosen) else f"column {column} was never chosen"

    def select(self, others: Vector, noise: np.random.Generator) -> tuple[int, float]:
        """Return the place that the mechanism draws, and its noisy score: of slopes and entries in units of bounds."""
        self._scores.hear(others)
        sums = self._scores.sums()
        place, _ = selection_mechanism(self._start.selection).select(np.concatenate([-sums, sums]), noise)
        column, sign = place % len(sums), 1 if place < len(sums) else -1
        self._chosen.append(place_of(column, sign))
        mechanism = score_mechanism(self._start.score_noise)
        ticks = to_ticks(np.array([-sign * float(sums[column])]), mechanism.tick)
        score = float(mechanism.release(ticks, noise)[0][0]) * self._start.clip / TICKS
        return self._chosen[-1], score

    def step(self, place: int) -> None:
        column, sign = signed_column(place)
        self._taken.append(place)
        self._scores.move(column, sign * self._start.vertex / self._start.n_steps)

    @property
    def weights(self) -> Vector:
        """What the steps make, one number a column, for entries and labels of size 1."""
        return weights_of(self._taken, self._n_columns, self._start.vertex / self._start.n_steps)

    def share(self, column: int, noise: np.random.Generator) -> bytes:
        assert self._release is not None
        self._shared.add(column)
        return self._release.release(bounded_column(self._table, column, self._data_bound), noise)


class SoftLogistic(NamedTuple):
    """log(1 + e^m) - m/2 - t m/2: logistic loss with a soft label t, a released label, corrected for its flips.

    The derivative is linear in t, so that a t whose mean is the true label gives a derivative whose mean is the true
    one: 1/(1 + e^-m) - 1/2 - t/2, which for t = -1 and +1 is that of logistic loss. Squared loss, m - t, is so anyway.
    """


@provides_slope(SoftLogistic)
@njit(inline="always")
def _slope(loss: SoftLogistic, y: float, m: float) -> float:
    return sigmoid(m) - 0.5 - 0.5 * y


# by the name of the loss that users know
LOSSES: Final[dict[str, Any]] = {"squared": Squared(), "logistic": SoftLogistic()}
