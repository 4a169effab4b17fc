"""What the `reproduce` modules share: aligned tables, claim beside measurement, and the files of a reader's own."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def libsvm(*names: str, width: int) -> tuple[Any, Any] | None:
    """Return rows and labels of these files, one below the other, if SOTTOVOCE_DATA names a folder that has all."""
    from sklearn.datasets import load_svmlight_file

    folder = Path(os.environ.get("SOTTOVOCE_DATA") or "no data")
    if not all((folder / name).is_file() for name in names):
        return None
    parts = [load_svmlight_file(str(folder / name), n_features=width) for name in names]
    return np.vstack([X.toarray() for X, _ in parts]), np.concatenate([y for _, y in parts])


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print an aligned table."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
