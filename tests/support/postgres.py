"""A real PostgreSQL server for tests: made from nothing in a temporary folder, on a Unix socket, stopped at the end.

Nothing of it is shared with a server that may run on the machine. As root the server runs as another user, because
PostgreSQL refuses to run as root.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ACCOUNTS = ("postgres", "nobody")


def find_programs() -> Path | None:
    """Return the folder that holds initdb and postgres, or None."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


def _version(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0


def why_not() -> str | None:
    """Return why no server can be started here, or None."""
    if find_programs() is None:
        return "no PostgreSQL server is installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and _account() is None:
        return f"PostgreSQL does not run as root, and there is none of the users {', '.join(ACCOUNTS)}"
    return None


def _account() -> pwd.struct_passwd | None:
    for name in ACCOUNTS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    return None


class PostgresServer:
    """One server: start it, kill it, start it again."""

    def __init__(self, folder: Path) -> None:
        programs = find_programs()
        assert programs is not None
        self.folder = folder
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, object] = {}
        if os.geteuid() == 0:
            account = _account()
            assert account is not None
            os.chown(folder, account.pw_uid, account.pw_gid)
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        subprocess.run(
            [programs / "initdb", "-D", folder / "data", "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C"],
            check=True, stdout=subprocess.DEVNULL, cwd="/", **self._as,
        )  # fmt: skip

    def start(self, fsync: str = "on") -> None:
        """Start it and wait until it answers."""
        settings = {
            "listen_addresses": "", "unix_socket_directories": self.folder, "fsync": fsync, "max_connections": "120",
        }  # fmt: skip
        options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
        deadline = time.monotonic() + 60
        self._process = None
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:  # children of a killed one are still there
                with (self.folder / "log").open("ab") as log:
                    self._process = subprocess.Popen(
                        [self._programs / "postgres", "-D", self.folder / "data", *options],
                        stdout=log, stderr=log, cwd="/", **self._as,
                    )  # fmt: skip
            ready = subprocess.run(
                [self._programs / "pg_isready", "-h", self.folder, "-q"], check=False, cwd="/"
            ).returncode
            if ready == 0:
                return
            time.sleep(0.05)
        raise AssertionError(f"PostgreSQL did not start:\n{self.log()}")

    def log(self) -> str:
        """Return what the server has written to its log."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """Kill the server as a crash would: the children notice and leave by themselves."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop it at once, without tidying up: the folder goes next."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)

    def make_database(self, name: str) -> str:
        """Make an empty database and return its address."""
        subprocess.run([self._programs / "createdb", "-h", self.folder, "-U", "tester", name], check=True, cwd="/")
        return f"postgresql://tester@/{name}?host={self.folder}"


@contextlib.contextmanager
def running_server(fsync: str = "on") -> Iterator[PostgresServer]:
    """Make and start a server; it is stopped and its folder removed at the end."""
    # a short path: that of a Unix socket has 107 characters at most
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        server = PostgresServer(folder)
        try:
            server.start(fsync)
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
