"""The coordinator's half of ``sottovoce vertical status``: who is connected, its budget, its runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sottovoce._plain_data import plain
from sottovoce.cli._echo import echo
from sottovoce.cli._output import print_columns, print_rows
from sottovoce.cli.vertical._runs import progress_text
from sottovoce.cli.vertical.party import budget_rows
from sottovoce.vertical.flare.jobs import who_is_connected
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.notice import budget_of
from sottovoce.vertical.flare.runs import find_run, list_runs, run_state
from sottovoce.vertical.flare.site import Site

__all__ = ["show_runs"]


def show_runs(kit: Kit, run: str | None, *, as_json: bool) -> None:
    """Print who is connected to a coordinator, its budget and where all runs are; or one of the runs."""
    if run is not None:
        state = run_state(find_run(kit.runs, run))
        if as_json:
            echo(json.dumps(state, indent=2))
        else:
            _print_runs(kit, [state])
        return
    facts: dict[str, Any] = {
        "site": kit.name,
        "kind": kit.kind,
        "federation": kit.federation.name,
        "connected": who_is_connected(kit),
        "budget": budget_of(Site.read(kit)),
        "runs": [run_state(folder) for folder in list_runs(kit.runs)],
    }
    if as_json:
        echo(json.dumps(plain(facts), indent=2, allow_nan=False))
        return
    print_rows(f"{kit.name}: the coordinator of the federation {facts['federation']}", _rows(kit, facts))
    if facts["runs"]:
        _print_runs(kit, facts["runs"])


def _rows(kit: Kit, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    connected = facts["connected"]
    if connected is None:
        yield "process", f"does not answer. Start it: sottovoce vertical coordinator {kit.folder}"
    else:
        yield "connected", ", ".join(connected) or "nobody"
        yield "not connected", ", ".join(sorted({*kit.federation.parties} - {*connected})) or "nobody"
    if facts["budget"] is not None:
        yield from budget_rows(facts["budget"])
    if not facts["runs"]:
        yield "runs", f"no run yet. Start one: sottovoce vertical train {kit.folder}"


def _print_runs(kit: Kit, states: Sequence[Mapping[str, Any]]) -> None:
    print_columns(f"Runs of {kit.name}", ("run", "to", "begun", "where it is"), map(_row, states), ends_in_words=True)


def _row(state: Mapping[str, Any]) -> tuple[str, ...]:
    said = progress_text(state) + (f"\n{state['error']}" if state.get("error") else "")
    return str(state["run"]), f"{state['purpose']} {state['model']}", state["begun"], said
