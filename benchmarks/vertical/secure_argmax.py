"""Secure argmax for joint Frank-Wolfe: what it costs inside an engine, and what it would gain in accuracy.

    python -m benchmarks.vertical.secure_argmax [--quick] [--docs] [--only argmax,step,...] [--seeds 3]

``argmax``: every party adds noise to d secret numbers, the place of the largest is opened, by a tournament of
comparisons; real SPU processes (ABY3 with three, CHEETAH with two), each number of d in a session of its own. ``step``:
a whole step, the slopes of n people cut inside and multiplied by a secret table first. ``mpyc``: the same argmax with
MPyC's own function, three processes. ``accuracy``: Lasso on the tables of `benchmarks.vertical.frank_wolfe`, in clear,
with the noise that a secure argmax would have: excess risk, mean over seeds; "central" is one trusted adder.
``moments``: the same from noisy second moments, without an argmax. ``slow``: argmax with 20 ms round trip and 100
Mbit/s between any two parties. All processes are on this machine; bytes are those that a process writes to its sockets.
Figures go to docs/figures/secure_argmax.json (not with --quick).
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import DOCS, ROOT, make_parser, show, write_tables
from benchmarks.vertical.frank_wolfe import DELTA, SIZES, least_risk, on_ball, risk, table
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.calibration import bounded_range, gaussian_mu, least_noise
from sottovoce.privacy.events import PureEvent, RepeatedEvent
from support.slow_link import SlowLink

PAGE = DOCS / "decisions" / "0020-secure-argmax.md"
FIGURES = DOCS / "figures" / "secure_argmax.json"
PARTS = ("argmax", "slow", "step", "mpyc", "accuracy", "moments")
PARTIES = {"ABY3": 3, "CHEETAH": 2}
WIDTHS = {"ABY3": (1_000, 10_000, 100_000), "CHEETAH": (1_000, 10_000, 100_000)}
STEPS = {"ABY3": ((10_000, 1_000), (100_000, 100)), "CHEETAH": ((10_000, 100),)}
EPSILONS = (0.5, 1.0, 2.0, 4.0)
LIMIT = 540.0  # seconds for a set of processes


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in taken]


def together(words: Sequence[str], n_parties: int, slow: bool = False) -> list[dict[str, Any]]:
    """Run one process for each party and return what each wrote down; nothing where they did not end."""
    at = [f"127.0.0.1:{port}" for port in free_ports(n_parties)]
    seen = [list(at) for _ in range(n_parties)]
    # an engine prints among what a process prints, so there are files for what is to be read
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        for here, there in itertools.permutations(range(n_parties) if slow else (), 2):
            seen[here][there] = stack.enter_context(SlowLink(at[there], latency=0.01, rate=12.5e6)).address
        command = [sys.executable, "-m", "benchmarks.vertical.secure_argmax", "--party", folder]
        processes = [
            subprocess.Popen(
                [*command, str(rank), ",".join(addresses), *words],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for rank, addresses in enumerate(seen)
        ]
        ends = time.monotonic() + LIMIT
        try:
            codes = [process.wait(timeout=max(0.0, ends - time.monotonic())) for process in processes]
        except subprocess.TimeoutExpired:
            return []
        finally:
            for process in processes:
                process.kill()
                process.wait()
        if any(codes):
            return []
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(n_parties)]


class Session:
    """One party's end of an SPU session: whole numbers modulo 2^64."""

    def __init__(self, rank: int, addresses: Sequence[str], protocol: str) -> None:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax

        jax.config.update("jax_enable_x64", True)
        import spu
        import spu.libspu as lib
        import spu.utils.frontend as frontend

        self._jax, self._frontend, self._lib = jax, frontend, lib
        description = lib.link.Desc()
        for place, address in enumerate(addresses):
            description.add_party(f"p{place}", address)
        self._link = lib.link.create_brpc(description, rank)
        config = lib.RuntimeConfig(protocol=getattr(lib.ProtocolKind, protocol), field=lib.FieldType.FM64)
        config.experimental_enable_colocated_optimization = True
        if protocol == "CHEETAH":
            config.cheetah_2pc_config.enable_mul_lsb_error = False
        self.rank, self.n_parties = rank, len(addresses)
        self._io, self._runtime = spu.Io(self.n_parties, config), spu.Runtime(self._link, config)
        self._shapes: dict[str, Any] = {}

    def put(self, name: str, owner: int, value: NDArray[np.int64]) -> None:
        """Share what one party knows."""
        known = np.ascontiguousarray(value) if self.rank == owner else np.zeros(value.shape, np.int64)
        secret = self._lib.Visibility.VIS_SECRET
        self._runtime.set_var(name, self._io.make_shares(known, secret, owner)[self.rank])
        self._shapes[name] = self._jax.ShapeDtypeStruct(value.shape, np.int64)

    def compiled(self, function: Callable[..., Any], inputs: Sequence[str], output: str) -> Any:
        """Compile a function of secrets."""
        secret = self._lib.Visibility.VIS_SECRET
        program, result = self._frontend.compile(
            self._frontend.Kind.JAX,
            function,
            [self._shapes[name] for name in inputs],
            {},
            list(inputs),
            [secret] * len(inputs),
            lambda _: [output],
        )
        (shape,) = self._jax.tree_util.tree_leaves(result)
        self._shapes[output] = self._jax.ShapeDtypeStruct(shape.shape, np.int64)
        return program

    def run(self, program: Any) -> None:
        """Run it."""
        self._runtime.run(program)

    def opened(self, name: str) -> NDArray[np.int64]:
        """Return what a program revealed."""
        return np.asarray(self._io.reconstruct([self._runtime.get_var(name)] * self.n_parties))


