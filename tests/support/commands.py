"""All commands of the command line, and a command that is run in this process or in one of its own."""

import csv
import io
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner, Result

from sottovoce.cli import app


def run(*arguments: object, **settings: Any) -> Result:
    """Run a command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **settings)


def parsed(*arguments: object) -> None:
    """Take the arguments of a command apart as it would, and do not run it."""
    command, rest, context = get_command(app), [str(argument) for argument in arguments], None
    while isinstance(command, TyperGroup):
        context = command.make_context(command.name, rest, parent=context)
        _, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    command.make_context(command.name, rest, parent=context)


def passes(*arguments: object, **settings: Any) -> Result:
    """Run a command that must succeed."""
    result = run(*arguments, **settings)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def fails(*arguments: object, match: str) -> str:
    """Run a command that must end with one plain error and exit code 2, and print nothing else; return what it says."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), (result.output, result.exception)
    message = result.stderr[result.stderr.index("error: ") :]
    assert "Traceback" not in message
    assert any(re.search(match, said) for said in (message, " ".join(message.split()))), message
    return result.stderr


def process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "sottovoce", *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def records(text: str) -> list[dict[str, str]]:
    """Return the rows of a CSV table by names of columns."""
    return list(csv.DictReader(io.StringIO(text)))


def incomes(n: int) -> pd.DataFrame:
    """Return made-up people: the older have a high income, and so have more of those who work for the state."""
    rng = np.random.default_rng(0)
    age, work = rng.integers(17, 91, n), np.where(rng.random(n) < 0.5, "private", "state")
    names, income = (
        [f"n{row}, of {row}" for row in range(n)],
        np.where(age + 10 * (work == "state") > 55, "high", "low"),
    )
    return pd.DataFrame({"age": age, "work": work, "id": names, "income": income})


def commands(group=None, above=()):
    """Yield the words of each command and the command, from the whole of the command line."""
    group = get_command(app) if group is None else group
    for name in group.list_commands(None):
        found, words = group.get_command(None, name), (*above, name)
        if hasattr(found, "list_commands"):
            yield from commands(found, words)
        else:
            yield words, found
