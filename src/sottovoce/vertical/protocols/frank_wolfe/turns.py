"""The turns of the parties in joint steps: a choice, a step along it, a column; each party at its own pace.

A turn is a generator: it yields a request with the kind of its reply and is sent the reply, or yields None to wait
until all turns of the round have come as far. Parties whose turns are at the same place are asked at the same time. A
turn whose party does not answer stays where it is, and goes on when the party answers, in a later round.
"""

from collections.abc import Callable, Collection, Generator
from typing import Any

from sottovoce.vertical.coordinator.attendance import Attendance
from sottovoce.vertical.wire import Message

__all__ = ["Turn", "Turns"]

Turn = Generator[tuple[Message, type[Message]] | None, Any, None]


class Turns:
    """Turns of one training.

    Parameters
    ----------
    attendance : Attendance
    meet : callable
        Called when all turns of a round that can have come to where they wait.
    """

    def __init__(self, attendance: Attendance, meet: Callable[[], None]) -> None:
        self._attendance, self._meet = attendance, meet
        self._open: dict[str, tuple[Turn, tuple[Message, type[Message]] | None]] = {}

    def is_open(self, name: str) -> bool:
        """Tell whether a party has not ended its last turn."""
        return name in self._open

    def begin(self, name: str, turn: Turn) -> None:
        """Open a turn of a party that has none."""
        self._go_on(name, turn, None)

    def run(self, names: Collection[str]) -> None:
        """Let the open turns of some parties go on as far as they can in one round."""
        asked: set[str] = set()
        while True:
            ready = [
                name for name in names if name in self._open and name not in asked and self._open[name][1] is not None
            ]
            if not ready:
                waiting = [name for name in names if name in self._open and self._open[name][1] is None]
                if not waiting:
                    return
                self._meet()
                for name in waiting:
                    self._go_on(name, self._open.pop(name)[0], None)
                continue
            # one kind at a time, in the order in which the first of them was met
            request: Any = self._open[ready[0]][1]
            kind, expected = type(request[0]), request[1]
            requests = {}
            for name in ready:
                due: Any = self._open[name][1]
                if type(due[0]) is kind:
                    requests[name] = due[0]
            replies = self._attendance.ask(requests, expected)
            for name in requests:
                if name in replies:
                    self._go_on(name, self._open.pop(name)[0], replies[name])
                elif name in self._attendance.gone:
                    self._open.pop(name)[0].close()
                else:
                    asked.add(name)  # once a round

    def _go_on(self, name: str, turn: Turn, reply: Any) -> None:
        try:
            self._open[name] = turn, turn.send(reply)
        except StopIteration:
            self._open.pop(name, None)
