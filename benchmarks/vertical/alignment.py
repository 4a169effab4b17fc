"""Alignment of the rows of several organisations: seconds and bytes of both methods, and of the messages between sites.

    python -m benchmarks.vertical.alignment [--quick]

Each party holds n identifiers of 12 characters, in random order; half of each party's are held by all parties, the rest
by nobody else. All parties run in this process, one after the other; "messages" is private set intersection as parties
in different places have it, through `Party.handle`, with the answer of each request and its frame. Its steps are also
timed one by one. Wall seconds count what else the machine does, processor seconds do not.
"""

import importlib.util
import time
from typing import Any

import numpy as np

from benchmarks.driver import benchmark
from sottovoce.vertical import InProcessParties, Party
from sottovoce.vertical.alignment import align_over, common_rows
from sottovoce.vertical.requests.alignment import PsiClient, PsiServer, announce, read_announcement

MESSAGE_SIZES = ((2, 10_000), (3, 10_000), (2, 20_000), (3, 20_000))
EXACT_SIZES = ((2, 20_000), (3, 20_000), (2, 1_000_000))


def identifiers(n_parties: int, n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    half = n // 2
    common = np.arange(half)
    return {
        f"party {k + 1}": np.char.mod("ID%010d", rng.permutation(np.append(common, half * (k + 1) + common)))
        for k in range(n_parties)
    }


def row(method: str, n_parties: int, n: int) -> dict[str, object]:
    parties = identifiers(n_parties, n)
    sites = [Party(np.zeros((n, 1)), ids, name=name) for name, ids in parties.items()] if method == "messages" else []
    start, busy = time.perf_counter(), time.process_time()
    if sites:
        report = align_over(InProcessParties(sites))
    else:
        common, report = common_rows(parties)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    aligned = [site.ids for site in sites] or [parties[name][rows] for name, rows in common.items()]
    assert report.n_common == n // 2
    assert all((ids == aligned[0]).all() for ids in aligned)
    return {
        "method": method, "parties": n_parties, "identifiers": n, "common": report.n_common,
        "seconds": seconds, "processor seconds": busy, "bytes": report.bytes_sent,
    }  # fmt: skip


def steps(n: int) -> dict[str, dict[str, float]]:
    mine, theirs = (ids.tolist() for ids in identifiers(2, n).values())
    client, server = PsiClient(mine), PsiServer(theirs)
    out = {}

    def timed(step, call, *args):
        busy = time.process_time()
        result = call(*args)
        busy = time.process_time() - busy
        out[step] = {"processor seconds": busy, "bytes": len(result) if isinstance(result, bytes) else 0}
        return result

    setup = timed("setup, server", server.setup)
    request = timed("request, client", client.request)
    response = timed("response, server", server.respond, request)
    common = timed("intersection, client", client.intersect, setup, response)
    announcement = timed("announcement, client", announce, [mine[place] for place in common])
    timed("rows, server", read_announcement, announcement)
    return out


@benchmark()
def main(run) -> None:
    n = 2_000 if run.quick else 20_000
    jobs = [("exact", *size) for size in EXACT_SIZES] + [("messages", *size) for size in MESSAGE_SIZES]
    if run.quick:
        jobs = [("exact", 2, n), ("messages", 2, n), ("messages", 3, n)]
    parts: dict[str, Any] = {}
    if importlib.util.find_spec("private_set_intersection") is None:
        print("openmined-psi is not installed (extra [vertical]): the exact method only")
        jobs = [job for job in jobs if job[0] == "exact"]
    else:
        parts = steps(n)
    head = ("method", "parties", "identifiers each|,", "in common|,", "seconds|.2f", "processor, s|.2f",
            "bytes, all messages|,")  # fmt: skip
    names = ("method", "parties", "identifiers", "common", "seconds", "processor seconds", "bytes")
    rows = ([found[name] for name in names] for found in (row(*job) for job in jobs))
    run.table("alignment, half of the identifiers in common", head, rows)
    rows = [(step, part["processor seconds"], part["bytes"]) for step, part in parts.items()]
    title = f"steps of private set intersection, {n:,} x {n:,}"
    run.table(title, ("step", "processor, s|.3f", "bytes|,"), rows)
