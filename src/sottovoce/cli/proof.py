"""``sottovoce proof``: the pages with statements and proofs, as they come with the package; receipts name them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sottovoce._validation import nearest
from sottovoce.cli._echo import echo
from sottovoce.cli._options import argument
from sottovoce.cli._output import print_rows
from sottovoce.exceptions import ParameterError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

# beside privacy/, below docs/; pyproject.toml puts the same files into the wheel
_FURTHER: Final = ("known_limits.md",)
_GROUND_RULES: Final = "ground_rules"  # the page README.md


def proof(
    name: str | None = argument(
        "NAME", "As in the receipt: dp_scd, docs/privacy/dp_scd.md. None: a list.", default=None
    ),
) -> None:
    """Print the statement and proof behind a receipt, as Markdown; no network is needed."""
    if name is None:
        print_rows("Proofs: `sottovoce proof NAME` prints one", proof_names().items())
        return
    echo(proof_page(name), nl=False)


def proof_names() -> dict[str, str]:
    """Return the name of each page, which receipts and `sottovoce proof` give it, with its title."""
    return {name: proof_page(name).partition("\n")[0].lstrip("# ") for name in sorted(_pages())}


def proof_page(name: str) -> str:
    """Return the page with a statement and its proof, as Markdown.

    ``name``: such as ``"dp_scd"``, or as a receipt has it: ``"docs/privacy/dp_scd.md"``.

    Raises ParameterError if there is no such page; the message names the nearest.
    """
    wanted, pages = _name(name), _pages()
    if wanted not in pages:
        raise ParameterError(f"no proof is named {name!r}.{nearest(wanted, pages)} `sottovoce proof` lists all.")
    return pages[wanted].read_text(encoding="utf-8")


@cache
def _pages() -> dict[str, Traversable]:
    shipped = files("sottovoce") / "proofs"
    root = shipped if shipped.is_dir() else Path(__file__).parents[3] / "docs"  # a checkout, installed in place
    paths = [f"privacy/{page.name}" for page in (root / "privacy").iterdir() if page.name.endswith(".md")]
    return {_name(path): root / path for path in (*paths, *_FURTHER)}


def _name(path: str) -> str:
    name = Path(path).name.removesuffix(".md").replace("-", "_")
    return _GROUND_RULES if name == "README" else name
