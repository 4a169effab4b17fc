"""The command line: ``fit``, ``predict``, ``show``, ``receipt``, ``plan``, ``schema``, ``vertical``; one a file."""

from sottovoce.cli.app import app, main

__all__ = ["app", "main"]
