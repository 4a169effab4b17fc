"""The collector as a real process over loopback: reports a second, crashes, and strange requests.

    python -m benchmarks.local.collector [--quick] [--only throughput,crashes,fuzz] [--databases sqlite,postgresql]

On SQLite and, where it is installed, on a PostgreSQL server of its own (on a Unix socket, fsync on). The load comes
from this process, over a fixed number of connections; each sends its next request when the last one is answered.
Requests are made before the clock starts, and every acknowledged report is looked up in the database afterwards.
Processor seconds do not count what else the machine does.
"""

import asyncio
import contextlib
import json
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.driver import benchmark
from sottovoce.local.collector.storage import ReportStore
from support.collector import PROTOCOL, entry, new_token, octets, report, running_collector
from support.fuzz import strange_request
from support.postgres import running_server, why_not

LOADS = ((1, 1), (1, 16), (1, 64), (100, 8), (1_000, 4))  # reports a request, connections
ANSWERS = {200, 400, 403, 408, 409, 413, 415, 422, 429, 503}


def request(body: bytes, headers: dict[str, str]) -> bytes:
    lines = ["POST /reports HTTP/1.1", "Host: collector", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def good_request(size: int) -> tuple[bytes, list[bytes]]:
    """Return a request with new reports, and these."""
    tokens = [new_token() for _ in range(size)]
    reports = [report(token) for token in tokens]
    if size == 1:
        return request(reports[0], octets(tokens[0])), reports
    body = json.dumps([entry(token) for token in tokens]).encode()
    return request(body, {"Content-Type": "application/json"}), reports


class Connection:
    """One connection, opened again when it was closed."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._address = host, int(port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, content: bytes) -> tuple[int, bytes]:
        """Send a request and return status and body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address, limit=2**24)
        reader, writer = self._streams
        try:
            writer.write(content)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
        except BaseException:
            self.close()
            raise
        if b"connection: close" in head:
            self.close()
        return int(head.split(b" ")[1]), body

    def close(self) -> None:
        """Close it; the next request opens it again."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


async def send_all(
    url: str,
    requests: list[tuple[bytes, list[bytes]]],
    n_connections: int,
    first: asyncio.Event | None = None,
) -> dict[str, object]:
    """Send good requests; return what was acknowledged and how long each took."""
    waiting = iter(requests)
    acknowledged: set[bytes] = set()
    seconds: list[float] = []
    statuses: Counter[int] = Counter()

    async def one() -> None:
        connection = Connection(url)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            for content, reports in waiting:
                start = time.perf_counter()
                status, body = await connection.send(content)
                seconds.append(time.perf_counter() - start)
                statuses[status] += 1
                if status == 200 and body.count(b"accepted") == len(reports):
                    acknowledged.update(reports)
                    if first is not None:
                        first.set()
        connection.close()

    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(n_connections)))
    return {
        "acknowledged": acknowledged, "latencies": seconds, "statuses": statuses, "seconds": time.perf_counter() - start
    }  # fmt: skip


def stored(database: str) -> set[bytes]:
    with ReportStore(database, PROTOCOL) as store:
        text = b"".join(store.reports())
    return {text[at : at + 22] for at in range(0, len(text), 22)}


def cpu_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def throughput(kind: str, database: str, folder: Path, budget: int) -> list[dict[str, object]]:
    rows = []
    with running_collector(folder, database) as collector:
        for size, n_connections in LOADS:
            n_requests = min(budget, 200 * n_connections) if size == 1 else max(n_connections, 10 * budget // size)
            requests = [good_request(size) for _ in range(n_requests)]
            busy = cpu_seconds(collector.process.pid)
            result = asyncio.run(send_all(collector.url, requests, n_connections))
            busy = cpu_seconds(collector.process.pid) - busy
            sent = {text for _, reports in requests for text in reports}
            assert result["acknowledged"] == sent, result["statuses"]
            rows.append({
                "database": kind, "reports a request": size, "connections": n_connections, "reports": len(sent),
                "seconds": result["seconds"], "reports a second": len(sent) / result["seconds"],
                "processor seconds of the collector": busy,
                "milliseconds, median": 1e3 * float(np.median(result["latencies"])),
                "milliseconds, 99 %": 1e3 * float(np.quantile(result["latencies"], 0.99)),
            })  # fmt: skip
            assert sent <= stored(database)
    return rows


def crashes(kind: str, database: str, folder: Path, n_trials: int) -> dict[str, object]:
    """Kill the collector under load at a random time, again and again; then look for every acknowledged report."""
    rng = random.Random(1)
    acknowledged: set[bytes] = set()
    sent: set[bytes] = set()
    lost = unexpected = 0
    for _ in range(n_trials):
        requests = [good_request(1 if rng.random() < 0.8 else 20) for _ in range(6_000)]
        with running_collector(folder, database) as collector:

            async def load(url: str = collector.url, process=collector.process, requests=requests) -> set[bytes]:
                first = asyncio.Event()
                task = asyncio.create_task(send_all(url, requests, 16, first))
                await asyncio.wait_for(first.wait(), 60)
                await asyncio.sleep(rng.uniform(0.0, 1.5))
                process.kill()
                return (await task)["acknowledged"]

            acknowledged |= asyncio.run(load())
            collector.kill()
        sent |= {text for _, reports in requests for text in reports}
        kept = stored(database)
        lost += len(acknowledged - kept)
        unexpected += len(kept - sent)
    return {
        "database": kind, "trials": n_trials, "acknowledged": len(acknowledged), "lost": lost,
        "stored, acknowledged or not": len(kept), "never sent": unexpected,
    }  # fmt: skip


def fuzz(kind: str, database: str, folder: Path, n_requests: int) -> dict[str, object]:
    rng = random.Random(2)
    statuses: Counter[int] = Counter()
    closed = 0

    async def one(url: str, count: int) -> None:
        nonlocal closed
        connection = Connection(url)
        for _ in range(count):
            body, headers = strange_request(rng)
            try:
                status, _ = await connection.send(request(body, headers))
                statuses[status] += 1
            except (ConnectionError, asyncio.IncompleteReadError):
                closed += 1
        connection.close()

    async def main(url: str) -> None:
        await asyncio.gather(*(one(url, n_requests // 16) for _ in range(16)))

    start = time.perf_counter()
    with running_collector(folder, database) as collector:
        asyncio.run(main(collector.url))
        code = collector.stop()
        log = collector.log.read_text()
    assert set(statuses) <= ANSWERS, statuses
    return {
        "database": kind, "requests": sum(statuses.values()) + closed, "answers": dict(sorted(statuses.items())),
        "closed without an answer": closed, "seconds": time.perf_counter() - start, "exit code": code,
        "lines in the log": len(log.splitlines()),
    }  # fmt: skip


@benchmark(only="throughput,crashes,fuzz", databases="sqlite,postgresql")
def main(run) -> None:
    parts = run.only.split(",")
    with contextlib.ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = None
        if why_not() is None:
            server = stack.enter_context(running_server())
        else:
            print(f"SQLite only: {why_not()}")

        def places(part: str):
            folder = base / part
            if "sqlite" in run.databases:
                (folder / "sqlite").mkdir(parents=True)
                yield "SQLite", f"sqlite:///{folder / 'sqlite' / 'reports.db'}", folder / "sqlite"
            if server is not None and "postgresql" in run.databases:
                (folder / "postgresql").mkdir(parents=True)
                yield "PostgreSQL", server.make_database(part), folder / "postgresql"

        if "throughput" in parts:
            rows = [row for place in places("throughput") for row in throughput(*place, 500 if run.quick else 5_000)]
            columns = (
                "database", "reports a request", "connections", "reports", "reports a second",
                "processor seconds of the collector", "milliseconds, median", "milliseconds, 99 %",
            )  # fmt: skip
            run.table("throughput over loopback", columns, [
                tuple(f"{row[name]:,.1f}" if isinstance(row[name], float) else row[name] for name in columns)
                for row in rows
            ])  # fmt: skip
        for part, tried, size in (
            ("crashes", crashes, 2 if run.quick else 20), ("fuzz", fuzz, 2_000 if run.quick else 100_000)
        ):  # fmt: skip
            if part in parts:
                found = [tried(*place, size) for place in places(part)]
                run.table(part, tuple(found[0]), [tuple(map(str, one.values())) for one in found])
