"""One organisation of a vertical training: it owns its columns, its coefficients and its budget.

The coordinator reaches a party through `Party.handle` alone: bytes of one listed request in, bytes of one reply out. A
party keeps what it must not tell: features, coefficients, factors. It refuses what its own budget does not cover.
"""

import json
import logging
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigvalsh
from sklearn.utils.validation import check_array

from sottovoce._validation import number, refuse_masked
from sottovoce.central.parallel import team
from sottovoce.central.released_labels import ReleasedLabelsPlan
from sottovoce.central.rows import make_rows
from sottovoce.exceptions import DataError, MessageError, ParameterError
from sottovoce.losses import Logistic, Loss, Squared
from sottovoce.privacy.events import Event, NonPrivateEvent, event_from_dict
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.admm import AdmmWorker
from sottovoce.vertical.budget import PartyBudget
from sottovoce.vertical.charges import event_text
from sottovoce.vertical.columns import Columns
from sottovoce.vertical.frank_wolfe.places import pack_places, place_of
from sottovoce.vertical.frank_wolfe.published_worker import PublishedBallWorker
from sottovoce.vertical.frank_wolfe.published_worker import start_event as published_start_event
from sottovoce.vertical.frank_wolfe.slopes import LOSSES
from sottovoce.vertical.frank_wolfe.worker import BallSteps, choose_alone, start_event, train_event
from sottovoce.vertical.lbfgs import LbfgsWorker
from sottovoce.vertical.messages import (
    AdmmStart,
    AdmmStep,
    Afford,
    BallChoice,
    BallSelect,
    BallStart,
    BallStep,
    BallVertex,
    Chosen,
    Describe,
    Description,
    Done,
    Features,
    Keep,
    KeepWeights,
    LbfgsDirection,
    LbfgsGradient,
    LbfgsMove,
    LbfgsStart,
    Message,
    NoisyScores,
    NoisyStart,
    NoisyStep,
    Prepare,
    PublishedBallReply,
    PublishedBallStart,
    PublishedBallStep,
    PublishedStart,
    Refused,
    Score,
    Scores,
    SendFeatures,
    ShareColumn,
    SharedColumn,
    ShowColumn,
    ShowFeatures,
    ShownColumn,
    ShownFeatures,
    Spectrum,
    SpectrumReply,
    Trained,
    TrainOnBall,
    TrainOnLabels,
    decode,
)
from sottovoce.vertical.noisy_admm import NoisyAdmmWorker
from sottovoce.vertical.noisy_features import FeatureRelease
from sottovoce.vertical.penalty import Penalty
from sottovoce.vertical.published import PublishedWorker
from sottovoce.vertical.subproblem import Subproblem

__all__ = ["Part", "Party"]

_LOG: Final = logging.getLogger(__name__)
_MOST_STEPS: Final = 1_000_000  # of one request: a party works for nobody for ever
_MOST_REASON: Final = 1000  # letters; a refusal may quote a name that the coordinator made up

Worker = TypeVar("Worker")


class _RefusalError(Exception):
    """Why a party does not do what it was asked; the text may cross, so it tells nothing about the data."""


@dataclass(frozen=True)
class Part:
    """A party's part of a model: it stays with the party.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
    intercept : float
        0 where the intercept is with another party.
    feature_names : tuple of str or None
        Of the table it was trained on, where that had names.
    """

    coef: NDArray[np.float64]
    intercept: float
    feature_names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _Finished:
    """A training that took one request: its coefficients, the intercept last."""

    x: NDArray[np.float64]


