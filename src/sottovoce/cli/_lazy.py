"""Commands that are imported when they are invoked or listed, as others cost time; their help goes by topic."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
import typer.core
import typer.main

from sottovoce._lazy import without_collector
from sottovoce.exceptions import SottovoceError

_PLACES = {"Arguments": 0, "Privacy": 1, "Model": 2, "Data": 3, "Output": 5, "Options": 6}  # of headings in a help


class LazyGroup(typer.core.TyperGroup):
    """A group of commands that are named by their places."""

    places: ClassVar[Mapping[str, str]] = {}
    """Where each command is: MODULE, in which a function or a `typer.Typer` has the command's name, or MODULE:NAME."""
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


class Command(typer.core.TyperCommand):
    """A command whose help lists arguments, then options by what they are about."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SottovoceError as error:
            vars(error)["options"] = [name for one in self.params for name in one.opts]  # which a message may name
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        by_panel: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is not None:
                kind = "Arguments" if one.param_type_name == "argument" else "Options"
                by_panel.setdefault(getattr(one, "rich_help_panel", None) or kind, []).append(record)
        for heading in sorted(by_panel, key=lambda heading: _PLACES.get(heading, 4)):
            with formatter.section(heading):
                formatter.write_dl(by_panel[heading])


def group(text: str, **commands: str) -> typer.Typer:
    """Return a group of commands, of which each is at a place as in `LazyGroup.places`."""
    kind = type("Commands", (LazyGroup,), {"places": {name.rstrip("_"): place for name, place in commands.items()}})
    return typer.Typer(cls=kind, help=text, no_args_is_help=True)


def _loaded(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    with without_collector():
        found = getattr(import_module(module), attribute or name)
    if isinstance(found, typer.Typer):
        command: Any = typer.main.get_group(found)
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name, cls=Command)(found)
        command = typer.main.get_command(alone)
    command.name = name
    return command
