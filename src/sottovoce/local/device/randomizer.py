"""Randomizer: what runs on a device. One record and its label go in, 22 bytes come out, and nothing else leaves.

The report is epsilon-LDP by its own probabilities, for every record, every label and every seed, also one that an
attacker chose: ``docs/privacy/local_reports.md``. The only floating-point numbers are the scores, and they only decide
*which* m of the K indices are the likely ones.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._files import sync_folder
from sottovoce._validation import number
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.local.candidates import table
from sottovoce.local.odds import Odds
from sottovoce.local.protocol import Protocol
from sottovoce.local.wire import Reason, pack, parse, seed_of

Array = NDArray[np.float64]

_BLOCK: Final = 8_192  # numbers made at a time: their work stays in the cache
_SQRT_HALF: Final = 0.7071067811865476


class DeviceStore:
    """A folder with one report a protocol, for one person: a second one would cost epsilon again.

    The report is on the disk before anybody sees it; of two programs that make one at the same time, both get the one
    that was kept first.

    ``folder``, str or Path: made if it is missing. Several people on one device need a folder each.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, protocol: Protocol) -> Path:
        return self.folder / f"{protocol.id.hex()}.report"

    def once(self, protocol: Protocol, make: Callable[[], bytes], *, token: bytes | None = None) -> bytes:
        """Return the report that was kept, or make one and keep it.

        ``make``: makes the report; called only if none was kept.
        ``token``: the token that the report belongs to.

        Raises ParameterError if the folder cannot be written to, or the kept report belongs to another token.
        Raises DataError if the file holds no report of this protocol.
        """
        path = self.path(protocol)
        if not path.exists():
            self._keep(path, make)
        raw = path.read_bytes()
        if isinstance(parse(raw, protocol), Reason):
            raise DataError(
                f"{path} holds no report of this protocol. If one was sent before, another one "
                "would cost epsilon a second time. Restore the file, or send none."
            )
        if isinstance(parse(raw, protocol, token=token), Reason):
            raise ParameterError(
                f"token is not the one that the report in {path} was made for. A person has one report a protocol: "
                "give the first token."
            )
        return raw

    def _keep(self, path: Path, make: Callable[[], bytes]) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=".report.")
        except OSError as error:
            raise ParameterError(
                f"store {self.folder}: cannot write there: {error.strerror}. No report is made."
            ) from None
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(make())
                file.flush()
                os.fsync(handle)
            with suppress(FileExistsError):  # another program was first: its report is the one
                os.link(name, path)
            sync_folder(self.folder)
        except OSError as error:
            raise ParameterError(
                f"store {self.folder}: cannot write there: {error.strerror}. No report is sent."
            ) from None
        finally:
            Path(name).unlink()


class Randomizer:
    """Makes reports for one protocol.

    Parameters
    ----------
    protocol : Protocol
    max_epsilon : float, optional
        Refuse a protocol that asks for more: a device should not let the collector choose the loss alone.

    Examples
    --------
    >>> from sottovoce.local import Protocol, Randomizer
    >>> randomizer = Randomizer(Protocol(n_features=2, epsilon=1.0), max_epsilon=1.0)
    >>> len(randomizer.report([0.6, -0.2], 1))
    22
    """

    def __init__(self, protocol: Protocol, *, max_epsilon: float | None = None) -> None:
        if not isinstance(protocol, Protocol):
            raise ParameterError(f"protocol must be a Protocol; got {type(protocol).__name__}.")
        if max_epsilon is not None and protocol.epsilon > number("max_epsilon", max_epsilon, above=0.0):
            raise ParameterError(
                f"the protocol asks for epsilon {protocol.epsilon!r}, more than max_epsilon {max_epsilon!r}: no "
                "report is made."
            )
        self.protocol = protocol
        self.odds = Odds(protocol.epsilon, protocol.K, protocol.m)
        self._random: Callable[[int], bytes] = os.urandom

    def report(self, x: object, y: object, *, token: bytes | None = None) -> bytes:
        """Return the report of one person.

        Each call is a new release that costs epsilon; a person must send one report only. See `report_once`.

        Parameters
        ----------
        x : mapping or sequence
            The record; see `Protocol.encode`.
        y : str or number
            The label: a class of the protocol, or a number.
        token : bytes, optional
            Public. The seed is derived from it, as a collector that gives out tokens demands. Without it the seed is
            random.
        """
        if token is not None and not isinstance(token, bytes):
            raise ParameterError(f"token must be bytes; got {type(token).__name__}.")
        z = self.protocol.encode(x)
        sign = self._sign(y)
        seed = self._whole(8) if token is None else seed_of(self.protocol.id, token)
        return pack(self.protocol, seed, self._draw(self.top(seed, sign * z)))

    def report_once(
        self, store: str | Path | DeviceStore, x: object, y: object, *, token: bytes | None = None
    ) -> bytes:
        """Return the report that the store keeps, or make one, keep it and return it.

        Parameters
        ----------
        store : str, Path or DeviceStore
            A folder of this person alone.
        x, y, token
            As for `report`; x and y are not looked at if a report is kept, even if they have changed since.
        """
        kept = store if isinstance(store, DeviceStore) else DeviceStore(store)
        return kept.once(self.protocol, lambda: self.report(x, y, token=token), token=token)

    def top(self, seed: int, z: Array) -> NDArray[np.bool_]:
        """Say which indices are the m best for the vector z; equal scores rank by index.

        Parameters
        ----------
        seed : int
        z : ndarray of shape (d,)
        """
        K, d = self.protocol.K, self.protocol.d
        step = max(1, _BLOCK // d)
        t = np.concatenate([table(seed, first, min(step, K - first), d) @ z for first in range(0, K, step)])
        score = t + self.protocol.b * (t * t - 1.0) * _SQRT_HALF if self.protocol.b else t
        best = np.zeros(K, np.bool_)
        best[np.argsort(-score, kind="stable")[: self.protocol.m]] = True
        return best

    def law(self, seed: int, z: Array) -> list[Fraction]:
        """Return the exact probability of each index, given the seed and the person's vector z."""
        return [self.odds.top if best else self.odds.rest for best in self.top(seed, z)]

    def _sign(self, y: object) -> float:
        """Return the class as -1 or +1; a number is rounded to one of them at random, with the number as mean."""
        if self.protocol.task == "classification":
            return self.protocol.sign_of_class(y)
        chance = 0.5 * (1.0 + self.protocol.scaled_label(y))
        return 1.0 if (self._whole(8) >> 11) * 2.0**-53 < chance else -1.0

    def _draw(self, top: NDArray[np.bool_]) -> int:
        group = np.flatnonzero(top if self._whole(8) < self.odds.threshold else ~top)
        return int(group[self._below(len(group))])

    def _below(self, count: int) -> int:
        limit = 2**32 - 2**32 % count
        while (value := self._whole(4)) >= limit:
            pass
        return value % count

    def _whole(self, size: int) -> int:
        return int.from_bytes(self._random(size), "little")
