"""Open a database so that what is committed stays committed, and is its owner's: a SQLite file, or PostgreSQL.

Ledger and collector both promise that nothing is lost once it is acknowledged. So both are opened here, by one rule:

* SQLite: a file, made readable for its owner alone; each commit reaches the disk before it returns;
* PostgreSQL: a server that runs with ``fsync = off`` is refused; a commit is acknowledged after it is on the disk.

SQLAlchemy is imported when a database is opened: only the extras that need one bring it.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sottovoce._files import write_new
from sottovoce.exceptions import SottovoceError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import URL

WRITES: Final = "sottovoce_writes"  # execution option of a connection whose transaction will write


def parse_address(address: str, *, name: str, error: type[SottovoceError]) -> URL:
    """Return the address of a database that can be used, with the driver that it will be used by.

    ``address``: ``sqlite:///FILE`` or ``postgresql://USER:PASSWORD@HOST/NAME``.
    ``name``: what the address was given as, for the message.
    ``error``: what to raise if this names no such database.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        url = None
    if url is not None and url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if url is not None and url.drivername in ("sqlite", "sqlite+pysqlite") and not url.query:
        file = url.database or ":memory:"
        if file != ":memory:" and not file.startswith("file:"):
            return url.set(drivername="sqlite", database=str(Path(file).absolute()))  # also after a change of folder
    # the text may hold a password: it is not repeated
    raise error(
        f"{name} must be a SQLite file, given as sqlite:///PATH or postgresql://USER@HOST/DATABASE for a PostgreSQL "
        "database. It must be kept on disk: what is in memory would be lost. (An absolute path has four slashes: "
        "sqlite:////var/lib/FILE.)"
    )


def open_engine(
    url: URL, *, error: type[SottovoceError], extra: str, timeout: float, pragma: str, server: str = "", **options: Any
) -> Engine:
    """Return an engine, every connection of which commits to the disk. Nothing is connected yet.

    A transaction of a connection with the execution option `WRITES` holds SQLite's writer lock from its start.

    ``url``: from `parse_address`.
    ``error``: what to raise, here if the driver is missing, and on connecting to a server that would lose what it
        commits.
    ``extra``: which extra brings the driver.
    ``timeout``: seconds to wait for other writers (SQLite) or for a connection (PostgreSQL).
    ``pragma``: what makes a commit of SQLite reach the disk: it depends on the kind of log that is wanted.
    ``server``: further settings of a connection to PostgreSQL, as on its command line.
    ``options``: for `sqlalchemy.create_engine`.
    """
    from sqlalchemy import create_engine, event

    if url.get_backend_name() == "sqlite":
        arguments: dict[str, Any] = {"timeout": timeout, "check_same_thread": False}
    elif find_spec("psycopg") is None:
        raise error(f'PostgreSQL needs a driver: pip install "sottovoce[{extra}]".')
    else:
        # each statement sees what was there before it, whatever the server's own default is
        own = rf"-c default_transaction_isolation=read\ committed {server}".rstrip()
        arguments = {"connect_timeout": max(2, int(timeout)), "options": own}
    engine = create_engine(url, connect_args=arguments, hide_parameters=True, **options)

    def set_up_sqlite(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver would begin transactions later, and without the writer's lock
        connection.executescript(pragma)

    def begin_sqlite(connection: Connection) -> None:
        # a transaction that first reads and then writes could find the file changed: take the lock at once
        writes = connection.get_execution_options().get(WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    def set_up_postgresql(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW fsync")
            (fsync,) = cursor.fetchone()
            # a server may be set to acknowledge before the disk does; stronger settings are left alone
            cursor.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
        connection.commit()
        if fsync != "on":
            connection.close()
            raise error(
                f"{url.render_as_string(hide_password=True)}: the server runs with fsync = {fsync} and would lose in a "
                "crash what it has acknowledged. Set fsync = on."
            )

    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", set_up_sqlite)
        event.listen(engine, "begin", begin_sqlite)
    else:
        event.listen(engine, "connect", set_up_postgresql)
    return engine


def make_private_file(path: Path) -> None:
    """Make an empty file that only its owner can read, if there is none; SQLite gives its log the same permissions."""
    with suppress(FileExistsError):
        write_new(path)
