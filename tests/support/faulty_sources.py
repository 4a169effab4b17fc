"""Sources of rows whose worker comes to grief."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from sottovoce.cluster.sources import InlineSource, LoadedRows

__all__ = ["FatalSource", "HungrySource"]


class FatalSource(InlineSource):
    """Its worker is killed whenever it reads the rows, as by a system that is out of memory."""

    def load(self, scratch: Path | None) -> LoadedRows:
        """Die."""
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class HungrySource(InlineSource):
    """Reading takes more memory than a worker may have, until its nanny ends it."""

    def __init__(self, raw: Any, labels: Any, *, megabytes: int, **options: Any) -> None:
        super().__init__(raw, labels, **options)
        self.megabytes = megabytes

    def load(self, scratch: Path | None) -> LoadedRows:
        """Take memory, and wait for the end."""
        taken = bytearray(self.megabytes << 20)
        taken[:: 1 << 12] = b"x" * len(taken[:: 1 << 12])
        time.sleep(60.0)
        raise AssertionError("nobody minded")
