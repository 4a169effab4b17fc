"""Reports a second of the device in JavaScript, in node and in a headless Chromium, beside Python's on one thread.

    python -m benchmarks.local.javascript [--quick]

One person's record is reported again and again, in turns: Python, node, Chromium, three times; the best turn of each
counts. All three make the same candidates; the last column is Chromium's rate over Python's.
"""

import http.server
import json
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import sottovoce.local
from benchmarks.driver import benchmark
from sottovoce.local import Protocol, Randomizer

WEB = Path(sottovoce.local.__file__).parent / "web"
FLAGS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--no-sandbox"]
SIZES = ((4, 256, 34, 1.0), (30, 256, 34, 1.0), (123, 256, 34, 1.0), (123, 128, 5, 0.0))
TURNS = 3
RATE = """
  const protocol = await Protocol.fromText(text);
  const randomizer = new Randomizer(protocol);
  await randomizer.report(record, 1);
  const start = performance.now();
  let made = 0;
  while (performance.now() - start < 1000 * seconds) {
    await randomizer.report(record, 1);
    made += 1;
  }
  return (1000 * made) / (performance.now() - start);
"""
SCRIPT = f"""
import {{ createInterface }} from "node:readline";
import {{ Protocol, Randomizer }} from {json.dumps(WEB.joinpath("sottovoce-local.js").as_uri())};
async function rate({{ text, record, seconds }}) {{{RATE}}}
for await (const line of createInterface({{ input: process.stdin }})) console.log(await rate(JSON.parse(line)));
"""


def python_rate(task: dict[str, Any]) -> float:
    randomizer = Randomizer(Protocol.from_json(task["text"]))
    randomizer.report(task["record"], 1)
    start, made = time.perf_counter(), 0
    while time.perf_counter() - start < task["seconds"]:
        randomizer.report(task["record"], 1)
        made += 1
    return made / (time.perf_counter() - start)


@contextmanager
def node() -> Iterator[Any]:
    """Yield a function that measures in node, or None where there is none."""
    program = shutil.which("node")
    if program is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "rate.mjs"
        script.write_text(SCRIPT)
        command = [program, str(script)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

            def rate(task: dict[str, Any]) -> float:
                process.stdin.write(json.dumps(task) + "\n")
                process.stdin.flush()
                return float(process.stdout.readline())

            yield rate


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a function that measures in a browser, or None where playwright or Chromium is missing."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        yield None
        return
    handler = partial(Quiet, directory=str(WEB))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/sottovoce-local.js")
        load = 'const { Protocol, Randomizer } = await import("/sottovoce-local.js");'
        yield partial(page.evaluate, f"async ({{ text, record, seconds }}) => {{ {load} {RATE} }}")
        browser.close()
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def rows(seconds: float, measures: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each size: the best of some turns."""
    for n, K, m, b in SIZES:
        protocol = Protocol(n_features=n, epsilon=2.0, K=K, m=m, b=b)
        record = (0.5 * np.random.default_rng(0).standard_normal(n)).tolist()
        task = {"text": protocol.to_json(), "record": record, "seconds": seconds}
        best = dict.fromkeys(measures, 0.0)
        for _ in range(TURNS):
            for name, measure in measures.items():
                if measure is not None:
                    best[name] = max(best[name], measure(task))
        yield protocol.d, K, *(rate or "-" for rate in best.values()), best["Chromium"] / best["Python"]


@benchmark(seconds=(1.5, 0.2))
def main(run) -> None:
    with node() as in_node, chromium() as in_chromium:
        measures = {"Python": python_rate, "node": in_node, "Chromium": in_chromium}
        head = ("d", "K", *(f"{name}|.0f" for name in measures), "Chromium / Python|.2f")
        run.table("Reports a second", head, rows(run.seconds, measures))
