"""One organisation of a vertical training: it owns its columns, its coefficients and its budget.

The coordinator reaches a party through `Party.handle` alone: bytes of one listed request in, bytes of one reply out,
one request at a time. A party keeps what it must not tell: features, coefficients, factors. It refuses what its own
budget does not cover, what its owner did not allow, and whatever comes out of its turn. What a coordinator that sends
anything learns, mechanism by mechanism: ``docs/privacy/parties.md``.

Refusals follow from public facts: from the request, from what was declared, and from what was asked before. What goes
wrong beyond that is told in one sentence, which is always the same.
"""

import json
import logging
import math
import threading
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigvalsh
from sklearn.utils.validation import check_array

from sottovoce._validation import LARGEST, SMALLEST, magnitude, refuse_masked
from sottovoce.central.parallel import team
from sottovoce.central.rows import make_rows
from sottovoce.exceptions import DataError, MessageError, ParameterError
from sottovoce.losses import Logistic, Loss, Squared
from sottovoce.privacy.events import Event, NonPrivateEvent, event_from_dict
from sottovoce.published.vertical_admm.plan import PublishedWorker
from sottovoce.published.vertical_frank_wolfe.worker import PublishedBallWorker
from sottovoce.published.vertical_frank_wolfe.worker import start_event as published_start_event
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.coordinator.charges import LARGEST_MU, SMALLEST_MU, event_text
from sottovoce.vertical.frames import Frame
from sottovoce.vertical.locks import OwnLock
from sottovoce.vertical.party.answers import allowed_answers, why_unanswered
from sottovoce.vertical.party.budget import Account, LedgerBudget, PartyBudget
from sottovoce.vertical.party.sessions import Session, SessionError, Sessions, Training
from sottovoce.vertical.protocols.exact.admm import AdmmWorker
from sottovoce.vertical.protocols.exact.lbfgs import LbfgsWorker
from sottovoce.vertical.protocols.exact.penalty import Penalty
from sottovoce.vertical.protocols.exact.subproblem import Subproblem
from sottovoce.vertical.protocols.frank_wolfe.places import pack_places, place_of
from sottovoce.vertical.protocols.frank_wolfe.slopes import LOSSES
from sottovoce.vertical.protocols.frank_wolfe.worker import (
    BallSteps,
    check_mechanisms,
    choose_alone,
    start_event,
    train_event,
)
from sottovoce.vertical.protocols.local_models.released_labels import ReleasedLabelsPlan
from sottovoce.vertical.protocols.noisy_admm.plan import NoisyAdmmWorker, score_release
from sottovoce.vertical.protocols.noisy_features.plan import FeatureRelease
from sottovoce.vertical.table.columns import Columns
from sottovoce.vertical.wire import (
    AdmmStart,
    AdmmStep,
    Afford,
    BallChoice,
    BallSelect,
    BallStart,
    BallStep,
    BallVertex,
    Chosen,
    Close,
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
)

__all__ = ["Part", "Party"]

