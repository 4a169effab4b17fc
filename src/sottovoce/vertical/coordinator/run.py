"""What one fit draws once: its model's name, the label holder's streams, the name under which its ledger is charged.

By default all of it is fresh. A run that may be interrupted has it from a key on disk (`Checkpoint`): the same
training on the same labels, executed again, draws the same and finds its own charge. Another training, or other labels,
draw something else and are charged for.
"""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.randomness import StoredKey, Streams

__all__ = ["Run"]


@dataclass(frozen=True)
class Run:
    """One fit.

    Parameters
    ----------
    key : StoredKey or None
        None draws everything anew.
    """

    key: StoredKey | None = None

    def of(self, plan: object, labels: Any) -> "Run":
        """Return the run of this training on these labels: what it draws, no other one draws."""
        if self.key is None:
            return self
        return Run(self.key.within(b"training", repr(plan).encode(), _digest(labels)))

    def streams(self, fresh: Streams) -> Streams:
        """Return the label holder's streams: ``fresh`` ones, unless they must be drawn again; a user's seed stays."""
        return fresh if self.key is None or fresh.seeded else Streams(self.key.within(b"streams"))

    @property
    def model(self) -> str:
        """Name of the model; a new one at each call where nothing is drawn again."""
        return secrets.token_hex(8) if self.key is None else self.key.within(b"model").name(8).hex()

    @property
    def charge(self) -> str | None:
        """What the ledger's record is found by; None where nothing is looked for."""
        return None if self.key is None else self.key.within(b"charge").name(16).hex()


def _digest(labels: Any) -> bytes:
    values = np.asarray(labels)
    raw = values.tobytes() if values.dtype.kind in "biuf" else repr(values.tolist()).encode()
    return hashlib.sha256(f"{values.dtype.str} {values.shape} ".encode() + raw).digest()
