"""What a warm vertical fit over two parties asks them, and what it enters of the library.

    python -m benchmarks.vertical.messages

Counted are requests, farewells included; files and named functions as in `benchmarks.central.trace`, of the whole fit
and of its one training request, from the carrier to the party's answer. Seconds are of the processor, a median.
"""

import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.central.trace import LIBRARY, UNNAMED, entered
from benchmarks.driver import benchmark
from sottovoce.vertical import Party, VerticalLogisticRegression
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.mechanisms import ANSWERS_TO
from sottovoce.vertical.wire import Frame, code_of

NAMES = {kind.code: kind.__name__ for kind in ANSWERS_TO}
FITS = 7


class Watched(InProcessParties):
    """Parties of this process that count what they are asked; the training request of local models is traced."""

    traces = False

    def __init__(self, parties: Any) -> None:
        self.asked: Counter[str] = Counter()
        self.codes: set[Any] = set()
        super().__init__(parties)

    def _send(self, requests: Any) -> dict[str, bytes]:
        kinds = [NAMES[code_of(Frame.read(raw).body)] for raw in requests.values()]
        self.asked.update(kinds)
        if not (self.traces and "TrainOnLabels" in kinds):
            return super()._send(requests)
        came: dict[str, bytes] = {}
        self.codes = entered(lambda: came.update(InProcessParties._send(self, requests)))
        return came


def fit(mechanism: str) -> tuple[Watched, Any]:
    """Return the parties and the model of one fit."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.4, 0.4, (1000, 6))
    y = (X[:, 0] + X[:, 4] + 0.1 * rng.normal(size=len(X)) > 0.0).astype(int)
    held = Watched([Party(X[:, :3], name="bank", data_norm=0.9), Party(X[:, 3:], name="clinic", data_norm=0.9)])
    model = VerticalLogisticRegression(
        mechanism=mechanism, classes=[0, 1], epsilon=2.0, delta=1e-5, random_state=0, label_holder="bank"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return held, model.fit(held, y)


def sizes(codes: set[Any]) -> tuple[int, int]:
    """Return how many files and named functions there are."""
    files = {Path(code.co_filename).relative_to(LIBRARY) for code in codes}
    return len(files), sum(code.co_name not in UNNAMED for code in codes)


@benchmark()
def main(run: Any) -> None:
    rows = []
    for mechanism in ("local-models", "secure"):
        fit(mechanism)
        seconds = []
        for _ in range(FITS):
            start = time.process_time()
            held, model = fit(mechanism)
            seconds.append(time.process_time() - start)
        n_bytes = model.uplink_bytes_ + model.downlink_bytes_
        rows.append((mechanism, held.asked.total(), n_bytes, float(np.median(seconds)),
                     *sizes(entered(lambda mechanism=mechanism: fit(mechanism)))))  # fmt: skip
        run.table(f"{mechanism}: requests", ("kind", "number"), sorted(held.asked.items()))
    head = ("mechanism", "messages", "bytes", "CPU s|.4f", "files entered", "functions")
    run.table("a warm fit over two parties", head, rows)
    Watched.traces = True
    held, _ = fit("local-models")
    run.table("the training request alone", ("files", "functions"), [sizes(held.codes)])
