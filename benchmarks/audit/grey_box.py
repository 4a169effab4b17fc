"""The grey-box audit at length: every release of every solver and party mechanism, replayed on neighbours.

    python -m benchmarks.audit.grey_box [--budget SECONDS] [--only WORD,...] [--seed N] [--docs] [--quick]

For each solver and adjacency, and for each mechanism of parties, pairs of neighbouring tables are drawn as in
tests/contracts/test_grey_box.py (which runs six of each): a fit is recorded on the one and replayed on the other, with
all coins and released values the same. The table says how many pairs and releases were compared, the largest distance
of exact values over what the mechanism was told, and how often control flow, results or refusals depended on the table:
more than 1, or more than none, is a violation. The budget is shared out evenly; what a case has to calibrate first is
not counted. With --docs the table is written into docs/measured/data/audit.

The exit code is 1 when a violation was found.
"""

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from benchmarks.driver import benchmark, option
from support.grey_box import CASES, JOINT, calibrated_once, compared, jointly_compared
from support.replay import GreyBox

HEAD = ("solver or mechanism", "adjacency", "pairs", "releases", "largest ratio", "depends on the table")
Trial = Callable[[np.random.Generator, int], GreyBox]


@dataclass
class Line:
    """What was found for one solver and adjacency, or one mechanism of parties."""

    name: str
    adjacency: str
    trial: Trial
    pairs: int = 0
    releases: int = 0
    largest: float = 0.0
    faults: list[str] = field(default_factory=list)
    refusals: int = 0

    @property
    def is_violated(self) -> bool:
        """Whether anything was found that no guarantee allows."""
        return bool(self.faults) or not self.largest <= 1.0

    def run(self, seconds: float, seed: int, place: int) -> None:
        """Compare pairs until the time is over."""
        rng, end = np.random.default_rng([seed, place]), time.perf_counter() + seconds
        while time.perf_counter() < end or not self.pairs:
            found = self.trial(rng, self.pairs)
            if not self.pairs:
                end = time.perf_counter() + seconds  # compiled and calibrated by now
            self.pairs += 1
            self.releases += found.n_releases
            self.largest = max(self.largest, found.largest)
            self.refusals += bool(found.refusal)
            if found.fault:
                self.faults.append(f"pair {self.pairs - 1}: {found.fault}")

    def cells(self) -> tuple[str, ...]:
        # rounded toward zero: 0.9999999 must not look like a bound that is met exactly
        ratio = f"{np.floor(self.largest * 1e6) / 1e6:.6f}" if self.largest < 1.0 else f"{self.largest:.9g}"
        return self.name, self.adjacency, f"{self.pairs:,}", f"{self.releases:,}", ratio, str(len(self.faults))


def lines() -> list[Line]:
    """Return all solvers with their adjacencies, and all mechanisms of parties."""
    every_form = partial(compared, every_form=True)
    out = [Line(case.name, one, partial(every_form, case, one)) for case in CASES for one in case.adjacencies]
    return out + [Line(f"vertical {joint.name}", "replace-one", partial(jointly_compared, joint)) for joint in JOINT]


@benchmark(
    page="measured/audit.md",
    budget=option(1200.0, help="seconds for all lines together; default 1200, 60 with --quick", quick=60.0),
    only=option("", help="lines whose name holds one of these words"),
    seed=option(0, help="of the pairs"),
)
def main(run) -> None:
    logging.disable(logging.CRITICAL)  # a party logs what it refuses
    words = [word for word in run.only.split(",") if word]
    everything = lines()
    wanted = [line for line in everything if not words or any(word in line.name for word in words)]
    if not wanted:
        sys.exit(f"no line's name holds any of {words}")
    for line in wanted:
        with calibrated_once():
            line.run(run.budget / len(wanted), run.seed, everything.index(line))
        print(*line.cells(), *(f"\n    {fault}" for fault in line.faults[:3]), sep=" | ", flush=True)
    title = "Exact values of every release on two neighbours, over what each mechanism was told"
    run.table(title, HEAD, [line.cells() for line in wanted], mark="grey box")
    pairs, releases = sum(line.pairs for line in wanted), sum(line.releases for line in wanted)
    violated = [line for line in wanted if line.is_violated]
    print(f"{pairs:,} pairs, {releases:,} releases, {sum(line.refusals for line in wanted)} refused; "
          f"{len(violated)} line(s) violated")  # fmt: skip
    run.keep("grey-box", [{"name": one.name, "largest": one.largest, "faults": one.faults} for one in wanted])
    sys.exit(1 if violated else 0)
