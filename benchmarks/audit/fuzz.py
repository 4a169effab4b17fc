"""Fuzz every reader of files and messages for long, and count what went wrong.

Each case is a good example with seeded changes (of bytes, lines, or values inside JSON, checksums made right again).
A case is bad if the reader raises anything but an error of sottovoce, or takes longer than ``--seconds``. With
``--atheris READER`` the same reader runs under libFuzzer's coverage guidance instead, until it is stopped, where the
package atheris is installed.

    python -m benchmarks.audit.fuzz --quick      500 cases of each reader
    python -m benchmarks.audit.fuzz --cases 100000
    python -m benchmarks.audit.fuzz --atheris schema
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter

from benchmarks.driver import keep, make_parser
from support.readers import READERS, Reader


def run(name: str, reader: Reader, cases: int, seed: int, seconds: float) -> dict[str, object]:
    rng = random.Random(f"{name} {seed}")
    examples = reader.examples()
    taken, bad, slow, longest = 0, Counter(), 0, 0.0
    begin = time.perf_counter()
    for _ in range(cases):
        raw = reader.change(rng, rng.choice(examples))
        start = time.perf_counter()
        try:
            taken += reader.accepts(raw)
        except Exception as error:
            if not bad[type(error).__name__]:
                print(f"{name}: {type(error).__name__}: {error!s:.200}\n    {raw[:300]!r}", file=sys.stderr)
            bad[type(error).__name__] += 1
        took = time.perf_counter() - start
        longest = max(longest, took)
        slow += took > seconds
    return {
        "reader": name, "cases": cases, "accepted": taken, "crashes": sum(bad.values()), "kinds": dict(bad),
        "slow": slow, "longest_seconds": round(longest, 3), "seconds": round(time.perf_counter() - begin, 1),
    }  # fmt: skip


def guided(reader: Reader, rest: list[str]) -> None:
    """Hand a reader to libFuzzer."""
    import atheris

    atheris.Setup([sys.argv[0], *rest], lambda raw: reader.accepts(raw))
    atheris.Fuzz()


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="for each reader")
    parser.add_argument("--readers", nargs="*", choices=list(READERS), default=list(READERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=2.0, help="what one case may take")
    parser.add_argument("--atheris", choices=list(READERS), help="one reader, guided by coverage")
    options, rest = parser.parse_known_args()
    if options.atheris:
        guided(READERS[options.atheris], rest)
        return
    cases = 500 if options.quick else options.cases
    print(f"{'reader':<20}{'cases':>9}{'accepted':>10}{'crashes':>9}{'slow':>6}{'longest s':>11}{'total s':>9}")
    rows = []
    for name in options.readers:
        row = run(name, READERS[name], cases, options.seed, options.seconds)
        rows.append(row)
        print(
            f"{name:<20}{row['cases']:>9}{row['accepted']:>10}{row['crashes']:>9}{row['slow']:>6}"
            f"{row['longest_seconds']:>11}{row['seconds']:>9}",
            flush=True,
        )
    keep("fuzz", rows)
    sys.exit(any(row["crashes"] or row["slow"] for row in rows))


if __name__ == "__main__":
    main()
