"""Temporary files of a site: below its own state, so that what a killed process left behind is found and removed."""

import shutil
from pathlib import Path

__all__ = ["clear_leftovers", "temporary"]


def temporary(state: Path) -> Path:
    """Return the folder for the temporary files of a site's processes."""
    return state / "tmp"


def clear_leftovers(state: Path) -> None:
    """Remove what joint computations of earlier runs left: keys of their sessions. No other run is under way here."""
    for folder in temporary(state).glob("sottovoce-*"):
        shutil.rmtree(folder, ignore_errors=True)
