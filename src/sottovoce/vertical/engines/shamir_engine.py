"""Shamir's shares among three or more parties, of which fewer than half may put what they see together.

The protocol is the usual one for a prime field [1]_: inputs are split, a product is computed on shares and split again,
an opening is a share to everybody. Shares are those of `sottovoce.vertical.engines.shamir`, in machine words, and
travel over `sottovoce.vertical.engines.links`. No library is needed.

A share of a sum of products lies on a polynomial of twice the degree. It is brought back to the lower one when it must
be, once for a whole sum, not once for each piece of rows.

References
----------
.. [1] Gennaro, Rabin, Rabin (1998). Simplified VSS and Fast-track Multiparty Computations with Applications to
   Threshold Cryptography. PODC 1998; its multiplication, among parties that follow the protocol.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from sottovoce.vertical.engines.engine import EngineError, Whole
from sottovoce.vertical.engines.guarded import Guarded
from sottovoce.vertical.engines.links import Links
from sottovoce.vertical.engines.programs import Program
from sottovoce.vertical.engines.shamir import (
    MODULUS,
    Share,
    add,
    combine,
    from_field,
    matmul,
    mul,
    split,
    to_field,
    total,
)

_PATIENCE: Final = 0.9  # of the timeout: a partner that is late is named before the command itself is cut off
_PIECE: Final = 1 << 21  # numbers of one message: 16 MiB


class _Shared:
    """A party's share of an array, on a polynomial of the threshold's degree, or of ``twice`` that."""

    def __init__(self, engine: ShamirEngine, share: Share, *, twice: bool = False) -> None:
        self._engine, self.share, self.twice = engine, share, twice

    def once(self) -> Share:
        """Return the share on a polynomial of the threshold's degree."""
        if self.twice:
            self.share, self.twice = self._engine.split_again(self.share), False
        return self.share

    def __add__(self, other: _Shared) -> _Shared:
        return _Shared(self._engine, add(self.share, other.share), twice=self.twice or other.twice)

    def __mul__(self, other: _Shared) -> _Shared:
        return _Shared(self._engine, mul(self.once(), other.once()), twice=True)

    def __radd__(self, whole: int) -> _Shared:
        return _Shared(self._engine, add(self.share, np.full_like(self.share, whole % MODULUS)), twice=self.twice)

    def __rmul__(self, whole: int) -> _Shared:
        return _Shared(self._engine, mul(self.share, whole % MODULUS), twice=self.twice)

    def __getitem__(self, place: Any) -> _Shared:
        return _Shared(self._engine, self.share[place], twice=self.twice)


@dataclass(frozen=True)
class _Coming:
    """A share that its owner sends at some steps; it is waited for when it is needed, so that no put costs a delay."""

    owner: int
    steps: range
    shape: tuple[int, ...]


