"""Federation: who takes part and where the coordinator is reached; public, and the same at all sites."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.flare.entries import Section, entries_of

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_RESERVED: Final = ("server", "client", "admin", "all", "authority", "lead")
_MOST_PARTIES: Final = 99


@dataclass(frozen=True, kw_only=True, slots=True)
class Federation:
    """One coordinator, who has the labels, and parties with columns of their own."""

    name: str
    coordinator: str
    host: str  # where the parties reach the coordinator
    port: int
    parties: tuple[str, ...]  # the other sites, in the order of the file
    # those of the parties that have no table: they compute with the others where nobody may see anything
    helpers: tuple[str, ...] = ()

    @property
    def with_tables(self) -> tuple[str, ...]:
        """The parties that have columns, in the order of the file; the coordinator is not among them."""
        return tuple(name for name in self.parties if name not in self.helpers)

    @property
    def names(self) -> tuple[str, ...]:
        """All sites: the coordinator, then the parties in the order of the file; sums are added in this order."""
        return (self.coordinator, *self.parties)

    @property
    def listens_at(self) -> str:
        """The address on which the coordinator listens: its name may be that of a proxy.

        If all sites are on one machine, for a trial, it listens there alone.
        """
        return self.host if self.host == "localhost" or self.host.startswith("127.") else "0.0.0.0"

    @classmethod
    def read(cls, path: str | Path) -> Federation:
        """Read a federation file; an error names the file, the entry and the remedy."""
        with entries_of(Path(path)) as entries:
            return _federation(entries)


def _federation(entries: Mapping[str, Any]) -> Federation:
    top = Section("the file", entries, ("name", "coordinator", "party"))
    if not isinstance(entries.get("coordinator"), dict):
        raise ParameterError("[coordinator] is missing: a section with its name, host and port.")
    parties = entries.get("party")
    if not isinstance(parties, list) or not parties or not all(isinstance(party, dict) for party in parties):
        raise ParameterError("[[party]] is missing: one such section, with a name, for each other organisation.")
    if len(parties) > _MOST_PARTIES:
        raise ParameterError(f"[[party]]: {len(parties)} parties; at most {_MOST_PARTIES} can take part.")
    home = Section("[coordinator]", entries["coordinator"], ("name", "host", "port"))
    others = [Section(f"[[party]] {i}", party, ("name", "helper")) for i, party in enumerate(parties, start=1)]
    folded, helpers = dict[str, str](), []
    for section in (home, *others):
        name = _name(section)
        if name.lower() in folded:
            raise ParameterError(
                f"{section.place} name = {name!r}: another site is named {folded[name.lower()]!r}. Each site needs a "
                "name of its own, whatever the case of its letters: folders have these names."
            )
        folded[name.lower()] = name
        truth = "true (a party without a table) or false"
        if section.take("helper", lambda value: isinstance(value, bool), truth, False):
            helpers.append(name)
    if len(helpers) == len(parties):
        raise ParameterError("[[party]]: all parties are helpers. At least one must have a table: leave out helper.")
    names = tuple(folded.values())
    host = home.host("host", "the parties reach the coordinator", most=64)  # as long as a certificate's name may be
    if host in names[1:]:
        raise ParameterError(f"[coordinator] host = {host!r}: a party has this name. Rename the party.")
    wanted = "a whole number from 1 to 65535, such as 8002"
    port = home.take("port", lambda value: type(value) is int and 1 <= value <= 65535, wanted)
    return Federation(
        name=_name(top), coordinator=names[0], host=host, port=port, parties=names[1:], helpers=tuple(helpers),
    )  # fmt: skip


def _name(section: Section) -> str:
    name: str = section.take(
        "name",
        lambda value: isinstance(value, str) and _NAME.fullmatch(value),
        "a name of at most 40 letters, digits, - and _, the first a letter or digit",
    )
    if name.lower() in _RESERVED:
        raise ParameterError(f"{section.place} name = {name!r}: this name is reserved. Choose another.")
    return name
