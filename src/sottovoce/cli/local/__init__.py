"""``sottovoce local``: one locally private report from each device."""

from __future__ import annotations

from typing import ClassVar

import typer

from sottovoce.cli._lazy import LazyGroup

__all__ = ["local"]


class _Commands(LazyGroup):
    places: ClassVar = {
        name: f"sottovoce.cli.local.{name}"
        for name in ("plan", "protocol", "tokens", "survey", "randomize", "collect", "export", "fit", "predict")
    }


local = typer.Typer(cls=_Commands, no_args_is_help=True)


@local.callback()
def _group() -> None:
    """One locally private report from each device."""
