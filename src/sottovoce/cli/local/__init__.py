"""``sottovoce local``: one locally private report from each device."""

from __future__ import annotations

import typer

from sottovoce.cli.local.collect import collect
from sottovoce.cli.local.export import export
from sottovoce.cli.local.fit import fit
from sottovoce.cli.local.plan import plan
from sottovoce.cli.local.predict import predict
from sottovoce.cli.local.protocol import protocol
from sottovoce.cli.local.randomize import randomize
from sottovoce.cli.local.survey import survey
from sottovoce.cli.local.tokens import tokens

__all__ = ["local"]

local = typer.Typer(no_args_is_help=True)


@local.callback()
def _group() -> None:
    """One locally private report from each device."""


for _command in (plan, protocol, tokens, survey, randomize, collect, export, fit, predict):
    local.command()(_command)
