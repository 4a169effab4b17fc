"""``sottovoce vertical party``: run the site of one party, after saying what it will and will not do."""

from pathlib import Path

import typer

from sottovoce.cli._echo import echo
from sottovoce.cli._options import JSON, argument, flag
from sottovoce.cli._output import print_rows, tell
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.notice import notice
from sottovoce.vertical.flare.processes import check_site, run_site
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
