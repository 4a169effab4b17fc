"""``sottovoce local collect``: the service that takes the reports."""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.cli._echo import echo
from sottovoce.cli.local._options import DatabaseOption, ProtocolArgument, read_protocol
from sottovoce.exceptions import ParameterError

__all__ = ["collect"]

_limit = partial(typer.Option, rich_help_panel="Limits")
_operator = partial(typer.Option, rich_help_panel="For whoever runs it")


def collect(
    protocol: ProtocolArgument,
    database: DatabaseOption,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 takes a free one.")] = 8000,
    token_key: Annotated[
        Path | None,
        typer.Option(
            "--token-key", help="Accept only tokens issued with this key (`sottovoce local tokens`). Default: any."
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin", metavar="ORIGIN", help="Pages of this origin may post, such as https://survey.example."
        ),
    ] = None,
    static: Annotated[Path | None, typer.Option("--static", help="Folder with files to serve, such as a form.")] = None,
    max_rate: Annotated[float | None, _limit("--max-rate", help="Reports a second, at most on average.")] = None,
    max_connections: Annotated[int, _limit("--max-connections", min=1, help="Connections at the same time.")] = 512,
    max_batch: Annotated[int, _limit("--max-batch", min=1, max=1_000, help="Reports in one request.")] = 1_000,
    read_seconds: Annotated[float, _limit("--read-seconds", help="Within which a request must have arrived.")] = 10.0,
    operator_key: Annotated[
        Path | None,
        _operator(
            "--operator-key", help="Serve a page and /metrics on a port of their own, behind this key; made if missing."
        ),
    ] = None,
    operator_host: Annotated[str, _operator("--operator-host", help="Address of that port.")] = "127.0.0.1",
    operator_port: Annotated[
        int, _operator("--operator-port", min=0, max=65_535, help="Never the one of devices; 0 takes a free one.")
    ] = 8001,
    expected: Annotated[int | None, _operator("--expected", min=1, help="Reports planned for: shown there.")] = None,
    count_seconds: Annotated[
        float, _operator("--count-seconds", help="Numbers that are told, also by /stats, change as seldom as this.")
    ] = 300.0,
    count_step: Annotated[
        int, _operator("--count-step", min=1, help="They are rounded down to a multiple of this; 1: exact.")
    ] = 10,
) -> None:
    """Take reports for PROTOCOL over HTTP and keep them in a database, until interrupted.

    A report is acknowledged when it is on the disk. No address, no time and no token is stored or logged.
    """
    from sottovoce.local.collector.counts import Pace
    from sottovoce.local.collector.limits import Limits
    from sottovoce.local.collector.secret_file import make_secret_file, read_secret_file
    from sottovoce.local.collector.server import address_of, bind, serve
    from sottovoce.local.collector.service import make_app, make_apps
    from sottovoce.local.collector.storage import ReportStore
    from sottovoce.local.collector.tokens import TokenKey

    described = read_protocol(protocol)
    limits = Limits(max_rate=max_rate, max_connections=max_connections, max_batch=max_batch, read_seconds=read_seconds)
    key = None if token_key is None else TokenKey.from_file(token_key, described.id)
    if key is None:
        echo(
            "note: any token is accepted, so one person can send as many reports as they like, and a few such persons "
            "ruin the model. For a real collection issue tokens and give --token-key.",
            err=True,
        )
    pace = Pace(seconds=count_seconds, step=count_step)
    rest: dict[str, Any] = {
        "token_key": key,
        "limits": limits,
        "allow_origins": allow_origin or (),
        "static": static,
        "pace": pace,
    }
    if operator_key is not None and not operator_key.exists():
        make_secret_file(operator_key, "operator key")
    with ExitStack() as stack:
        listener = stack.enter_context(closing(bind(host, port)))
        store = stack.enter_context(ReportStore(database, described, create=True))
        if operator_key is None:
            app, operator = make_app(described, store, **rest), None
        else:
            if operator_port == port != 0:
                raise ParameterError(f"--operator-port must be another one than --port; got {port} for both.")
            secret = read_secret_file(operator_key, "operator key")
            app, page = make_apps(described, store, operator_key=secret, expected=expected, **rest)
            operator = (page, stack.enter_context(closing(bind(operator_host, operator_port))))

        def tell(address: str) -> None:
            echo(f"listening on {address}")
            if operator is not None:
                echo(f"for the operator: {address_of(operator[1])} (any user name; the password: {operator_key})")

        serve(app, listener, limits, on_start=tell, operator=operator)
    echo("stopped; all that was acknowledged is stored")