_LOG: Final = logging.getLogger(__name__)
_MOST_STEPS: Final = 1_000_000  # of one request: a party works for nobody for ever
_MOST_REASON: Final = 1000  # letters; a refusal may quote a name that the coordinator made up
_FAILED: Final = "it failed there; the party's own log says more"
_NOISES: Final = (1e-6, 1e6)  # noise multipliers
_LEAST_TRUTH: Final = 1e-10  # 1 - 2 p of labels that are flipped with probability p
_SAME_WEIGHTS: Final = 1e-9  # relative: how a coordinator's sums may differ from the party's own

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
        The label holder, whose own model is exact, has none. It lives in memory: a new process has it anew.
    ledger : Ledger, str or None
        In the place of ``budget``: an account on disk, which restarts, copies and other processes share.
    dataset : str or None
        Name of the data set in the ledger, created with ``adjacency="replace-one"``: the people of this table.
    answers : set of str or None
        What the owner allows a coordinator to ask, by the names in `sottovoce.vertical.party.answers`. None allows the
        private mechanisms where there is a budget, and everything where there is none. For scoring alone:
        ``answers={"score"}``.

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
        ledger: Any = None,
        dataset: str | None = None,
        answers: Collection[str] | None = None,
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
        self._table: Any = table if isinstance(table, np.ndarray) else _summed(table)
        self.ids = None if ids is None else _one_per_row("ids", ids, self.n_rows, name)
        self.y = None if y is None else _one_per_row("y", y, self.n_rows, name)
        self.data_norm = None if data_norm is None else magnitude("data_norm", data_norm)
        self.data_bound = None if data_bound is None else magnitude("data_bound", data_bound)
        if not isinstance(nonnegative, (bool, np.bool_)):
            raise ParameterError(f"nonnegative must be True or False; got {nonnegative!r}.")
        self.nonnegative = bool(nonnegative)
        values: Any = self._table if isinstance(self._table, np.ndarray) else self._table.data
        if self.nonnegative and values.size and values.min() < 0.0:
            raise DataError(f"X of party {name!r} was declared nonnegative and holds negative entries.")
        if ledger is None and dataset is None:
            self.budget: Account = PartyBudget(budget)
        elif budget is None:
            self.budget = LedgerBudget(ledger, dataset, name=name)
        else:
            raise ParameterError("budget and ledger are two accounts of the same thing: give one of them.")
        self.answers = allowed_answers(answers, limited=self.budget.is_limited)
        self._random_state: object = None
        self._session_seeds: dict[bytes, object] = {}
        self._at_home: set[int] = set()  # threads; a request that comes on another one is charged
        self._lock = OwnLock()  # one request at a time
        self._sessions = Sessions()
        self._models: dict[str, Part] = {}

    def __repr__(self) -> str:
        return f"Party({self.name!r}, {self.n_rows} rows, {self.n_features} features)"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is under way: a copy of a noise stream would draw the same noise."""
        fresh = {"_at_home": set(), "_session_seeds": {}, "_lock": OwnLock(), "_sessions": Sessions()}
        return {**vars(self), **fresh}

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
        other.budget, other.answers = self.budget, self.answers  # one organisation, one account
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
    def seeded(self, random_state: object, *, session: bytes | None = None) -> Iterator[None]:
        """Make this party's noise repeatable inside the ``with`` block, for trials: a known seed undoes it.

        With ``session`` it is the noise of that session alone; others of the same time keep theirs.
        """
        if session is not None:
            self._session_seeds[session] = random_state
            try:
                yield
            finally:
                del self._session_seeds[session]
            return
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
        """Answer one framed request; whatever goes wrong here is told without a word about the data.

        Requests are answered one at a time. The last request of a session may be sent again: its answer is the same,
        byte for byte, and nothing is drawn or charged again.
        """
        with self._lock.lock:
            try:
                frame = Frame.read(raw)
                session = self._sessions.find(frame, at_home=self._is_at_home)
                before = session.repeated(frame)
            except (MessageError, SessionError) as refusal:
                return Refused(f"{refusal}.").encode()
            if before is not None:
                return before
            session.take(frame, Refused(_FAILED).encode())
            answer = self._answer(session, frame)
            session.settle(answer)
            return answer

    def _answer(self, session: Session, frame: Frame) -> bytes:
        try:
            request = frame.message
        except MessageError as error:
            return Refused(f"not a valid message: {error}").encode()
        try:
            operation = _OPERATIONS.get(type(request))
            if operation is None:
                raise _RefusalError(f"{type(request).__name__} is not an operation of a party")
            if not session.at_home:
                limit = self.budget.limit if self.budget.is_limited else None
                _refuse(why_unanswered(type(request), self.answers, limit))
            return operation(self, session, request).encode()
        except _RefusalError as refusal:
            return Refused(str(refusal)[:_MOST_REASON]).encode()
        except Exception as error:  # its message could quote a row, and its class tell about one
            places = "".join(traceback.format_tb(error.__traceback__))
            _LOG.error("a request to party %r failed with %s:\n%s", self.name, type(error).__name__, places)
            return Refused(_FAILED).encode()

    def _describe(self, _session: Session, _: Describe) -> Description:
        norm = math.inf if self.data_norm is None else self.data_norm
        bound = math.inf if self.data_bound is None else self.data_bound
        return Description(self.n_rows, self.n_features, norm, int(self.nonnegative), bound)

    def _close(self, session: Session, _: Close) -> Done:
        self._sessions.end(session.name)
        return Done()

    def _prepare(self, session: Session, request: Prepare) -> Done:
        if not (request.l2 >= 0.0 and request.l1 >= 0.0 and request.low <= 0.0 <= request.high):
            raise _RefusalError("a penalty needs l2 >= 0, l1 >= 0 and low <= 0 <= high")
        penalty = Penalty(request.l2, request.l1, request.low, request.high)
        session.training = Training(penalty, bool(request.intercept))
        return Done()

    def _subproblem(self, session: Session) -> Subproblem:
        """Return this party's problem for a training without noise; releases of it are covered by no budget."""
        self._charge(session, NonPrivateEvent())
        training = session.training
        if training.problem is None:
            training.problem = Subproblem(Columns(self._table, intercept=training.intercept), training.penalty)
        return training.problem

    def _start_admm(self, session: Session, request: AdmmStart) -> Done:
        if not (request.rho > 0.0 and request.proximal >= 0.0 and 0.0 < request.relaxation < 2.0):
            raise _RefusalError("ADMM needs rho > 0, a proximal weight >= 0 and a relaxation in (0, 2)")
        training = session.training
        if training.published is None:
            self._require(session, "exact", "ADMM without noise")
            training.worker = AdmmWorker(self._subproblem(session), request)
        else:
            problem = self._subproblem(session)
            training.worker = PublishedWorker(problem, request, training.published, self._noise(session))
        return Done()

    def _start_published(self, session: Session, request: PublishedStart) -> Done:
        session.training.published = request
        return Done()

    def _start_lbfgs(self, session: Session, request: LbfgsStart) -> Done:
        if not session.training.penalty.is_quadratic:
            raise _RefusalError("L-BFGS needs a quadratic penalty; use ADMM")
        session.training.worker = LbfgsWorker(self._subproblem(session), request)
        return Done()

    def _step_admm(self, session: Session, request: AdmmStep) -> Message:
        return self._open(session, AdmmWorker, request, request.shift).step(request)

    def _gradient(self, session: Session, request: LbfgsGradient) -> Message:
        worker = self._open(session, LbfgsWorker, request, request.slopes)
        if len(request.curvature) not in (0, 1, self.n_rows):
            raise _RefusalError(f"LbfgsGradient has {len(request.curvature)} curvatures for {self.n_rows} rows")
        return worker.gradient(request)

    def _direction(self, session: Session, request: LbfgsDirection) -> Message:
        return self._open(session, LbfgsWorker, request).direction(request)

    def _move(self, session: Session, request: LbfgsMove) -> Message:
        return self._open(session, LbfgsWorker, request).move(request)

    def _seed(self, session: Session) -> object:
        return self._session_seeds.get(session.name, self._random_state)

    def _noise(self, session: Session) -> np.random.Generator:
        """Open the noise stream of one training; it never outlives it, so no two processes can share one."""
        return Streams(self._seed(session)).generator(Purpose.NOISE)

    def _row_bound(self) -> float:
        if self.data_norm is None:
            raise _RefusalError("it gave no data_norm, which the noise would be scaled by")
        return self.data_norm

    def _send_features(self, session: Session, request: SendFeatures) -> Features:
        bound = self._row_bound()
        release = FeatureRelease(_within("mu", request.mu, SMALLEST_MU, LARGEST_MU), self.nonnegative)
        with _public():
            release.check()
        self._charge(session, release.event)
        return release.release(self._table, bound, self._noise(session))

    def _show_features(self, _session: Session, _: ShowFeatures) -> ShownFeatures:
        table = self._table if isinstance(self._table, np.ndarray) else self._table.toarray()
        return ShownFeatures(table.ravel())

    def _start_noisy(self, session: Session, request: NoisyStart) -> Done:
        training = session.training
        if not (training.penalty.is_quadratic and training.penalty.l2 > 0.0):
            raise _RefusalError("noisy ADMM needs a quadratic penalty")
        bound, l2, intercept = self._row_bound(), training.penalty.l2, training.intercept
        with _public():
            release = score_release(self.n_rows, self.n_features, bound, intercept=intercept, l2=l2, start=request)
            release.mechanism  # noqa: B018
        training.noise = self._noise(session)
        training.worker = NoisyAdmmWorker(self._table, bound, intercept=intercept, l2=l2, start=request)
        return Done()

    def _step_noisy(self, session: Session, request: NoisyStep) -> NoisyScores:
        worker = self._open(session, NoisyAdmmWorker, request, request.shift)
        _refuse(worker.why_not)
        if request.release:
            self._charge(session, worker.release.event)
        assert session.training.noise is not None
        return worker.step(request, session.training.noise)

    def _open(
        self, session: Session, kind: type[Worker], request: Message, by_record: NDArray[np.float64] | None = None
    ) -> Worker:
        """Return the training that is under way, if it is of the right kind and the message has the right length."""
        worker = session.training.worker
        if not isinstance(worker, kind):
            raise _RefusalError(f"{type(request).__name__} came without its start")
        if by_record is not None and len(by_record) != self.n_rows:
            raise _RefusalError(f"{type(request).__name__} has {len(by_record)} numbers for {self.n_rows} rows")
        return worker

    def _spectrum(self, session: Session, _: Spectrum) -> SpectrumReply:
        self._charge(session, NonPrivateEvent())
        values = eigvalsh(Columns(self._table, intercept=session.training.intercept).gram())
        return SpectrumReply(float(max(values[0], 0.0)), float(values[-1]))

    def _train_on_labels(self, session: Session, request: TrainOnLabels) -> Trained:
        if self.data_norm is None:
            raise _RefusalError("it declared no data_norm, without which nothing here can be private")
        if len(request.labels) != self.n_rows:
            raise _RefusalError(f"{len(request.labels)} labels came for {self.n_rows} rows")
        losses: dict[str, Loss] = {loss.name: loss for loss in (Logistic(), Squared())}
        if request.loss not in losses:
            raise _RefusalError(f"there is no training on released labels for the loss {request.loss!r}")
        _within("alpha", request.alpha, SMALLEST, LARGEST)
        _within("mu", request.mu, SMALLEST_MU, LARGEST_MU)
        _within("flip_probability", request.flip_probability, 0.0, 0.5 * (1.0 - _LEAST_TRUTH))
        if request.label_bound != 0.0:
            _within("label_bound", request.label_bound, SMALLEST, LARGEST)
        with _public():
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
            plan.soft_labels(request.labels)
            event = plan.event
        self._charge(session, event)
        with team() as threads:
            rows = make_rows(self._table, data_norm=self.data_norm, constant=plan.intercept, names=None, team=threads)
            solution = plan.solve(rows, request.labels, Streams(self._seed(session)), threads)
        whole = math.sqrt(1.0 + plan.intercept**2)
        weights = solution.weights[0]
        session.training.worker = _Finished(
            np.append(weights[:-1] / (self.data_norm * whole), weights[-1] * plan.intercept / whole)
        )
        session.training.intercept = True
        return Trained(event_text(solution.event))

    def _entry_bound(self, request: TrainOnBall | BallStart | PublishedBallStart) -> float:
        """Return the bound on entries, where a request of private Frank-Wolfe makes sense."""
        if self.data_bound is None:
            raise _RefusalError("it declared no data_bound, without which nothing here can be private")
        if request.loss not in LOSSES:
            raise _RefusalError(f"there is no Frank-Wolfe for the loss {request.loss!r}")
        if len(request.labels) != self.n_rows:
            raise _RefusalError(f"{len(request.labels)} labels came for {self.n_rows} rows")
        if request.intercept > 1:
            raise _RefusalError(f"intercept is 0 or 1; it is {request.intercept}")
        for name in ("clip", "selection", *(() if isinstance(request, PublishedBallStart) else ("vertex",))):
            _within(name, getattr(request, name), SMALLEST, LARGEST)
        for name in ("n_steps", *(("n_columns",) if isinstance(request, BallStart) else ())):
            count = getattr(request, name)
            if count > _MOST_STEPS:
                raise _RefusalError(f"{name} is at most {_MOST_STEPS:,}; it is {count:,}")
        if request.n_steps < 1:
            raise _RefusalError(f"n_steps must be positive; got {request.n_steps}")
        if not isinstance(request, TrainOnBall) and request.sketch_rows > _MOST_STEPS:
            raise _RefusalError(f"sketch_rows is at most {_MOST_STEPS:,}; it is {request.sketch_rows:,}")
        return self.data_bound

    def _train_on_ball(self, session: Session, request: TrainOnBall) -> Chosen:
        bound = self._entry_bound(request)
        _within("unit", request.unit, SMALLEST, LARGEST)
        with _public():
            check_mechanisms(request, self.n_rows)
            event = train_event(request)
        self._charge(session, event)
        with team() as threads:
            places, weights = choose_alone(self._table, bound, request, self._noise(session), threads)
        self._keep_columns(request.model, request.unit * weights)
        return Chosen(pack_places(places, len(weights)), request.selection)

    def _keep_columns(self, model: str, weights: NDArray[np.float64]) -> None:
        """Keep weights of columns of size 1, the last of which may be that of ones."""
        d = self.n_features
        assert self.data_bound is not None
        self._models[model] = Part(weights[:d] / self.data_bound, float(weights[d:].sum()), self.feature_names)

    def _start_ball(self, session: Session, request: BallStart) -> Done:
        bound = self._entry_bound(request)
        if request.score_noise != math.inf:
            _within("score_noise", request.score_noise, *_NOISES)
        _within("column_noise", request.column_noise, *_NOISES)
        with _public():
            check_mechanisms(request, self.n_rows)
            event = start_event(request)
        self._charge(session, event)
        session.training.worker = BallSteps(self._table, bound, request, self._noise(session))
        return Done()

    def _select_on_ball(self, session: Session, request: BallSelect) -> BallChoice:
        worker = self._open(session, BallSteps, request, request.others)
        _refuse(worker.why_not())
        return BallChoice(*worker.select(request.others))

    def _step_on_ball(self, session: Session, request: BallStep) -> Done:
        worker = self._open(session, BallSteps, request)
        _refuse(worker.why_not(place=request.place))
        worker.step(request.place)
        return Done()

    def _share_column(self, session: Session, request: ShareColumn) -> SharedColumn:
        worker = self._open(session, BallSteps, request)
        _refuse(worker.why_not(column=request.column))
        return SharedColumn(worker.share(request.column), worker.column_noise)

    def _start_published_ball(self, session: Session, request: PublishedBallStart) -> Done:
        bound = self._entry_bound(request)
        _within("column_noise", request.column_noise, *_NOISES)
        with _public():
            event = published_start_event(request, self.n_rows)
        self._charge(session, event)
        session.training.worker = PublishedBallWorker(self._table, bound, request, self._noise(session))
        return Done()

    def _step_on_published_ball(self, session: Session, request: PublishedBallStep) -> PublishedBallReply:
        worker = self._open(session, PublishedBallWorker, request)
        _refuse(worker.why_not(request))
        return worker.step(request)

    def _ball_vertex(self, session: Session, request: BallVertex) -> BallChoice:
        self._charge(session, NonPrivateEvent())
        if len(request.slopes) != self.n_rows:
            raise _RefusalError(f"{len(request.slopes)} slopes came for {self.n_rows} rows")
        gradient = Columns(self._table, intercept=request.intercept != 0.0).back(request.slopes)
        gradient[self.n_features :] *= request.intercept
        column = int(np.argmax(np.abs(gradient)))
        steepest = float(gradient[column])
        return BallChoice(place_of(column, -1 if steepest > 0.0 else 1), abs(steepest))

    def _show_column(self, session: Session, request: ShowColumn) -> ShownColumn:
        self._charge(session, NonPrivateEvent())
        if request.column >= self.n_features:
            raise _RefusalError(f"it has no column {request.column}")
        column: Any = self._table[:, [request.column]]
        return ShownColumn(np.asarray(column if isinstance(column, np.ndarray) else column.toarray()).ravel())

    def _keep_weights(self, session: Session, request: KeepWeights) -> Done:
        """Keep weights that are, up to one public factor, those of this session's steps; others where allowed."""
        if len(request.columns) != len(request.weights) or not np.array_equal(request.columns, request.columns // 1):
            raise _RefusalError("weights need a whole number of a column each")
        if len(request.columns) and not 0 <= request.columns.min() <= request.columns.max() <= self.n_features:
            raise _RefusalError("weights came for columns that it does not have")
        weights = np.zeros(self.n_features + 1)
        np.add.at(weights, request.columns.astype(np.int64), request.weights)
        worker = session.training.worker
        own = _own_weights(weights, worker.weights, self.data_bound) if isinstance(worker, BallSteps) else None
        if own is not None:
            self._keep_columns(request.model, own)
            return Done()
        self._require(session, "foreign-weights", "weights that it did not train")
        self._models[request.model] = Part(weights[:-1], float(weights[-1]), self.feature_names)
        return Done()

    def _keep(self, session: Session, request: Keep) -> Done:
        training = session.training
        x = getattr(training.worker, "x", None)
        if x is None:
            raise _RefusalError("there is no training whose coefficients could be kept")
        intercept = float(x[-1]) if training.intercept else 0.0
        self._models[request.model] = Part(x[: self.n_features].copy(), intercept, self.feature_names)
        return Done()

    def _score(self, _session: Session, request: Score) -> Scores:
        part = self._models.get(request.model)
        if part is None:
            raise _RefusalError(f"it has no part of a model named {request.model!r}")
        return Scores(Columns(self._table).times(part.coef) + part.intercept)

    def _afford(self, _session: Session, request: Afford) -> Done:
        try:
            event = event_from_dict(json.loads(request.event))
        except (ValueError, RecursionError):
            raise _RefusalError("what it was asked to afford is not an event") from None
        _refuse(self.budget.shortage(event))
        return Done()

    def _require(self, session: Session, name: str, what: str) -> None:
        """Refuse what the owner does not allow under ``name``; within its walls it allows everything."""
        if not session.at_home and name not in self.answers:
            raise _RefusalError(
                f"{what} is part of {name!r}, which its owner does not allow: see Party(..., answers=...)"
            )

    def _charge(self, session: Session, event: Event) -> None:
        """Charge the budget before anything is computed, or refuse; what stays at home costs nothing."""
        if not session.at_home:
            _refuse(self.budget.charge(event, seeded=self._seed(session) is not None))

    @property
    def _is_at_home(self) -> bool:
        return threading.get_ident() in self._at_home


def _within(name: str, value: float, least: float, most: float) -> float:
    """Return a number of a request; refused beyond the range in which its arithmetic is proven."""
    if not least <= value <= most:
        rule = f"{name} must be positive" if value <= 0.0 < least else f"{name} must be within [{least:g}, {most:g}]"
        raise _RefusalError(f"{rule}; got {value!r}")
    return value


@contextmanager
def _public() -> Iterator[None]:
    """Make errors of plans and mechanisms refusals: inside, nothing but public facts and the request is looked at."""
    try:
        yield
    except (ParameterError, DataError, OverflowError) as error:
        raise _RefusalError(str(error)) from None


def _refuse(reason: str) -> None:
    if reason:
        raise _RefusalError(reason)


def _own_weights(
    sent: NDArray[np.float64], steps: NDArray[np.float64], data_bound: float | None
) -> NDArray[np.float64] | None:
    """Return a party's own steps times the factor by which ``sent`` is them; None if it is something else."""
    own = np.zeros(len(sent))
    own[: len(steps)] = steps
    largest = int(np.argmax(np.abs(own)))
    with np.errstate(over="ignore", invalid="ignore"):  # whatever was sent; it is then something else
        given = sent * np.append(np.full(len(sent) - 1, data_bound or 1.0), 1.0)  # in the unit of the steps
        factor = given[largest] / own[largest] if own[largest] else 1.0
        same = np.abs(given - factor * own) <= _SAME_WEIGHTS * np.abs(factor * own)
    return factor * own if SMALLEST <= factor <= LARGEST and same.all() else None


def _summed(table: Any) -> Any:
    """Return a CSR table with one entry a place: a bound on entries is one on what a place adds up to."""
    out = sp.csr_array(table)
    if not out.has_canonical_format:
        out = out.copy()
        out.sum_duplicates()
    return out


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
_OPERATIONS: Final[dict[type[Message], Callable[[Party, Session, Any], Message]]] = {
    Describe: Party._describe,
    Close: Party._close,
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
