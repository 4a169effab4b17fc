"""Every line of a site's register, for tests; its owner is shown sums."""

import sqlite3
from pathlib import Path
from types import SimpleNamespace


def entries(path: Path) -> list[SimpleNamespace]:
    """Return the lines of a register, in order."""
    file = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        file.row_factory = sqlite3.Row
        return [SimpleNamespace(**dict(row)) for row in file.execute("SELECT * FROM requests ORDER BY id")]
    finally:
        file.close()
