"""``sottovoce vertical``: columns of the same people at several organisations."""

from __future__ import annotations

from typing import ClassVar

import typer

from sottovoce.cli._lazy import LazyGroup

__all__ = ["vertical"]


class _Commands(LazyGroup):
    places: ClassVar = {
        name: f"sottovoce.cli.vertical.{name}"
        for name in ("simulate", "provision", "coordinator", "party", "train", "status", "predict")
    }


vertical = typer.Typer(cls=_Commands, no_args_is_help=True)


@vertical.callback()
def _group() -> None:
    """Columns of the same people at several organisations."""
