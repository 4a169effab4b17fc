"""Commands whose modules are imported when they are invoked, or listed: the others cost no time at the start."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
import typer.core
import typer.main

__all__ = ["LazyGroup"]


class LazyGroup(typer.core.TyperGroup):
    """A group of commands that are named by their places."""

    places: ClassVar[Mapping[str, str]] = {}
    """Where each command is: the module in which something has the command's name, a function or a `typer.Typer`."""
    _names_only = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.places)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        self._names_only = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._names_only = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, imported now if it was not before; an unknown name imports all, to suggest a known one."""
        if self._names_only and cmd_name in self.places:
            return typer.core.TyperCommand(cmd_name)
        for name in [cmd_name] if cmd_name in self.places else self.places:
            if name not in self.commands:
                self.commands[name] = _loaded(name, self.places[name])
        return super().get_command(ctx, cmd_name)


def _loaded(name: str, module: str) -> Any:
    found = getattr(import_module(module), name)
    if isinstance(found, typer.Typer):
        command: Any = typer.main.get_group(found)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        command = typer.main.get_command(alone)
    command.name = name
    return command
