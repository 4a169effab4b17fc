"""Options are declared once, reach a command in groups, and stand in messages for the arguments of Python."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sottovoce.cli import _options
from sottovoce.cli._options import ForceOption, argument, flag, option, with_groups
from sottovoce.cli.app import as_options


@dataclass(frozen=True)
class Inner:
    n_steps: int = option("--n-steps", "How many.", default=3)
    name: list[str] = option("--name", default=[])


@dataclass(frozen=True, kw_only=True)
class Outer:
    path: Path = argument("PATH", "Where.")
    inner: Inner
    fast: bool = flag("--fast", "No waiting.", "Speed")


def run(*arguments):
    seen = []

    @with_groups
    def command(
        *, scale: float = option("--scale", default=_options.REQUIRED), given: Outer, force: ForceOption = False
    ):
        """Do it."""
        seen.append((scale, given, force))

    alone = typer.Typer()
    alone.command()(command)
    result = CliRunner().invoke(alone, arguments)
    return result, seen


def test_groups_reach_the_command_as_objects():
    result, seen = run("here", "--scale", "2", "--n-steps", "5", "--name", "a", "--name", "b", "--fast")
    assert result.exit_code == 0
    assert seen == [(2.0, Outer(path=Path("here"), inner=Inner(5, ["a", "b"]), fast=True), False)]
    _, seen = run("here", "--scale", "2", "--force")
    assert seen == [(2.0, Outer(path=Path("here"), inner=Inner(3, []), fast=False), True)]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("give overwrite=True to replace it.", "give --force to replace it."),
        ("give header=False, or header = false in [table].", "give --no-header, or header = false in [table]."),
        ('give delimiter="...".', "give --delimiter."),
        ('format="csv" or format="parquet"', "--format csv or --format parquet"),
        ('use duplicates="drop"', "use --duplicates drop"),
        ("Fit with groups=... and max_rows_per_group=...", "Fit with --unit COLUMN and --max-rows-per-unit K"),
        ("same_unit=True, another_run=True", "--same-unit, --another-run"),
        ('write type = "ignore", adjacency="zero-out"', 'write type = "ignore", adjacency="zero-out"'),
    ],
)
def test_messages_name_options(said, shown):
    assert as_options(said) == shown
