"""Install the package as people do, and try it: from sdist and wheel, in empty environments, outside the source tree.

    python .ci/matrix.py [--python PATH ...] [--only TEXT] [--out FOLDER]

Builds both archives. Then, for each Python and each way to install: an empty environment, how many MB go into it, how
long the processor takes to import an estimator, for a first fit (which compiles) and for the first in the next process,
and smoke tests against what was installed. The table is printed, and written to OUT/matrix.md beside the archives. A
Python that is not there is left out, and said.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = "tables,vertical,secure,ledger,collector,sign"
ALONE = ("tests/smoke/test_without_extras.py",)
EVERYTHING = ("tests/smoke",)
TOOLS = ("pytest", "pytest-xdist", "hypothesis")
MEASURE = """\
import time
begun = time.process_time()
from sottovoce import {model}
imported = time.process_time()
import numpy as np
X = np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 10))
y = X[:, 0] if {bounds} else (X[:, 0] > 0).astype(int)
given = {bounds} or {{"classes": [0, 1]}}
started = time.process_time()
{model}(epsilon=1, delta=1e-5, data_norm=1.0, **given).fit(X, y)
print(imported - begun, time.process_time() - started)
"""
MODELS = {"DPLogisticRegression": "{}", "DPRidge": '{"label_bounds": (-1, 1)}'}


@dataclass(frozen=True)
class Way:
    """One way to install, and what is tried then."""

    archive: str
    versions: str
    extras: str
    tests: tuple[str, ...]


WAYS = (
    Way("wheel", "newest", "", ALONE),
    Way("wheel", "newest", EXTRAS, EVERYTHING),
    Way("wheel", "oldest", EXTRAS, EVERYTHING),
    Way("sdist", "newest", "tables", ALONE),
)


def run(command: list[object], **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command outside the source tree, without its settings."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    return subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, check=False, **options
    )


def build(python: str, out: Path) -> dict[str, Path]:
    """Build both archives, the wheel from the sdist, as publishing does."""
    tools = out / "building"
    run([python, "-m", "venv", tools])
    pip(tools, ["build"], "installing build")
    done = run([tools / "bin/python", "-m", "build", "--outdir", out / "dist", ROOT], cwd=out)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    shutil.rmtree(tools)
    return {"sdist": next((out / "dist").glob("*.tar.gz")), "wheel": next((out / "dist").glob("*.whl"))}


def pip(venv: Path, arguments: list[object], what: str) -> str | None:
    """Install into an environment; return what went wrong, in one line."""
    done = run([venv / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments])
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return f"{what}: {(lines or ['no reason given'])[-1][:140]}"


def tried(python: str, way: Way, archives: dict[str, Path], place: Path) -> list[str]:
    """Return a line of the table."""
    version = run([python, "-c", "import sys; print(sys.version.split()[0])"]).stdout.strip()
    head = [version, way.archive, way.versions, way.extras or "none"]
    venv = place / "venv"
    run([python, "-m", "venv", venv])
    constraints = place / "constraints.txt"
    lines = [] if way.versions == "newest" else lowest()
    constraints.write_text("\n".join(lines), encoding="utf-8")
    target = f"sottovoce{f'[{way.extras}]' * bool(way.extras)} @ file://{archives[way.archive]}"
    before = megabytes(venv)
    problem = pip(venv, ["-c", constraints, target], "not installable")
    if problem:
        return [*head, *["-"] * 4, problem]
    size = megabytes(venv) - before
    times = [measured(venv, place, model) for model in MODELS for _ in range(2)]
    seconds = [min(time[0] for time in times), *(f"{cold[1]:.1f}, then {warm[1]:.1f}" for cold, warm in pairs(times))]
    more = ["httpx", "pandas"] if way.tests == EVERYTHING else []
    problem = pip(venv, ["-c", constraints, *TOOLS, *more], "tools of the tests")
    tests = problem or smoke(venv, way, place)
    return [*head, f"{size:.0f}", f"{seconds[0]:.1f}", *map(str, seconds[1:]), tests]


def pairs(times: list[tuple[float, float]]) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the first and the second process of each model."""
    return list(zip(times[::2], times[1::2], strict=True))


