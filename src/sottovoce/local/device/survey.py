"""The page of a survey: files that a collector, or any other web server, can serve as they are, and its texts.

A wording has the survey's own texts, in one language or several; the catalogues have the words of the page around them.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from sottovoce._files import check_writable, named_errors, write_whole
from sottovoce.exceptions import ParameterError
from sottovoce.local.features import CategoricalFeature
from sottovoce.local.protocol import Protocol

WORDING: Final = "survey.json"
LANGUAGES: Final = ("en", "de", "fr")
_SETTINGS: Final = ("language", "invitation", "title", "introduction")
_TOP: Final = ("survey", "questions", "label")


def write_survey(
    protocol: Protocol, folder: str | Path, *, wording: Mapping[str, Any] | None = None, overwrite: bool = False
) -> list[Path]:
    """Write the page, the JavaScript module and the wording to a folder.

    ``folder``, str or Path: made if it is missing; its parent must exist.
    ``wording``: see `read_wording`. Default: the names in the protocol, in English.
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


def catalogue(language: str) -> dict[str, Any]:
    """Return the words of the page in a language; those that depend on a number are tables by plural category."""
    if language not in LANGUAGES:
        raise ParameterError(f"language must be one of {', '.join(LANGUAGES)}; got {language!r}.")
    text = (files("sottovoce.local") / "web" / "languages" / f"{language}.json").read_text(encoding="utf-8")
    words: dict[str, Any] = json.loads(text)
    return words


def wording_of(protocol: Protocol, languages: Sequence[str] = ("en",), *, invitation: bool = False) -> dict[str, Any]:
    """Return a wording to begin with: the names in the protocol.

    ``languages``: the languages that visitors may choose, the survey's own first.
    ``invitation``: whether the page refuses visitors without a token in the link, also where the collector would take
      any.
    """
    words = {language: catalogue(language) for language in languages}
    if not words:
        raise ParameterError("languages must name one language or more; got none.")
    questions: dict[str, Any] = {}
    for feature in protocol.features or ():
        questions[feature.name] = {"text": feature.name}
        if isinstance(feature, CategoricalFeature):
            questions[feature.name]["choices"] = {category: category for category in feature.categories}
    for place in range(protocol.n_features if protocol.features is None else 0):
        questions[f"x{place}"] = {"text": _in_each(words, "number", place=place + 1)}
    label: dict[str, Any] = {"text": _in_each(words, "outcome")}
    if protocol.classes is not None:
        label["choices"] = {str(name): str(name) for name in protocol.classes}
    return {
        "title": _in_each(words, "survey"),
        "introduction": "",
        "languages": list(words),
        "invitation": invitation,
        "max_epsilon": protocol.epsilon,
        "questions": questions,
        "label": label,
    }


def read_wording(path: Path, protocol: Protocol, languages: Sequence[str] = ()) -> dict[str, Any]:
    """Return the wording in a TOML file; what the file leaves out is the name in the protocol.

    ``path``: ``[survey]`` with ``language``, ``title``, ``introduction``, ``invitation``; ``[questions.NAME]`` and
      ``[label]`` with ``text``, ``hint``, ``choices``, ``none``, ``missing_text``. A text is a string, or a table with
      one string for each language.
    ``languages``: languages to offer, the survey's own first. Default: all that the file has texts in, that of
      ``[survey]`` first.

    Raises ParameterError if the file cannot be read, names what the protocol does not have, or leaves out a text in one
    of the languages.
    """
    with named_errors(path, "wording", ParameterError):
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ParameterError(f"this is not TOML: {error}.") from None
        _only("the file", given, _TOP)
        survey = given.get("survey", {})
        _only("[survey]", survey, _SETTINGS)
        languages = tuple(languages) or _offered(given, survey.get("language"))
        invitation = survey.get("invitation", False)
        if not isinstance(invitation, bool):
            raise ParameterError(f"[survey] invitation must be true or false; got {invitation!r}.")
        wording = wording_of(protocol, languages, invitation=invitation)
        for name in ("title", "introduction"):
            if name in survey:
                wording[name] = _text(f"[survey] {name}", survey[name], languages)
        _only("[questions]", given.get("questions", {}), wording["questions"])
        features = {feature.name: feature for feature in protocol.features or ()}
        for name, question in given.get("questions", {}).items():
            feature = features.get(name)
            extra = ["none"] * isinstance(feature, CategoricalFeature)
            extra += ["missing_text"] * (feature is not None and feature.missing)
            _merge(f"[questions.{name}]", wording["questions"][name], question, extra, languages)
        _merge("[label]", wording["label"], given.get("label", {}), (), languages)
        return wording


def _in_each(words: Mapping[str, Mapping[str, str]], key: str, **values: object) -> str | dict[str, str]:
    texts = {language: entries[key].format(**values) for language, entries in words.items()}
    return texts if len(texts) > 1 else next(iter(texts.values()))


def _offered(given: Mapping[str, Any], own: object) -> tuple[str, ...]:
    if own is not None and own not in LANGUAGES:
        raise ParameterError(f"[survey] language must be one of {', '.join(LANGUAGES)}; got {own!r}.")
    tables = [given.get("survey"), given.get("label"), *_values(given.get("questions"))]
    texts = [text for table in tables for key, text in _items(table) if key != "choices"]
    texts += [text for table in tables for key, part in _items(table) if key == "choices" for text in _values(part)]
    found = {key for text in texts for key, _ in _items(text)} & set(LANGUAGES)
    own = str(own or next(iter(language for language in LANGUAGES if language in found), LANGUAGES[0]))
    return (own, *(language for language in LANGUAGES if language in found and language != own))


def _items(value: object) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def _values(value: object) -> list[Any]:
    return [part for _, part in _items(value)]


def _merge(name: str, wording: dict[str, Any], given: object, extra: Sequence[str], languages: Sequence[str]) -> None:
    _only(name, given, ("text", "hint", *(("choices",) if "choices" in wording else ()), *extra))
    assert isinstance(given, Mapping)
    for key, value in given.items():
        if key == "choices":
            _only(f"{name} choices", value, wording["choices"])
            texts = {choice: _text(f"{name} choices.{choice}", text, languages) for choice, text in value.items()}
            wording["choices"] |= texts
        elif key == "none" and value is False:  # TOML has no null
            wording["none"] = None
        else:
            wording[key] = _text(f"{name} {key}", value, languages)


def _only(name: str, value: object, known: Iterable[str]) -> None:
    if not isinstance(value, Mapping):
        raise ParameterError(f"{name} must be a table; got {value!r}.")
    names = list(known)
    for key in value:
        if key not in names:
            raise ParameterError(f"{name} has an entry {key!r} that means nothing here. Known: {', '.join(names)}.")


def _text(name: str, value: object, languages: Sequence[str]) -> str | dict[str, str]:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
        raise ParameterError(f"{name} must be a text, or a table with a text for each language; got {value!r}.")
    _only(name, value, LANGUAGES)
    for language in languages:
        if language not in value:
            raise ParameterError(f"{name} has no text in {language!r}. Add it, or leave that language out everywhere.")
    texts = {language: str(value[language]) for language in languages}
    return texts if len(texts) > 1 else texts[languages[0]]
