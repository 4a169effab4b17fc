"""What is loaded or compiled when it is first used, so that nobody waits for what they do not use."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
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


class Later:
    """What needs numba, which takes a fifth as long to load as scikit-learn: it is made when it is first used."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def made(self) -> Any:
        return self._make()

    def __call__(self, *arguments: Any) -> Any:
        return self.made(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # whoever looks an object over loads nothing
            raise AttributeError(name)
        return getattr(self.made, name)


def jitted(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile as `sottovoce._compiling.njit` does, later."""
    return lambda function: Later(partial(_jit, function, options))


def _jit(function: Any, options: dict[str, Any]) -> Any:
    from sottovoce._compiling import njit

    names = function.__globals__  # compiled code takes what stands there for what it is
    names.update({name: names[name].made for name in function.__code__.co_names if isinstance(names.get(name), Later)})
    return njit(**options)(function)
