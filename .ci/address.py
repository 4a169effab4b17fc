"""Refuse to build a release whose addresses lead nowhere: names that are reserved for examples and tests (RFC 2606)."""

import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

RESERVED = ("example", "test", "invalid", "localhost")


def leads_nowhere(url: str) -> bool:
    """Tell reserved names, and what names no machine at all."""
    return (urlsplit(url).hostname or "localhost").split(".")[-1] in RESERVED


urls = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]["urls"]
refused = [f"{name} = {url}" for name, url in urls.items() if leads_nowhere(url)]
if refused and sys.argv[2:] != ["anyway"]:
    sys.exit(
        "\n".join(refused)
        + "\nThese addresses lead nowhere, and receipts and README of this build name them. Put the real ones into\n"
        f"{sys.argv[1]}: [project.urls], and the substitutions of the readme. For a trial: make dist ADDRESS=anyway"
    )
