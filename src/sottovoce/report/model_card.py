"""The model card: what the author of a model says about it; shown in the receipt's page, never checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import ParseError

from sottovoce.exceptions import ParameterError

# name in the file: heading on the page; the order is that of the page
CARD_FIELDS: Final = {
    "name": "Name",
    "version": "Version",
    "date": "Date",
    "organisation": "Organisation",
    "authors": "Authors",
    "contact": "Contact",
    "licence": "Licence",
    "intended_use": "Intended use",
    "intended_users": "Intended users",
    "out_of_scope_use": "Out-of-scope use",
    "data_description": "The data",
    "data_subjects": "The people in the data",
    "data_period": "Period of the data",
    "legal_basis": "Legal basis",
    "retention": "Retention",
    "evaluation": "Evaluation",
    "limitations": "Limitations",
    "ethical_considerations": "Ethical considerations",
    "other_releases": "Other releases about the same people",
    "references": "References",
}
_LONGEST: Final = 20_000
_LARGEST_FILE: Final = 1_000_000


def check_model_card(card: Mapping[str, object]) -> dict[str, str | list[str]]:
    """Return a model card in the order of the page, or refuse it.

    Raises ParameterError if a field is unknown, empty, too long or of another kind.

    ``card``: names of `CARD_FIELDS` to a text, or to a list of texts.
    """
    if not isinstance(card, Mapping):
        raise ParameterError(f"model_card must be a mapping of field names to texts; got {type(card).__name__}.")
    known = ", ".join(CARD_FIELDS)
    for name in card:
        if name not in CARD_FIELDS:
            raise ParameterError(f"model_card has the unknown field {name!r}. The fields are: {known}.")
    return {name: _checked(name, card[name]) for name in CARD_FIELDS if name in card}


def read_model_card(path: str | Path) -> dict[str, str | list[str]]:
    """Read a model card from a TOML file, or from JSON where the name ends in ``.json``.

    Raises
    ------
    ParameterError
        If the file cannot be read, or `check_model_card` refuses it.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
        if len(raw) > _LARGEST_FILE:
            raise ParameterError(f"{path}: a model card has at most {_LARGEST_FILE:,} bytes.")
        content = raw.decode("utf-8")
    except OSError as error:
        raise ParameterError(f"{path}: cannot read the model card: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ParameterError(f"{path}: this is not a model card: it is not UTF-8 text.") from None
    try:
        card: Any = json.loads(content) if path.suffix == ".json" else tomlkit.parse(content).unwrap()
    except (ValueError, ParseError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ParameterError(f"{path}: this is not a model card: it is not {kind} ({error}).") from None
    try:
        return check_model_card(card)
    except ParameterError as error:
        raise ParameterError(f"{path}: {error}") from None


def _checked(name: str, value: object) -> str | list[str]:
    if isinstance(value, (list, tuple)) and value:
        return [_checked_text(name, item) for item in value]
    return _checked_text(name, value)


def _checked_text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ParameterError(
            f"model_card: {name} must be a text, or a list of texts, that is not empty; got {value!r}. Dates and "
            "numbers go between quotes."
        )
    if len(value) > _LONGEST:
        raise ParameterError(f"model_card: {name} has {len(value):,} characters; at most {_LONGEST:,} fit.")
    return value
