"""All commands of the command line, and a command that is run in this process."""

from typer.main import get_command
from typer.testing import CliRunner, Result

from sottovoce.cli import app


def run(*arguments: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def passes(*arguments: object) -> Result:
    """Run a command that must succeed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def commands(group=None, above=()):
    """Yield the words of each command and the command, from the whole of the command line."""
    group = get_command(app) if group is None else group
    for name in group.list_commands(None):
        found, words = group.get_command(None, name), (*above, name)
        if hasattr(found, "list_commands"):
            yield from commands(found, words)
        else:
            yield words, found
