"""``sottovoce local tokens``: issue device tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sottovoce._files import check_writable, write_whole
from sottovoce.cli._echo import echo
from sottovoce.cli._options import ForceOption
from sottovoce.cli.local._options import ProtocolArgument, read_protocol

__all__ = ["tokens"]


def tokens(
    protocol: ProtocolArgument,
    key: Annotated[
        Path, typer.Option("--key", help="File with the secret key of the tokens; made if it does not exist.")
    ],
    count: Annotated[int, typer.Option("--count", min=1, help="How many.")],
    out: Annotated[Path | None, typer.Option("--out", help="Where to write them, one a line. Default: stdout.")] = None,
    force: ForceOption = False,
) -> None:
    """Issue device tokens: each entitles to one report. Give each person one, by a way that reaches only them."""
    from sottovoce.local.collector.tokens import TokenKey

    described = read_protocol(protocol)
    if out is not None:
        check_writable("--out", out, overwrite=force)
    if not key.exists():
        TokenKey.make_file(key)
        echo(f"note: a new key in {key}. Keep it secret: whoever has it can send reports without end.", err=True)
    issuer = TokenKey.from_file(key, described.id)
    text = "".join(f"{issuer.issue()}\n" for _ in range(count))
    if out is None:
        echo(text, nl=False)
    else:
        write_whole(out, text)
