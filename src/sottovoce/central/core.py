"""The core: a solver is a generator of releases, and noise has one door.

A solver asks questions about rows. It never holds a row, and it never draws: it *yields* what it wants to ask, as a
named operation with the mechanism that protects the answer, and is sent the noisy answer. That what becomes of an
answer is post-processing therefore holds by construction, and not because somebody read the solver.

* `drive` is the door. It has the holder of the rows do the operation, draws the noise, records the event that the
  mechanism emits, and sends the answer back. Nothing else draws noise for a table, and nothing else sees an exact
  answer.
* `replay` runs the same generator without rows. Answers are those of a table of one column of zeros; whatever sizes or
  noise follow from, the solver has kept (`Keep`), and that is sent again. So what a plan costs, what a receipt says,
  and whether a receipt that somebody shows is one that a run can have made, all come from the generator of the fit.

A solver that forgot to keep what a later release follows from is noticed at the end of each fit: its replay then has
other events than its run.
"""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from sottovoce.central.data.operation import Change, Holder, Operation, RowSum, StepRule
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.events import Event, GaussianEvent, NonPrivateEvent, PoissonSampledEvent, RepeatedEvent, compose
from sottovoce.randomness import Purpose, Streams

R = TypeVar("R")
Progress = Callable[[int, int], None]  # steps done of all models, and their number


class Mechanism(Protocol):
    """What adds noise to an exact answer; its parameters follow from public facts and earlier releases alone."""

    @property
    def event(self) -> Event:
        """What one use costs."""

    def release(self, exact: Any, noise: np.random.Generator) -> tuple[Any, Event]:
        """Return the noisy answer, and the event that pays for it."""


@dataclass(frozen=True)
class Unprotected:
    """No noise at all, for ``epsilon=inf``: the event says so."""

    @property
    def event(self) -> Event:
        return NonPrivateEvent()

    def release(self, exact: Any, noise: np.random.Generator) -> tuple[Any, Event]:
        """Return the answer as it is."""
        return exact, self.event


class Release(NamedTuple):
    """One noisy answer about the rows, or with a rule one at each of its points."""

    # What is released, as a receipt says it, in one or more sentences; of releases with the same words it says so once.
    words: str | tuple[str, ...]
    ask: Operation[Any]
    mechanism: Mechanism
    step: tuple[int, int] | None = None  # for a progress bar: how many steps are done with it, and of how many
    # The points that follow, of which each releases the same: the solver is sent the mean of the last ones.
    rule: StepRule | None = None

    @property
    def event(self) -> Event:
        """What it costs: that of the mechanism, or less where it is about a Poisson sample of the rows."""
        event, rate = self.mechanism.event, self.ask.sampling_rate
        return event if rate is None or not isinstance(event, GaussianEvent) else PoissonSampledEvent(rate, event)


@dataclass(frozen=True)
class Keep:
    """A released value that later sizes or noise follow from, or that a receipt should tell.

    The solver goes on from what it is sent for it: the value itself in a run, and in a replay the kept one.
    """

    name: str  # its name in the receipt
    value: Any  # or a function that computes it, where that takes long
    check: Callable[[str, Any], Any]  # refuses, by name and value, what no run keeps; returns the value
    blank: Any  # what a plan takes for it, before there is a run
    place: int | None = None  # in a list of values of that name, one for each model


@dataclass(frozen=True)
class Tell:
    """What a public rule makes of values that were kept, for the receipt: a replay computes it again."""

    name: str
    value: Any


@dataclass(frozen=True)
class Shuffle:
    """A random order of so many public things, which everybody may know."""

    n: int


@dataclass(frozen=True)
class Steps:
    """Steps that release alike, or what is said before the first, one after the other: a replay takes the first alone.

    A run counts what each of them releases. Where that is not what was said, its replay has other events.
    """

    numbers: range
    step: "Callable[[int], Asked[None]]"  # makes the generator of a step; what steps hand on is theirs to remember
    events: Sequence[Event] | None = None  # what each of them costs, where they are not alike


Asked = Generator[Release | Change | Keep | Tell | Shuffle | Steps, Any, R]


@dataclass
class Driven(Generic[R]):
    """What became of a generator."""

    kept: dict[str, Any] = field(default_factory=dict)  # what was kept and told, by name, for the receipt
    words: list[str] = field(default_factory=list)  # what was released, each once
    counts: Counter[Event] = field(default_factory=Counter)
    result: R = None  # type: ignore[assignment]

    @property
    def event(self) -> Event:
        """All releases composed, in the order in which their kinds came first."""
        if NonPrivateEvent() in self.counts:
            return NonPrivateEvent()
        return compose(*(event if n == 1 else RepeatedEvent(event, n) for event, n in self.counts.items()))

    def released(self, release: Release) -> None:
        if not release.ask.continues:
            self.counts[release.event] += 1 if release.rule is None else release.rule.n_steps
        for one in (release.words,) if isinstance(release.words, str) else release.words:
            if one and one not in self.words:
                self.words.append(one)

    def note(self, step: "Keep | Tell", value: Any) -> Any:
        if isinstance(step, Keep) and step.place is not None:
            self.kept.setdefault(step.name, []).append(value)
        else:
            self.kept[step.name] = value
        return value


