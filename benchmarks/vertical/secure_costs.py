"""Joint training inside secure computation: seconds, CPU seconds, bytes and memory of a party, cell by cell.

    python -m benchmarks.vertical.secure_costs [--quick] [--only spu,slow,two,shamir] [--again]
    python -m benchmarks.vertical.secure_costs --docs    # the tables of the appendix, from the figures kept

A cell is an engine, a loss, n people, d columns in all, how many parties hold them, how many helpers there are, and the
link between parties; its parties are processes of their own with the product's engine, plan and script, on made-up
tables. Measured are the start of the engine, conversion and noise in clear, data shared with the second moments opened,
each pass, and all together. Seconds and MiB are the largest of any party, CPU seconds and bytes too; CPU and memory are
those of a party's process and its engine's together (memory: the sum of the two largest sizes). Bytes are what the
engine's process writes to its sockets (Linux counts them); those of Shamir's shares, and those over a slow link, are
counted by a forwarder. Parts: ``spu`` ABY3 over loopback, ``slow`` the same with 20 ms round trip and 100 Mbit/s in
each direction between any two parties, ``two`` CHEETAH, ``shamir``. Each cell is kept in
docs/figures/vertical_secure_costs.json as soon as it ends, and is not run again but with --again; with --quick none is
kept. One cell takes at most 9 minutes.
"""

import contextlib
import hashlib
import json
import math
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from numpy.typing import NDArray

from benchmarks.driver import FIGURES, HIDDEN, ROOT, benchmark, option
from benchmarks.vertical.slow_link import SlowLink

FILE = FIGURES / "vertical_secure_costs.json"
PARTS = ("spu", "slow", "two", "shamir")
LIMIT = 540.0
LINKS = {"loopback": None, "counted": (0.0, 1e12), "20 ms, 100 Mbit/s": (0.01, 12.5e6)}
DELTA, EPSILON = 1e-5, 1.0
# ridge from the second moments alone, as with Shamir's shares and for large tables, and with the passes elsewhere
RIDGE = {"squared": "ridge, moments", "refined": "ridge, passes"}


class Cell(NamedTuple):
    """What is measured."""

    engine: str
    loss: str
    n: int
    d: int
    holders: int
    helpers: int
    link: str = "loopback"

    @property
    def key(self) -> str:
        """Its name among the figures."""
        return " ".join(map(str, self))

    @property
    def protocol(self) -> str:
        """What the engine computes by."""
        return "Shamir" if self.engine == "shamir" else {2: "CHEETAH", 3: "ABY3"}[self.holders + self.helpers]


def cells(part: str, quick: bool) -> list[Cell]:
    """Return the cells of a part, the cheap ones first."""
    slow = "20 ms, 100 Mbit/s"
    if quick:
        small = {
            "spu": [Cell("spu", "logistic", 600, 6, 2, 1), Cell("spu", "squared", 600, 6, 3, 0)],
            "slow": [Cell("spu", "squared", 600, 6, 2, 1, slow)],
            "two": [Cell("spu", "squared", 300, 6, 2, 0)],
            "shamir": [Cell("shamir", "squared", 300, 6, 3, 0, "counted")],
        }
        return small[part]
    if part == "spu":
        found = [
            Cell("spu", loss, n, d, holders, 3 - holders)
            for n in (10_000, 100_000)
            for d in (50, 100, 280)
            for loss in ("squared", "logistic")
            for holders in (2, 3)
        ]
        refined = [Cell("spu", "refined", n, d, 2, 1) for n, d in ((10_000, 50), (10_000, 280), (100_000, 100))]
        return [*found, *refined, *(Cell("spu", "squared", 1_000_000, d, 2, 1) for d in (50, 100, 280))]
    if part == "slow":
        return [
            Cell("spu", loss, n, d, 2, 1, slow)
            for n in (10_000, 100_000)
            for d in (50, 100, 280)
            for loss in ("squared", "refined", "logistic")
        ]
    if part == "two":
        sizes = ((1_000, 10), (3_000, 20), (10_000, 50))
        found = [Cell("spu", loss, n, d, 2, 0) for n, d in sizes for loss in ("squared", "logistic")]
        return [*found, *(Cell("spu", loss, 10_000, 50, 2, 0, slow) for loss in ("squared", "logistic"))]
    return [
        *(
            Cell("shamir", loss, n, d, 3, 0, "counted")
            for n, d in ((10_000, 50), (10_000, 280), (100_000, 100), (100_000, 280))
            for loss in ("squared", "logistic")
        ),
        Cell("shamir", "squared", 1_000_000, 50, 3, 0, "counted"),
        *(Cell("shamir", loss, 10_000, 50, 3, 0, slow) for loss in ("squared", "logistic")),
    ]


