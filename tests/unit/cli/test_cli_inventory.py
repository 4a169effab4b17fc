"""Every option of every command is written down: a script that works today works tomorrow."""

import inspect
import re
from itertools import product
from pathlib import Path

import pytest

from support.commands import commands, fails

WRITTEN = Path(__file__).with_name("options.txt")
OUTPUTS = ("--out", "--page", "--receipt", "--report", "--holdout-out", "--html", "--picture")  # files


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


def overwriting():
    """Yield lines of every command that may replace files, with one name for what is read and what is written."""
    for words, command in commands():
        kinds = inspect.signature(command.callback, eval_str=True).parameters
        if words == ("local", "survey") or not any(one.opts == ["--force"] for one in command.params):
            continue  # a folder is written there
        out = [one for one in command.params if one.opts[0] in OUTPUTS]
        read = [
            one for one in command.params
            if one not in out and one.name not in ("scratch", "kit")
            and ("Path" in str(kinds[one.name].annotation) or one.name in ("table", "sources"))
        ]  # fmt: skip
        for source, target in product(read, out):
            line = [*words, "--force"]
            for one in command.params:
                needed = "9" if "Path" not in str(kinds[one.name].annotation) else f"other-{one.name}"
                value = "same" if one in (source, target) else needed if one.required else None
                if value is not None:
                    line += [value] if one.param_type_name == "argument" else [one.opts[0], value]
            yield pytest.param(line, target.opts[0], id=f"{' '.join(words)} {source.opts[0]} {target.opts[0]}")


@pytest.mark.parametrize(("line", "option"), [*overwriting()])
def test_no_command_writes_over_what_it_reads(line, option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in {word for word in line if word.startswith("other-")} | {"same"}:
        Path(name).write_text("ab" * 32)  # which is a key, too
    fails(*line, match=rf"^error: {option} same: this is a file to read from\. Choose another path\.$")
    assert Path("same").read_text() == "ab" * 32
