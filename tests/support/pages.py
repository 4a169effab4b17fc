"""A page that is followed to the letter: its files are saved, its commands and code run, its outputs compared.

Code of Python, TOML or JSON that begins with ``# NAME`` is saved as that file; other Python runs, one block after
another. Lines of shell run as they stand, in one folder, and those that are commands of ours alone in a forked child,
which need not load the library; a service that goes on is stopped in the end. A block
of text is what the block before it prints: each of its lines must be there, numbers aside, for noise is new in each
run.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from contextlib import ExitStack, chdir, redirect_stdout
from io import StringIO
from pathlib import Path

from typer.testing import CliRunner

from sottovoce.cli import app
from support.forked import in_child

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?")
_SECRET = re.compile(r"(?![\d]+\b)[0-9A-Za-z+/_-]{16,}=*")  # digests, tokens, reports; not the digits of a number
_NOT_RUN = ("pip install ",)
_GOES_ON = ("sottovoce local collect ",)
_PLAIN, _OF_A_SHELL = re.compile("sottovoce (?!local )"), set("|<>&;$`*?#")  # local ones speak to services


def follow(page: Path, folder: Path) -> None:
    """Do what ``page`` says in ``folder``; an ``AssertionError`` tells what came out otherwise."""
    names = {"__name__": "__main__"}
    printed = None
    with ExitStack() as services, chdir(folder):
        for language, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            file = re.match(r"# (\S+\.\w+)\n", block)
            if file:
                Path(file[1]).write_text(block, encoding="utf-8")
            elif language == "python":
                with redirect_stdout(StringIO()) as out:
                    exec(compile(block, page.name, "exec"), names)
                printed = out.getvalue()
            elif language == "sh":
                printed = _shell(block, services)
            elif language == "text":
                assert printed is not None, f"nothing was run before {block!r}"
                came = {_shape(line) for line in printed.splitlines()}
                missing = [line for line in block.splitlines() if _shape(line) not in came]
                assert not missing, f"{page.name} shows lines that did not come out:\n{missing}\nbut:\n{printed}"


def _shape(line: str) -> str:
    """Return what a line says but for its numbers, and for how long a rule is drawn."""
    return " ".join(re.sub("─+", "─", _NUMBER.sub("#", _SECRET.sub("#", line))).split())


def _shell(block: str, services: ExitStack) -> str:
    """Run the lines of a block, and return what they print."""
    lines = [line for line in block.splitlines() if not line.startswith(_NOT_RUN)]
    if any(line.startswith(_GOES_ON) for line in lines):
        return _start("\n".join(lines), services)
    return "".join(_line(line) for line in _whole(lines))


def _line(line: str) -> str:
    """Run a line: a command of ours in a forked child, with where its output goes; any other in a shell."""
    command, sign, rest = line, "", ""
    if found := re.fullmatch(r"(.*?) ([>|]) (.*)", line):
        command, sign, rest = found.groups()
    if not _PLAIN.match(command) or set(command) & _OF_A_SHELL or "<" in rest:
        return _in_a_shell(line)
    out, err = _forked(shlex.split(command)[1:])
    if sign == ">":
        Path(rest).write_text(out, encoding="utf-8")
        return err
    return (_in_a_shell(rest, out) if sign else out) + err


def _in_a_shell(line: str, given: str = "") -> str:
    shell = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", _commands() + line],
        input=given, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip
    assert shell.returncode == 0, f"{line}\n{shell.stdout}\n{shell.stderr}"
    return shell.stdout + shell.stderr


def _whole(lines: list[str]) -> list[str]:
    """Return lines that go on in the next one as one."""
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def _forked(arguments: list[str]) -> tuple[str, str]:
    """Run a command of ours in a child that has the library already; return what it prints, and what it warns of."""

    def work() -> bytes:
        os.environ["COLUMNS"] = "100"
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # as for a user
            result = CliRunner().invoke(app, arguments)
        return json.dumps([result.exit_code, result.stdout, result.stderr]).encode()

    code, out, err = json.loads(in_child(work))
    assert code == 0, f"{arguments}: {out}{err}"
    return out, err


def _start(line: str, services: ExitStack) -> str:
    """Start a service that says where it listens, for as long as the page is followed."""
    command, own = ["bash", "-c", f"{_commands()}{line}"], {**os.environ, "PYTHONUNBUFFERED": "1"}
    service = services.enter_context(
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own, start_new_session=True)
    )
    services.callback(os.killpg, service.pid, 15)
    first = service.stdout.readline()
    assert first.startswith("listening on "), first
    return first


def _commands() -> str:
    """Return words for the shell: the programs of a page are those of this interpreter."""
    return f'python() {{ "{sys.executable}" "$@"; }}\nsottovoce() {{ python -m sottovoce "$@"; }}\n'