def make_plan(cell: Cell) -> Any:
    from sottovoce.vertical.secure.agreed_plan import Block
    from sottovoce.vertical.secure.joint_plan import JointPlan

    widths = [len(part) for part in np.array_split(np.arange(cell.d), cell.holders)]
    return JointPlan(
        n_samples=cell.n,
        blocks=tuple(Block(name=f"party{place}", n_features=width, bound=1.0) for place, width in enumerate(widths)),
        helpers=tuple(f"helper{place}" for place in range(cell.helpers)),
        label_holder="party0",
        loss="squared" if cell.loss == "refined" else cell.loss,
        smoothing=0.5,
        label_bounds=(-1.0, 1.0) if cell.loss in RIDGE else None,
        alpha=1e-3,
        fit_intercept=True,
        epsilon=EPSILON,
        delta=DELTA,
        colluding=1,
        engine=cell.engine,
        n_passes=0 if cell.loss == "squared" else None,
    )


def table(cell: Cell, place: int) -> NDArray[np.float64]:
    """Return a party's columns: rows of norm at most 1."""
    width = len(np.array_split(np.arange(cell.d), cell.holders)[place])
    X = np.random.default_rng(place).normal(size=(cell.n, width))
    X /= 1.2 * math.sqrt(width)
    return X


def labels(cell: Cell, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return labels that the first party's columns say something about."""
    z = X @ np.linspace(1.0, 2.0, X.shape[1]) + 0.3 * np.random.default_rng(99).normal(size=cell.n)
    return np.clip(z, -1.0, 1.0) if cell.loss in RIDGE else np.where(z > 0.0, 1.0, -1.0)


class Watch:
    """Reads this process and the engine's: seconds, CPU seconds of both, bytes that the engine's wrote."""

    def __init__(self) -> None:
        self._me = psutil.Process()
        self.phases: dict[str, list[list[float]]] = {}
        self._now = self._read()

    def _read(self) -> list[float]:
        cpu, written = time.process_time(), 0
        for child in self._me.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                times = child.cpu_times()
                cpu += times.user + times.system
                written += child.io_counters().write_chars  # type: ignore[attr-defined]
        return [time.perf_counter(), cpu, written]

    def end(self, phase: str) -> None:
        """Write down what was spent since the last phase."""
        now = self._read()
        self.phases.setdefault(phase, []).append([then - before for before, then in zip(self._now, now, strict=True)])
        self._now = self._read()

    def memory(self) -> dict[str, float]:
        """Return the largest sizes of both so far, in MiB."""
        of_engine = 0.0
        for child in self._me.children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError):
                lines = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii").splitlines()
                of_engine += sum(int(line.split()[1]) / 1024.0 for line in lines if line.startswith("VmHWM"))
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
        return {"own MiB": own, "engine MiB": of_engine}


def party(path: str, place: str) -> None:
    """Be one party of a cell, and write what was measured into a file."""
    from sottovoce.vertical.engines.process import EngineProcess

    task = json.loads(Path(path).read_text(encoding="ascii"))
    rank, cell = int(place), Cell(*task["cell"])
    report = Path(path).parent / f"{rank}.json"
    X = y = None
    make_plan(cell)  # imports what is needed
    if rank < cell.holders:
        X = table(cell, rank)
        y = labels(cell, X) if rank == 0 else None
    _wait_for_all(Path(path).parent, rank, cell.holders + cell.helpers)
    watch = Watch()
    engine = EngineProcess(cell.engine, rank, task["addresses"][rank], listen=task["listen"][rank], timeout=LIMIT)
    said: dict[str, Any] = {}
    try:
        engine.start()
        watch.end("start")
        said = train(cell, rank, X, y, engine, watch)
        said |= watch.memory()
    finally:
        engine.close()
    report.write_text(json.dumps({**said, "phases": watch.phases}), encoding="ascii")


