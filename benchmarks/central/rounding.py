"""What second moments in whole numbers save in noise, and cost in time, beside the same in doubles.

    python -m benchmarks.central.rounding [--quick] [--docs]

Noise: a calculation from public facts; no rows are needed. Noise is scaled to the sensitivity of a release, and what
rounding may do to the exact value counts in it. Before, X'X was summed in double precision, 8,192 rows at a time, one
after the other (solver="newton": entries of 2^-16, exact up to 2^21 rows). Figures are factors on the noise, zero-out.

Time: processor seconds of X'X on one thread over those of the same sums in doubles, in one run.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # both ways on one thread

import numpy as np
import scipy.sparse as sp

from benchmarks.driver import benchmark, best_of
from sottovoce._numerics import Vector
from sottovoce.central.data.holder import LocalHolder, hold
from sottovoce.central.data.rows import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.sums.largest_eigenvalue import MAX_GRAM, eigenvalue_mechanism, sketch_sensitivity
from sottovoce.central.sums.whole_gram import Gram, gram_mechanism, moments_mechanism
from sottovoce.privacy.adjacency import Adjacency, Neighbours

ROWS = (10**6, 10**9, 10**10, 10**11)
BLOCK = 8192  # rows that were multiplied at a time
ADASSP = 1.5  # bound on |u|^2 of a row with its label
MU = 1.0  # it moves nothing but the tick
ZERO = Neighbours(Adjacency.ZERO_OUT)


def before_eigenvalue(width: int, n: int) -> float:
    """Return the sensitivity of lambda_max, or of the sketch, over the exact one, with sums in doubles."""
    rounding = 4.0 * (BLOCK + n / BLOCK + width) * 2.0**-53 * n
    return 1.0 + 2.0 * rounding * (1.0 if width <= MAX_GRAM else math.sqrt(width) / sketch_sensitivity(width))


def before_moments(width: int, n: int) -> float:
    """Return the same for AdaSSP."""
    return 1.0 + 16.0 * (BLOCK + n / BLOCK + 8) * 2.0**-53 * n


def before_newton(width: int, n: int) -> float:
    """Return the same for the matrix of Newton's method and of refinement."""
    return 1.0 + 2.0 * (n / BLOCK + 8.0) * 2.0**-53 * n


def now_eigenvalue(width: int, n: int) -> float:
    """Return the sensitivity of lambda_max that scales the noise now, over the exact one."""
    exact = 1.0 if width <= MAX_GRAM else sketch_sensitivity(width)
    return eigenvalue_mechanism(width, n, ZERO, MU).l2_sensitivity / exact


def now_moments(width: int, n: int) -> float:
    """Return the same for AdaSSP."""
    return moments_mechanism(width + 1, square=ADASSP, length=ADASSP, n_rows=n, mu=MU).l2_sensitivity / ADASSP


def now_newton(width: int, n: int) -> float:
    """Return the same for the matrix of Newton's method and of refinement."""
    return gram_mechanism(width, n, ZERO, MU).l2_sensitivity


Factor = Callable[[int, int], float]
RELEASES: dict[str, tuple[tuple[int, ...], Factor, Factor]] = {
    "lambda_max": ((100, 2048), before_eigenvalue, now_eigenvalue),
    "sketch of it": ((10_000,), before_eigenvalue, now_eigenvalue),
    "X'X of newton, refinement": ((100, 2048), before_newton, now_newton),
    "second moments of adassp": ((100, 2048), before_moments, now_moments),
}


def digits(factor: float) -> str:
    """Return a factor, or how far it is above 1 where that hardly shows."""
    return f"{factor:.3g}" if factor >= 1.01 else f"1 + {factor - 1.0:.0e}"


def tables(n: int) -> Iterator[tuple[str, Any]]:
    """Yield made-up tables of about ``n`` entries each with their names."""
    rng = np.random.default_rng(0)
    for width in (50, 300, 2000):
        for dtype in (np.float32, np.float64):
            raw = rng.normal(size=(n // width, width)).astype(dtype)
            yield f"dense, {width:,} columns, {raw.dtype.name}", raw
    yield "sparse like a9a: 14 of 123 columns", sp.random_array((n // 123, 123), density=14 / 123, format="csr", rng=0)
    yield "sparse, 30 of 2,000 columns", sp.random_array((n // 400, 2000), density=0.015, format="csr", rng=0)


def in_doubles(holder: LocalHolder) -> Vector:
    """Return X'X in double precision, without the intercept's column: scaled rows, 8,192 at a time."""
    rows, raw = holder.part.rows, holder.part.raw
    total = np.zeros((raw.shape[1], raw.shape[1]))
    piece = np.empty((min(BLOCK, len(rows.scale)), raw.shape[1])) if isinstance(raw, np.ndarray) else None
    for lo in range(0, raw.shape[0], BLOCK):
        scale = rows.scale[lo : lo + BLOCK]
        if piece is not None:
            scaled: Any = np.multiply(raw[lo : lo + BLOCK], scale[:, None], out=piece[: len(scale)])
            total += scaled.T @ scaled
        else:
            scaled = sp.diags_array(scale) @ raw[lo : lo + BLOCK].astype(np.float64)
            total += (scaled.T @ scaled).toarray()
    return total


def speed(n: int) -> Iterator[tuple[Any, ...]]:
    """Time both ways on each table: the least processor time of five calls."""
    team = Team(1, None)
    for name, raw in tables(n):
        holder = hold(make_rows(raw, data_norm=1.0, constant=0.2, names=None, team=team), [], team)
        doubles = best_of(lambda h=holder: in_doubles(h), 5, time.process_time)  # type: ignore[misc]
        whole = best_of(lambda h=holder: h.ask(Gram()).matrix, 5, time.process_time)  # type: ignore[misc]
        yield name, raw.shape[0], whole / doubles


@benchmark(page="privacy/dp_scd.md")
def main(run) -> None:
    rows = ROWS[:2] if run.quick else ROWS
    columns = ("release", "weights|,", *(f"n = 10^{round(math.log10(n))}" for n in rows))
    cells = [
        (name, width, *(f"{digits(before(width, n))} → {digits(now(width, n))}" for n in rows))
        for name, (widths, before, now) in RELEASES.items() for width in widths
    ]  # fmt: skip
    run.table("Noise with rounding over noise without: before → now", columns, cells, mark="rounding")
    head = ("table", "rows|,", "time over that in doubles|.2f")
    times = speed(400_000 if run.quick else 20_000_000)
    run.table("X'X in whole numbers", head, times, mark="time of whole sums")
