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
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, ClassVar, Final, NoReturn, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce._columns import refuse_by_cell, refuse_by_type, refuse_texts
from sottovoce._entries import entries
from sottovoce._validation import magnitude, refuse_masked, whole_number
from sottovoce.exceptions import DataError, MessageError, ParameterError, StorageError
from sottovoce.privacy.events import Event, NonPrivateEvent
from sottovoce.randomness import Streams
from sottovoce.vertical.columns import one_a_place, table_of
from sottovoce.vertical.engines import ComputeSite
from sottovoce.vertical.mechanisms import allowed_answers, repertoire, why_unanswered
from sottovoce.vertical.party.budget import Account, LedgerBudget, MachineError, PartyBudget
from sottovoce.vertical.party.journal import Journal, Release
from sottovoce.vertical.protocol import Answered, Desk, Part, PartyFacts, Protocol, RefusalError, close, refuse
from sottovoce.vertical.requests.alignment import announce
from sottovoce.vertical.requests.identifiers import UsableIdentifiers, usable_identifiers
from sottovoce.vertical.wire import MOST_REASON, Frame, Message, Refused, decode

_LOG: Final = logging.getLogger(__name__)
FAILED: Final = "it failed there; the party's own log says more"
MOST_OPEN: Final = 32  # sessions of one party that hold anything
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
            table = table_of(X, f"X of party {name!r}")
        except (ValueError, TypeError, OverflowError) as error:
            refuse_texts(X, by_cell=True)
            raise DataError(str(error)) from None
        self._table: Any = table if isinstance(table, np.ndarray) else one_a_place(table)
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
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()  # the one that was idle for longest first
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
        for worker in self._workers():
            close(worker)

    # ------------------------------------------------------------------ what the coordinator can reach

    def handle(self, raw: bytes) -> bytes:
        """Answer one framed request; whatever goes wrong here is told without a word about the data.

        Requests are answered one at a time. One that is charged, or must be done once, may be sent again: its answer is
        the same, byte for byte, and nothing is drawn or charged again.
        """
        if os.getpid() != self._process:  # the parent goes on with its sessions and its budget
            return Refused(_ELSEWHERE).encode()
        with self._lock:
            try:
                frame = Frame.read(raw)
            except MessageError as error:
                return Refused(f"{error}.").encode()
            try:
                return self._answer(frame, self._sessions.get(frame.session) or _Session())
            except (RefusalError, MachineError) as refusal:
                return Refused(str(refusal)[:MOST_REASON]).encode()
            except StorageError:  # what is not on record must not leave
                _LOG.exception("the journal of party %r", self.name)
            except (Exception, SystemExit) as error:  # its message could quote a row, and its class tell about one
                places = "".join(traceback.format_tb(error.__traceback__, -MOST_PLACES))
                _LOG.error("a request to party %r failed with %s:\n%s", self.name, type(error).__name__, places)
            return Refused(FAILED).encode()

    def _answer(self, frame: Frame, session: "_Session") -> bytes:
        """Ask what it costs, charge, run, encode, store: the only place where a party does any of these."""
        if self._journal is not None:
            self._journal.check_open()
        digest = frame.digest
        if session.asked == digest and session.answered is not None:
            return self._leave(session.answered)
        try:
            request: Any = decode(frame.body, self._knows.answers_to)
        except MessageError as error:
            raise RefusalError(f"not a valid message: {error}") from None
        facts, before = self._facts, session.worker
        answering = request.answer(facts, before)
        try:  # inside, nothing but public facts and the request is looked at
            refuse(self._not_allowed(type(request), self._knows.answers_to[type(request)]))
            event = next(answering)
        except (ParameterError, DataError, OverflowError) as error:
            raise RefusalError(str(error)) from None
        seed, name = self._session_seeds.get(frame.session, self._random_state), ""
        is_charged = event is not None and not isinstance(event, NonPrivateEvent)
        # what a session holds ends with the process, and what has no noise is no release
        if is_charged and self._journal is not None and before is None and not request.opens:
            name = self._name(digest, (event, seed is not None))
            found = self._journal.find(name)
            if found is not None:
                return self._leave(found)
        if event is not None:
            refuse(self.budget.charge(event, seeded=seed is not None, release=name or None))
        desk = Desk(
            self._table, facts, before, self._models, self.feature_names, lambda: Streams(seed), self.budget.shortage,
            self._code_not_allowed, lambda: self.identifiers, guarded=self.budget.is_limited, kept=self._keep,
            session=frame.session, workers=self._workers,
        )  # fmt: skip
        try:
            release = Release(name, _reply(answering, desk).encode(), desk.later)
        except (MachineError, StorageError):
            raise
        except (Exception, SystemExit) as error:  # it is told that it failed: nothing is tried again for this charge
            if name:
                self.budget.settle(name, secrets.token_hex(16))
            if is_charged:
                told = str(error)[:MOST_REASON] if isinstance(error, RefusalError) else FAILED
                self._hold(frame.session, session, digest, Release("", Refused(told).encode(), None))
            raise
        finally:
            if before is not desk.worker:
                close(before)
        if name and self._journal is not None:
            self._journal.keep(release)
        session.worker = desk.worker
        if is_charged or request.once:
            self._hold(frame.session, session, digest, release)
        if desk.ended:
            self._end(frame.session)
        if desk.aligned is not None:
            self._become(*desk.aligned)
        return self._leave(release)

    def _leave(self, release: Release) -> bytes:
        """Close the charge of a release that is on record, keep the model behind it, and return its answer."""
        if release.name:
            self.budget.settle(release.name, release.digest)
        if release.model is not None:
            model, coef, intercept = release.model
            self._keep(model, Part(coef, intercept, self.feature_names))
        return release.answer

    def _name(self, request: bytes, about: object) -> str:
        """Return the name of a release: another one wherever request, rows or charge are others."""
        told = repr((about, self.name, self.budget.coordinator, self.budget.is_limited)).encode()
        return hashlib.sha256(b"release" + request + self._digest + told).hexdigest()[:32]

    def _hold(self, name: bytes, session: "_Session", asked: bytes, answered: Release) -> None:
        """Keep a session; of too many the one that was idle for longest ends, those without a training first."""
        session.asked, session.answered = asked, answered
        self._sessions[name] = session
        self._sessions.move_to_end(name)
        if len(self._sessions) > MOST_OPEN:
            idle = (each for each, other in self._sessions.items() if other.worker is None and each != name)
            self._end(next(idle, next(iter(self._sessions))))

    def _end(self, name: bytes) -> None:
        session = self._sessions.pop(name, None)
        if session is not None:
            close(session.worker)

    def _workers(self) -> list[Any]:
        return [session.worker for session in self._sessions.values() if session.worker is not None]

    def _keep(self, model: str, part: Part) -> None:
        """Keep a part of a model, on disk first; where that cannot be, nothing leaves."""
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
            for name in list(self._sessions):
                self._end(name)

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
class _Session:
    """What a party holds for one conversation; it ends with the process."""

    worker: Any = None  # what a training of several requests has reached
    asked: bytes = b""  # digest of the last request that is answered once
    answered: Release | None = None


