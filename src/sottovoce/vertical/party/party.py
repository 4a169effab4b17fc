"""One organisation of a vertical training: it owns its columns, its coefficients and its budget.

The coordinator reaches a party through `Party.handle` alone: bytes of one listed request in, bytes of one reply out,
one request at a time. A party keeps what it must not tell: features, coefficients, factors. It refuses what its own
budget does not cover, what its owner did not allow, and whatever comes out of its turn. What a coordinator that sends
anything learns, mechanism by mechanism: ``docs/privacy/parties.md``.

Refusals follow from public facts: from the request, from what was declared, and from what was asked before. What goes
wrong beyond that is told in one sentence, which is always the same.
"""

import hashlib
import logging
import os
import secrets
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, ClassVar, Final, NoReturn, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sottovoce._columns import refuse_by_cell, refuse_by_type, refuse_texts
from sottovoce._entries import entries
from sottovoce._validation import magnitude, refuse_masked, whole_number
from sottovoce.exceptions import DataError, MessageError, ParameterError, StorageError
from sottovoce.privacy.events import Event, NonPrivateEvent
from sottovoce.vertical.engines.site import ComputeSite
from sottovoce.vertical.mechanisms import allowed_answers, repertoire, why_unanswered
from sottovoce.vertical.party.budget import Account, LedgerBudget, PartyBudget
from sottovoce.vertical.party.journal import Journal, Model, Release
from sottovoce.vertical.party.sessions import MachineError, Place, Session, SessionError, Sessions
from sottovoce.vertical.protocol import (
    Desk,
    Part,
    PartyFacts,
    Protocol,
    RefusalError,
    close,
    refuse,
)
from sottovoce.vertical.protocols.alignment.identifiers import UsableIdentifiers, usable_identifiers
from sottovoce.vertical.protocols.alignment.messages import announce
from sottovoce.vertical.wire import MOST_REASON, Frame, Message, Refused, decode

