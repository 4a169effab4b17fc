"""The command line: ``sottovoce fit``, ``predict``, ``show``, ``plan``, ``schema``; one command a file."""

from sottovoce.cli.app import app, main

__all__ = ["app", "main"]
