"""The version that is installed, as its metadata say."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("sottovoce")
