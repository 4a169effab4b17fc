"""All commands of the command line."""

from typer.main import get_command

from sottovoce.cli import app


def commands(group=None, above=()):
    """Yield the words of each command and the command, from the whole of the command line."""
    group = get_command(app) if group is None else group
    for name in group.list_commands(None):
        found, words = group.get_command(None, name), (*above, name)
        if hasattr(found, "list_commands"):
            yield from commands(found, words)
        else:
            yield words, found
