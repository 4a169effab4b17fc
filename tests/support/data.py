"""Where real data are: the one rule of tests, benchmarks and the demo, none of which needs any."""

import os
from pathlib import Path

VARIABLE = "SOTTOVOCE_DATA"


def data_folder() -> Path | None:
    """Return the folder that SOTTOVOCE_DATA names; None where it is unset, empty or names something else."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named and Path(named).is_dir() else None


def why_without(*files: str) -> str | None:
    """Return why ``files`` of the folder cannot be read, None if all are there."""
    folder = data_folder()
    if folder is None:
        return f"{VARIABLE} does not name a folder with {', '.join(files) or 'real data'}"
    missing = [name for name in files if not (folder / name).is_file()]
    return f"{VARIABLE}={folder} has no {', '.join(missing)}" if missing else None
