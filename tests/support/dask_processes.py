"""A scheduler and workers of Dask's as processes of their own, as people start them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def tls_environment(folder: Path) -> dict[str, str]:
    """Return the settings of Dask's for an identity that `support.authority` made, for all three roles."""
    name = "DASK_DISTRIBUTED__COMM"
    roles = ("SCHEDULER", "WORKER", "CLIENT")
    return {
        f"{name}__REQUIRE_ENCRYPTION": "true",
        f"{name}__DEFAULT_SCHEME": "tls",
        f"{name}__TLS__CA_FILE": str(folder / "authority.pem"),
        **{f"{name}__TLS__{role}__CERT": str(folder / "certificate.pem") for role in roles},
        **{f"{name}__TLS__{role}__KEY": str(folder / "key.pem") for role in roles},
    }


@contextmanager
def dask_processes(
    folder: Path, n_workers: int = 2, *, protocol: str = "tcp", environment: dict[str, str] | None = None
) -> Iterator[str]:
    """Yield the address of a scheduler that has its workers; all processes end with the block.

    Parameters
    ----------
    folder : Path
        For the scheduler's file, what processes say, and the workers' own files.
    n_workers : int, default=2
    protocol : {"tcp", "tls"}, default="tcp"
    environment : dict or None, default=None
        Settings for all processes, beside those of this one.
    """
    settings = {**os.environ, **(environment or {})}
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: object) -> None:
        with (folder / f"{name}.txt").open("wb") as said:
            command = [sys.executable, "-m", "dask", *map(str, words)]
            started.append(subprocess.Popen(command, cwd=folder, env=settings, stdout=said, stderr=said))

    file = folder / "scheduler.json"
    try:
        start(
            "scheduler", "scheduler", "--host", f"{protocol}://127.0.0.1", "--port", 0, "--no-dashboard",
            "--scheduler-file", file,
        )  # fmt: skip
        _wait(lambda: file.exists() and file.read_bytes().endswith(b"}"), folder)
        address: str = json.loads(file.read_text(encoding="utf-8"))["address"]
        for number in range(n_workers):
            start(
                f"worker{number}", "worker", address, "--nthreads", 1, "--no-dashboard", "--name", number,
                "--local-directory", folder / f"local{number}", "--host", "127.0.0.1",
            )  # fmt: skip
        said = [folder / f"worker{number}.txt" for number in range(n_workers)]
        _wait(lambda: all(b"Registered to:" in path.read_bytes() for path in said), folder)
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(done, folder: Path, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            texts = {path.name: path.read_text(encoding="utf-8")[-2000:] for path in folder.glob("*.txt")}
            raise AssertionError(f"not started within {seconds:g} s: {texts}")
        time.sleep(0.05)
