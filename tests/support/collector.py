"""A collector in a process of its own, and reports for it."""

import base64
import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sottovoce.local import Protocol
from sottovoce.local.wire import pack, seed_of
from support.schemas import schema_text

SCHEMA = schema_text("ill", age=(20, 80), work=["desk", "field"], ill=["no", "yes"])
PROTOCOL = Protocol(epsilon=2.0, n_features=4)
START_SECONDS = 60


def new_token() -> str:
    return secrets.token_urlsafe(16)


def report(token: str, index: int = 7, protocol: Protocol = PROTOCOL) -> bytes:
    """What a device with this token may send; a real one draws the index."""
    return pack(protocol, seed_of(protocol.id, token.encode()), index)


def entry(token: str, index: int = 7) -> dict[str, str]:
    return {"token": token, "report": base64.b64encode(report(token, index)).decode()}


def octets(token: str) -> dict[str, str]:
    return {"Content-Type": "application/octet-stream", "Sottovoce-Token": token}


@dataclass
class Collector:
    """A running process."""

    url: str
    process: subprocess.Popen[str]
    log: Path

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.wait(30)


@contextlib.contextmanager
def running_collector(folder: Path, database: str, *options: str, protocol: Protocol = PROTOCOL) -> Iterator[Collector]:
    """Start ``sottovoce local collect`` on a free port and wait until it listens."""
    path, log = folder / "protocol.json", folder / "collector.log"
    path.write_text(protocol.to_json())
    command = [sys.executable, "-m", "sottovoce", "local", "collect", str(path), "--port", "0", *options]
    with log.open("a") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "SOTTOVOCE_DATABASE": database},
        )
    try:
        yield Collector(_address(process, log), process, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)
        process.stdout.close()


def _address(process: subprocess.Popen[str], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if selector.select(timeout=1.0):
                line = process.stdout.readline()
                if line.startswith("listening on "):
                    return line.split()[-1]
                assert line, f"the collector did not start:\n{log.read_text()}"
    raise AssertionError(f"the collector did not start:\n{log.read_text()}")


def write_people(folder: Path, n: int) -> None:
    """Write a table of people, of whom the older and those in the field are ill, and its schema."""
    rng = np.random.default_rng(0)
    age, work = rng.integers(20, 81, n), rng.choice(["desk", "field"], n)
    ill = np.where(age + 20 * (work == "field") > 60, "yes", "no")
    lines = [f"{a},{w},{i}" for a, w, i in zip(age, work, ill, strict=True)]
    (folder / "people.csv").write_text("age, work, ill\n" + "\n".join(lines) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
