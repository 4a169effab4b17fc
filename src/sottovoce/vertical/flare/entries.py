"""Files of a kit in TOML: what is taken from one has been checked; an error names the entry, its value, the remedy."""

import re
import stat
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sottovoce._validation import nearest, number
from sottovoce.exceptions import ParameterError

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
