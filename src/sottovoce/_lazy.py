"""Names of a package that are loaded when they are first used, so that nobody waits for what they do not use."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def without_collector() -> Iterator[None]:
    """Have no garbage collected meanwhile: loading and compiling make next to none, and search a sixth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    ``package``: its ``__name__``.
    ``homes``: for each name the module below the package that has it; the empty string for a module of that name.
    """

    def getattr_(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        with without_collector():
            value = getattr(import_module(f"{package}.{home}"), name) if home else import_module(f"{package}.{name}")
        setattr(import_module(package), name, value)
        return value

    return getattr_
