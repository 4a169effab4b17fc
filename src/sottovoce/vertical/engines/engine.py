"""What an engine of secure computation does for a party: take its numbers, run a listed program, open what is masked.

All parties of a session give the same commands in the same order; what differs is which values they know. Numbers are
whole, modulo 2^64 or a prime: there is no fixed point and no truncation, so what is opened is, bit for bit, what the
same whole numbers are in clear (`Program.in_clear`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sottovoce.exceptions import SottovoceError
from sottovoce.vertical.engines.programs import Program

Whole = NDArray[np.int64]


class EngineError(SottovoceError):
    """A joint computation cannot go on; the text tells nothing about data, and may cross."""


class Engine(ABC):
    """One party's end of a joint computation."""

    rank: int  # this party's place among all that compute
    n_parties: int

    @abstractmethod
    def start(self) -> None:
        """Connect to the others and check, bit for bit, that the session computes what it should; no data are shared.

        As every other command it raises `EngineError` where a partner does not answer in time, is another one, or
        computes something else.
        """

    @abstractmethod
    def put(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None:
        """Make a secret variable of what party ``owner`` knows; the others give None."""

    @abstractmethod
    def run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Run a program on secret variables; its results are secret variables, which may replace inputs."""

    @abstractmethod
    def reveal(self, name: str) -> Whole:
        """Open what a program that opens has made (`Mask`, `ChooseColumn`), to all parties; the rest is refused."""

    @abstractmethod
    def drop(self, *names: str) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """End the session here; never raises, and may be called again."""
