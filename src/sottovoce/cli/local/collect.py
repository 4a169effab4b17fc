"""``sottovoce local collect``: the service that takes the reports."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli.local._options import DatabaseOption, ProtocolArgument, read_protocol

__all__ = ["collect"]

_limit = partial(typer.Option, rich_help_panel="Limits")


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
) -> None:
    """Take reports for PROTOCOL over HTTP and keep them in a database, until interrupted.

    A report is acknowledged when it is on the disk. No address, no time and no token is stored or logged.
    """
    from sottovoce.local.collector.limits import Limits
    from sottovoce.local.collector.server import bind, serve
    from sottovoce.local.collector.service import make_app
    from sottovoce.local.collector.storage import ReportStore
    from sottovoce.local.collector.tokens import TokenKey

    described = read_protocol(protocol)
    limits = Limits(max_rate=max_rate, max_connections=max_connections, max_batch=max_batch, read_seconds=read_seconds)
    key = None if token_key is None else TokenKey.from_file(token_key, described.id)
    if key is None:
        typer.echo(
            "note: any token is accepted, so one person can send as many reports as they like, and a few such persons "
            "ruin the model. For a real collection issue tokens and give --token-key.",
            err=True,
        )
    with closing(bind(host, port)) as listener, ReportStore(database, described, create=True) as store:
        app = make_app(described, store, token_key=key, limits=limits, allow_origins=allow_origin or (), static=static)
        serve(app, listener, limits, on_start=lambda address: typer.echo(f"listening on {address}"))
    typer.echo("stopped; all that was acknowledged is stored")
