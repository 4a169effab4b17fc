"""What the tools of others import for parts of theirs that are not used here is left out."""

import importlib.abc
import importlib.machinery
import sys
import types
from contextlib import contextmanager

import pytest


class _Itself(type):
    """Of a class whose every attribute is the class again."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class _Nothing(types.ModuleType):
    """A module in which every name is a class that does nothing."""

    __path__ = ()

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Itself(name, (), {"__init__": lambda self, *given, **named: None})


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name.split(".")[0] in self.names else None

    def create_module(self, spec):
        return _Nothing(spec.name)

    def exec_module(self, module):
        pass


@pytest.fixture(scope="session")
def without():
    """Return a context in which these packages can be imported, and hold nothing."""

    @contextmanager
    def absent(*names: str):
        finder, before = _Absent(names), set(sys.modules)
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            for name in set(sys.modules) - before:
                if name.split(".")[0] in names:
                    del sys.modules[name]

    return absent
