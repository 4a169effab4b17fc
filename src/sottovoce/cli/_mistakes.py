"""What a command line that cannot be read is answered: one line that says what to type."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

import typer

from sottovoce._validation import nearest

WrongUse: Any = typer.BadParameter.__mro__[1]  # of all wrong use; Typer has no name of its own for it
_VALUES: Final = {
    "receipt key --out": "key.pem", "local protocol --out": "protocol.json", "local randomize --out": "people.reports",
    "local export --out": "all.reports", "local survey --out": "survey", "--key": "key.pem",
    "--epsilon": "1", "--delta": "1e-6", "--model": "logistic", "--out": "model.json", "--n-samples": "10000",
    "--n-expected": "10000", "--dataset": "people", "--schema": "schema.toml",
    "--ledger": "sqlite:///budget.db", "--database": "sqlite:///reports.db", "--label": "COLUMN",
}  # fmt: skip
# what a line needs beside what its command asks for: unless the option is given, or the one after the bar
_ALSO: Final = {
    "fit": {"--delta": "1e-6", "--schema": "schema.toml"},
    "plan": {"--delta": "1e-6", "--schema|--n-features": "schema.toml"},
}  # fmt: skip
# what others call things, and what to type here
_ELSEWHERE: Final = {
    "c": "--alpha A: alpha is 1 / (C n), n the number of rows",
    "lambda": "--alpha A",
    "l2": "--alpha A",
    "penalty": "--model: ridge, logistic and svm have an L2 penalty, lasso and sparse-logistic an l1 ball (--radius)",
    "l1-ratio": "--model: ridge, logistic and svm have an L2 penalty, lasso and sparse-logistic an l1 ball (--radius)",
    "l1": "--radius R with --model lasso or sparse-logistic",
    "eps": "--epsilon E",
    "seed": "--random-state N",
    "label": "--target COLUMN",
    "y": "--target COLUMN",
    **dict.fromkeys(("sep", "separator", "delim"), "--delimiter ';', or another character"),
    "groups": "--unit COLUMN --max-rows-per-unit K",
    "norm": "--data-norm NUMBER",
    "clip": "--data-norm NUMBER",
    "output": "--out FILE",
    "o": "--out FILE",
}


def what_to_type(error: Any) -> str:
    """Return one line: what is wrong with the command line, and what to type instead."""
    command = getattr(error.ctx, "command", None)
    known = {} if command is None else {name: one for one in command.params for name in one.opts}
    name = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and name is not None:
        remedy = _ELSEWHERE.get(name.lstrip("-").lower().replace("_", "-"), "")
        near = sorted(getattr(error, "possibilities", None) or ())
        if remedy and remedy.split()[0].rstrip(":") in known:
            return f"there is no option {name}. Type {remedy}."
        if near:
            return f"there is no option {name}. Did you mean {' or '.join(near)}?"
        return f"there is no option {name}. {error.ctx.command_path} --help lists those there are."
    if type(error).__name__ == "MissingParameter" and getattr(error, "param", None) is not None:
        text = " ".join((error.param.help or "").split()).split(". ")[0].rstrip(".")
        return f"{_called(error.param)} is missing ({text}). Type: {_shortest(error.ctx)}"
    found = getattr(error.__cause__, "errors", None)  # of pydantic, in Typer's later versions
    if found is not None and getattr(error, "param", None) is not None:
        return _refused(_called(error.param), **found()[0])
    said = " ".join(error.format_message().split())
    said = re.sub(r"\AInvalid value for '([^']+)': must be", r"\1 must be", said)
    said = re.sub(r"\AGot unexpected extra argument\S* \((.*)\)", r"'\1' follows no option that takes it.", said)
    if said.startswith(("No such command", "'")) and "Did you mean" not in said:
        said += f" {error.ctx.command_path} --help lists those there are."
    return said


def _refused(name: str, msg: str, input: object, ctx: Any = None, **_: object) -> str:  # noqa: A002
    what = str((ctx or {}).get("error") or msg.partition(",")[0].replace("Input should be", "must be"))
    if what.startswith("must be"):
        return f"{name} {what}; got {input!r}."
    near = nearest(str(input), re.findall(r"'([^']+)'", what)[1:])
    return f"{name}: {what.rstrip('.')}.{near}"


def _called(param: Any) -> str:
    return str(param.opts[0] if param.param_type_name == "option" else param.metavar or param.name)


def _retyped(given: Any) -> list[str]:
    """Return values as a shell takes them, without the passwords in addresses."""
    values = given if isinstance(given, list | tuple) else [given]
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    return [shlex.quote(re.sub(r"(://[^:@/]*):.*@", r"\1@", text)) for text in texts]


def _shortest(ctx: Any) -> str:
    """Return the shortest line that the command takes, with what was given already."""
    words, command = [ctx.command_path], ctx.command_path.partition(" ")[2]
    for param in sorted(ctx.command.params, key=lambda one: one.param_type_name):
        name, given = param.opts[0], ctx.params.get(param.name)
        typed = getattr(ctx.get_parameter_source(param.name), "name", "") == "COMMANDLINE" and given not in (None, ())
        if param.param_type_name == "argument" and (param.required or typed):
            words += _retyped(given) if typed else [_called(param)]
        elif typed and isinstance(given, bool):
            words.append(name if given else param.secondary_opts[0])
        elif typed:
            words += [word for value in _retyped(given) for word in (name, value)]
        elif param.required:
            words += [name, _VALUES.get(f"{command} {name}") or _VALUES.get(name, name.strip("-").upper())]
    for names, example in _ALSO.get(command, {}).items():
        if not {*names.split("|")} & {*words}:
            words += [names.partition("|")[0], example]
    return " ".join(words)