_LOG: Final = logging.getLogger(__name__)
FAILED: Final = "it failed there; the party's own log says more"
MOST_PLACES: Final = 12  # of where an error came from, the innermost: a log takes so much of one line
_ELSEWHERE: Final = "it was made in another process; make the party in the one that uses it"


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
    budget : (epsilon, delta), LedgerBudget or None
        What this party allows to be learnt about one person's row of its columns, over all trainings with this object
        and with selections of its rows; it refuses the rest. None allows everything, training without noise included.
        The label holder, whose own model is exact, has none. It lives in memory: a new process has it again.
    ledger : Ledger, str or None
        In the place of ``budget``: an account on disk, which restarts, copies and other processes share.
    dataset : str or None
        Name of the data set in the ledger, created with ``adjacency="replace-one"``: the people of this table.
    answers : set of str or None
        What the owner allows a coordinator to ask, by the names of ``docs/messages.md``. None allows the
        private mechanisms where there is a budget, and everything where there is none. For scoring
        alone: ``answers={"score"}``.
    journal : Journal or None
        Where releases are kept, so that a new process answers with them; copies and selections have none.
    least_people : int
        An alignment over messages to fewer people is refused.
    computing : ComputeSite or None
        Where and with whom it computes jointly, for ``mechanism="secure"``; None only with parties of its own process.
    protocols : sequence of Protocol
        Forms for study that it answers beside the closed list, `sottovoce.papers.frank_wolfe.PROTOCOL` say; for parties
        within one process. No organisation's own settings can name any.

    Attributes
    ----------
    alignment : str or None
        Digest of the people whom it was aligned to over messages; None for all its rows.

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

    is_helper: ClassVar[bool] = False
    """Whether it has no table, and only computes with others."""

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
        budget: tuple[float, float] | LedgerBudget | None = None,
        ledger: Any = None,
        dataset: str | None = None,
        answers: Collection[str] | None = None,
        journal: Journal | None = None,
        least_people: int = 1,
        computing: ComputeSite | None = None,
        protocols: Sequence[Protocol] = (),
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ParameterError(f"name must be a non-empty string; got {name!r}.")
        self.name = name
        self.feature_names = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
        refuse_masked(f"X of party {name!r}", X)
        refuse_by_type(X)
        refuse_by_cell(X)
        try:
            table = _numbers(X, f"X of party {name!r}")
        except (ValueError, TypeError, OverflowError) as error:
            refuse_texts(X, by_cell=True)
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
            self.budget: Account = budget if isinstance(budget, LedgerBudget) else PartyBudget(budget)
        elif budget is None:
            self.budget = LedgerBudget(ledger, dataset, name=name)
        else:
            raise ParameterError("budget and ledger are two accounts of the same thing: give one of them.")
        self._knows = repertoire(protocols)
        self.answers = allowed_answers(answers, limited=self.budget.is_limited, known=self._knows.answers)
        self._random_state: object = None
        self._session_seeds: dict[bytes, object] = {}
        self._process, self._lock = os.getpid(), Lock()  # one request at a time
        if journal is not None and not isinstance(journal, Journal):
            raise ParameterError(f"journal must be a Journal or None; got {journal!r}.")
        if journal is not None:
            journal.claim(name)
        self._journal = journal
        self._sessions = Sessions()
        self._digested: tuple[Any, bytes] = (None, b"")  # a table, and its digest
        self._models: dict[str, Part] = {}
        self.most_models: int | None = None
        self.on_keeping: Callable[[str, Part], object] | None = None
        self.least_people = whole_number("least_people", least_people, at_least=1)
        if computing is not None and not isinstance(computing, ComputeSite):
            raise ParameterError(f"computing must be a ComputeSite or None; got {computing!r}.")
        self.computing = computing
        self._whole = (self._table, self.ids, self.y)
        self.alignment: str | None = None

    def __repr__(self) -> str:
        return f"Party({self.name!r}, {self.n_rows} rows, {self.n_features} features)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a party cannot be copied or pickled: two would answer for one budget and the same sessions.")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._table.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self._table.shape[1])

    @cached_property
    def identifiers(self) -> UsableIdentifiers:
        """Those that the party can be aligned by, of all its rows."""
        return usable_identifiers(f"ids of party {self.name!r}", self._whole[1])

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
            least_people=self.least_people,
            computing=self.computing,
        )
        other.feature_names = self.feature_names
        other.budget, other.answers = self.budget, self.answers  # one organisation, one account
        other._knows = self._knows
        return other

    def align(self, people: Sequence[str] | None) -> None:
        """Become these people, of all its rows, in the order of their texts; None: all rows as they are.

        It is what `AlignTo` does, but no request: the owner's own.

        Raises
        ------
        DataError
            If one of them has no row, or they are fewer than ``least_people``.
        ParameterError
            If the party has no identifiers.
        """
        if people is None:
            with self._lock:
                self._become(None, None)
            return
        if self.ids is None:
            raise ParameterError(f"party {self.name!r} has no identifiers to be aligned by: Party(..., ids=...).")
        if len(people) < self.least_people:
            raise DataError(
                f"party {self.name!r} is aligned to at least {self.least_people:,} people; these are {len(people):,}."
            )
        people = sorted(people)
        rows = self.identifiers.rows_of(people)
        if rows is None:
            raise DataError(f"party {self.name!r} has no row of some of these people.")
        with self._lock:
            self._become(people, rows)

    @property
    def table(self) -> Any:
        """Its columns, for what its own organisation makes of them: no request asks for them."""
        return self._table

    @contextmanager
    def seeded(self, random_state: object, *, session: bytes) -> Iterator[None]:
        """Make this party's noise of one session repeatable inside the ``with`` block; see `seed`."""
        self._check_seed(random_state)
        self._session_seeds[session] = random_state
        try:
            yield
        finally:
            del self._session_seeds[session]

    def seed(self, random_state: object) -> Self:
        """Make this party's noise repeatable from now on, for trials: a known seed undoes it.

        A generator gives every training a new seed.

        Raises
        ------
        ParameterError
            If the party's ledger takes no seeds.
        """
        self._check_seed(random_state)
        self._random_state = random_state
        return self

    def _check_seed(self, random_state: object) -> None:
        if random_state is not None and not self.budget.takes_seeds:
            raise ParameterError(
                f"random_state={random_state!r}: the ledger of party {self.name!r} takes no noise that can be drawn "
                "again. Leave it out, or create the data set with allow_nonprivate=True if that is meant."
            )

    @property
    def is_seeded(self) -> bool:
        """True where the noise could be repeated."""
        return self._random_state is not None

    def keeps(self, model: str) -> bool:
        """Tell whether this party keeps a part of a model of that name."""
        return model in self._models

    @property
    def parts(self) -> dict[str, Part]:
        """The parts of all models that this party keeps, by name; they do not leave the party."""
        return dict(self._models)

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

    def close(self) -> None:
        """End what computes in the background for open sessions, before the process ends; what is on record stays."""
        for worker in self._sessions.workers():
            close(worker)

    # ------------------------------------------------------------------ what the coordinator can reach

    def handle(self, raw: bytes) -> bytes:
        """Answer one framed request; whatever goes wrong here is told without a word about the data.

        Requests are answered one at a time. The last request of a session may be sent again: its answer is the same,
        byte for byte, and nothing is drawn or charged again.
        """
        if os.getpid() != self._process:  # the parent goes on with its sessions and its budget
            return Refused(_ELSEWHERE).encode()
        with self._lock:
            try:
                frame = Frame.read(raw)
                if self._journal is not None:
                    self._journal.check_open()
                session = self._sessions.find(frame)
                answer = session.repeated(frame)
                if answer is None:
                    self._settle(session)  # what the next step rests on may leave by it
                    answer = self._answer(session, frame)
                self._settle(session)  # before it leaves
                return answer
            except (MessageError, SessionError) as refusal:
                return Refused(f"{refusal}.").encode()
            except MachineError as fault:
                return Refused(str(fault)).encode()
            except StorageError:  # what is not on record must not leave
                _LOG.exception("the journal of party %r", self.name)
                return Refused(FAILED).encode()

    def _settle(self, session: Session) -> None:
        """Let the account know the last answer of a session, and what stands behind it, if it does not yet."""
        if session.owed is not None:
            self.budget.settle(session.owed.name, session.owed.digest)
            if session.owed.model is not None:
                model, coef, intercept = session.owed.model
                self._keep(model, Part(coef, intercept, self.feature_names))
            session.owed = None

    def _answer(self, session: Session, frame: Frame) -> bytes:
        """Answer the next step; what fails for want of the machine is raised, and the step is not used up."""
        step = _Step(frame)
        try:
            answer = self._run(session, step, self._decoded(frame))
        except RefusalError as refusal:
            answer = Refused(str(refusal)[:MOST_REASON]).encode()
        except (MachineError, StorageError):
            raise
        except (Exception, SystemExit) as error:  # its message could quote a row, and its class tell about one
            places = "".join(traceback.format_tb(error.__traceback__, -MOST_PLACES))
            _LOG.error("a request to party %r failed with %s:\n%s", self.name, type(error).__name__, places)
            answer = Refused(FAILED).encode()
        owed = step.release
        if owed is None and step.charged:  # it is not on record: what stands behind it nobody else has
            owed = Release(step.charged, answer, step.model, secrets.token_bytes(16))
        session.take(frame, answer, owed)
        if step.ended:
            self._sessions.end(session.name)
        return answer

    def _decoded(self, frame: Frame) -> Message:
        try:
            return decode(frame.body, self._knows.answers_to)
        except MessageError as error:
            raise RefusalError(f"not a valid message: {error}") from None

    def _run(self, session: Session, step: "_Step", request: Any) -> bytes:
        """Ask what it costs, charge, run, encode, store: the only place where a party does any of these."""
        facts, before = self._facts, session.worker
        answering = request.answer(facts, before)
        try:  # inside, nothing but public facts and the request is looked at
            refuse(self._not_allowed(type(request), self._knows.answers_to[type(request)]))
            event = next(answering)
        except (ParameterError, DataError, OverflowError) as error:
            raise RefusalError(str(error)) from None
        seed = self._session_seeds.get(session.name, self._random_state)
        # what a session holds ends with the process, and what has no noise is no release that is charged
        journal = None if before is not None or isinstance(event, NonPrivateEvent) else self._journal
        if event is not None:
            place = self._place(session, step.frame, (event, seed is not None), alone=journal is not None)
            step.release = None if journal is None else journal.find(place.release)
            if step.release is not None:
                return step.release.answer
            refuse(self.budget.charge(event, seeded=seed is not None, place=place))
            step.charged = place.release
        desk = Desk(
            self._table, facts, before, self._models, self.feature_names, lambda: session.streams(seed),
            self.budget.shortage, self._code_not_allowed, lambda: self.identifiers, guarded=self.budget.is_limited,
            kept=self._keep, session=session.name, workers=self._sessions.workers,
        )  # fmt: skip
        try:
            answering.send(desk)
            raise AssertionError  # it is charged once
        except StopIteration as done:
            answer: bytes = done.value.encode()
        finally:
            if before is not desk.worker:
                close(before)
        if step.charged and journal is not None and desk.worker is None:
            release = Release(step.charged, answer, desk.later)
            journal.keep(release)
            step.release = release
        session.worker, step.model, step.ended = desk.worker, desk.later, desk.ended
        if desk.aligned is not None:
            self._become(*desk.aligned)
        return answer

    def _place(self, session: Session, frame: Frame, about: object, *, alone: bool) -> Place:
        """Return what a step is charged as: by another name wherever request, rows or charge are others.

        What is ``alone`` is the same release in every session and process: it is on record, and rests on nothing else.
        """
        where = self._digest if alone else session.name + frame.step.to_bytes(8, "little")
        told = repr((about, self.name, self.budget.coordinator, self.budget.is_limited)).encode()
        release = hashlib.sha256(b"release" + frame.digest + where + told).hexdigest()[:32]
        return Place(session.name.hex(), frame.step, release)

    def _keep(self, model: str, part: Part) -> None:
        """Keep a part of a model, on disk first; where that cannot be, the step is not used up: nothing has left."""
        try:
            if self.on_keeping is not None:
                self.on_keeping(model, part)
        except OSError:
            _LOG.exception("the models of party %r", self.name)
            raise MachineError(FAILED) from None
        self._models[model] = part

    def _become(self, people: list[str] | None, rows: NDArray[np.int64] | None) -> None:
        """Have these rows of the whole table from now on, None for all; trainings on others are over."""
        alignment = None if people is None else hashlib.sha256(announce(people)).hexdigest()
        if self.ids is not None and self.alignment != alignment:
            table, ids, y = (each if each is None or rows is None else each[rows] for each in self._whole)
            self._table, self.ids, self.y, self.alignment = table, ids, y, alignment
            self._sessions.end_trainings()

    @property
    def _digest(self) -> bytes:
        """Digest of the table, as it is now."""
        if self._digested[0] is not self._table:
            table = self._table
            parts = [table] if isinstance(table, np.ndarray) else [table.data, table.indices, table.indptr]
            # whom it is aligned to too: two alignments may never be told apart by what their rows hold
            facts = (table.shape, self.data_norm, self.data_bound, self.nonnegative, self.alignment)
            sha = hashlib.sha256(repr(facts).encode())
            for part in parts:
                sha.update(part.dtype.str.encode())
                sha.update(np.ascontiguousarray(part).data)
            self._digested = table, sha.digest()
        return self._digested[1]

    def _not_allowed(self, kind: type[Message], names: tuple[Protocol, ...]) -> str:
        limit = self.budget.limit if self.budget.is_limited else None
        return why_unanswered(kind, names, self.answers, limit)

    def _code_not_allowed(self, code: int) -> str:
        kind = self._knows.kinds.get(code)
        if kind is None:
            return f"it answers no request of kind {code}" if code else ""
        return self._not_allowed(kind, self._knows.answers_to[kind])

    @property
    def _facts(self) -> PartyFacts:
        return PartyFacts(
            self.n_rows, self.n_features, self.data_norm, self.data_bound, self.nonnegative,
            has_ids=self.ids is not None, least_people=self.least_people, name=self.name, is_helper=self.is_helper,
            joins="secure" in self.answers, computing=self.computing, whole_rows=int(self._whole[0].shape[0]),
            models=self._models, most_models=self.most_models,
        )  # fmt: skip


