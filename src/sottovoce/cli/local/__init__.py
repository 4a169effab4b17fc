"""``sottovoce local``: one locally private report from each device."""

from __future__ import annotations

import typer

from sottovoce.cli.local.collect import collect
from sottovoce.cli.local.tokens import tokens

__all__ = ["local"]

local = typer.Typer(no_args_is_help=True)


@local.callback()
def _group() -> None:
    """One locally private report from each device."""


local.command()(tokens)
local.command()(collect)
