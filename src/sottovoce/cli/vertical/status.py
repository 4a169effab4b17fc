"""``sottovoce vertical status``: what a site was asked and what it cost, or where a coordinator's runs are."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import typer

from sottovoce._plain_data import plain
from sottovoce.cli._echo import echo
from sottovoce.cli._options import argument, flag
from sottovoce.cli._output import print_columns, print_rows
from sottovoce.cli.vertical.party import budget_rows, cap_rows
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.notice import site_history
from sottovoce.vertical.flare.site import Site

__all__ = ["status"]


def status(
    kit: Path = argument("KIT", "A site's folder that `sottovoce vertical provision` made."),
    run: str | None = typer.Argument(None, metavar="[RUN]", help="Of a coordinator: this run only."),
    as_json: bool = flag("--json", "Print JSON."),
) -> None:
    """Show what a party was asked, what was charged and what is left; or a coordinator's runs."""
    opened = Kit.open(kit)
    if opened.kind == "coordinator":
        from sottovoce.cli.vertical._run_status import show_runs

        show_runs(opened, run, as_json=as_json)
        return
    if run is not None:
        raise ParameterError(f"RUN {run}: {opened.folder} is the kit of a party, which knows no names of runs.")
    facts = site_history(Site.read(opened))
    if as_json:
        echo(json.dumps(plain(facts), indent=2, allow_nan=False))
    else:
        _print(facts)


def _print(facts: dict[str, Any]) -> None:
    print_rows(f"{facts['site']}: a party of the federation {facts['federation']}", _rows(facts))
    if facts["runs"]:
        headings = ("run", "to", "first", "last", "rounds", "bytes in", "bytes out", "refused")
        print_columns("Runs", headings, map(_run, facts["runs"]))
    if facts["charges"]:
        charged = ("day", "coordinator", "session", "steps", "private", "what")
        print_columns("Charges", charged, _charges(facts["charges"]), ends_in_words=True)
    if facts["refusals"]:
        print_columns("Refused", ("last", "times", "why"), map(_refusal, facts["refusals"]), ends_in_words=True)


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if not facts["helper"]:
        yield from budget_rows(facts["budget"])
    yield from cap_rows(facts["caps"], facts["budget"], facts["coordinator"])
    if not facts["helper"]:
        yield "models", f"parts of {len(facts['models']):,} are kept here"
    if not facts["runs"]:
        yield "runs", "nothing was asked yet"


def _run(run: dict[str, Any]) -> tuple[str, ...]:
    return (
        run["run"][:8], run["purpose"], _at(run["first"]), _at(run["last"]), f"{run['rounds']:,}",
        f"{run['bytes_in']:,}", f"{run['bytes_out']:,}", f"{run['refusals']:,}",
    )  # fmt: skip


def _charges(charges: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield one line for charges that follow each other and differ in their step alone."""

    def same(charge: dict[str, Any]) -> tuple[Any, ...]:  # reserved or committed, it counts
        names = ("day", "coordinator", "session", "seeded", "what")
        return (*(charge[name] for name in names), charge["state"] == "cancelled")

    for (day, coordinator, session, seeded, what, cancelled), found in groupby(charges, same):
        steps = [charge["step"] for charge in found]
        span = "" if steps[0] is None else f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
        times = f"{len(steps)} times: " if len(steps) > 1 else ""
        away = " (given back)" if cancelled else ""
        yield (
            day, coordinator or "", (session or "")[:8], span, "NO: seeded" if seeded else "yes", f"{times}{what}{away}"
        )  # fmt: skip


def _refusal(refused: dict[str, Any]) -> tuple[str, ...]:
    return _at(refused["last"]), f"{refused['times']:,}", refused["reason"]


def _at(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