def measured(venv: Path, place: Path, model: str) -> tuple[float, float]:
    """Return seconds of import and of a fit, of the processor: others may be busy on the machine."""
    program = MEASURE.format(model=model, bounds=MODELS[model])
    done = run([venv / "bin/python", "-W", "ignore", "-c", program], cwd=place)
    if done.returncode:
        sys.exit(done.stderr)
    first, second = map(float, done.stdout.split())
    return first, second


def smoke(venv: Path, way: Way, place: Path) -> str:
    """Run tests that were copied out of the source tree, against the installed package; return their last line."""
    for name in ("smoke", "support", "conftest.py"):
        source = ROOT / "tests" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, place / "tests" / name)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    marks = "\n".join(f"    {mark}" for mark in settings["markers"])
    (place / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{marks}\n", encoding="utf-8")
    command = [venv / "bin/python", "-m", "pytest", "-q", "-n", "2", "-W", "default", *way.tests]
    done = run([*command, "-p", "no:cacheprovider"], cwd=place)
    (place.parent / f"{place.name}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    last = [line for line in done.stdout.splitlines() if " in " in line]
    return last[-1].strip("= ").partition(" in ")[0] if last else f"pytest ended with {done.returncode}"


def lowest() -> list[str]:
    """Return the lowest versions that pyproject.toml allows, as constraints."""
    done = run([sys.executable, ROOT / ".ci/lowest.py", ROOT / "pyproject.toml"])
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout.splitlines()


def megabytes(folder: Path) -> float:
    """Return the space that files take on the disk, as `du` counts it."""
    return sum(file.lstat().st_blocks for file in folder.rglob("*")) * 512 / 2**20


def main() -> None:
    """Try all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", help="interpreters; default those of the PATH that are supported")
    parser.add_argument("--only", default="", help="only ways whose words hold this text, such as 'wheel oldest'")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where archives, logs and the table go")
    given = parser.parse_args()
    found = given.python or [path for name in PYTHONS if (path := shutil.which(f"python{name}"))]
    out = given.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    head = (
        "Python",
        "from",
        "versions",
        "extras",
        "MB",
        "import",
        "first fit: logistic",
        "ridge",
        "smoke tests",
    )
    rows = [head, ("---",) * len(head)]
    with tempfile.TemporaryDirectory() as folder:
        archives = build(found[0], Path(folder))
        for file in archives.values():
            shutil.copy(file, out)
        for python in found:
            for number, way in enumerate(WAYS):
                if given.only not in f"{way.archive} {way.versions} {way.extras}":
                    continue
                if way.versions == "oldest" and python != found[0]:
                    continue  # the oldest versions have wheels for the oldest Python alone
                begun = time.perf_counter()
                place = Path(folder) / f"{Path(python).name}-{number}"
                (place / "tests").mkdir(parents=True)
                rows.append(tuple(tried(python, way, archives, place)))
                shutil.rmtree(place)
                log = place.parent / f"{place.name}.log"
                if log.exists():
                    shutil.copy(log, out)
                print(f"{' '.join(rows[-1])} [{time.perf_counter() - begun:.0f} s]", flush=True)
    missing = [] if given.python else [name for name in PYTHONS if not shutil.which(f"python{name}")]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    table += f"\n\nNot tried, no such Python here: {', '.join(missing)}\n" if missing else "\n"
    (out / "matrix.md").write_text(table, encoding="utf-8")
    print(table)
    bad = ("failed", "error", "not installable", "ended")
    sys.exit(any(word in row[-1] for row in rows[2:] for word in bad))


if __name__ == "__main__":
    main()
