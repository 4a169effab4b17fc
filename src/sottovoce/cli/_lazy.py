"""Commands that are imported when they are invoked or listed, as others cost time; their help goes by topic."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import typer
import typer.core
import typer.main

from sottovoce._lazy import without_collector
from sottovoce.exceptions import SottovoceError

_PLACES = {"Arguments": 0, "Privacy": 1, "Model": 2, "Data": 3, "Output": 5, "Options": 6}  # of headings in a help


class LazyGroup(typer.core.TyperGroup):
    """A group of commands that are named by their places; one is imported when it is invoked."""

    places: ClassVar[Mapping[str, str]] = {}
    """Where each command is: MODULE, in which a function or a `typer.Typer` has the command's name, or MODULE:NAME."""
    _is_listed = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.places)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([
                (name, " ".join(_text(name, place).partition("\n\n")[0].split())) for name, place in self.places.items()
            ])  # fmt: skip

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        self._is_listed = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._is_listed = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or what lists it and is suggested in place of an unknown name: its name and its text."""
        if cmd_name in self.places and not self._is_listed:
            return _loaded(cmd_name, self.places[cmd_name])
        self.commands = {
            name: typer.core.TyperCommand(name, help=_text(name, place)) for name, place in self.places.items()
        }
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
    return typer.Typer(cls=kind, help=text, no_args_is_help=True, rich_markup_mode=None)


@cache
def _text(name: str, place: str) -> str:
    """Return what the source of a command says of it: the docstring of its function, or the text of its `group`."""
    module, _, attribute = place.partition(":")
    found = find_spec(module)
    source = getattr(found and found.loader, "get_source", lambda name: None)(module) or ""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == (attribute or name):
            return ast.get_docstring(node) or ""
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.targets[0]) == name:
            return str(ast.literal_eval(node.value.args[0]))
    return ""


@cache
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
