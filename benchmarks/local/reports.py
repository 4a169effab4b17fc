"""What one report of 22 bytes is worth, against one Gaussian copy of the row; reports a second on device and server.

    python -m benchmarks.local.reports [--quick]

v1 and v2: noise of one report on a coordinate of the first moment E[y x], and on a unit direction of the second moment
E[x x'] (divide by the number of reports). The Gaussian copy is y x + N(0, s^2 I) with s = 2 / mu(epsilon, 1e-6), the
second moment from its products with the noise taken off; each is one release a person. Speed on one thread.
"""

import time

import numpy as np

from benchmarks.driver import benchmark
from sottovoce.local import Protocol, Randomizer
from sottovoce.local.candidates import candidates
from sottovoce.local.cap import constants, design
from sottovoce.local.fits.kernels import fill
from sottovoce.local.wire import parse_many
from sottovoce.privacy.calibration import gaussian_mu

DELTA = 1e-6
FIXED = {1.0: (256, 53, 1.0), 2.0: (256, 34, 1.0), 4.0: (128, 5, 0.0), 8.0: (256, 1, 0.0)}  # DESIGN.md, section 7


def worth() -> tuple[list[tuple[str, ...]], dict]:
    """Return one row an epsilon: the designed sizes, the fixed ones, and the Gaussian copy."""
    rows, results = [], {}
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        sizes = design(epsilon)
        own = constants(epsilon, sizes.K, sizes.m, sizes.b)
        first = design(epsilon, 0)
        alone = constants(epsilon, first.K, first.m, first.b)
        noise = 2.0 / gaussian_mu(epsilon, DELTA)
        copy = (noise**2, 2.0 * noise**4 + 4.0 * noise**2)
        fixed = constants(epsilon, *FIXED[epsilon]) if epsilon in FIXED else None
        rows.append((
            f"{epsilon:g}", f"{sizes.K}, {sizes.m}, {sizes.b:g}", f"{own.v1:.3g}, {own.v2:.3g}",
            f"{fixed.v1:.3g}, {fixed.v2:.3g}" if fixed else "-", f"{alone.v1:.3g}", f"{copy[0]:.3g}, {copy[1]:.4g}",
        ))  # fmt: skip
        results[f"{epsilon:g}"] = {
            "sizes": (sizes.K, sizes.m, sizes.b), "v": (own.v1, own.v2), "degree 0": alone.v1, "gaussian": copy,
            "fixed": (fixed.v1, fixed.v2) if fixed else None,
        }  # fmt: skip
    return rows, results


def rate(task, count: int, repeats: int = 3) -> float:
    """Return count over the best time of a few."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - start)
    return count / best


def speed(quick: bool) -> tuple[list[tuple[str, ...]], dict]:
    """Return one row for each d and K: reports a second."""
    rows, results = [], {}
    for d, K in ((11, 64), (124, 64), (124, 256), (1000, 256)):
        protocol = Protocol(n_features=d - 1, epsilon=1.0, K=K, m=K // 5, b=1.0)
        mechanism = Randomizer(protocol)
        x = np.full(d - 1, 1.0 / d)
        made = max(5, (200_000 if quick else 4_000_000) // (d * K))
        raw: list[bytes] = []
        device = rate(lambda: raw.extend(mechanism.report(x, 1) for _ in range(made)), made)  # noqa: B023
        many = b"".join(raw) * (1 + (500_000 if quick else 10_000_000) // (d * len(raw)))
        seeds, indices, _ = parse_many(many, protocol)
        reading = rate(lambda: parse_many(many, protocol), len(seeds))  # noqa: B023
        places, out = indices.astype(np.uint64), np.empty((len(seeds), d))
        fill(seeds[:10], places[:10], out[:10])
        portable = rate(lambda: candidates(seeds, indices, d), len(seeds))  # noqa: B023
        fast = rate(lambda: fill(seeds, places, out), len(seeds))  # noqa: B023
        rows.append((f"{d}, {K}", *(f"{value:,.0f}" for value in (device, reading, portable, fast))))
        results[f"d={d} K={K}"] = {"device": device, "parse": reading, "numpy": portable, "compiled": fast}
    return rows, results


@benchmark()
def main(run):
    rows, _ = worth()
    head = ("epsilon", "K, m, b", "v1, v2", "with fixed sizes", "v1 of degree 0", "Gaussian copy: v1, v2")
    run.table("noise of one report, 22 bytes", head, rows)
    rows, _ = speed(run.quick)
    head = ("d, K", "device", "server: parse", "candidates, numpy", "candidates, compiled")
    run.table("reports a second", head, rows)