def _reply(answering: Answered[Message], desk: Desk) -> Message:
    """Have a request answered that is charged."""
    try:
        answering.send(desk)
    except StopIteration as done:
        return cast("Message", done.value)
    raise AssertionError  # it is charged once


def _one_per_row(what: str, values: ArrayLike, n_rows: int, name: str) -> NDArray[Any]:
    shape = getattr(values, "shape", (0,))
    array = entries(values, f"{what} of party {name!r}") if len(shape) == 1 else np.empty(shape)
    if array.shape != (n_rows,):
        raise DataError(
            f"{what} of party {name!r} must hold one entry for each of its {n_rows} rows; got {array.shape}."
        )
    return array


# ------------------------------------------------------------------ a party without a table


class Helper(Party):
    """A party that has no columns and no people, and computes with those who have (``mechanism="secure"``).

    It sees random shares of the others' numbers, adds its share of the noise, and gives nothing away. Other mechanisms,
    predictions and alignments leave it out.

    Parameters
    ----------
    name : str
        Name of the organisation; public.
    computing : ComputeSite or None
        Where and with whom it computes; None only with parties of its own process.
    journal : Journal or None
        As for `Party`.

    Examples
    --------
    >>> from sottovoce.vertical import Helper
    >>> Helper("notary")
    Helper('notary')
    """

    is_helper: ClassVar[bool] = True

    def __init__(self, name: str, *, computing: ComputeSite | None = None, journal: Journal | None = None) -> None:
        super().__init__(np.zeros((1, 1)), name=name, computing=computing, journal=journal, answers={"secure"})
        self._table = np.zeros((0, 0))
        self._whole = (self._table, None, None)

    def __repr__(self) -> str:
        return f"Helper({self.name!r})"

    def take(self, rows: Any) -> "Helper":
        """Return itself: it has no rows."""
        return self