def drive(
    asks: Callable[[], Asked[R]], holder: Holder, streams: Streams, progress: Progress = lambda done, of: None
) -> Driven[R]:
    """Run a solver on rows: ask the holder, draw the noise, record the event.

    Parameters
    ----------
    asks : callable
        Makes the generator; it is made twice, to compare the run with its replay.
    holder : Holder
        Of the rows.
    streams : Streams
        Of the fit.
    progress : callable
        Told how many steps of all models are done, and their number.

    Raises
    ------
    AccountingError
        If the solver did not keep what its releases follow from; nothing that was released may then be used.
    TypeError
        If it asks for anything else than these steps, before that is done.
    """
    holder.begin(streams, progress)
    driven = Driven[R]()

    def answer(step: Release | Change | Keep | Shuffle) -> Any:
        match step:
            case Release():
                if isinstance(step.mechanism, Unprotected):
                    found = holder.ask(step.ask)
                elif step.rule is not None:
                    row_sum, noise = cast("RowSum", step.ask), streams.generator(Purpose.NOISE)
                    found = row_sum.descend(holder, step.mechanism, step.rule, noise, progress)
                else:
                    found = holder.release(step.ask, step.mechanism, streams.generator(Purpose.NOISE))
                if step.step is not None:
                    progress(*step.step)
                return found
            case Keep():
                return step.value() if callable(step.value) else step.value
            case Shuffle():
                return streams.generator(Purpose.SHUFFLING).permutation(step.n)
        return holder.ask(step)

    driven.result = _walk(asks(), driven, answer, slice(None))
    again = replay(asks, driven.kept)
    if again.counts != driven.counts or again.kept != driven.kept:
        raise AccountingError(
            f"{asks!r} did not keep what its releases follow from: it released {driven.event!r}, but from what it kept "
            f"follows {again.event!r}. The result must not be used."
        )
    return driven


def replay(asks: Callable[[], Asked[R]], kept: Mapping[str, Any] | None = None) -> Driven[R]:
    """Run a solver without rows.

    Parameters
    ----------
    asks : callable
        Makes the generator.
    kept : mapping or None
        What a run has kept, by name: what it released is counted again. None is for what a run may cost, before there
        is any.

    Raises
    ------
    ParameterError
        If a value is missing, or is none that a run keeps.
    """
    driven = Driven[R]()

    def answer(step: Release | Change | Keep | Shuffle) -> Any:
        match step:
            case Release():
                return step.ask.blank()
            case Keep():
                return step.blank if kept is None else _found(kept, step)
            case Shuffle():
                return np.arange(step.n)
        return None

    driven.result = _walk(asks(), driven, answer, slice(1))
    for name, values in driven.kept.items():
        found = (kept or {}).get(name)
        if isinstance(values, list) and isinstance(found, list) and len(found) != len(values):
            raise ParameterError(f"{name} must have {len(values)} values, one for each model; got {found!r}.")
    return driven


def _walk(asked: Asked[R], driven: Driven[Any], answer: Callable[[Any], Any], done: slice) -> R:
    """Run a generator to its end, and return its result; of steps that release alike do some, and count all."""
    found: Any = None
    while True:
        try:
            step = asked.send(found)
        except StopIteration as end:
            result: R = end.value
            return result
        found = None
        match step:
            case Release():
                found = answer(step)
                driven.released(step)
            case Steps():
                before = driven.counts.copy()
                for number in step.numbers[done]:
                    _walk(step.step(number), driven, answer, done)
                if step.events is not None:
                    driven.counts.update(step.events[len(step.numbers[done]) :])
                    continue
                for event, n in (driven.counts - before).items():
                    driven.counts[event] += n * (len(step.numbers) - len(step.numbers[done]))
            case Keep():
                found = driven.note(step, step.check(step.name, answer(step)))
            case Tell():
                driven.note(step, step.value)
            case Change():
                answer(step)
            case Shuffle():
                found = answer(step)
            case _:
                raise TypeError(
                    f"a solver yields Release, Steps, Change, Keep, Tell or Shuffle; got {step!r}. An answer leaves "
                    "the rows in a Release."
                )


def _found(kept: Mapping[str, Any], step: Keep) -> Any:
    value = kept.get(step.name)
    if step.place is None:
        return value
    if not (isinstance(value, list) and step.place < len(value)):
        raise ParameterError(f"there must be a list of {step.name}, one for each model; got {value!r}.")
    return value[step.place]
