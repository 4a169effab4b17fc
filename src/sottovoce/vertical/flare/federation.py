"""Federation: who takes part and where the coordinator is reached; public, and the same at all sites.

What is taken from a file of a kit has been checked; an error names the entry, its value, the remedy.
"""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sottovoce._validation import nearest, number
from sottovoce.exceptions import ParameterError

# ------------------------------------------------------------------ files in TOML

NEEDED: Final[Any] = object()
"""The default of an entry that must be there."""

_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST: Final = re.compile(rf"({_LABEL}\.)*{_LABEL}")


@contextmanager
def entries_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a file, which is named by the errors that are raised about them."""
    try:
        yield _parsed(path)
    except ParameterError as error:
        raise ParameterError(f"{path}: {error}") from None


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ParameterError(f"cannot read it: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ParameterError("it is not UTF-8 text. Save it as UTF-8.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ParameterError(f"not valid TOML: {error}.") from None


class Section:
    """One section of a file; each method takes an entry, or ``default`` where there is none.

    It begins with ``place``, such as ``[caps]``, and has none but the ``keys``.
    """

    def __init__(self, place: str, entries: object, keys: Collection[str]) -> None:
        if not isinstance(entries, Mapping):
            raise ParameterError(f"{place.strip('[]')} must be a section, {place}; got {entries!r}.")
        for key in entries:
            if key not in keys:
                raise ParameterError(
                    f"{place} has the unknown key {key!r}.{nearest(key, keys)} There are {', '.join(keys)}."
                )
        self.place, self.entries = place, entries

    def take(self, key: str, good: Callable[[Any], object], wanted: str, default: Any = NEEDED) -> Any:
        value = self.entries.get(key)  # TOML has no None
        if value is None and default is not NEEDED:
            return default
        if value is None or not good(value):
            got = "it is missing" if value is None else f"got {value!r}"
            raise ParameterError(f"{self.place} {key} must be {wanted}; {got}.")
        return value

    def text(self, key: str, default: Any = NEEDED) -> Any:
        return self.take(key, lambda value: isinstance(value, str) and value, "a text between quotes", default)

    def file(self, key: str, folder: Path) -> Path:
        """Return a regular file that can be read; its path is relative to ``folder``."""
        path = folder / Path(self.text(key)).expanduser()
        try:
            regular = stat.S_ISREG(path.stat().st_mode)
        except OSError as error:
            raise ParameterError(f"{self.place} {key}: cannot read {path}: {error.strerror}.") from None
        if not regular:
            raise ParameterError(f"{self.place} {key}: {path} is not a regular file.")
        return path

    def whole(self, key: str, default: Any = NEEDED, *, least: int) -> Any:
        def good(value: object) -> bool:
            return type(value) is int and least <= value < 2**63

        return self.take(key, good, f"a whole number >= {least}", default)

    def positive(self, key: str, default: Any, *, at_most: float | None = None) -> Any:
        value = self.entries.get(key, default)
        return value if value is default else number(f"{self.place} {key}", value, above=0.0, at_most=at_most)

    def names(
        self, key: str, known: Collection[str], what: str = "names", default: Any = NEEDED, *, empty: bool = False
    ) -> Any:
        """Return a tuple of names, each once, all of them ``known``."""

        def good(value: object) -> bool:
            return isinstance(value, list) and bool(value or empty) and all(isinstance(each, str) for each in value)

        listed = ", ".join(f'"{name}"' for name in known)
        given = self.take(key, good, f"a list of {what} out of {listed}", default)
        for name in given or ():
            if name not in known:
                raise ParameterError(
                    f"{self.place} {key} has {name!r}, which is none of {listed}.{nearest(name, known)}"
                )
        return given if given is default else tuple(dict.fromkeys(given))

    def host(self, key: str, reached: str, *, most: int) -> str:
        """Return the name of a host or its IPv4 address; ``reached`` says at which others reach whom."""
        wanted = (
            f"the host name (of at most {most} characters) or IPv4 address at which {reached}, such as "
            '"vertical.insurer.example", without https:// and port'
        )
        text: str = self.take(
            key, lambda value: isinstance(value, str) and len(value) <= most and _HOST.fullmatch(value), wanted
        )
        return text


# ------------------------------------------------------------------ who takes part

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
