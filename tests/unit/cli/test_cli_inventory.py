"""Every option of every command is written down: a script that works today works tomorrow."""

import inspect
import re
from pathlib import Path

from support.commands import commands

WRITTEN = Path(__file__).with_name("options.txt")


def line(words, parameter, hints):
    """Return what a script relies on: names, kind and default, whether it is needed, repeats, and has a variable."""
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    default = "needed" if parameter.required else repr(parameter.default)
    hint = hints[parameter.name]
    hint = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
    kind = re.sub(r"[\w.]+\.|<class '|<enum '|'>", "", str(hint))
    repeats = " repeats" if getattr(parameter, "multiple", False) or parameter.nargs != 1 else ""
    variable = f" {parameter.envvar}" if parameter.envvar else ""
    return f"{' '.join(words)}: {names} {kind} {default}{repeats}{variable}"


def inventory():
    found = []
    for words, command in commands():
        hints = {
            name: one.annotation for name, one in inspect.signature(command.callback, eval_str=True).parameters.items()
        }
        found += [line(words, one, hints) for one in command.params if one.name != "help"]
    return sorted(found)


def test_no_option_is_lost_renamed_or_given_another_kind_or_default():
    assert inventory() == WRITTEN.read_text(encoding="utf-8").splitlines()
