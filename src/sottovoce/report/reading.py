"""Read what may come from anybody: a receipt in its own file, a model, an evaluation or a page, and a model card.

A model card is what the author of a model says about it; it is shown in the receipt's page, and never checked.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import ParseError

from sottovoce._files import named_errors
from sottovoce._plain_data import parsed
from sottovoce.exceptions import AccountingError, ModelFormatError, ParameterError, SottovoceError
from sottovoce.privacy.guarantee import Guarantee

_LARGEST_RECEIPT: Final = 4_000_000
_LARGEST_MODEL: Final = 500_000_000
_DEEPEST: Final = 64
_MOST_EVENTS: Final = 10_000
_MODELS: Final = ("sottovoce-model", "sottovoce-local-model")
_EVALUATION: Final = "sottovoce-evaluation"
_PAGE: Final = b"<!doctype html>"
_BLOCK: Final = re.compile(r'<script(?: type="application/json")? id="([a-z]+)">(.*?)</script>', re.DOTALL)
_LONGEST: Final = 20_000
_LARGEST_FILE: Final = 1_000_000


@dataclass(frozen=True)
class ReceiptFile:
    """What a file says, before anything of it is believed."""

    kind: str  # one of "receipt", "model", "evaluation", "page"
    data: dict[str, Any]  # the receipt as plain data
    page: str | None = None  # the whole text of a page
    title: str | None = None
    model_card: dict[str, str | list[str]] | None = None  # what a page was made with
    raw: bytes = b""  # the file
    model: dict[str, Any] | None = None  # the content of a model file
    evaluation: dict[str, Any] | None = None  # the content of an evaluation, from its file or its page


def read_receipt(path: str | Path) -> Guarantee:
    """Read the receipt in a file, and account its event again.

    Parameters
    ----------
    path : str or Path
        A receipt, a model file, an evaluation, or a page of a receipt or an evaluation.

    Returns
    -------
    Guarantee

    Raises
    ------
    ModelFormatError
        If the file holds no receipt that this version can read.
    AccountingError
        If the event costs more than the receipt says.
    """
    opened = open_receipt(path)
    try:
        return Guarantee.from_dict(opened.data)
    except AccountingError as error:
        raise AccountingError(f"{path}: {error}") from None
    except SottovoceError as error:
        raise ModelFormatError(f"{path}: {error}") from None


def fingerprint(guarantee: Guarantee) -> str:
    """Return the SHA-256 of the receipt's JSON file as hexadecimal digits: the same on paper, on screen and on disk.

    A signature does not change it: it is that of the file before it was signed.
    """
    return hashlib.sha256(guarantee.signed_bytes()).hexdigest()


def open_receipt(path: Any) -> ReceiptFile:
    """Read a file, or what would be in it, with limits on its size and depth; nothing is accounted yet."""
    given = getattr(path, "guarantee_", path)
    if isinstance(given, (Guarantee, Mapping)):
        text = given.to_json() if isinstance(given, Guarantee) else json.dumps(given, default=repr)
        return _opened(text.encode("utf-8", "surrogatepass"))
    if not isinstance(path, (str, PathLike)):
        raise ParameterError(
            f"path must be that of a file, a receipt, its dict, or what has one as guarantee_; got {path!r}."
        )
    with named_errors(path, "file", ModelFormatError), Path(path).open("rb") as file:
        return _opened(file.read(_LARGEST_MODEL + 1))


def _opened(raw: bytes) -> ReceiptFile:
    is_page = raw[: len(_PAGE)].lower() == _PAGE
    if len(raw) > (_LARGEST_RECEIPT if is_page else _LARGEST_MODEL):
        raise ModelFormatError("the file is too large for a receipt or a model.")
    try:
        content = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ModelFormatError("this is not a receipt: it is not UTF-8 text.") from None
    if is_page:
        return _page(content)
    data = _parsed(content)
    if isinstance(data, dict) and data.get("format") in (*_MODELS, _EVALUATION):
        kind = "evaluation" if data["format"] == _EVALUATION else "model"
        if not isinstance(data.get("guarantee"), dict):
            raise ModelFormatError(f"the {kind} file holds no receipt: it is damaged.")
        whole: dict[str, Any] = {kind: data}
        return ReceiptFile(kind, _limited(data["guarantee"]), **whole)
    if not isinstance(data, dict) or data.get("format") != "sottovoce-receipt":
        raise ModelFormatError("this is neither a receipt, a model, an evaluation, nor the page of one.")
    if len(raw) > _LARGEST_RECEIPT:
        raise ModelFormatError(f"a receipt has at most {_LARGEST_RECEIPT:,} bytes; this file has {len(raw):,}.")
    return ReceiptFile("receipt", _limited(data), raw=raw)


def _page(content: str) -> ReceiptFile:
    # two and no more, or a page of many that do not end would take for ever
    blocks = _BLOCK.findall(content) if content.lower().count("<script") == 2 else []
    named = dict(blocks)
    about = "evaluation" if "evaluation" in named else "receipt"
    if len(named) < len(blocks):
        raise ModelFormatError(f"this page has two data blocks {blocks[0][0]!r}.")
    if set(named) != {"page", about}:
        raise ModelFormatError("this page holds no receipt: it must have one data block 'receipt' and one 'page'.")
    found, made_with = _parsed(named[about]), _parsed(named["page"])
    evaluation = found if about == "evaluation" and isinstance(found, dict) else None
    data = found if evaluation is None else evaluation.get("guarantee")
    if not isinstance(data, dict) or not isinstance(made_with, dict):
        raise ModelFormatError("the data of this page are no receipt.")
    title, card = made_with.get("title"), made_with.get("model_card")
    if not (title is None or isinstance(title, str)) or not (card is None or isinstance(card, dict)):
        raise ModelFormatError("the data of this page are of the wrong kind.")
    try:
        checked = None if card is None else check_model_card(card)
    except SottovoceError as error:
        raise ModelFormatError(f"the page has no valid model card: {error}") from None
    return ReceiptFile("page", _limited(data), content, title, checked, evaluation=evaluation)


def _parsed(content: str) -> Any:
    try:
        return parsed(content)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"this is not a receipt: it is not JSON ({error}).") from None


def _limited(data: dict[str, Any]) -> dict[str, Any]:
    """Refuse what is nested deeper, or has more events, than any receipt of ours."""
    level: list[Any] = [data]
    for _ in range(_DEEPEST):
        level = [
            item
            for parent in level
            for item in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(item, (dict, list))
        ]
        if not level:
            break
    else:
        raise ModelFormatError(f"the receipt is nested more than {_DEEPEST} levels deep.")
    if json.dumps(data.get("event")).count('"kind"') > _MOST_EVENTS:
        raise ModelFormatError(f"the receipt has more than {_MOST_EVENTS:,} events.")
    return data


def check_model_card(card: Mapping[str, object]) -> dict[str, str | list[str]]:
    """Return a model card, or refuse it.

    Raises ParameterError if a field is empty, too long or of another kind.

    ``card``: names of the author's own to a text, or to a list of texts.
    """
    if not isinstance(card, Mapping):
        raise ParameterError(f"model_card must be a mapping of field names to texts; got {type(card).__name__}.")
    return {_checked_text("the name of a field", name): _checked(name, value) for name, value in card.items()}


def read_model_card(path: str | Path) -> dict[str, str | list[str]]:
    """Read a model card from a TOML file, or from JSON where the name ends in ``.json``.

    Raises
    ------
    ParameterError
        If the file cannot be read, or `check_model_card` refuses it.
    """
    path = Path(path)
    with named_errors(path, "model card", ParameterError), path.open("rb") as file:
        raw = file.read(_LARGEST_FILE + 1)
        if len(raw) > _LARGEST_FILE:
            raise ParameterError(f"a model card has at most {_LARGEST_FILE:,} bytes.")
        content = raw.decode("utf-8")
        try:
            card: Any = json.loads(content) if path.suffix == ".json" else tomlkit.parse(content).unwrap()
        except (ValueError, ParseError, RecursionError) as error:
            kind = "JSON" if path.suffix == ".json" else "TOML"
            raise ParameterError(f"this is not a model card: it is not {kind} ({error}).") from None
        return check_model_card(card)


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