def _wait_for_all(folder: Path, rank: int, count: int) -> None:
    """Return when all parties are here, so that nobody's imports are part of another one's start."""
    (folder / f"{rank}.ready").touch()
    ends = time.monotonic() + LIMIT
    while not all((folder / f"{place}.ready").exists() for place in range(count)) and time.monotonic() < ends:
        time.sleep(0.02)


def train(cell: Cell, rank: int, X: Any, y: Any, engine: Any, watch: Watch) -> dict[str, Any]:
    """Train as a party does, with the coordinator's part done by everyone."""
    plan = make_plan(cell)
    name = plan.ranks[rank]
    noise = np.random.default_rng(rank)
    script, fitting = plan.script(name, engine, X, y), plan.fitting()
    del X
    watch.end("to whole numbers")
    shares = plan.shares(0, name, noise)
    watch.end("noise of the moments")
    values = script.open(0, {}, shares)
    watch.end("data shared and second moments")
    seen = hashlib.sha256(np.ascontiguousarray(values).tobytes())
    points = fitting.take(values)
    watch.end("solver in clear")
    for step in range(1, plan.n_steps + 1):
        assert points is not None
        values = script.open(step, points, plan.shares(step, name, noise))
        watch.end("pass")
        seen.update(np.ascontiguousarray(values).tobytes())
        points = fitting.take(values)
        watch.end("solver in clear")
    return {"opened": seen.hexdigest(), "steps": plan.n_steps}


