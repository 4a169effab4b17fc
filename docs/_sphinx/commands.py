"""The reference of the command line, from the commands themselves: one page a command, by Typer's own text."""

import re
from pathlib import Path
from typing import Any

import typer
from sphinx.application import Sphinx
from typer.cli import get_docs_for_click
from typer.main import get_command

from sottovoce.cli import app as command_line

FOLDER = "api/commands"


def pages() -> dict[str, str]:
    """Return the name and the text of each page: `index` for the whole, then one for each command."""
    command: Any = get_command(command_line)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command, info_name="sottovoce"), name="sottovoce")
    whole, *parts = re.split(r"^## (?=`)", text, flags=re.MULTILINE)
    found = {}
    for part in parts:
        name = re.match(r"`sottovoce (\w+)`", part)[1]  # type: ignore[index]
        found[name] = "# " + re.sub(r"^###", "##", part, flags=re.MULTILINE)
    whole = re.sub(r"^\* `(\w+)`", r"* [`\1`](\1.md)", whole, flags=re.MULTILINE)
    listed = "\n".join(found)
    return {"index": f"{whole}\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n", **found}


def write(app: Sphinx) -> None:
    """Write the pages before Sphinx looks for pages; one that did not change keeps its time."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {folder / f"{name}.md": text for name, text in pages().items()}
    for path in set(folder.glob("*.md")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
