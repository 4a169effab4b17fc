"""Who is asked when, and what becomes of a training where a party does not answer.

Who is asked in which round is drawn from a public seed. A party that does not answer misses the round; what it was
asked stays due and is asked again, as the same step of its session, before anything else is. So a party that heard a
request and whose answer was lost gives the answer that it gave, and nothing is drawn or charged again.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np

from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.wire import Message

__all__ = ["ABSENT", "Absences", "Attendance", "shuffled_groups"]

ABSENT: Final = ("stop", "skip")
"""What a party that does not answer does to a training: it ends it, or misses a round."""

Reply = TypeVar("Reply", bound=Message)


def shuffled_groups(names: Collection[str], size: int, seed: int) -> Iterator[list[tuple[str, ...]]]:
    """Return passes without end: in each, all names in groups of ``size`` (the last one may be smaller), shuffled.

    With all names in one group nothing is drawn, and they keep their order. The seed is public.
    """
    ordered = list(names)
    rng = np.random.Generator(np.random.PCG64(seed))
    while True:
        places = np.arange(len(ordered)) if size >= len(ordered) else rng.permutation(len(ordered))
        groups = [np.sort(places[low : low + size]) for low in range(0, len(ordered), size)]
        yield [tuple(ordered[place] for place in group) for group in groups]


@dataclass(frozen=True)
class Absences:
    """Who was away in a training, as the coordinator saw it.

    Attributes
    ----------
    rounds : dict
        By party: the rounds in which it did not answer, from 1; 0 is before the first one.
    left : dict
        By party that was not asked any more: what it refused.
    lacking : dict
        By party: planned steps that it has not taken.
    without_model : tuple of str
        Parties that do not know their part of the model.
    """

    rounds: Mapping[str, tuple[int, ...]]
    left: Mapping[str, str]
    lacking: Mapping[str, int]
    without_model: tuple[str, ...]

    def warning(self) -> str:
        """Return what is wrong in one message; empty where all was made up for."""
        parts = [reason for _, reason in sorted(self.left.items())]
        if self.lacking:
            steps = ", ".join(f"{n} of {name!r}" for name, n in sorted(self.lacking.items()))
            parts.append(f"planned steps that were not taken: {steps}")
        if self.without_model:
            names = ", ".join(map(repr, self.without_model))
            parts.append(f"without their part of the model (score from coef_): {names}")
        return "; ".join(parts)


@dataclass
class Attendance:
    """Asks parties of which some may be away, and keeps the list.

    Parameters
    ----------
    parties : Parties
    holder : str
        The label holder, which runs the training: where its own party fails there is none.
    skips : bool
        False ends the training where a party does not answer.

    Attributes
    ----------
    missed : dict
        By party, how many requests in a row and in all were not answered: the rounds, counted from 1.
    gone : dict
        By party that takes no part any more: why.
    round : int
        The one that is on.
    """

    parties: Parties
    holder: str
    skips: bool
    missed: dict[str, list[int]] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    round: int = 0
    _due: dict[str, tuple[Message, type[Message]]] = field(default_factory=dict)

    def ask(self, requests: Mapping[str, Message], expected: type[Reply]) -> dict[str, Reply]:
        """Send a request to each party named, and return the replies of those who answered.

        Raises
        ------
        PartyError
            If a party does not answer where that ends the training, or the label holder's own does not.
        """
        if not requests:
            return {}
        if not self.skips:
            return self.parties.exchange(requests, expected)
        asked = {name: request for name, request in requests.items() if name not in self.gone}
        replies, away, refusals = self.parties.reach(asked, expected)
        for name, error in {**away, **refusals}.items():
            if name == self.holder:
                raise error
        for name in away:
            self._due[name] = asked[name], expected
            rounds = self.missed.setdefault(name, [])
            if rounds[-1:] != [self.round]:
                rounds.append(self.round)
        for name in (*replies, *refusals):
            self._due.pop(name, None)
        self.gone |= {name: str(error) for name, error in refusals.items()}
        return replies

    def settle(self, names: Collection[str]) -> dict[str, tuple[Message, Message]]:
        """Ask some parties again what is due to them; return the requests and the late answers of those who answer."""
        due = {name: self._due[name] for name in names if name in self._due}
        late: dict[str, tuple[Message, Message]] = {}
        for kind in sorted({expected for _, expected in due.values()}, key=lambda kind: kind.code):
            requests = {name: request for name, (request, expected) in due.items() if expected is kind}
            late |= {name: (requests[name], reply) for name, reply in self.ask(requests, kind).items()}
        return late

    def free(self, names: Collection[str]) -> tuple[str, ...]:
        """Return those of some parties that take part and owe nothing."""
        return tuple(name for name in names if name not in self._due and name not in self.gone)

    def said(self) -> dict[str, object]:
        """Return what a receipt says of it: nothing where all answered."""
        told: dict[str, object] = {}
        if self.missed:
            told["rounds missed"] = {name: len(rounds) for name, rounds in self.missed.items()}
        if self.gone:
            told["parties that left"] = sorted(self.gone)
        return told

    def absences(self, *, lacking: Mapping[str, int], without_model: Collection[str]) -> Absences | None:
        """Return who was away; None where nobody may be."""
        if not self.skips:
            return None
        missed = {name: tuple(rounds) for name, rounds in self.missed.items()}
        return Absences(missed, dict(self.gone), dict(lacking), tuple(sorted(without_model)))
