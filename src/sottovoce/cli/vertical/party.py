"""``sottovoce vertical party``: run the site of one party, after saying what it will and will not do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from sottovoce.cli._echo import echo
from sottovoce.cli._options import JSON, argument, flag
from sottovoce.cli._output import print_json, print_rows
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.notice import site_facts
from sottovoce.vertical.flare.processes import check_site, run_site
from sottovoce.vertical.flare.site import Site

_NAMED: Final = 8


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
    opened = Kit.open(kit)
    opened.refuse_kind("party")
    check_site(opened)
    site = Site.read(opened)
    facts = {**site_facts(site), "certificates_until": f"{opened.expires:%Y-%m-%d}"}
    if as_json:
        print_json(facts)
    else:
        print_rows(f"{facts['site']}: a party of the federation {facts['federation']}", _rows(facts))
    if facts["seeded"]:
        echo(
            "WARNING: [trial] random_state is set: whoever knows the number can take all noise away again. It is for "
            "made-up people only.",
            err=True,
        )
    if not check:
        status = run_site(opened, say=lambda line: echo(line, err=as_json))
        if status:
            raise typer.Exit(status)


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "coordinator", f"{facts['coordinator']} at {facts['host']}, port {facts['port']}; this site connects to it"
    yield "connection", f"certificates on both sides, until {facts['certificates_until']}"
    if facts["table"] is not None:
        yield "people", _people(facts["table"])
    else:
        yield "people", "none: a helper has no table, and sees random numbers only"
    if facts["scoring"] is not None:
        yield "people to be scored", _people(facts["scoring"])
    if facts["told"] is not None:
        yield "always told", _told(facts["told"])
    yield from _computing_rows(facts["computing"])
    yield from ((f"will ({name})", about) for name, about in facts["answers"].items())
    yield from ((f"will, scoring ({name})", about) for name, about in facts["answers_in_scoring"].items())
    if not facts["answers"] and not facts["answers_in_scoring"]:
        yield "will", "answer nothing beyond that"
    yield from ((f"will not ({name})", about) for name, about in facts["refuses"].items())
    yield from (("never", never) for never in facts["never"])
    if not facts["helper"]:
        yield from budget_rows(facts["budget"])
    yield from cap_rows(facts["caps"], facts["budget"], facts["coordinator"])
    yield "trial", "the noise can be repeated: NOT PRIVATE" if facts["seeded"] else "no: the noise is secret"
    yield from facts["files"].items()


def _told(told: dict[str, Any]) -> str:
    return (
        f"the number of rows, and what the schema makes public: {told['features']} features, norm of a row at most "
        f"{told['data_norm']:.6g}, entries within {told['data_bound']:g}"
        + (", none negative" if told["nonnegative"] else "")
    )


def _computing_rows(computing: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    if computing is None:
        yield "joint computations", "none: no [secure] in site.toml"
        return
    first, last = computing["ports"]
    yield (
        "joint computations",
        f"with {', '.join(computing['partners'])}; they connect to {computing['host']}, a port of {first} to {last}, "
        f"by certificates on both sides, while a run goes on; each may take {computing['timeout']:g} s for anything",
    )
    yield (
        "engines",
        ", ".join(
            f"{name} {version}" if version else f"{name}: NOT INSTALLED here, pip install 'sottovoce[secure]'"
            for name, version in computing["engines"].items()
        ),
    )
    if computing["fingerprints"]:
        yield "known by fingerprint", ", ".join(computing["fingerprints"])


def _people(table: dict[str, Any]) -> str:
    rows = f"{table['rows']:,} rows, {table['columns']} columns of {table['file']}"
    if table["unused"]:
        shown = ", ".join(table["unused"][:_NAMED]) + (", ..." if len(table["unused"]) > _NAMED else "")
        rows += f"; not in the schema, not used: {shown}"
    if table["id"] is None:
        return f"{rows}; no identifiers: row i must be the same person at every site"
    return " ".join([f"{rows}; {table['usable']:,} can be aligned by {table['id']!r}.", *table["remarks"]])


def budget_rows(budget: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    if budget is None:
        yield "budget", "NONE: what is allowed is answered however often, with or without noise"
        return
    yield (
        "budget",
        f"epsilon {budget['epsilon']:g} at delta {budget['delta']:g} for one person's row here, over all runs; "
        f"{budget['spent']:.6g} are spent, {budget['left']:.6g} are left ({budget['dataset']} in {budget['ledger']})",
    )


def cap_rows(caps: dict[str, Any], budget: dict[str, Any] | None, coordinator: str) -> Iterator[tuple[str, str]]:
    if budget is not None:
        most = "no cap beside the budget" if budget["cap"] is None else f"at most {budget['cap']:g}"
        yield "cap, epsilon", f"{most}; {coordinator} has used {budget['spent_by_coordinator']:.6g}"
    for what in ("rounds", "bytes"):
        most = "no cap" if caps[what] is None else f"at most {caps[what]:,}"
        yield f"cap, {what}", f"{most}; {coordinator} has used {caps[f'used_{what}']:,}"
    if caps["people"] is not None:
        yield "cap, people", f"an alignment to fewer than {caps['people']:,} people is refused"
