"""The coordinator's half of ``sottovoce vertical status``: where its runs are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import typer

from sottovoce.cli._output import print_columns
from sottovoce.cli.vertical._runs import progress_text
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.runs import find_run, list_runs, run_state

__all__ = ["show_runs"]


def show_runs(kit: Kit, run: str | None, *, as_json: bool) -> None:
    """Print where all runs of a coordinator are, or one of them."""
    folders = list_runs(kit.runs) if run is None else [find_run(kit.runs, run)]
    states = [run_state(folder) for folder in folders]
    if as_json:
        typer.echo(json.dumps(states, indent=2))
    elif not states:
        typer.echo(f"{kit.name}: no run yet. Start one: sottovoce vertical train {kit.folder}")
    else:
        print_columns(
            f"Runs of {kit.name}", ("run", "to", "begun", "where it is"), map(_row, states), ends_in_words=True
        )


def _row(state: Mapping[str, Any]) -> tuple[str, ...]:
    said = progress_text(state) + (f"\n{state['error']}" if state.get("error") else "")
    return str(state["run"]), f"{state['purpose']} {state['model']}", state["begun"], said
