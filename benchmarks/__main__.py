"""Run every benchmark, one after the other, each in a process of its own.

    python -m benchmarks [--quick] [--within MINUTES] [--only vertical,central.speed] [--list]

``--quick`` takes small sizes and few seeds: it shows that the scripts run, and its figures mean nothing. A script that
needs real data is skipped where there are none. ``--within`` takes the shortest ones first and leaves out what will not
fit, by the seconds in ``claims.toml``, and says which. ``--list`` prints the scripts and what each measures.
"""

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.claims import short_seconds
from benchmarks.driver import NO_DATA, ROOT, make_parser

FOLDER = Path(__file__).parent


def scripts() -> Iterator[str]:
    """Yield the name of each script below benchmarks, the folder's own excepted: a module with a ``main``."""
    for path in sorted(FOLDER.glob("[!.]*/**/*.py")):
        if "\ndef main(" in path.read_text(encoding="utf-8"):
            yield ".".join(path.relative_to(FOLDER).with_suffix("").parts)


def claim(name: str) -> str:
    """Return the first line of a script: what it measures."""
    first = (FOLDER / name.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8").partition("\n")[0]
    return first.strip('"')


def main() -> None:
    """Run the scripts that were asked for, and say at the end what failed and what was skipped."""
    parser = make_parser(__doc__)
    parser.add_argument("--only", default="", help="folders or scripts, separated by commas; default all")
    parser.add_argument(
        "--within", type=float, help="minutes that all of them may take, with --quick; default no limit"
    )
    parser.add_argument("--list", action="store_true", help="print the scripts, and run none")
    given = parser.parse_args()
    words = [word for word in given.only.split(",") if word]
    wanted = [name for name in scripts() if not words or {name, name.partition(".")[0]} & set(words)]
    if given.list or not wanted:
        print("\n".join(f"{name:<28} {claim(name)}" for name in wanted or scripts()))
        sys.exit(0 if given.list else f"no script is named by {words}; the names are above")
    ends, seconds = math.inf, dict.fromkeys(wanted, 0.0)
    if given.within is not None:
        ends, seconds = time.perf_counter() + 60 * given.within, short_seconds()
        wanted.sort(key=lambda name: seconds.get(name, math.inf))
        print(f"{len(wanted)} scripts, the shortest first, as many as fit into {given.within:g} minutes", flush=True)
    codes, left_out = {}, list[str]()
    for number, name in enumerate(wanted, start=1):
        started = time.perf_counter()
        if started + seconds.get(name, math.inf) > ends:
            left_out.append(name)
            continue
        print(f"== benchmarks.{name} ({number} of {len(wanted)})", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if given.quick else [])]
        codes[name] = subprocess.run(command, cwd=ROOT, check=False).returncode
        print(f"== benchmarks.{name}: {time.perf_counter() - started:.0f} s", flush=True)
    skipped = [name for name, code in codes.items() if code == NO_DATA]
    failed = [name for name, code in codes.items() if code not in (0, NO_DATA)]
    print(f"{len(codes)} scripts; skipped, for want of real data: {skipped}; failed: {failed}")
    if left_out:
        print(f"left out, they take longer: {left_out}; make bench-full runs all, in full, for hours")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
