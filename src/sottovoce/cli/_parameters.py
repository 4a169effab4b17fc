"""Options that are parameters of estimators: what each is called, takes, defaults to and means stands there."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from sottovoce._parameters import Declared, parameters
from sottovoce.cli._options import TOPICS, ModelKind, option, option_name, refuse_options

_T = TypeVar("_T")
_MOST = 8  # numbers beside each other
_CODE: Final = re.compile(r"`{1,2}([^`]+)`{1,2}")
_ONLY_PYTHON: Final = re.compile(
    r" \((?:one of )?`sottovoce\.[^)]*\)|[;,.]? ?\b[Ss]ee `+[^`]+`+|,? or a solver object.*?(?=\.)| \[\d\]_"
)


class Parameters:
    """Base of groups of options that `Models.options` made: its ``vars`` are the parameters; None: not given."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Models:
    """The estimators that a command trains, by what ``--model`` calls them."""

    classes: Mapping[Any, type]

    @cached_property
    def _declared(self) -> dict[str, dict[str, Declared]]:
        """What the models say of each parameter, by the parameter and the model."""
        found: dict[str, dict[str, Declared]] = {}
        for kind, cls in self.classes.items():
            for name, one in parameters(cls).items():
                found.setdefault(name, {})[str(kind)] = one
        return found

    def option(
        self, parameter: str, name: str | None = None, *, default: Any = None, more: str = "", text: str | None = None,
        **settings: Any,
    ) -> Any:  # fmt: skip
        """Return the option of a parameter; its default stays that of the models unless another one is given.

        ``name``: where it is not the parameter's.
        ``more``: what the command line adds to the text. ``text``: what it says instead.
        """
        said = self._declared[parameter]
        known = {kind: one.field.default for kind, one in said.items() if one.field.default is not None}
        if default is None and isinstance(next(iter(known.values()), None), bool):
            default = next(iter(known.values()))
        elif default is None and known and "Default: " not in more:
            more = f"{more} Default: {_by_model(known, known, '; ')}.".strip()
        if text is None:
            text = _by_model({kind: self._in_words(one) for kind, one in said.items()}, self.classes, " ")
        return option(
            option_name(parameter) if name is None else name, f"{text} {more}".rstrip(),
            TOPICS.get((name or option_name(parameter)).partition("/")[0], "Model"), default=default, **settings,
        )  # fmt: skip

    def _in_words(self, one: Declared) -> str:
        """Return the text of a parameter without Python: options by their names, values without quotes."""
        text = _ONLY_PYTHON.sub("", " ".join(one.text.split()))
        text = _CODE.sub(lambda found: self._code(found[1]), text)
        text = re.sub(r"(?:^|(?<=\. ))None (?=is|takes|follows|reads)", "Leaving it out ", text)
        text = re.sub(r"\bNone (?=is|takes|follows|reads)", "leaving it out ", text)
        choices = re.findall(r'"([\w-]+)"', one.kind) if one.kind.startswith("{") else []
        return text if {*choices} <= {*re.findall(r"[\w-]+", text)} else f"{text} One of {', '.join(choices)}."

    def _code(self, code: str) -> str:
        if code.startswith("{"):
            return code.strip("{}").replace('": ', "=").replace(", ", ",").replace('"', "")
        name, _, value = code.replace('"', "").partition("=")
        if name == "groups":
            return "--unit"
        return f"{option_name(name)} {value}".rstrip() if name in self._declared else code.replace('"', "")

    def options(self, *, hidden: Collection[str] = (), **changes: Mapping[str, Any]) -> Callable[[type[_T]], type[_T]]:
        """Return what makes a class a group with an option for each parameter that is not hidden.

        ``changes``: by the parameter, what `option` is told of it beside its name.
        """

        def made(cls: type[_T]) -> type[_T]:
            hints = {}
            inherited = {one.name for one in fields(cls)} if hasattr(cls, "__dataclass_fields__") else set()  # type: ignore[arg-type]
            for name, said in self._declared.items():
                if name in hidden or name in inherited:
                    continue
                kind = _kind(next(iter(said.values())))
                chosen = self.option(name, **_PARSED.get(kind, {}), **changes.get(name, {}))
                plain = _TYPES.get(kind, str)
                hints[name] = plain if chosen.default is not None else plain | None
                setattr(cls, name, chosen)
            cls.__annotations__ = hints
            return dataclass(frozen=True, kw_only=True)(cls)

        return made

    def refuse_foreign(self, kind: ModelKind, given: Mapping[str, Any]) -> None:
        """Refuse what was given and the model has no parameter for."""
        for name, value in given.items():
            having = list(self._declared.get(name, ()))
            if value is not None and having and kind not in having:
                if len(having) > len(self.classes) / 2:
                    why = f"is not for --model {kind}, whose coefficients are bounded by --radius"
                else:
                    why = f"is for --model {' and '.join(having)}, not for {kind}"
                refuse_options(why, {name: value})


def _by_model(said: Mapping[str, Any], models: Collection[Any], between: str) -> str:
    """Return what the models say: once where all say the same, else after the names of those that do."""
    by_text: dict[str, list[str]] = {}
    for kind, text in said.items():
        by_text.setdefault(str(text), []).append(kind)
    if len(by_text) == 1 and len(said) == len(models):
        return next(iter(by_text))
    return between.join(f"{', '.join(kinds)}: {text}" for text, kinds in by_text.items())


def _kind(one: Declared) -> str:
    """Return which kind of value the text of a parameter's kind speaks of first."""
    if '"auto"' in one.kind and "float" in one.kind:
        return "float or auto"
    found = re.search(r"\b(dict|bool|float|int|str)\b", one.kind)
    return "str" if found is None else found[0]


# ------------------------------------------------------------------ parsers: Typer names the option in their errors


def number_or_auto(text: str) -> float | str:
    return text if text == "auto" else _number(text, float)


def whole_or_auto(text: str) -> float | str:
    return text if text == "auto" else _number(text, int)


def _number(text: str, kind: type[float]) -> float:
    try:
        return kind(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number or auto; got {text!r}.") from None


def weights(text: str) -> dict[str, float]:
    """Return the weights of ``no=1,yes=3`` by class; the last = counts."""
    found: dict[str, float] = {}
    for item in text.split(","):
        name, _, value = item.rpartition("=")
        try:
            weight = float(value)
        except ValueError:
            name = ""
        if not name.strip() or name.strip() in found:
            raise typer.BadParameter(f"must be one weight for each class, such as no=1,yes=3; got {text!r}.")
        found[name.strip()] = weight
    return found


def numbers(text: str) -> tuple[float, ...]:
    try:
        values = tuple(map(float, text.split(",")))
    except ValueError:
        raise typer.BadParameter(f"must be numbers with commas between them; got {text!r}.") from None
    if len(values) > _MOST or len(set(values)) < len(values):
        raise typer.BadParameter(f"must be at most {_MOST} different numbers; got {text!r}.")
    return values


_TYPES: Final[Mapping[str, type]] = {"bool": bool, "float": float, "int": int}
_PARSED: Final[Mapping[str, Mapping[str, Any]]] = {
    "float or auto": {"parser": number_or_auto, "metavar": "NUMBER"},
    "dict": {"parser": weights, "metavar": "CLASS=WEIGHT,..."},
}
