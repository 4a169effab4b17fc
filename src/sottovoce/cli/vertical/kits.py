"""``sottovoce vertical provision``: a federation's start-up kits."""

from pathlib import Path

from sottovoce.cli._options import REQUIRED, Told, argument, command, option
from sottovoce.cli._output import print_columns
from sottovoce.vertical.flare.federation import Federation
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.kit import provision as make_kits


@command
def provision(
    federation: Path = argument(
        "FEDERATION", "TOML with the federation's name, coordinator (name, host, port) and parties."
    ),
    out: Path = option(
        "--out", "Folder for the kits, one folder a site; no kit is ever overwritten.", default=REQUIRED
    ),
    add: str | None = option(
        "--add", "Make only the kit of this site, which joins later or gets a new one, with OUT/authority."
    ),
) -> Told:
    """Make a federation's start-up kits: one folder a site, with its keys, mutual TLS, and what is unsafe closed.

    Give each site its folder, over a channel that keeps it secret, and delete it here. OUT/authority can sign new
    sites: keep it offline.
    """
    folders = make_kits(federation, out, add)
    facts = Federation.read(federation)
    kits = [Kit.open(folder) for name, folder in folders.items() if name in facts.names]
    authority = folders.get("authority")
    sites = [
        {"name": kit.name, "kind": kit.kind, "folder": str(kit.folder), "expires": kit.expires.isoformat()}
        for kit in kits
    ]
    rows = [
        (kit.name, "helper" if kit.is_helper else kit.kind, f"{kit.expires:%Y-%m-%d}", str(folders[kit.name]))
        for kit in kits
    ]  # fmt: skip
    headings = ["site", "kind", "certificate until", "kit"]
    return Told(
        {"federation": facts.name, "sites": sites, "authority": str(authority) if authority else None},
        lambda: print_columns(f"Federation {facts.name}", headings, rows, ends_in_words=True),
        "Give each site its folder, over a channel that keeps it secret, and delete it here; its README.txt",
        "says how it is started.",
        f"{authority} can sign new sites: keep it offline, at one organisation that all trust with this."
        if authority is not None
        else "Replace federation.toml at the other sites by this one; the order of the parties matters.",
    )
