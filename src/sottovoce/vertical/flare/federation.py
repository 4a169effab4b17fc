"""Federation: who takes part and where the coordinator is reached; public, and the same at all sites."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sottovoce.exceptions import ParameterError

__all__ = ["Federation"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_HOST: Final = re.compile(
    r"(?=.{1,64}$)([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
)
_RESERVED: Final = ("server", "client", "admin", "all", "authority", "lead")
_MOST_PARTIES: Final = 99


@dataclass(frozen=True, kw_only=True, slots=True)
class Federation:
    """One coordinator, who has the labels, and parties with columns of their own.

    Attributes
    ----------
    name : str
    coordinator : str
        The name of the label holder's site.
    host : str
        The name or IPv4 address at which the parties reach the coordinator.
    port : int
    parties : tuple of str
        The other sites, in the order of the file.
    organisations : dict
        By site, the words for it in reports; a site without any has its name.
    helpers : tuple of str
        Those of the parties that have no table: they compute with the others where nobody may see anything.
    """

    name: str
    coordinator: str
    host: str
    port: int
    parties: tuple[str, ...]
    organisations: Mapping[str, str] = field(default_factory=dict)
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
    def on_one_machine(self) -> bool:
        """Whether all sites are on one machine, for a trial: the coordinator then listens there alone."""
        return self.host == "localhost" or self.host.startswith("127.")

    def organisation(self, name: str) -> str:
        """Return the words for a site in reports."""
        return self.organisations.get(name, name)

    @classmethod
    def read(cls, path: str | Path) -> Federation:
        """Read a federation file.

        Raises
        ------
        ParameterError
            If the file cannot be read or is not a federation; the message names the file, the entry and the remedy.
        """
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise ParameterError(f"{path}: cannot read the federation: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise ParameterError(f"{path}: the federation is not UTF-8 text. Save it as UTF-8.") from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ParameterError(f"{path}: not valid TOML: {error}.") from None
        try:
            return _federation(content)
        except ParameterError as error:
            raise ParameterError(f"{path}: {error}") from None


def _federation(content: Mapping[str, Any]) -> Federation:
    _known("the file", content, ("name", "coordinator", "party"))
    coordinator = content.get("coordinator")
    if not isinstance(coordinator, dict):
        raise ParameterError("[coordinator] is missing: a section with its name, host and port.")
    _known("[coordinator]", coordinator, ("name", "host", "port", "organisation"))
    parties = content.get("party")
    if not isinstance(parties, list) or not parties or not all(isinstance(party, dict) for party in parties):
        raise ParameterError("[[party]] is missing: one such section, with a name, for each other organisation.")
    if len(parties) > _MOST_PARTIES:
        raise ParameterError(f"[[party]]: {len(parties)} parties; at most {_MOST_PARTIES} can take part.")
    sections = [
        ("[coordinator]", coordinator),
        *((f"[[party]] {i}", party) for i, party in enumerate(parties, start=1)),
    ]
    organisations, folded, helpers = {}, dict[str, str](), []
    for place, section in sections:
        if place != "[coordinator]":
            _known(place, section, ("name", "organisation", "helper"))
        name = _name(f"{place} name", section.get("name"))
        if name.lower() in folded:
            raise ParameterError(
                f"{place} name = {name!r}: another site is named {folded[name.lower()]!r}. Each site needs a name of "
                "its own, whatever the case of its letters: folders have these names."
            )
        folded[name.lower()] = name
        if "organisation" in section:
            organisations[name] = _words(f"{place} organisation", section["organisation"])
        if _helps(place, section.get("helper", False)):
            helpers.append(name)
    if len(helpers) == len(parties):
        raise ParameterError("[[party]]: all parties are helpers. At least one must have a table: leave out helper.")
    names, host = tuple(folded.values()), _host(coordinator.get("host"))
    if host in names[1:]:
        raise ParameterError(f"[coordinator] host = {host!r}: a party has this name. Rename the party.")
    return Federation(
        name=_name("name", content.get("name")), coordinator=names[0], host=host,
        port=_port(coordinator.get("port")), parties=names[1:], organisations=organisations,
        helpers=tuple(helpers),
    )  # fmt: skip


def _known(place: str, section: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in section:
        if key not in keys:
            raise ParameterError(f"{place} has an unknown entry {key!r}. It can have {', '.join(keys)}.")


def _name(entry: str, value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ParameterError(
            f"{entry} = {value!r}: must be a name of at most 40 letters, digits, - and _, the first a letter or digit."
        )
    if value.lower() in _RESERVED:
        raise ParameterError(f"{entry} = {value!r}: this name is reserved. Choose another.")
    return value


def _helps(place: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ParameterError(f"{place} helper = {value!r}: must be true (a party without a table) or false.")
    return value


def _words(entry: str, value: object) -> str:
    if not isinstance(value, str) or not value.isprintable() or not 1 <= len(value) <= 100:
        raise ParameterError(f"{entry} = {value!r}: must be printable text of 1 to 100 characters, or left out.")
    return value


def _host(value: object) -> str:
    if not isinstance(value, str) or not _HOST.fullmatch(value):
        raise ParameterError(
            f"[coordinator] host = {value!r}: must be the host name (of at most 64 characters) or IPv4 address at "
            'which the parties reach the coordinator, such as "vertical.insurer.example", without https:// and port.'
        )
    return value


def _port(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65535:
        raise ParameterError(f"[coordinator] port = {value!r}: must be a whole number from 1 to 65535, such as 8002.")
    return value
