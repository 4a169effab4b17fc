"""The reference of the command line, from the commands themselves: one page a command, by Typer's own text."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.cli import get_docs_for_click
from typer.main import get_command

from sottovoce.cli import app as command_line

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = "api/commands"


def pages() -> dict[str, str]:
    """Return the name and the text of each page: `index` for the whole, then one for each command."""
    command: Any = get_command(command_line)
    about = dict(_first_sentences(command, "sottovoce"))
    text = get_docs_for_click(obj=command, ctx=typer.Context(command, info_name="sottovoce"), name="sottovoce")
    # titles are words; `<Any>` and `<list[Path]>` are Python's names of what people give
    text = re.sub(r"^(#+) `(.*)`$", r"\1 \2", text, flags=re.MULTILINE)
    text = re.sub(r"^(\* `[^`]*?) <(?:Any|list\[Path\])>`", r"\1`", text, flags=re.MULTILINE)
    whole, *parts = re.split(r"^## (?=sottovoce)", text, flags=re.MULTILINE)
    found = {}
    for part in parts:
        name = part.split()[1]
        listed = re.sub(
            r"^\* `(\w+)`: .*\.\.\.$",
            lambda line, name=name: f"* `{line[1]}`: {about[name, line[1]]}",
            part,
            flags=re.MULTILINE,
        )
        found[name] = "# " + re.sub(r"^###", "##", listed, flags=re.MULTILINE)
    whole = re.sub(
        r"^\* `(\w+)`: .*$", lambda line: f"* [`{line[1]}`]({line[1]}.md): {about['sottovoce', line[1]]}", whole,
        flags=re.MULTILINE,
    )  # fmt: skip
    names = "\n".join(found)
    return {"index": f"{whole}\n```{{toctree}}\n:hidden:\n\n{names}\n```\n", **found}


def _first_sentences(group: Any, name: str) -> Iterator[tuple[tuple[str, str], str]]:
    # Typer's own list cuts them after some words
    for each in group.list_commands(None):
        command = group.get_command(None, each)
        yield (name, each), " ".join((command.help or "").split("\n\n")[0].split())
        if hasattr(command, "list_commands"):
            yield from _first_sentences(command, each)


def write(app: "Sphinx") -> None:
    """Write the pages before Sphinx looks for pages; one that did not change keeps its time."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {folder / f"{name}.md": text for name, text in pages().items()}
    for path in set(folder.glob("*.md")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