class ShamirEngine(Guarded):
    """One party's end of a session.

    ``addresses``: "host:port" of each party, three or more.
    ``listen``: where this party listens, if not at its address.
    ``tls``: as for `sottovoce.vertical.engines.process.EngineProcess`.
    ``timeout``: seconds that a command may take.
    """

    bound: ClassVar[int] = 1 << 60

    def __init__(
        self,
        rank: int,
        addresses: Sequence[str],
        listen: str | None = None,
        tls: Path | None = None,
        timeout: float = 600.0,
    ) -> None:
        super().__init__(rank, len(addresses))
        self._threshold = (len(addresses) - 1) // 2
        self._others = [other for other in range(len(addresses)) if other != rank]
        self._links = Links(rank, addresses, listen, tls, _PATIENCE * timeout)
        self._variables: dict[str, _Shared | _Coming] = {}

    def start(self) -> None:
        self._links.open()

    def exchange(self, message: bytes) -> list[bytes]:
        (step,) = self._links.due(self._others, [len(message)])
        found = self._links.swap(step, dict.fromkeys(self._others, message), self._others)
        return [message if rank == self.rank else found[rank] for rank in range(self.n_parties)]

    def _put(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None:
        if name in self._variables:
            self._drop((name,))
        steps = self._due((owner,), shape)
        if owner == self.rank:
            assert value is not None
            shares = split(to_field(value), self._threshold, self.n_parties)
            self._swap(steps, {other: shares[other] for other in self._others}, (), shape)
            self._variables[name] = _Shared(self, shares[owner])
        else:
            self._variables[name] = _Coming(owner, steps, shape)

    def _run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        made = program.on([self._variable(name) for name in inputs], self)
        if program.opens:  # what is opened must look like a fresh split
            made = (_Shared(self, (1 * made[0]).once()),)
        for name, variable in zip(outputs, made, strict=True):
            self._variables[name] = variable

    def _reveal(self, name: str) -> Whole:
        """Open what `Mask` has made: all shares must lie on one polynomial."""
        own = self._variable(name).once()
        steps = self._due(self._others, own.shape)
        found = self._swap(steps, dict.fromkeys(self._others, own), self._others, own.shape)
        self.exchange(b"")  # all have it: this party may be the first to close
        shares = [own if rank == self.rank else found[rank] for rank in range(self.n_parties)]
        least = self._threshold + 1
        places = range(1, least + 1)
        for place in range(least + 1, self.n_parties + 1):
            if not np.array_equal(combine(shares[:least], places, place), shares[place - 1]):
                raise EngineError("what the parties opened does not fit together: one of them computes something else")
        return from_field(combine(shares[:least], places))

    def _drop(self, names: Sequence[str]) -> None:
        for name in names:
            self._variable(name)
            del self._variables[name]

    def _end(self) -> None:
        self._links.close()
        self._variables.clear()

    # ------------------------------------------------------------------ on shares

    def _variable(self, name: str) -> _Shared:
        found = self._variables[name]
        if isinstance(found, _Coming):
            found = _Shared(self, self._swap(found.steps, {}, (found.owner,), found.shape)[found.owner])
            self._variables[name] = found
        return found

    def split_again(self, share: Share) -> Share:
        """Bring a share down to the threshold's degree: as many parties as it needs split theirs again."""
        n_splitting = 2 * self._threshold + 1
        shares = split(share, self._threshold, self.n_parties) if self.rank < n_splitting else []
        splitting = [other for other in self._others if other < n_splitting]
        messages = {other: shares[other] for other in self._others} if shares else {}
        found = self._swap(self._due(splitting, share.shape), messages, splitting, share.shape)
        if shares:
            found[self.rank] = shares[self.rank]
        return combine([found[rank] for rank in range(n_splitting)], range(1, n_splitting + 1))

    def cross(self, left: _Shared, right: _Shared) -> _Shared:
        return _Shared(self, matmul(left.once(), right.once()), twice=True)

    def total(self, numbers: _Shared) -> _Shared:
        return _Shared(self, total(numbers.once()))

    def clip(self, values: Sequence[Any], lows: Sequence[int], highs: Sequence[int]) -> Any:
        raise NotImplementedError  # no plan asks it to compare

    def largest(self, parts: Sequence[Any], noise: Sequence[Any]) -> Any:
        raise NotImplementedError

    # ------------------------------------------------------------------ between parties

    def _due(self, peers: Collection[int], shape: tuple[int, ...]) -> range:
        """Return the steps in which numbers of that shape travel, and let those of ``peers`` come."""
        size = math.prod(shape)
        return self._links.due(peers, [8 * min(_PIECE, size - first) for first in range(0, size, _PIECE)])

    def _swap(
        self, steps: range, shares: Mapping[int, Share], expected: Collection[int], shape: tuple[int, ...]
    ) -> dict[int, Share]:
        """Send shares by rank, and return those that ``expected`` send; all are of one shape."""
        size = math.prod(shape)
        flat = {peer: np.ascontiguousarray(share, dtype="<u8").reshape(-1) for peer, share in shares.items()}
        found = {peer: np.empty(size, dtype=np.uint64) for peer in expected}
        for step, first in zip(steps, range(0, size, _PIECE), strict=True):
            last = min(size, first + _PIECE)
            came = self._links.swap(step, {peer: each[first:last].tobytes() for peer, each in flat.items()}, expected)
            for peer, message in came.items():
                found[peer][first:last] = np.frombuffer(message, dtype="<u8")
        for peer, share in found.items():
            if (share >= MODULUS).any():
                raise EngineError(f"party {peer} sent something that is no share: it computes something else")
        return {peer: share.reshape(shape) for peer, share in found.items()}
