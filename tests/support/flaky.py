"""Parties in this process whose line breaks where a test says so: on the way there, or on the way back."""

from sottovoce.exceptions import PartyError
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.frames import FRAME_BYTES
from sottovoce.vertical.mechanisms import HANDLERS
from sottovoce.vertical.wire import code_of

LOST, UNHEARD = "lost", "unheard"
_NAMES = {kind.code: kind.__name__ for kind in HANDLERS}


class FlakyParties(InProcessParties):
    """Parties of which some do not answer now and then.

    Parameters
    ----------
    parties : list of Party
    breaks : callable
        ``breaks(party, kind)``: "lost" for a request that never arrives, "unheard" for an answer that never does,
        anything false for a line that holds; ``kind`` is the name of the message.
    """

    def __init__(self, parties, breaks):
        super().__init__(parties)
        self._breaks = breaks

    def _answer(self, name, raw):
        how = self._breaks(name, _NAMES[code_of(raw[FRAME_BYTES:])])
        if how == LOST:
            raise PartyError(f"party {name!r} could not be reached.")
        answer = super()._answer(name, raw)
        if how == UNHEARD:
            raise PartyError(f"party {name!r} was not heard.")
        return answer