@dataclass
class _Step:
    """A step that is being answered."""

    frame: Frame
    charged: str = ""  # the name of its release
    release: Release | None = None  # as it is on record
    model: Model | None = None  # to keep when its answer may leave
    ended: bool = False  # whether the session is over


def _numbers(X: Any, what: str) -> Any:
    """Return a table of finite numbers; what a site has read is one: without scikit-learn, half of all imports."""
    read = type(X) is np.ndarray and X.dtype in (np.float64, np.float32) and X.ndim == 2 and X.size > 0
    if read and X.flags.c_contiguous and X.dtype.isnative and np.isfinite(X).all():
        return X
    from sklearn.utils.validation import check_array

    return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", input_name=what)


def _summed(table: Any) -> Any:
    """Return a CSR table with one entry a place: a bound on entries is one on what a place adds up to."""
    out = sp.csr_array(table)
    if not out.has_canonical_format:
        out = out.copy()
        out.sum_duplicates()
    return out


def _one_per_row(what: str, values: ArrayLike, n_rows: int, name: str) -> NDArray[Any]:
    shape = getattr(values, "shape", (0,))
    array = entries(values, f"{what} of party {name!r}") if len(shape) == 1 else np.empty(shape)
    if array.shape != (n_rows,):
        raise DataError(
            f"{what} of party {name!r} must hold one entry for each of its {n_rows} rows; got {array.shape}."
        )
    return array
