"""What a command line that cannot be read is answered: one line that says what to type."""

from __future__ import annotations

from typing import Any, Final

import typer

WrongUse: Any = typer.BadParameter.__mro__[1]  # of all wrong use; Typer has no name of its own for it
_VALUES: Final = {
    "--epsilon": "1", "--delta": "1e-6", "--model": "logistic", "--out": "model.json", "--n-samples": "10000",
    "--n": "10000", "--n-expected": "10000", "--estimator": "package.module.Class", "--dataset": "people",
    "--ledger": "sqlite:///budget.db", "--database": "sqlite:///reports.db", "--label": "COLUMN",
}  # fmt: skip
_ALSO: Final = {"fit": ("--delta 1e-6", "--schema schema.toml"), "plan": ("--delta 1e-6", "--n-features 10")}
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
    return " ".join(error.format_message().split())


def _called(param: Any) -> str:
    return str(param.opts[0] if param.param_type_name == "option" else param.metavar or param.name)


def _shortest(ctx: Any) -> str:
    """Return the shortest line that the command takes, with what was given already."""
    words = [ctx.command_path]
    for param in sorted(ctx.command.params, key=lambda one: one.param_type_name):
        given = ctx.params.get(param.name)
        if param.required and param.param_type_name == "argument":
            words.append(_called(param) if given is None else str(given))
        elif param.required:
            name = param.opts[0]
            words += [name, _VALUES.get(name, name.strip("-").upper()) if given is None else str(given)]
    return " ".join([*words, *(_ALSO.get(str(ctx.command.name), ()) if "--model" in words else ())])
