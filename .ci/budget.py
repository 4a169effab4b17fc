"""Hold the project to its size: ``python .ci/budget.py`` fails where a room has more than `.ci/budget.toml` allows.

With ``--lower`` each number becomes what there is, where that is less. No option raises one: that is done by hand, in
a commit with a page in docs/decisions that says what a user gets for it.
"""

import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGET = ROOT / ".ci" / "budget.toml"
PRODUCT = "src/sottovoce"
PAPERS = f"{PRODUCT}/papers"
PEERS = ".peers"  # environments of other libraries
MADE = {"generated", "commands", "tutorials"}  # folders of docs that `make docs` writes


def lines(text: str) -> int:
    """Return the number of lines, whatever is in them."""
    return len(text.splitlines())


def words(text: str) -> int:
    """Return the number of words, tables and code included."""
    return len(text.split())


def total(count: Callable[[str], int], files: Iterable[Path]) -> int:
    """Return the sum over the files."""
    return sum(count(file.read_text(encoding="utf-8")) for file in files)


def sizes(root: Path) -> dict[str, int]:
    """Return what each room has."""
    papers = set((root / PAPERS).rglob("*.py"))
    benchmarks = (file for file in (root / "benchmarks").rglob("*.py") if PEERS not in file.parts)
    pages = (page for page in (root / "docs").rglob("*.md") if not MADE & set(page.parts))
    return {
        "product": total(lines, set((root / PRODUCT).rglob("*.py")) - papers),
        "papers": total(lines, papers),
        "tests": total(lines, (root / "tests").rglob("*.py")),
        "benchmarks": total(lines, benchmarks),
        "words_of_docs": total(words, pages),
    }


def main(root: Path, budget: Path, *, lower: bool) -> str | None:
    """Print a table; return what is wrong, if anything is."""
    text = budget.read_text(encoding="utf-8")
    allowed: dict[str, int] = tomllib.loads(text)["budget"]
    found = sizes(root)
    if set(allowed) != set(found):
        return f"{budget}: its rooms must be {', '.join(found)}."
    for room, size in found.items():
        print(f"{room:14} {size:8,} of {allowed[room]:8,}")
        if lower and size < allowed[room]:
            text = text.replace(f"{room} = {allowed[room]}\n", f"{room} = {size}\n")
    budget.write_text(text, encoding="utf-8")
    over = [f"{room} by {size - allowed[room]:,}" for room, size in found.items() if size > allowed[room]]
    if not over:
        return None
    return (
        f"over the budget: {', '.join(over)}. Take something out; or raise the number in {budget.name}, with a page in "
        "docs/decisions that says what a user gets for it."
    )


if __name__ == "__main__":
    sys.exit(main(ROOT, BUDGET, lower=sys.argv[1:] == ["--lower"]))
