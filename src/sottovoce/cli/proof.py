"""``sottovoce proof``: the page with statement and proof that a receipt names."""

from __future__ import annotations

import posixpath
import re
import sys

from rich.console import Console
from rich.markdown import Markdown

from sottovoce._addresses import documentation
from sottovoce._proofs import proof as proof_page
from sottovoce._proofs import proof_names, proof_path
from sottovoce.cli._echo import echo
from sottovoce.cli._options import argument
from sottovoce.cli._output import print_rows

__all__ = ["proof"]

_WIDTH = 110  # wider lines are hard to read
# to a file or folder, not to a place on the page
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+(?:\.\w+|/))(#[^)\s]*)?(?=\))")


def proof(
    name: str | None = argument(
        "NAME", "As in the receipt: dp_scd, docs/privacy/dp_scd.md. None: a list.", default=None
    ),
) -> None:
    """Print the statement and proof behind a receipt; no network is needed.

    A terminal shows the page with headings and tables, a pipe or file gets its Markdown as it is.
    """
    if name is None:
        print_rows("Proofs: `sottovoce proof NAME` prints one", proof_names().items())
        return
    page = proof_page(name)
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        echo(page, nl=False)
        return
    path = proof_path(name)
    console = Console(file=sys.stdout, width=min(console.width, _WIDTH))
    console.print(Markdown(_with_addresses(page, posixpath.dirname(path)), hyperlinks=True))
    console.print(f"\n{documentation(path)}", style="dim", highlight=False, soft_wrap=True)


def _with_addresses(page: str, folder: str) -> str:
    def absolute(found: re.Match[str]) -> str:
        return documentation(posixpath.normpath(f"{folder}/{found[1]}") + (found[2] or ""))

    return _LINK.sub(absolute, page)
