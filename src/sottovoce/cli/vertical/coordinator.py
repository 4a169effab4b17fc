"""``sottovoce vertical coordinator``: run the coordinator's site."""

from __future__ import annotations

from pathlib import Path

import typer

from sottovoce.cli._echo import echo
from sottovoce.cli._options import argument, flag, option
from sottovoce.vertical.flare.envelope import LedgerHeads
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.processes import check_site, run_site

__all__ = ["coordinator"]


def coordinator(
    kit: Path = argument("KIT", "The coordinator's folder that `sottovoce vertical provision` made."),
    check: bool = flag("--check", "Check the kit, its certificates and the port; start nothing."),
    accept_ledger: str | None = option(
        "--accept-ledger",
        "Take PARTY's ledger as it is, once: it was lost, and its owner has settled what it forgot.",
        metavar="PARTY",
    ),
) -> None:
    """Run the coordinator's site, where the parties connect, until it is stopped (Ctrl-C or SIGTERM).

    It does not start if its kit was opened up. The log is KIT/state/log.txt. Trainings are started beside it, with
    `sottovoce vertical train`.
    """
    site = Kit.open(kit)
    site.refuse_kind("coordinator")
    if accept_ledger is not None:
        entry = LedgerHeads(site.state).forget(accept_ledger)
        echo(f"{accept_ledger}: its next ledger is taken as it is; the last entry known of the one before: {entry}")
        return
    if check:
        check_site(site)
        facts = site.federation
        echo(f"{site.name}: closed, certificates until {site.expires:%Y-%m-%d}, port {facts.port} is free")
        return
    status = run_site(site, say=_say)
    if status:
        raise typer.Exit(status)


def _say(line: str) -> None:
    echo(line)
