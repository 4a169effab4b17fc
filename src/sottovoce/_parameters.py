"""Constructor parameters of estimators, each written once: type, default and text; the rest is made from them."""

import dataclasses
import inspect
import re
import textwrap
from typing import Any, TypeVar, dataclass_transform

__all__ = ["estimator", "parameter"]

_SECTION = re.compile(r"^[ \t]*(Attributes|Raises|Notes|References|Examples)\n[ \t]*-{3,}$", re.MULTILINE)

Estimator = TypeVar("Estimator")


def parameter(default: Any, kind: str, text: str) -> Any:
    """Declare a constructor parameter, as a class attribute: ``alpha: float = parameter(1.0, "float, > 0", "...")``.

    A subclass has it too, and may declare it again with another default or text.

    Parameters
    ----------
    default : object
        Immutable.
    kind : str
        Type and range, as numpydoc writes them; the default is added.
    text : str
        What it means.
    """
    return dataclasses.field(default=default, metadata={"kind": kind, "text": text})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
def estimator(cls: type[Estimator]) -> type[Estimator]:
    """Give a class the constructor and the section of its docstring that its parameters make.

    The constructor takes keywords only and stores what it is given, as scikit-learn wants it. Annotations of fitted
    attributes belong to a base that is not decorated: here every annotation is a parameter.
    """
    made = dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)
    if made.__doc__ is not None:  # None under ``python -OO``
        made.__doc__ = _with_parameters(inspect.cleandoc(made.__doc__), dataclasses.fields(made))  # type: ignore[arg-type]
    return made


def _with_parameters(doc: str, fields: tuple[dataclasses.Field[Any], ...]) -> str:
    section = "\n".join(["Parameters", "----------", *map(_entry, fields)])
    first = _SECTION.search(doc)
    place = len(doc) if first is None else first.start()
    return f"{doc[:place].rstrip()}\n\n{section}\n\n{doc[place:]}".rstrip() + "\n"


def _entry(field: dataclasses.Field[Any]) -> str:
    default = "" if field.default is None else f", default {field.default!r}"
    text = textwrap.fill(field.metadata["text"], 116, initial_indent="    ", subsequent_indent="    ")
    return f"{field.name} : {field.metadata['kind']}{default}\n{text}"
