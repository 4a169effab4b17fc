"""ClusterHolder: the rows of one fit, wherever their partitions are; each counts once, whatever happens to workers."""

import copy
import secrets
from collections.abc import Callable
from typing import Any, TypeVar

from sottovoce.central.data.operation import Effect, Holder, Operation
from sottovoce.cluster.keeper import Answer, Call, Lost, raise_first, runs
from sottovoce.cluster.partitions import Partitions

T = TypeVar("T")


class ClusterHolder(Holder):
    """Rows in the workers of a cluster, for one fit.

    Every operation has a number. A partition does it once and the driver takes one answer about each partition; a
    partition that is lost with its worker is read again by another one, repeats what changed something (`history`)
    without telling what it adds up, and then does what it owes. So a sum has each row in it once.

    ``told``: called with the holder after each operation.
    ``session``: made up for this fit: what a worker still says of an older one is dropped.
    ``number``: of the next operation.
    ``history``: what a rebuilt partition repeats: public numbers and released values, nothing secret.
    """

    on_cluster = True

    def __init__(self, partitions: Partitions, told: Callable[["ClusterHolder"], None] | None = None) -> None:
        partitions.settle()
        self.partitions = partitions
        self.n_samples = sum(source.n_rows for source in partitions.sources)
        self.n_features, self.dtype = partitions.sources[0].shape[1], partitions.sources[0].dtype
        self.constant = 0.0
        self.session = secrets.token_hex(8)
        self.number = 0
        self.history: list[Operation[Any]] = []
        self._ready: dict[int, str | None] = {}  # partitions that have done all before `number`, and at which keeper
        self._told = told

    def status(self) -> str:
        n_workers, n_rebuilt = self.partitions.n_workers, self.partitions.n_rebuilt
        rebuilt = f", {n_rebuilt} partition{'s' * (n_rebuilt != 1)} rebuilt" if n_rebuilt else ""
        return f"on {n_workers} worker{'s' * (n_workers != 1)}{rebuilt}"

    def ask(self, operation: Operation[T]) -> T:
        if operation.effect is Effect.FIRST:  # also for partitions that are rebuilt in order to do it
            self.history = [one for one in self.history if one.effect is Effect.LASTING]
        answers = self._answers(operation)
        self.number += 1
        if operation.entry is not None:
            self.constant = operation.entry
        if operation.columns_after is not None:
            self.n_features = operation.columns_after
        if operation.effect is not Effect.NONE:
            self.history.append(copy.deepcopy(operation))  # a solver may go on writing to its vectors
        raise_first(answers)
        if self._told is not None:
            self._told(self)
        sums = {first: value for answer in answers for first, value in answer.value.items()}
        return operation.merged([sums[first] for first in sorted(sums)])

    def close(self) -> None:
        held = [place for place in self.partitions.places if self.partitions.home(place) is not None]
        self.partitions.call(held, lambda _: Call("end", (self.session,)))

    def _answers(self, operation: Operation[Any]) -> list[Answer]:
        """Return answers that are about each partition once."""
        owed, taken = set(self.partitions.places), list[Answer]()
        while owed:
            self.partitions.settle(owed)
            behind = {place for place in owed if self._ready.get(place) != self.partitions.home(place)}
            if behind:
                self._catch_up(behind)
                continue
            answers = self.partitions.call(
                owed,
                lambda places: Call("do", (self.session, self.number, self._about_rows(operation, places), places)),
            )
            for places, answer in answers.items():
                if isinstance(answer, Lost):
                    continue
                if not self._is_possible(answer, operation, places):
                    keeper, name = str(self.partitions.home(places[0])), type(operation).__name__
                    raise self.partitions.fault(keeper, f"{name} with what its rows cannot give, whatever they are")
                owed.difference_update(places)
                taken.append(answer)
                self.partitions.answered(places)
        return taken

    def _is_possible(self, answer: Answer, operation: Operation[Any], places: tuple[int, ...]) -> bool:
        """Return whether some rows could have made an answer: it is looked at before it is added to those of others."""
        if (answer.session, answer.number, answer.places) != (self.session, self.number, places):
            return False
        if answer.error is not None:
            return answer.error_at in places
        sources = self.partitions.sources
        n_rows = {run[0]: sum(sources[place].n_rows for place in run) for run in runs(places)}
        return (
            type(answer.value) is dict
            and answer.value.keys() == n_rows.keys()
            and all(operation.allows(answer.value[first], n, self) for first, n in n_rows.items())
        )

    def _catch_up(self, behind: set[int]) -> None:
        """Bring partitions that were rebuilt, or are new to the fit, where the others are."""
        first_rows, history = self.partitions.first_rows, tuple(self.history)

        def replay(places: tuple[int, ...]) -> Call:
            own = tuple(self._about_rows(one, places) for one in history)
            return Call("replay", (self.session, self.number, own, {place: first_rows[place] for place in places}))

        for places, answer in self.partitions.call(behind, replay).items():
            if isinstance(answer, Lost):
                continue
            if answer.error is not None:
                raise answer.error
            self._ready.update({place: self.partitions.home(place) for place in places})

    def _about_rows(self, operation: Operation[T], places: tuple[int, ...]) -> Operation[T]:
        first, last = places[0], places[-1]
        return operation.about(
            self.partitions.first_rows[first], self.partitions.first_rows[last] + self.partitions.sources[last].n_rows
        )