class Counted(SlowLink):
    """Counts each direction by itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sent = [0, 0]

    async def _pump(self, direction: int, reader: Any, writer: Any) -> None:
        await super()._pump(direction, _Counting(reader, self.sent, direction), writer)


class _Counting(NamedTuple):
    reader: Any
    sent: list[int]
    direction: int

    async def read(self, size: int) -> bytes:
        piece: bytes = await self.reader.read(size)
        self.sent[self.direction] += len(piece)
        return piece


@contextlib.contextmanager
def wired(cell: Cell) -> Iterator[tuple[list[list[str]], list[str], dict[tuple[int, int], Counted]]]:
    """Yield how each party reaches all, where each listens, and the links between any two, by who connects to whom."""
    count = cell.holders + cell.helpers
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as probes:
            probed = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
            listen = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probed]
        limits = LINKS[cell.link]
        if limits is None:
            yield [listen] * count, listen, {}
            return
        latency, rate = limits
        links = {
            (here, there): stack.enter_context(Counted(listen[there], latency=latency, rate=rate))
            for here in range(count)
            for there in range(count)
            if here != there
        }
        yield (
            [
                [listen[there] if here == there else str(links[here, there].address) for there in range(count)]
                for here in range(count)
            ],
            listen,
            links,
        )


def measure(cell: Cell) -> dict[str, Any]:
    count = cell.holders + cell.helpers
    found: dict[str, Any] = {**cell._asdict(), "protocol": cell.protocol, "ended": False}
    with tempfile.TemporaryDirectory() as folder, wired(cell) as (addresses, listen, links):
        task = Path(folder) / "task.json"
        task.write_text(json.dumps({"cell": cell, "addresses": addresses, "listen": listen}), encoding="ascii")
        command = [sys.executable, "-m", "benchmarks.vertical.secure_costs", "--party"]
        started = time.perf_counter()
        with (Path(folder) / "errors").open("wb") as errors:
            parties = [
                subprocess.Popen([*command, f"{task},{rank}"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors)
                for rank in range(count)
            ]
            try:
                codes = _wait(parties, started + LIMIT)
            finally:
                for each in parties:
                    _end(each)
        found["s"] = time.perf_counter() - started
        if any(codes):
            failed = any(code for code in codes if code is not None)
            found["why"] = "failed" if failed else "out of time"
            print((Path(folder) / "errors").read_text()[-1500:], file=sys.stderr)
            return found
        said = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(count)]
        assert len({each.get("opened") for each in said}) == 1, "parties saw different sums"
        found |= {"ended": True, "steps": said[0].get("steps", 0), "phases": {}}
        for phase in said[0]["phases"]:
            spent = [each["phases"][phase] for each in said]
            found["phases"][phase] = {
                "times": len(spent[0]),
                **{
                    what: max(sum(each[place] for each in of_party) for of_party in spent)
                    for place, what in enumerate(("s", "CPU s", "bytes"))
                },
                "median s": max(float(np.median([each[0] for each in of_party])) for of_party in spent),
            }
        for what in ("own MiB", "engine MiB"):
            found[what] = [each[what] for each in said]
        if links:
            found["bytes by forwarder"] = [
                sum(link.sent[0] for (here, _), link in links.items() if here == rank)
                + sum(link.sent[1] for (_, there), link in links.items() if there == rank)
                for rank in range(count)
            ]
    return found


def _wait(parties: list[subprocess.Popen[bytes]], until: float) -> list[int | None]:
    """Return the exit codes: None for those that were still at work, when one failed or the time was over."""
    while time.perf_counter() < until:
        codes = [each.poll() for each in parties]
        if None not in codes or any(codes):
            return codes
        time.sleep(0.2)
    return [each.poll() for each in parties]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a party with its engine."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    process.kill()
    process.wait()


def of(row: dict[str, Any], phase: str, what: str, each: bool = False) -> float:
    """Return what a phase took, or one run of it, or all phases but the start of the engine."""
    if phase == "all":
        return sum(of(row, name, what) for name in row["phases"] if name != "start")
    spent = row["phases"].get(phase)
    if spent is None:
        return 0.0
    return float(spent["median s"] if each and what == "s" else spent[what] / (spent["times"] if each else 1))


def cost(row: dict[str, Any], phase: str, each: bool = False) -> str:
    """Return seconds, CPU seconds and MB of a phase."""
    sizes = [of(row, phase, "s", each), of(row, phase, "CPU s", each), of(row, phase, "bytes", each) / 1e6]
    if "bytes by forwarder" in row and row["engine"] == "shamir":  # its bytes are known for all phases together
        sizes = sizes[:2] if phase != "all" else [*sizes[:2], max(row["bytes by forwarder"]) / 1e6]
    return " / ".join(f"{size:.2f}" if size < 9.995 else f"{size:,.0f}" for size in sizes)


def memory(row: dict[str, Any]) -> str:
    """Return the largest memory of a party, with its engine."""
    return f"{max(own + engine for own, engine in zip(row['own MiB'], row['engine MiB'], strict=True)):,.0f}"


def who(row: dict[str, Any]) -> str:
    """Return the parties in words."""
    return f"{row['holders']} + helper" if row["helpers"] else str(row["holders"])


def tables(kept: dict[str, dict[str, Any]]) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    made: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]] = {}
    for part in PARTS:
        rows = [kept[cell.key] for cell in cells(part, quick=False) if cell.key in kept]
        if not rows:
            continue
        head: tuple[str, ...] = (
            *(("link",) if part in ("two", "shamir") else ()),
            "model", "people x columns", "parties", "share, moments", "a pass", "passes", "all", "MiB",
        )  # fmt: skip
        made[part] = head, []
        for row in rows:
            first = (
                *((row["link"].replace("counted", "loopback"),) if part in ("two", "shamir") else ()),
                RIDGE.get(row["loss"], row["loss"]), f"{row['n']:,} x {row['d']}", who(row),
            )  # fmt: skip
            if not row["ended"]:
                made[part][1].append((*first, row["why"], *[""] * 4))
                continue
            a_pass = cost(row, "pass", each=True) if row["steps"] else ""
            moments = cost(row, "data shared and second moments")
            last = str(row["steps"] or ""), cost(row, "all"), memory(row)
            made[part][1].append((*first, moments, a_pass, *last))
    return made


def read() -> dict[str, dict[str, Any]]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


@benchmark(
    page="measured/vertical_secure_costs.md", only=",".join(PARTS),
    again=option(False, help="run cells that are kept already"),
    match=option("", help="cells whose key has these words: 'spu logistic 10000'"), party=option(help=HIDDEN),
)  # fmt: skip
def main(run) -> None:
    if run.party:
        party(*run.party.split(","))
        return
    kept = {} if run.quick else read()
    for part in [] if run.docs else run.only.split(","):
        for cell in cells(part, run.quick):
            if run.match not in cell.key or (kept.get(cell.key, {}).get("ended") and not run.again_):
                continue
            found = measure(cell)
            print(part, cell.key, json.dumps(found), flush=True)
            # read again: somebody may run other cells at the same time
            kept = ({} if run.quick else read()) | {cell.key: found}
            if not run.quick:
                FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    run.tables(tables(kept), width=160)
