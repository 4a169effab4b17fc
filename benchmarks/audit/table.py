"""Every mechanism of the library in one table: what it claims, and what an audit finds at that noise and at 0.7 of it.

    python -m benchmarks.audit.table [--docs] [--quick] [--only WORD,...] [--list]

The audits are those of tests/support/audits, and a few more: this script runs them and writes down every bound that
they take, so that the table is of the very audits that guard the code. A row holds the tests of one mechanism; of
several cases it shows the one that comes nearest to its claim at the planned noise, and the one that exceeds it least
at 0.7. A claim that depends on the case (another epsilon for each loss, say) is judged by the test itself. With --docs
the table is written into docs/measured/data/audit.

The exit code is 1 when a test fails. A row whose tests are skipped (no Node.js, say) says so.
"""

import functools
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import sottovoce.audit
import sottovoce.audit.threshold
from benchmarks.driver import ROOT, benchmark, option
from sottovoce.audit import detectable_epsilon

QUICK = ("Gaussian on a grid", "exponential mechanism")  # the rows of --quick
TESTS = ROOT / "tests"
TRANSCRIPT = "all releases"
HEAD = (
    "mechanism", "claim (epsilon, delta), adjacency", "the adversary sees", "epsilon at least", "at 0.7 of the noise",
    "runs on each table", "would have seen",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One mechanism, and the tests that audit it.

    Attributes
    ----------
    name, claim, sees : str
        In words; what is seen beside what is public.
    tests : str
        File in tests without ``test_`` and ``.py``, ``::``, and how the names of the tests start.
    epsilon, delta : float
        The claim, for the size of the violation that would be seen.
    pick : str
        A regular expression that the test's parameters must match.
    order : tuple of str
        What the bounds of one test stand for, in the order in which it takes them: "planned", "weak", or "other".
        Empty where the noise is a parameter of the test.
    """

    name: str
    claim: str
    sees: str
    tests: str
    epsilon: float
    delta: float
    pick: str = ""
    order: tuple[str, ...] = ()


ONE, FOUR = "(1, 0.05)", "(4, 0.05)"


def _row(name: str, claim: str, sees: str, pick: str, epsilon: float = 1, delta: float = 0.05) -> Row:
    """Return a row of audits in ``tests/support/audits``, by how their names start."""
    return Row(name, claim, sees, "audits::test_audit", epsilon, delta, rf"\[{pick}")


ROWS = (
    _row("DP-SCD, full batches (default)", f"{FOUR}, add-remove", TRANSCRIPT, "default fit, noise", 4),
    _row("`Minibatch()`", f"{ONE}, zero-out", f"{TRANSCRIPT}, not the coins", "Minibatch"),
    _row("`sgd`, Poisson samples", "(1.97, 0.2), zero-out", f"{TRANSCRIPT}, not the coins", "sgd, Poisson", 1.968, 0.2),
    _row("`sgd`, all rows", f"{FOUR}, zero-out", TRANSCRIPT, "sgd, all rows", 4),
    _row("`Sequential()`", f"{FOUR}, replace-one", f"{TRANSCRIPT}, the batches", "Sequential", 4),
    _row("`Primal()`", f"{FOUR}, zero-out", f"{TRANSCRIPT}, the blocks", "Primal", 4),
    _row("`Published()`", "the receipt: (2.11, 0.05); the paper: (1, 0.05); replace-one", TRANSCRIPT, "Published",
         2.112),
    _row("`adassp`", f"{FOUR}, zero-out and replace-one", TRANSCRIPT, "adassp, (zero|replace)", 4),
    _row("`newton`, hinge", f"{FOUR}, zero-out", TRANSCRIPT, "newton", 4),
    _row("`refinement`", f"{FOUR}, add-remove", TRANSCRIPT, "refinement", 4),
    _row("Frank-Wolfe, dense", f"{ONE}, zero-out", "the model", "Frank-Wolfe, dense"),
    _row("Frank-Wolfe, sparse", f"{ONE}, zero-out", "the model", "Frank-Wolfe, sparse"),
    _row("search: selection", "(2.87, 0.05), any", "the best trial", "search: the best", 2.870),
    _row("search: score of a trial", f"{ONE}, add-remove and replace-one", "the noisy score", "search: score"),
    _row("vertical `local-models`: labels", "(1.5, 0), a label", "the released labels", "local models: labels, noise",
         1.5, 0.0),
    _row("vertical `local-models`: a party's model", "(6, 0.05), replace-one", "all releases of the party",
         r"local models: \w+ model of", 6),
    _row("vertical `local-models`: both", "(2, 0.05), replace-one", TRANSCRIPT, "local models: labels and", 2),
    _row("training on released labels", "(8.65, 0.05), replace-one", TRANSCRIPT, "training on released", 8.647),
    _row("`papers.admm.noisy_admm`", f"{ONE}, replace-one", "one message", "noisy ADMM"),
    _row("vertical Frank-Wolfe: choices", f"{ONE}, replace-one", "12 choices", "vertical Frank-Wolfe: choices"),
    _row("vertical Frank-Wolfe: columns as published, also sketched", f"{ONE}, replace-one", "a column",
         "vertical Frank-Wolfe: columns"),
    Row("vertical `paper`", "the receipt: epsilon = inf; the paper, for a round: (1, 0.05)", "one message",
        "audits::test_published_vertical_training", 1, 0.05, order=("planned",)),
    Row("local: cap report", "(2, 0), any record", "the report",
        "local_reports::test_the_audit", 2, 0.0, r"\[2", order=("planned", "weak")),
    Row("local: Bernstein report, tight noise", "(4, 1e-6), any record", "the report",
        "audit_of_bernstein_reports::test_audit_of_the_device", 4, 1e-6, "tight-1"),
    Row("local: Bernstein report, printed noise, degree 2", "the receipt: (7.07, 1e-6); the paper: (8, 1e-6)",
        "the report", "audit_of_bernstein_reports::test_audit_of_the_device", 7.070, 1e-6, "printed"),
    Row("local: Bernstein report, printed noise, degree 1", "the receipt: (10.01, 1e-6); the paper: (8, 1e-6)",
        "the report", "audit_of_bernstein_reports::test_erratum_printed", 10.006, 1e-6, order=("planned",)),
    Row("randomised response beside a Gaussian", "(2.21, 0.02), a label", "bit and number",
        "randomized_response::test_audit", 2.210, 0.02, r"\[1\.5", order=("planned", "weak")),
    _row("exponential mechanism", "(2, 0), one selection", "the choice", "exponential", 2, 0.0),
    _row("Gaussian on a grid", "(1.107, 0.05), one release", "the value", "Gaussian on a grid", 1.107),
    _row("labels: location and scale by bisection", "(2.932, 0.05), replace-one", "all counts", "labels by bisection",
         2.932),
)  # fmt: skip


@dataclass
class Found:
    """A lower bound that a test took."""

    bound: float
    runs: int
    gaussian: bool


@dataclass
class Notes:
    """A plugin for pytest: which bounds each test took, whether it passed, how long it ran."""

    bounds: dict[str, list[Found]] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    wanted: tuple[Row, ...] = ROWS
    listed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        bound_by = sottovoce.audit.threshold.epsilon_lower_bound

        @functools.wraps(bound_by)
        def noted(scores, neighbour_scores, **given):
            bound = bound_by(scores, neighbour_scores, **given)
            if "confidence" not in given:
                runs = min(len(scores), len(neighbour_scores))
                self.bounds.setdefault(self._test, []).append(Found(bound, runs, given.get("gaussian", False)))
            return bound

        for module in (sottovoce.audit, sottovoce.audit.threshold):
            module.epsilon_lower_bound = noted  # before the tests import it

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """Leave the tests of the wanted rows."""
        items[:] = [item for item in items if any(belongs(row, item.nodeid) for row in self.wanted)]
        self.listed = [item.nodeid for item in items]

    def pytest_runtest_setup(self, item):
        self._test = item.nodeid

    def pytest_runtest_logreport(self, report):
        for name, found in report.user_properties if report.when == "call" else ():
            if name == "epsilon at least":  # a bound of the test's own making
                self.bounds.setdefault(report.nodeid, []).append(Found(*found))
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid] = report.outcome
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


def belongs(row: Row, node: str) -> bool:
    file, _, start = row.tests.partition("::")
    path, _, name = node.partition("::")
    return Path(path).name == f"test_{file}.py" and name.startswith(start) and re.search(row.pick, name) is not None


def bounds_of(row: Row, notes: Notes) -> dict[str, list[Found]]:
    """Return a row's bounds at the planned noise and at 0.7 of it."""
    found: dict[str, list[Found]] = {"planned": [], "weak": []}
    for node, bounds in notes.bounds.items():
        if not belongs(row, node):
            continue
        kinds = row.order or (("weak",) if re.search(r"noise x 0\.7|\[0\.7", node) else ("planned",))
        for kind, bound in zip(kinds, bounds, strict=False):
            found[kind].append(bound)
    return found


def line(row: Row, notes: Notes) -> tuple[str, ...]:
    outcomes = [outcome for node, outcome in notes.outcomes.items() if belongs(row, node)]
    found = bounds_of(row, notes)
    if not found["planned"]:
        why = "skipped here" if "skipped" in outcomes else "no test"
        return row.name, row.claim, row.sees, f"not run: {why}", "", "", ""
    planned, weak = found["planned"], found["weak"]
    best = max(planned, key=lambda one: one.bound)
    power = detectable_epsilon(row.epsilon, row.delta, best.runs // 2, gaussian=best.gaussian)
    return (
        row.name, row.claim, row.sees, f"{best.bound:.3f}" + (" (TEST FAILED)" if "failed" in outcomes else ""),
        f"{min(one.bound for one in weak):.3f}" if weak else "not tried", f"{best.runs:,}", f"{power:.2f}",
    )  # fmt: skip


@benchmark(
    page="measured/audit.md",
    only=option("", help="rows whose name holds one of these words"),
    list=option(False, help="name the tests of each row, and run none"),
)
def main(run) -> None:
    words = [word for word in run.only.split(",") if word] or list(QUICK if run.quick else ())
    wanted = tuple(row for row in ROWS if not words or any(word in row.name for word in words))
    if not wanted:
        sys.exit(f"no row's name holds any of {words}")
    notes = Notes(wanted=wanted)
    names = {row.tests.partition("::")[0] for row in wanted}
    files = sorted(str(path) for name in names for path in TESTS.rglob(f"test_{name}.py"))
    started = time.perf_counter()
    options = ["-q", "-p", "no:cacheprovider", *(["--collect-only"] if run.list else [])]
    code = pytest.main([*options, *files], plugins=[notes])
    if run.list:
        for row in wanted:
            print(row.name, *(f"    {node}" for node in notes.listed if belongs(row, node)), sep="\n")
        return
    rows = [line(row, notes) for row in wanted]
    run.table("Audits of every mechanism, confidence 99.9 %", HEAD, rows, mark="audits", width=170)
    print(f"{time.perf_counter() - started:.0f} s")
    sys.exit(int(code))
