"""``sottovoce local tokens``: issue device tokens."""

from __future__ import annotations

from pathlib import Path

from sottovoce._files import check_writable, write_whole
from sottovoce.cli._echo import echo
from sottovoce.cli._options import REQUIRED, ForceOption, option
from sottovoce.cli.local._options import PROTOCOL, read_protocol

__all__ = ["tokens"]


def tokens(
    *,
    protocol: Path = PROTOCOL,
    key: Path = option("--key", "File with the secret key of the tokens; made if it does not exist.", default=REQUIRED),
    count: int = option("--count", "How many.", default=REQUIRED, min=1),
    out: Path | None = option("--out", "Where to write them, one a line. Default: stdout."),
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
