"""The claims of the project on one page: what was measured last, where, when, with which script.

    python -m benchmarks.claims

Prints them from ``benchmarks/claims.toml``; the site has them as a page.
"""

import tomllib
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from benchmarks.driver import make_parser

FILE = Path(__file__).with_suffix(".toml")

ROOMS = {
    "audit": "Is it true?", "central": "One table", "cluster": "One table on many machines", "ledger": "Budgets",
    "local": "One report a person", "packaging": "Installation", "papers": "The four papers",
    "peers": "Against other libraries", "tables": "Files", "vertical": "Columns at several organisations",
}  # fmt: skip


class Claim(NamedTuple):
    """One claim: a script, what it shows, and what it showed last."""

    script: str
    claim: str
    measured: str
    date: str
    page: str


def claims() -> tuple[str, list[Claim]]:
    """Return the machine that figures come from, and the claims in the order of their scripts."""
    held = tomllib.loads(FILE.read_text(encoding="utf-8"))
    machine = held.pop("machine")
    return machine, [
        Claim(name, given["claim"], given["measured"], f"{given['date']}", given["page"])
        for name, given in sorted(held.items())
    ]


def short_seconds() -> dict[str, float]:
    """Return how long the short form of each script took, where that is known and at most some minutes."""
    held = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {name: given["seconds"] for name, given in held.items() if name != "machine" and "seconds" in given}


def page() -> str:
    machine, all_claims = claims()
    lines = [
        "# What is claimed, and what was measured",
        "",
        f"Every claim with a figure has a script. This is what each showed last, on one machine ({machine}).",
        "Run one again: `python -m benchmarks --only central.speed`.",
        "The page of a claim says how it was measured, and where it does not hold.",
    ]
    for room, entries in groupby(all_claims, key=lambda each: each.script.partition(".")[0]):
        lines += ["", f"## {ROOMS[room]}", ""]
        for each in entries:
            name = Path(each.page.removesuffix("/notes.txt")).stem.replace("_", " ")
            where = each.page.removeprefix("docs/") if each.page.startswith("docs/") else f"../{each.page}"
            lines.append(f"* **{each.claim}**: {each.measured} ({each.date}, `{each.script}`, [{name}]({where}))")
    return "\n".join(lines) + "\n"


def main() -> None:
    make_parser(__doc__).parse_args()
    print(page(), end="")


if __name__ == "__main__":
    main()
