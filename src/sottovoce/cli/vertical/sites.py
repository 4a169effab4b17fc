"""``sottovoce vertical party`` and ``status``: run a site; see what it was asked, or where a coordinator's runs are."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import typer

from sottovoce._kept import PrivateFolder
from sottovoce.cli._echo import echo
from sottovoce.cli._options import JSON, Told, argument, command, flag
from sottovoce.cli._output import print_columns, print_rows, tell
from sottovoce.cli.vertical._runs import progress_text
from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.processes import check_site, run_site
from sottovoce.vertical.flare.register import budget_of, budget_rows, cap_rows, notice, site_history
from sottovoce.vertical.flare.runs import find_run, list_runs, run_state
from sottovoce.vertical.flare.site import Site


def party(
    kit: Path = argument("KIT", "The party's folder that `sottovoce vertical provision` made."),
    check: bool = flag("--check", "Check kit, table, schema and ledger, say what the site would do; connect nothing."),
    as_json: bool = JSON,
) -> None:
    """Run one party's site until it is stopped (Ctrl-C or SIGTERM).

    Before anything is connected it reads the table, and says what the site will do and what it will not. It connects
    out to the coordinator; no port is opened, but for joint computations with the partners of [secure]. The log is
    KIT/state/log.txt, what was asked is in KIT/state/register.db.
    """
    opened = Kit.open(kit, "party")
    check_site(opened)
    site = Site.read(opened)
    name, federation, told = site.kit.name, site.kit.federation.name, list(notice(site))
    facts = {"site": name, "federation": federation, "notice": told, "seeded": site.random_state is not None}
    tell(as_json, facts, lambda: print_rows(f"{name}: a party of the federation {federation}", told))
    if site.random_state is not None:
        echo(
            "WARNING: [trial] random_state is set: whoever knows the number can take all noise away again. It is for "
            "made-up people only.",
            err=True,
        )
    if not check:
        status = run_site(opened, say=lambda line: echo(line, err=as_json))
        if status:
            raise typer.Exit(status)


@command
def status(
    kit: Path = argument("KIT", "A site's folder that `sottovoce vertical provision` made."),
    run: str | None = argument("RUN", "Of a coordinator: this run only.", default=None),
) -> Told:
    """Show what a party was asked, and what is left of its budget; or a coordinator's runs."""
    opened = Kit.open(kit)
    if opened.kind == "coordinator":
        return _runs(opened, run)
    if run is not None:
        raise ParameterError(f"RUN {run}: {opened.folder} is the kit of a party, which knows no names of runs.")
    facts = site_history(Site.read(opened))
    return Told(facts, lambda: _print(facts))


def _print(facts: dict[str, Any]) -> None:
    print_rows(f"{facts['site']}: a party of the federation {facts['federation']}", _rows(facts))
    if facts["runs"]:
        headings = ("run", "to", "first", "last", "rounds", "bytes in", "bytes out", "refused")
        print_columns("Runs", headings, map(_run, facts["runs"]))
    if facts["refusals"]:
        refusals = ((_at(each["last"]), f"{each['times']:,}", each["reason"]) for each in facts["refusals"])
        print_columns("Refused", ("last", "times", "why"), refusals, ends_in_words=True)


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if not facts["helper"]:
        yield from budget_rows(facts["budget"])
    yield from cap_rows(facts["caps"], facts["budget"], facts["coordinator"])
    if facts["budget"] is not None:
        book = f"--ledger {facts['budget']['ledger']} --dataset {facts['budget']['dataset']}"
        yield "charges", f"sottovoce ledger history {book}"
    if not facts["helper"]:
        yield "models", f"parts of {len(facts['models']):,} are kept here"
    if not facts["runs"]:
        yield "runs", "nothing was asked yet"


def _run(run: dict[str, Any]) -> tuple[str, ...]:
    return (
        run["run"][:8], run["purpose"], _at(run["first"]), _at(run["last"]), f"{run['rounds']:,}",
        f"{run['bytes_in']:,}", f"{run['bytes_out']:,}", f"{run['refusals']:,}",
    )  # fmt: skip


def _at(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


# ------------------------------------------------------------------ a coordinator


def _runs(kit: Kit, run: str | None) -> Told:
    """Tell a coordinator's budget and where all runs are; or one of the runs."""
    busy = _is_busy(kit)
    if run is not None:
        state = run_state(find_run(kit.runs, run), busy=busy)
        return Told(state, partial(_print_runs, kit, [state]))
    facts: dict[str, Any] = {
        "site": kit.name,
        "kind": kit.kind,
        "federation": kit.federation.name,
        "busy": busy,
        "budget": budget_of(Site.read(kit)),
        "runs": [run_state(folder, busy=busy) for folder in list_runs(kit.runs)],
    }
    title = f"{kit.name}: the coordinator of the federation {facts['federation']}"
    runs = [partial(_print_runs, kit, facts["runs"])] if facts["runs"] else []
    return Told(facts, lambda: print_rows(title, _rows_of_coordinator(kit, facts)), *runs)


def _is_busy(kit: Kit) -> bool:
    """Tell whether a run is under way: its process holds the kit."""
    try:
        with closing(PrivateFolder(kit.state, "the site")):
            return False
    except StorageError:
        return True


def _rows_of_coordinator(kit: Kit, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "now", "a run is under way" if facts["busy"] else "no run is under way, and parties wait for one"
    if facts["budget"] is not None:
        yield from budget_rows(facts["budget"])
    if not facts["runs"]:
        yield "runs", f"no run yet. Start one: sottovoce vertical train {kit.folder}"


def _print_runs(kit: Kit, states: Sequence[Mapping[str, Any]]) -> None:
    rows = (
        (
            str(state["run"]), f"{state['purpose']} {state['model']}", state["begun"],
            progress_text(state) + (f"\n{state['error']}" if state.get("error") else ""),
        )
        for state in states
    )  # fmt: skip
    print_columns(f"Runs of {kit.name}", ("run", "to", "begun", "where it is"), rows, ends_in_words=True)