def largest(*parts: Any) -> Any:
    """Return the place of the largest entry of a sum, revealed: winners of pairs meet again, with their places."""
    import jax.numpy as jnp
    from spu.experimental.reveal_impl import reveal

    values = sum(parts)
    places = jnp.arange(values.shape[0], dtype=jnp.int64)
    while values.shape[0] > 1:
        half = values.shape[0] // 2
        first, second, odd = values[:half], values[half : 2 * half], values[2 * half :]
        wins = second > first
        ours = places[:half], places[half : 2 * half], places[2 * half :]
        values = jnp.concatenate([jnp.where(wins, second, first), odd])
        places = jnp.concatenate([jnp.where(wins, ours[1], ours[0]), ours[2]])
    return reveal(places)


def step(*inputs: Any) -> Any:
    """Return the signed column that a step of Frank-Wolfe takes: inputs are the table, the margins and the noise."""
    import jax.numpy as jnp

    table, others = inputs[0], inputs[1:]
    margins, noise = others[: len(others) // 2], others[len(others) // 2 :]
    sums = jnp.clip(sum(margins), -4096, 4096) @ table
    return largest(jnp.concatenate([-sums, sums]), *noise)


def joined(*tables: Any) -> Any:
    """Return one secret table of all columns: until it is made, the engine shares a party's own again in every run."""
    import jax.numpy as jnp

    return jnp.concatenate(tables, axis=1)


def written() -> int:
    """Return the bytes that this process has written, to its sockets above all."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def party(words: Sequence[str]) -> None:
    """Be one party: write seconds, CPU seconds and bytes of the first and of the third run, as JSON."""
    folder, rank, addresses, protocol, part, *sizes = words
    report = Path(folder) / f"{rank}.json"
    n_parties = len(addresses.split(","))
    if protocol == "MPyC":
        _mpyc_party(report, int(rank), addresses.split(","), int(sizes[0]))
        return
    started = time.perf_counter()
    session = Session(int(rank), addresses.split(","), protocol)
    begun = time.perf_counter() - started
    rng = np.random.default_rng(1)
    names: list[str] = []
    if part == "argmax":
        (d,) = map(int, sizes)
        values = [rng.integers(-(2**40), 2**40, d) for _ in range(n_parties)]
        right = int(np.argmax(sum(values)))
        for owner, value in enumerate(values):
            session.put(f"v{owner}", owner, value)
        names, function = [f"v{owner}" for owner in range(n_parties)], largest
    else:
        n, d = map(int, sizes)
        widths = [len(part) for part in np.array_split(np.arange(d), n_parties)]
        tables = [rng.integers(-128, 129, (n, width)) for width in widths]
        margins = [rng.integers(-8192, 8193, n) for _ in range(n_parties)]
        noise = [rng.integers(-(2**30), 2**30, 2 * d) for _ in range(n_parties)]
        sums = np.clip(sum(margins), -4096, 4096) @ np.concatenate(tables, axis=1)
        right = int(np.argmax(np.concatenate([-sums, sums]) + sum(noise)))
        for kind, values in (("x", tables), ("z", margins), ("e", noise)):
            for owner, value in enumerate(values):
                session.put(f"{kind}{owner}", owner, value)
                names.append(f"{kind}{owner}")
        session.run(session.compiled(joined, names[:n_parties], "x"))
        names, function = ["x", *names[n_parties:]], step
    program = session.compiled(function, names, "opened")
    runs = []
    for _ in range(3):
        before = time.perf_counter(), time.process_time(), written()
        session.run(program)
        opened = int(session.opened("opened").ravel()[0])
        after = time.perf_counter(), time.process_time(), written()
        runs.append([then - now for now, then in zip(before, after, strict=True)])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    report.write_text(
        json.dumps({"start": begun, "first": runs[0], "later": runs[2], "MiB": memory, "right": opened == right})
    )


def _mpyc_party(report: Path, rank: int, addresses: Sequence[str], d: int) -> None:
    sys.argv = ["party", *(word for address in addresses for word in ("-P", address)), "-I", str(rank)]
    from mpyc.runtime import mpc

    kind = mpc.SecInt(64)

    async def run() -> list[list[float]]:
        await mpc.start()
        rng = np.random.default_rng(1)
        values = [int(value) for value in rng.integers(-(2**40), 2**40, d)]
        runs = []
        for _ in range(2):
            before = time.perf_counter(), time.process_time(), _sent(mpc)
            secrets = mpc.input([kind(value) for value in values], senders=0)
            place, _ = mpc.argmax(secrets)
            opened = int(await mpc.output(place))
            after = time.perf_counter(), time.process_time(), _sent(mpc)
            runs.append([then - now for now, then in zip(before, after, strict=True)])
            assert opened == int(np.argmax(values))
        await mpc.shutdown()
        return runs

    runs = mpc.run(run())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    report.write_text(json.dumps({"start": 0.0, "first": runs[0], "later": runs[1], "MiB": memory, "right": True}))


def _sent(mpc: Any) -> int:
    return sum(each.protocol.nbytes_sent for each in mpc.parties if each.pid != mpc.pid)


def costs(part: str, quick: bool) -> list[dict[str, Any]]:
    """Measure real sessions."""
    found = []
    if part == "mpyc":
        cells = [("MPyC", 3, (d,)) for d in ((32,) if quick else (100, 1_000))]
    else:
        sizes: Any = STEPS if part == "step" else {key: tuple((d,) for d in value) for key, value in WIDTHS.items()}
        if quick:
            sizes = dict.fromkeys(sizes, ((500, 10) if part == "step" else (100,),))
        cells = [(protocol, PARTIES[protocol], size) for protocol, each in sizes.items() for size in each]
    for protocol, n_parties, size in cells:
        said = together([protocol, "step" if part == "step" else "argmax", *map(str, size)], n_parties, part == "slow")
        if not said or not all(each["right"] for each in said):
            print(f"{protocol} {part} {size}: " + ("a wrong place" if said else "did not end"), file=sys.stderr)
            found.append({"protocol": protocol, "size": size, "ended": False})
            continue
        found.append({
            "protocol": protocol, "size": size, "ended": True,
            **{f"{when} {what}": max(each[when][place] for each in said)
               for when in ("first", "later") for place, what in enumerate(("s", "CPU s", "bytes"))},
            "MiB": max(each["MiB"] for each in said),
        })  # fmt: skip
        print(found[-1], flush=True)
    return found


Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def half_gumbel(rng: np.random.Generator) -> Draw:
    """Return a sampler of the law that gives a Gumbel variable when two are added, up to a shift.

    A Gumbel variable is a sum over k of (E_k - 1) / k with exponential E_k; an exponential one is a sum of two of shape
    1/2. The quantiles are those of a large sample.
    """
    sample = np.zeros(400_000)
    for k in range(1, 201):
        sample += (rng.gamma(0.5, size=sample.size) - 0.5) / k
    sample += rng.normal(0.0, np.sqrt(0.5 / 200.5), sample.size)  # the rest of the sum: its variance, sum of .5 / k^2
    sample.sort()
    return lambda rng, size: sample[rng.integers(sample.size, size=size)]


def noises() -> dict[str, tuple[bool, Draw]]:
    """Return each form: whether its choices are of bounded range, and its noise in units of its scale."""
    half = half_gumbel(np.random.default_rng(7))
    return {
        "central: one Gumbel": (True, lambda rng, size: rng.gumbel(size=size)),
        "3 parties, Gumbel divided": (True, lambda rng, size: rng.gumbel(size=size) + half(rng, size)),
        "2 parties, a Gumbel each": (True, lambda rng, size: rng.gumbel(size=size) + rng.gumbel(size=size)),
        "3 parties, a Gumbel each": (True, lambda rng, size: rng.gumbel(size=(3, size)).sum(axis=0)),
        "3 parties, exponential divided": (False, lambda rng, size: rng.gamma(1.5, size=size)),
        "3 parties, Laplace divided": (
            False,
            lambda rng, size: rng.gamma(1.5, size=size) - rng.gamma(1.5, size=size),
        ),
    }


def n_steps(n: int, d: int, epsilon: float) -> int:
    """Return the rule of `DPLasso` for replace-one neighbours and radius 1."""
    information = n * gaussian_mu(epsilon, DELTA) / (2.0 * np.log(2.0 * d + 1.0))
    return round(min(2000, max(4, 0.75 * information ** (2.0 / 3.0))))


def pure(epsilon: float, count: int) -> float:
    """Return the largest epsilon that each of so many pure releases may have."""

    def run(noise: float) -> RepeatedEvent:
        return RepeatedEvent(PureEvent(1.0 / noise), count)

    accountant = accountant_for(run(1.0))
    return 1.0 / least_noise(run, accountant, epsilon, DELTA, start=np.sqrt(count) / gaussian_mu(epsilon, DELTA))


def accuracy(seeds: int, quick: bool) -> list[dict[str, Any]]:
    """Return excess risks of each form of noise, labels secret."""
    found = []
    for n, d in ((3_000, 400),) if quick else SIZES:
        entries, y = table(n, d)
        best = least_risk(entries, y)
        gram = entries.T @ entries
        correlations = entries.T @ y.astype(np.float32)
        for form, (bounded, draw) in noises().items():
            for epsilon in EPSILONS:
                steps = n_steps(n, d, epsilon)
                each = bounded_range(epsilon, DELTA, steps) if bounded else pure(epsilon, steps)
                scale, risks = 4.0 / each, []  # a person moves a score by at most 2, and two of them 4 apart
                for seed in range(seeds):
                    rng = np.random.default_rng(100 + seed)
                    scores, weights = correlations.astype(np.float64), np.zeros(d)
                    for _ in range(steps):
                        place = int(np.argmax(np.concatenate([scores, -scores]) + scale * draw(rng, 2 * d)))
                        move = (1.0 if place < d else -1.0) / steps
                        weights[place % d] += move
                        scores -= move * gram[:, place % d]
                    risks.append(risk(entries, y, weights) - best)
                found.append({"n": n, "d": d, "form": form, "epsilon": epsilon, "steps": steps, "excess": risks})
                print(n, d, form, epsilon, steps, f"{statistics.mean(risks):.4f}", flush=True)
    return found


def moments(seeds: int, quick: bool) -> list[dict[str, Any]]:
    """Return excess risks of Lasso from noisy second moments, three parties, labels secret: no argmax at all."""
    found = []
    for n, d in ((3_000, 100),) if quick else ((100_000, 1_000),):
        entries, y = table(n, d)
        best = least_risk(entries, y)
        gram, correlations = (entries.T @ entries).astype(np.float64), entries.T @ y.astype(np.float32)
        for epsilon in EPSILONS:
            # half of mu^2 for X'X, of sensitivity sqrt(2) d, and half for X'y, of 2 sqrt(d); variance times 3 / 2
            unit = math.sqrt(3.0) / gaussian_mu(epsilon, DELTA)
            risks = []
            for seed in range(seeds):
                rng = np.random.default_rng(200 + seed)
                noise = np.triu(rng.normal(size=(d, d)) * unit * d)
                noise += np.triu(noise, 1).T
                noise[np.diag_indices(d)] *= math.sqrt(2.0)
                values, vectors = np.linalg.eigh((gram + noise) / n)
                values = np.maximum(values, 0.0)
                target = (correlations + rng.normal(size=d) * unit * 2.0 * math.sqrt(d)) / n
                x = ahead = np.zeros(d)
                pace = 1.0
                for _ in range(300):
                    slope = vectors @ (values * (vectors.T @ ahead)) - target
                    following, faster = (
                        on_ball((ahead - slope / values[-1]).astype(np.float32)),
                        0.5 * (1.0 + math.sqrt(1.0 + 4.0 * pace * pace)),
                    )
                    x, ahead, pace = following, following + (pace - 1.0) / faster * (following - x), faster
                risks.append(risk(entries, y, x) - best)
            form = "3 parties, second moments instead"
            found.append({"n": n, "d": d, "form": form, "epsilon": epsilon, "steps": 0, "excess": risks})
            print(n, d, form, epsilon, f"{statistics.mean(risks):.4f}", flush=True)
    return found


def today() -> list[dict[str, Any]]:
    """Return what `VerticalLasso` reaches today with four parties, from the figures kept."""
    rows = json.loads((DOCS / "figures" / "vertical_frank_wolfe.json").read_text(encoding="utf-8"))
    return [
        {"n": row["rows"], "d": row["columns"], "form": f"today: {row['variant']}", "epsilon": row["epsilon"],
         "excess": [row["mean excess"]]}
        for variant in ("local", "local, secret labels", "global", "global, secret labels")
        for row in rows
        if row["variant"] == variant and row["epsilon"] in EPSILONS
    ]  # fmt: skip


def tables(kept: dict[str, Any]) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Return the tables of the page."""
    made: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]] = {}
    for part in ("argmax", "slow", "step", "mpyc"):
        if part not in kept:
            continue
        head = "engine", "size", "s first / later", "CPU s a party, first / later", "MB a party, first / later", "MiB"
        made[part] = (
            head,
            [
                (
                    row["protocol"],
                    " x ".join(f"{number:,}" for number in row["size"]),
                    *(
                        f"{row[f'first {what}'] / unit:.3g} / {row[f'later {what}'] / unit:.2g}"
                        for what, unit in (("s", 1), ("CPU s", 1), ("bytes", 1e6))
                    ),
                    f"{row['MiB']:,.0f}",
                )
                if row["ended"]
                else (row["protocol"], " x ".join(f"{number:,}" for number in row["size"]), "did not end", "", "", "")
                for row in kept[part]
            ],
        )
    if "accuracy" in kept:
        rows: dict[tuple[str, str], list[str]] = {}
        for row in sorted([*kept["accuracy"], *kept.get("moments", ()), *today()], key=lambda row: row["n"]):
            key = f"{row['n']:,} x {row['d']:,}", row["form"]
            rows.setdefault(key, []).append(f"{statistics.mean(row['excess']):.4f}")
        head = "people x columns", "noise", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)
        made["accuracy"] = head, [(*key, *cells) for key, cells in rows.items()]
    return made


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--party"]:
        party(sys.argv[2:])
        return
    parser = make_parser(__doc__, docs=True)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--seeds", type=int, default=3)
    given: argparse.Namespace = parser.parse_args()
    kept = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() and not given.quick else {}
    for part in [] if given.docs else given.only.split(","):
        simulated = {"accuracy": accuracy, "moments": moments}.get(part)
        kept[part] = simulated(given.seeds, given.quick) if simulated else costs(part, given.quick)
        if not given.quick:
            FIGURES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    made = tables(kept)
    for name, (head, rows) in made.items():
        show(name, head, rows)
    if given.docs:
        write_tables(PAGE, made)


if __name__ == "__main__":
    main()
