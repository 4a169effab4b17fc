"""Libraries that an extra brings: loaded when they are first used, and named with their extra where they are missing.

A module that reads tables can then be imported everywhere: by the help of the command line, and by whoever has arrays
and never asks for a file.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from sottovoce.exceptions import ParameterError


class Optional:
    """A library that is loaded when something of it is asked for.

    ``name``: what is imported.
    ``purpose``: what needs it, with the verb: the start of the message where it is missing.
    ``extra``: of sottovoce, which brings it.
    """

    def __init__(self, name: str, *, purpose: str, extra: str) -> None:
        self._name, self._purpose, self._extra = name, purpose, extra

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # tools that look at modules ask for these, and want no library loaded
            raise AttributeError(attribute)
        try:
            library = import_module(self._name)
        except ModuleNotFoundError as error:
            if not f"{self._name}.".startswith(f"{error.name}."):  # it is there, and something of its own is missing
                raise
            package = self._name.partition(".")[0]
            raise ParameterError(
                f'{self._purpose} {package}, which is not installed: pip install "sottovoce[{self._extra}]".'
            ) from None
        value = getattr(library, attribute, None)
        if value is None:  # a module of the library that it does not load by itself
            value = import_module(f"{self._name}.{attribute}")
        setattr(self, attribute, value)
        return value


pa: Final[Any] = Optional("pyarrow", purpose="CSV and Parquet files, and tables with a schema, need", extra="tables")
"""pyarrow with all its modules: ``pa.csv``, ``pa.compute``."""


def loaded(name: str) -> ModuleType | None:
    """Return a library if this process has loaded it: without it, nobody can have given an object of its."""
    return sys.modules.get(name)
