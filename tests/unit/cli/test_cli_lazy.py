"""Commands are imported when they are used: a light one starts without the heavy libraries, and all are listed."""

import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sottovoce.cli import app


def test_all_commands_are_listed_in_their_order():
    group = get_command(app)
    order = "fit predict evaluate show plan schema receipt proof ledger audit vertical local compile"
    assert group.list_commands(None) == order.split()
    local = group.get_command(None, "local")
    assert [local.get_command(None, name).name for name in local.list_commands(None)] == [
        "plan", "protocol", "tokens", "survey", "randomize", "collect", "export", "fit", "predict"
    ]  # fmt: skip
    listed = CliRunner().invoke(app, ["--help"]).output
    assert all(f" {name} " in listed for name in group.list_commands(None))


@pytest.mark.parametrize("arguments", [["locl"], ["local", "rotocol"]])
def test_a_misspelt_command_is_refused_with_a_suggestion(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "Did you mean" in result.output


def test_the_program_starts_without_the_commands():
    code = (
        "import sys; from sottovoce.cli import app; from typer.main import get_command; get_command(app);"
        "print(sorted({'sklearn', 'scipy', 'pandas', 'numba', 'pyarrow', 'dp_accounting'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
