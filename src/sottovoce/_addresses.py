"""Where a page of the project is read: its absolute address, and the command that prints it.

`[project.urls]` of pyproject.toml is the one place for addresses; they are read from what is installed.
"""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import Final

_PAGE: Final = re.compile(r"docs/([^#]+)\.md(#.*)?")  # docs/ becomes the site
_PROOF: Final = re.compile(r"docs/(?:privacy|papers)/(\w+)\.md", re.ASCII)
_LIMITS: Final = "limits of all proofs: sottovoce proof known_limits"


def documentation(path: str) -> str:
    """Return the absolute address of a file of the project, or its path where sottovoce is not installed.

    ``path``: from the root of the project, such as ``docs/privacy/dp_scd.md#setting``. A page below ``docs/`` has its
        address on the site, any other file or folder in the source.
    """
    urls = _urls()
    page = _PAGE.fullmatch(path)
    kind = "Source" if page is None else "Documentation"
    if kind not in urls:
        return path
    return urls[kind] + (path if page is None else f"{page[1]}.html{page[2] or ''}")


def where_to_read(proof: str) -> tuple[str, ...]:
    """Return what a receipt says of its proof, then the commands that print it and all limits, and its address."""
    if (found := _PROOF.fullmatch(proof)) is None:
        return (proof,)
    address = documentation(proof)
    nowhere = address == proof or ".example/" in address  # a reserved name: nobody has it
    return (proof, f"sottovoce proof {found[1]}", _LIMITS, *(() if nowhere else (address,)))


@cache
def _urls() -> dict[str, str]:
    try:
        lines = metadata("sottovoce").get_all("Project-URL") or ()
    except PackageNotFoundError:
        return {}
    return {name.strip(): url.strip() for name, _, url in (line.partition(",") for line in lines)}
