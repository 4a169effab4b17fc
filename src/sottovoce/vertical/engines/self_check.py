"""Whether a session computes what it should: every kind of program on numbers that all know, bit for bit.

A wrong setting of an engine, a partner with other software, a fault in its arithmetic: all of them are seen here,
before any data are shared.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from sottovoce.vertical.engines.engine import Engine, EngineError, Whole
from sottovoce.vertical.engines.programs import (
    Add,
    AddScores,
    AddSlopes,
    ChooseColumn,
    CrossProduct,
    Mask,
    MoveDuals,
    Program,
)

__all__ = ["CHECKED", "self_check"]

_ROWS, _COLUMNS = 11, 8

CHECKED: Final[tuple[Program, ...]] = (
    Add(),
    CrossProduct(),
    MoveDuals(clip=900, offset=1500, factors=(3, 2), bounds=(200, 700)),
    MoveDuals(clip=900, offset=1500, factors=(2,), bounds=(3000,), by_label=True),
    AddSlopes(coefficients=(-500, 7, 3, 2)),
    AddScores(offset=1500, factors=(3, 2), bounds=(200, 700)),
    AddScores(offset=0, factors=(1,), bounds=(900,), residual=True),
    ChooseColumn(constant=1 << 14, n_data_parties=2),
)
"""One of each kind with constants of the same order as the numbers, so that every branch is taken."""


def self_check(engine: Engine, seed: int, programs: Sequence[Program] = CHECKED) -> None:
    """Run programs on numbers that follow from the seed, and compare what is opened with what it is in clear.

    Raises
    ------
    EngineError
        One number differs, or a partner fails.
    """
    numbers = np.random.default_rng(seed)
    for place, program in enumerate(programs):
        inputs = _inputs(program, engine, numbers)
        names = [f"check {place} {k}" for k in range(len(inputs))]
        for k, (name, value) in enumerate(zip(names, inputs, strict=True)):
            owner = k % engine.n_parties
            engine.put(name, owner, value.shape, value if owner == engine.rank else None)
        expected = program.in_clear(*inputs)
        results = [f"check {place} result {k}" for k in range(len(expected))]
        engine.run(program, names, results)
        for result, value in zip(results, expected, strict=True):
            noise = [numbers.integers(-(1 << 40), 1 << 40, value.shape) for _ in range(engine.n_parties)]
            shares = [f"check noise {rank}" for rank in range(engine.n_parties)]
            for rank, (name, share) in enumerate(zip(shares, noise, strict=True)):
                engine.put(name, rank, share.shape, share if rank == engine.rank else None)
            engine.run(Mask(), [result, *shares], ["check opened"])
            if not np.array_equal(engine.reveal("check opened"), value + np.sum(noise, axis=0)):
                raise EngineError(
                    f"the self-test failed: {type(program).__name__} gives other numbers here than in clear, so the "
                    "parties' engines do not work together; no data were shared"
                )
            engine.drop(*shares, "check opened")
        engine.drop(*sorted({*names, *results}))


def _inputs(program: Program, engine: Engine, numbers: np.random.Generator) -> list[Whole]:
    """Return inputs of a program; of two blocks with as many columns as exceed what an engine may compute at once."""
    whole = numbers.integers
    if isinstance(program, Add):
        large = engine.bound // 4
        return [whole(-large, large, (_ROWS, 2)) for _ in range(3)]
    if isinstance(program, CrossProduct):
        shapes = ((_COLUMNS, _COLUMNS + 1), (_ROWS, _COLUMNS), (_ROWS, _COLUMNS + 1))
        return [whole(-(1 << 14), 1 << 14, shape) for shape in shapes]
    widths = (_COLUMNS, 1)
    if isinstance(program, ChooseColumn):
        large = engine.bound // 16
        scores: list[Whole] = [whole(-large, large, width) for width in widths]
        total: Whole = whole(-1000, 1000, 1)
        noise: list[Whole] = [whole(-large, large, 2 * (sum(widths) + 1)) for _ in range(3)]
        return [*scores, total, *noise]
    rows: list[Whole] = [2 * whole(0, 2, _ROWS) - 1]
    if isinstance(program, MoveDuals):
        rows.insert(0, whole(-1000, 1000, _ROWS))
    sums: list[Whole] = [whole(-1000, 1000, width) for width in (*widths, 1)]
    margins: list[Whole] = [whole(-1000, 1000, _ROWS) for _ in widths]
    tables: list[Whole] = [whole(-(1 << 14), 1 << 14, (_ROWS, width)) for width in widths]
    return [*rows, *sums, *margins, *tables]
