"""The page of a survey: files that a collector, or any other web server, can serve as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from sottovoce._files import check_writable, write_whole
from sottovoce.local.device.wording import wording_of
from sottovoce.local.protocol import Protocol

WORDING: Final = "survey.json"


def write_survey(
    protocol: Protocol, folder: str | Path, *, wording: Mapping[str, Any] | None = None, overwrite: bool = False
) -> list[Path]:
    """Write the page, the JavaScript module and the wording to a folder.

    ``folder``, str or Path: made if it is missing; its parent must exist.
    ``wording``: see `sottovoce.local.device.wording`. Default: the names in the protocol, in English.
    ``overwrite``: whether files that exist may be replaced.

    Returns the files, the wording last.

    Raises ParameterError if a file exists, or cannot be written; nothing is written then.
    """
    target = Path(folder)
    if not target.is_dir():
        check_writable("folder", target, overwrite=overwrite)
        target.mkdir()
    with as_file(files("sottovoce.local") / "web") as source:
        page = {target / path.relative_to(source): path for path in sorted(source.rglob("*")) if path.is_file()}
        written = [*page, target / WORDING]
        for path in {path.parent for path in page} - {target}:
            path.mkdir(exist_ok=True)
        for path in written:
            check_writable("file", path, overwrite=overwrite)
        for path, original in page.items():
            write_whole(path, original.read_text(encoding="utf-8"))
    text = json.dumps(wording_of(protocol) if wording is None else wording, indent=2, ensure_ascii=False)
    write_whole(target / WORDING, text + "\n")
    return written
