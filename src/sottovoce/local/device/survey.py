"""The page of a survey: files that a collector, or any other web server, can serve as they are."""

from __future__ import annotations

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from sottovoce._files import check_writable, write_whole
from sottovoce.local.features import CategoricalFeature
from sottovoce.local.protocol import Protocol

__all__ = ["WORDING", "wording_of", "write_survey"]

WORDING: Final = "survey.json"


def write_survey(protocol: Protocol, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
    """Write the page, the JavaScript module and a first wording to a folder.

    Parameters
    ----------
    protocol : Protocol
    folder : str or Path
        Made if it is missing; its parent must exist.
    overwrite : bool
        Whether files that exist may be replaced.

    Returns
    -------
    list of Path
        The files, the wording last.

    Raises
    ------
    ParameterError
        If a file exists, or cannot be written; nothing is written then.
    """
    target = Path(folder)
    if not target.is_dir():
        check_writable("folder", target, overwrite=overwrite)
        target.mkdir()
    with as_file(files("sottovoce.local") / "web") as source:
        page = sorted(source.iterdir())
        written = [target / path.name for path in page] + [target / WORDING]
        for path in written:
            check_writable("file", path, overwrite=overwrite)
        for path in page:
            write_whole(target / path.name, path.read_text(encoding="utf-8"))
    write_whole(target / WORDING, json.dumps(wording_of(protocol), indent=2, ensure_ascii=False) + "\n")
    return written


def wording_of(protocol: Protocol) -> dict[str, Any]:
    """Return a wording to begin with: the names in the protocol."""
    questions: dict[str, Any] = {}
    for feature in protocol.features or ():
        questions[feature.name] = {"text": feature.name}
        if isinstance(feature, CategoricalFeature):
            questions[feature.name]["choices"] = {category: category for category in feature.categories}
    for place in range(protocol.n_features if protocol.features is None else 0):
        questions[f"x{place}"] = {"text": f"Number {place + 1}"}
    label: dict[str, Any] = {"text": "Outcome"}
    if protocol.classes is not None:
        label["choices"] = {str(name): str(name) for name in protocol.classes}
    return {
        "title": "Survey",
        "introduction": "",
        "invitation": False,
        "max_epsilon": protocol.epsilon,
        "questions": questions,
        "label": label,
    }
