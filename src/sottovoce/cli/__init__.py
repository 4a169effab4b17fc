"""The command line: ``fit``, ``predict``, ``show``, ``plan``, ``schema``, ``vertical``; one command a file."""

from sottovoce.cli.app import app, main

__all__ = ["app", "main"]