class Party:
    """An organisation and its columns of the aligned table.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix of shape (n_rows, n_features)
        Private. Numbers; float32 stays float32.
    ids : array-like of shape (n_rows,) or None
        Identifiers of the rows, for `sottovoce.vertical.align`; None when the rows are aligned already.
    name : str
        Name of the organisation; public.
    y : array-like of shape (n_rows,) or None
        Labels, where this party holds them.
    data_norm : float or None
        Public bound on the Euclidean norm of this party's part of a row; longer rows are shortened to it. Needed by the
        private mechanisms. Never compute it from the data.
    data_bound : float or None
        Public bound on the absolute value of every entry; larger ones are clipped to it. Needed by private Frank-Wolfe.
        Never compute it from the data.
    nonnegative : bool
        Public fact that no entry is negative, which lets the private mechanisms add less noise; checked.
    budget : (epsilon, delta) or None
        What this party allows to be learnt about one person's row of its columns, over all trainings with this object
        and with selections of its rows; it refuses the rest. None allows everything, training without noise included.
        The label holder, whose own model is exact, has none.

    Raises
    ------
    DataError
        If X is not a table of finite numbers, or breaks a fact that was declared about it.
    ParameterError
        If another argument is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import Party
    >>> Party(np.ones((3, 2)), ids=["c", "a", "b"], name="clinic")
    Party('clinic', 3 rows, 2 features)
    """

    def __init__(
        self,
        X: Any,
        ids: ArrayLike | None = None,
        *,
        name: str,
        y: ArrayLike | None = None,
        data_norm: float | None = None,
        data_bound: float | None = None,
        nonnegative: bool = False,
        budget: tuple[float, float] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ParameterError(f"name must be a non-empty string; got {name!r}.")
        self.name = name
        self.feature_names = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
        refuse_masked(f"X of party {name!r}", X)
        try:
            table: Any = check_array(
                X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", input_name=f"X of party {name!r}"
            )
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(str(error)) from None
        self._table: Any = table if isinstance(table, np.ndarray) else sp.csr_array(table)
        self.ids = None if ids is None else _one_per_row("ids", ids, self.n_rows, name)
        self.y = None if y is None else _one_per_row("y", y, self.n_rows, name)
        self.data_norm = None if data_norm is None else number("data_norm", data_norm, above=0.0)
        self.data_bound = None if data_bound is None else number("data_bound", data_bound, above=0.0)
        if not isinstance(nonnegative, (bool, np.bool_)):
            raise ParameterError(f"nonnegative must be True or False; got {nonnegative!r}.")
        self.nonnegative = bool(nonnegative)
        values: Any = self._table if isinstance(self._table, np.ndarray) else self._table.data
        if self.nonnegative and values.size and values.min() < 0.0:
            raise DataError(f"X of party {name!r} was declared nonnegative and holds negative entries.")
        self.budget = PartyBudget(budget)
        self._random_state: object = None
        self._at_home: set[int] = set()  # threads; a request that comes on another one is charged
        self._penalty = Penalty()
        self._intercept = False
        self._problem: Subproblem | None = None
        self._worker: Any = None
        self._published: PublishedStart | None = None
        self._open_noise: np.random.Generator | None = None  # of a training that takes several requests
        self._models: dict[str, Part] = {}

    def __repr__(self) -> str:
        return f"Party({self.name!r}, {self.n_rows} rows, {self.n_features} features)"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the training that is under way: a copy of its noise stream would draw the same noise."""
        nothing: dict[str, Any] = {
            "_problem": None,
            "_worker": None,
            "_published": None,
            "_open_noise": None,
            "_at_home": set(),
        }
        return {**vars(self), **nothing}

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._table.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self._table.shape[1])

    @property
    def spent(self) -> Event:
        """What trainings with this party have released about its columns; no request asks for it."""
        return self.budget.spent

    def take(self, rows: ArrayLike) -> "Party":
        """Return a party of the same name and facts that holds these rows, in this order."""
        rows = np.asarray(rows, dtype=np.intp)
        other = Party(
            self._table[rows],
            None if self.ids is None else self.ids[rows],
            name=self.name,
            y=None if self.y is None else self.y[rows],
            data_norm=self.data_norm,
            data_bound=self.data_bound,
            nonnegative=self.nonnegative,
        )
        other.feature_names = self.feature_names
        other.budget = self.budget  # one organisation, one account
        return other

    @contextmanager
    def at_home(self) -> Iterator[None]:
        """Answer this organisation's own requests inside the ``with`` block: nothing leaves it, so nothing is charged.

        For the party that runs the coordinator and trains on its own columns beside the joint training.
        """
        here = threading.get_ident()
        self._at_home.add(here)
        try:
            yield
        finally:
            self._at_home.discard(here)

    @contextmanager
    def seeded(self, random_state: object) -> Iterator[None]:
        """Make this party's noise repeatable inside the ``with`` block, for trials: a known seed undoes it."""
        before, self._random_state = self._random_state, random_state
        try:
            yield
        finally:
            self._random_state = before

    def seed(self, random_state: object) -> Self:
        """Make this party's noise repeatable from now on; see `seeded`. A generator gives every training a new seed."""
        self._random_state = random_state
        return self

    @property
    def is_seeded(self) -> bool:
        """True where the noise could be repeated."""
        return self._random_state is not None

    def keeps(self, model: str) -> bool:
        """Tell whether this party keeps a part of a model of that name."""
        return model in self._models

    def part(self, model: str) -> Part:
        """Return this party's part of a model that it keeps; this is no request, it does not leave the party."""
        return self._models[model]

    def adopt(self, model: str, part: Part) -> None:
        """Take back a part of a model that this organisation trained before, with other rows."""
        if len(part.coef) != self.n_features:
            raise DataError(
                f"party {self.name!r} has {self.n_features} features; its part of the model has {len(part.coef)}."
            )
        if None not in (part.feature_names, self.feature_names) and part.feature_names != self.feature_names:
            raise DataError(
                f"party {self.name!r} has the features {list(self.feature_names or ())!r}; its part of the model was "
                f"trained on {list(part.feature_names or ())!r}. Give them in that order."
            )
        self._models[model] = part

    # ------------------------------------------------------------------ what the coordinator can reach

    def handle(self, raw: bytes) -> bytes:
        """Answer one request; whatever goes wrong here is told without a word about the data."""
        try:
            request = decode(raw)
            answer = _OPERATIONS.get(type(request))
            if answer is None:
                raise _RefusalError(f"{type(request).__name__} is not an operation of a party")
            reply = answer(self, request)
        except _RefusalError as refusal:
            reply = Refused(str(refusal)[:_MOST_REASON])
        except MessageError as error:
            reply = Refused(f"not a valid message: {error}")
        except Exception as error:  # the message of an unforeseen error could quote a row
            _LOG.exception("a request to party %r failed", self.name)
            reply = Refused(f"it failed there ({type(error).__name__}); the party's own log says more")
        return reply.encode()

    def _describe(self, _: Describe) -> Description:
        norm = math.inf if self.data_norm is None else self.data_norm
        bound = math.inf if self.data_bound is None else self.data_bound
        return Description(self.n_rows, self.n_features, norm, int(self.nonnegative), bound)

    def _prepare(self, request: Prepare) -> Done:
        if not (request.l2 >= 0.0 and request.l1 >= 0.0 and request.low <= 0.0 <= request.high):
            raise _RefusalError("a penalty needs l2 >= 0, l1 >= 0 and low <= 0 <= high")
        self._penalty = Penalty(request.l2, request.l1, request.low, request.high)
        self._intercept = bool(request.intercept)
        self._problem = self._worker = self._published = self._open_noise = None
        return Done()

    def _subproblem(self) -> Subproblem:
        """Return this party's problem for a training without noise; releases of it are covered by no budget."""
        self._charge(NonPrivateEvent())
        if self._problem is None:
            self._problem = Subproblem(Columns(self._table, intercept=self._intercept), self._penalty)
        return self._problem

    def _start_admm(self, request: AdmmStart) -> Done:
        if not (request.rho > 0.0 and request.proximal >= 0.0 and 0.0 < request.relaxation < 2.0):
            raise _RefusalError("ADMM needs rho > 0, a proximal weight >= 0 and a relaxation in (0, 2)")
        problem = self._subproblem()
        if self._published is None:
            self._worker = AdmmWorker(problem, request)
        else:
            self._worker = PublishedWorker(problem, request, self._published, self._noise())
        return Done()

    def _start_published(self, request: PublishedStart) -> Done:
        self._published = request
        return Done()

    def _start_lbfgs(self, request: LbfgsStart) -> Done:
        if not self._penalty.is_quadratic:
            raise _RefusalError("L-BFGS needs a quadratic penalty; use ADMM")
        self._worker = LbfgsWorker(self._subproblem(), request)
        return Done()

    def _step_admm(self, request: AdmmStep) -> Message:
        return self._open(AdmmWorker, request, request.shift).step(request)

    def _gradient(self, request: LbfgsGradient) -> Message:
        worker = self._open(LbfgsWorker, request, request.slopes)
        if len(request.curvature) not in (0, 1, self.n_rows):
            raise _RefusalError(f"LbfgsGradient has {len(request.curvature)} curvatures for {self.n_rows} rows")
        return worker.gradient(request)

    def _direction(self, request: LbfgsDirection) -> Message:
        return self._open(LbfgsWorker, request).direction(request)

    def _move(self, request: LbfgsMove) -> Message:
        return self._open(LbfgsWorker, request).move(request)

    def _noise(self) -> np.random.Generator:
        """Open the noise stream of one training; it never outlives it, so no two processes can share one."""
        return Streams(self._random_state).generator(Purpose.NOISE)

    def _row_bound(self) -> float:
        if self.data_norm is None:
            raise _RefusalError("it gave no data_norm, which the noise would be scaled by")
        return self.data_norm

    def _send_features(self, request: SendFeatures) -> Features:
        bound, release = self._row_bound(), FeatureRelease(_positive("mu", request.mu), self.nonnegative)
        self._charge(release.event)
        return release.release(self._table, bound, self._noise())

    def _show_features(self, _: ShowFeatures) -> ShownFeatures:
        if self.budget.is_limited:
            raise _RefusalError(
                "columns without noise tell all about the rows that are scored, which its budget does not cover; score "
                "other people's rows with a party object without a budget"
            )
        table = self._table if isinstance(self._table, np.ndarray) else self._table.toarray()
        return ShownFeatures(table.ravel())

    def _start_noisy(self, request: NoisyStart) -> Done:
        if not (self._penalty.is_quadratic and self._penalty.l2 > 0.0):
            raise _RefusalError("noisy ADMM needs a quadratic penalty")
        for name in ("rho", "score_bound", "norm_bound", "target_bound", "mu"):
            _positive(name, getattr(request, name))
        bound, l2 = self._row_bound(), self._penalty.l2
        self._open_noise = self._noise()
        self._worker = NoisyAdmmWorker(self._table, bound, intercept=self._intercept, l2=l2, start=request)
        return Done()

    def _step_noisy(self, request: NoisyStep) -> NoisyScores:
        worker = self._open(NoisyAdmmWorker, request, request.shift)
        if request.release:
            self._charge(worker.release.event)
        assert self._open_noise is not None
        return worker.step(request, self._open_noise)

    def _open(self, kind: type[Worker], request: Message, by_record: NDArray[np.float64] | None = None) -> Worker:
        """Return the training that is under way, if it is of the right kind and the message has the right length."""
        if not isinstance(self._worker, kind):
            raise _RefusalError(f"{type(request).__name__} came without its start")
        if by_record is not None and len(by_record) != self.n_rows:
            raise _RefusalError(f"{type(request).__name__} has {len(by_record)} numbers for {self.n_rows} rows")
        return self._worker

    def _spectrum(self, _: Spectrum) -> SpectrumReply:
        self._charge(NonPrivateEvent())
        values = eigvalsh(Columns(self._table, intercept=self._intercept).gram())
        return SpectrumReply(float(max(values[0], 0.0)), float(values[-1]))

    def _train_on_labels(self, request: TrainOnLabels) -> Trained:
        if self.data_norm is None:
            raise _RefusalError("it declared no data_norm, without which nothing here can be private")
        if len(request.labels) != self.n_rows:
            raise _RefusalError(f"{len(request.labels)} labels came for {self.n_rows} rows")
        losses: dict[str, Loss] = {loss.name: loss for loss in (Logistic(), Squared())}
        if request.loss not in losses:
            raise _RefusalError(f"there is no training on released labels for the loss {request.loss!r}")
        plan = ReleasedLabelsPlan(
            loss=losses[request.loss],
            n_samples=self.n_rows,
            n_features=self.n_features,
            alpha=request.alpha,
            mu=request.mu,
            nonnegative=self.nonnegative,
            flip_probability=request.flip_probability,
            label_bound=request.label_bound or None,
        )
        self._charge(plan.event)
        with team() as threads:
            rows = make_rows(self._table, data_norm=self.data_norm, constant=plan.intercept, names=None, team=threads)
            solution = plan.solve(rows, request.labels, Streams(self._random_state), threads)
        whole = math.sqrt(1.0 + plan.intercept**2)
        weights = solution.weights[0]
        self._worker = _Finished(
            np.append(weights[:-1] / (self.data_norm * whole), weights[-1] * plan.intercept / whole)
        )
        self._intercept = True
        return Trained(event_text(solution.event))

    def _entry_bound(self, request: TrainOnBall | BallStart | PublishedBallStart) -> float:
        """Return the bound on entries, where a request of private Frank-Wolfe makes sense."""
        if self.data_bound is None:
            raise _RefusalError("it declared no data_bound, without which nothing here can be private")
        if request.loss not in LOSSES:
            raise _RefusalError(f"there is no Frank-Wolfe for the loss {request.loss!r}")
        if len(request.labels) != self.n_rows:
            raise _RefusalError(f"{len(request.labels)} labels came for {self.n_rows} rows")
        for name in ("clip", "n_steps", "selection", *(() if isinstance(request, PublishedBallStart) else ("vertex",))):
            _positive(name, getattr(request, name))
        if request.n_steps > _MOST_STEPS:
            raise _RefusalError(f"n_steps is at most {_MOST_STEPS:,}; it is {request.n_steps:,}")
        return self.data_bound

    def _train_on_ball(self, request: TrainOnBall) -> Chosen:
        bound = self._entry_bound(request)
        _positive("unit", request.unit)
        self._charge(train_event(request))
        with team() as threads:
            places, weights = choose_alone(self._table, bound, request, self._noise(), threads)
        weights = weights * request.unit
        self._models[request.model] = Part(
            weights[: self.n_features] / bound, float(weights[self.n_features :].sum()), self.feature_names
        )
        return Chosen(pack_places(places, len(weights)), request.selection)

    def _start_ball(self, request: BallStart) -> Done:
        bound = self._entry_bound(request)
        for name in ("score_noise", "column_noise"):
            _positive(name, getattr(request, name))
        event = start_event(request)
        self._refuse_shortage(event)
        worker = BallSteps(self._table, bound, request, self._noise())
        self._charge(event)
        self._worker = worker
        return Done()

    def _select_on_ball(self, request: BallSelect) -> BallChoice:
        worker = self._open(BallSteps, request, request.others)
        _refuse(worker.why_not())
        return BallChoice(*worker.select(request.others))

    def _step_on_ball(self, request: BallStep) -> Done:
        worker = self._open(BallSteps, request)
        _refuse(worker.why_not(place=request.place))
        worker.step(request.place)
        return Done()

    def _share_column(self, request: ShareColumn) -> SharedColumn:
        worker = self._open(BallSteps, request)
        _refuse(worker.why_not(column=request.column))
        return SharedColumn(worker.share(request.column), worker.column_noise)

    def _start_published_ball(self, request: PublishedBallStart) -> Done:
        bound = self._entry_bound(request)
        _positive("column_noise", request.column_noise)
        event = published_start_event(request, self.n_rows)
        self._refuse_shortage(event)
        worker = PublishedBallWorker(self._table, bound, request, self._noise())
        self._charge(event)
        self._worker = worker
        return Done()

    def _step_on_published_ball(self, request: PublishedBallStep) -> PublishedBallReply:
        worker = self._open(PublishedBallWorker, request)
        _refuse(worker.why_not(request))
        return worker.step(request)

    def _ball_vertex(self, request: BallVertex) -> BallChoice:
        self._charge(NonPrivateEvent())
        if len(request.slopes) != self.n_rows:
            raise _RefusalError(f"{len(request.slopes)} slopes came for {self.n_rows} rows")
        gradient = Columns(self._table, intercept=request.intercept != 0.0).back(request.slopes)
        gradient[self.n_features :] *= request.intercept
        column = int(np.argmax(np.abs(gradient)))
        steepest = float(gradient[column])
        return BallChoice(place_of(column, -1 if steepest > 0.0 else 1), abs(steepest))

    def _show_column(self, request: ShowColumn) -> ShownColumn:
        self._charge(NonPrivateEvent())
        if request.column >= self.n_features:
            raise _RefusalError(f"it has no column {request.column}")
        column: Any = self._table[:, [request.column]]
        return ShownColumn(np.asarray(column if isinstance(column, np.ndarray) else column.toarray()).ravel())

    def _keep_weights(self, request: KeepWeights) -> Done:
        columns = request.columns.astype(np.int64)
        if len(columns) != len(request.weights) or not np.array_equal(columns, request.columns):
            raise _RefusalError("weights need a whole number of a column each")
        if len(columns) and not 0 <= columns.min() <= columns.max() <= self.n_features:
            raise _RefusalError("weights came for columns that it does not have")
        weights = np.zeros(self.n_features + 1)
        np.add.at(weights, columns, request.weights)
        self._models[request.model] = Part(weights[:-1], float(weights[-1]), self.feature_names)
        return Done()

    def _keep(self, request: Keep) -> Done:
        if self._worker is None:
            raise _RefusalError("there is no training whose coefficients could be kept")
        x = self._worker.x
        intercept = float(x[-1]) if self._intercept else 0.0
        self._models[request.model] = Part(x[: self.n_features].copy(), intercept, self.feature_names)
        return Done()

    def _score(self, request: Score) -> Scores:
        if self.budget.is_limited and not self._is_at_home:
            raise _RefusalError(
                "a score tells about the row that is scored, which its budget does not cover; score other people's "
                "rows with a party object without a budget"
            )
        part = self._models.get(request.model)
        if part is None:
            raise _RefusalError(f"it has no part of a model named {request.model!r}")
        return Scores(Columns(self._table).times(part.coef) + part.intercept)

    def _afford(self, request: Afford) -> Done:
        try:
            event = event_from_dict(json.loads(request.event))
        except (ValueError, RecursionError):
            raise _RefusalError("what it was asked to afford is not an event") from None
        self._refuse_shortage(event)
        return Done()

    def _charge(self, event: Event) -> None:
        """Charge the budget before anything is computed, or refuse; what stays at home costs nothing."""
        if not self._is_at_home:
            _refuse(self.budget.charge(event))

    @property
    def _is_at_home(self) -> bool:
        return threading.get_ident() in self._at_home

    def _refuse_shortage(self, event: Event) -> None:
        _refuse(self.budget.shortage(event))


def _positive(name: str, value: float) -> float:
    if not value > 0.0:
        raise _RefusalError(f"{name} must be positive; got {value!r}")
    return value


def _refuse(reason: str) -> None:
    if reason:
        raise _RefusalError(reason)


def _one_per_row(what: str, values: ArrayLike, n_rows: int, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        raise DataError(f"{what} of party {name!r} must hold one entry for each of its {n_rows} rows.") from None
    if array.shape != (n_rows,):
        raise DataError(
            f"{what} of party {name!r} must hold one entry for each of its {n_rows} rows; got {array.shape}."
        )
    return array


# the closed list of what a coordinator may ask; any other message is refused
_OPERATIONS: Final[dict[type[Message], Callable[[Party, Any], Message]]] = {
    Describe: Party._describe,
    Prepare: Party._prepare,
    AdmmStart: Party._start_admm,
    AdmmStep: Party._step_admm,
    LbfgsStart: Party._start_lbfgs,
    LbfgsGradient: Party._gradient,
    LbfgsDirection: Party._direction,
    LbfgsMove: Party._move,
    Spectrum: Party._spectrum,
    Afford: Party._afford,
    TrainOnLabels: Party._train_on_labels,
    TrainOnBall: Party._train_on_ball,
    BallStart: Party._start_ball,
    BallSelect: Party._select_on_ball,
    BallStep: Party._step_on_ball,
    ShareColumn: Party._share_column,
    BallVertex: Party._ball_vertex,
    ShowColumn: Party._show_column,
    KeepWeights: Party._keep_weights,
    Keep: Party._keep,
    Score: Party._score,
    SendFeatures: Party._send_features,
    ShowFeatures: Party._show_features,
    NoisyStart: Party._start_noisy,
    NoisyStep: Party._step_noisy,
    PublishedStart: Party._start_published,
    PublishedBallStart: Party._start_published_ball,
    PublishedBallStep: Party._step_on_published_ball,
}
