"""Constructor parameters and fitted attributes of estimators, each written once: type, default and text.

The constructor, its signature and two sections of the docstring are made from them. A subclass has what its bases have;
it may declare a name again, with another default or text.
"""

import dataclasses
import inspect
import json
import re
import textwrap
from typing import Any, Final, Literal, TypeVar, dataclass_transform

__all__ = ["Budgeted", "attribute", "estimator", "parameter"]

_REQUIRED: Final = dataclasses.MISSING
_LATER: Final = re.compile(r"^(Attributes|Raises|Notes|References|Examples)\n-{3,}$", re.MULTILINE)

Estimator = TypeVar("Estimator")


def parameter(kind: str, *, default: Any = _REQUIRED, text: str, kw_only: bool = True) -> Any:
    """Declare a constructor parameter: ``alpha: float = parameter("float, > 0", default=1.0, text="...")``.

    Parameters
    ----------
    kind : str
        Type and range, as numpydoc writes them; the default is added. A parameter whose default is None although its
        kind does not speak of None has to be given before a fit: such parameters are documented first.
    default : object
        Immutable. Without one, the constructor asks for the parameter.
    text : str
        What it means; spaces and line ends do not matter.
    kw_only : bool
        False for a parameter that may be given by its place.
    """
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"kind": kind, "text": text})


def attribute(kind: str, text: str = "", *, init: Literal[False] = False) -> Any:
    """Declare what `fit` sets: ``coef_: NDArray = attribute("ndarray of shape (n_features,)")``; no parameter."""
    return dataclasses.field(init=init, metadata={"kind": kind, "text": text})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter, attribute))
def estimator(cls: type[Estimator]) -> type[Estimator]:
    """Give a class the constructor and the sections of its docstring that `parameter` and `attribute` declare.

    The constructor stores what it is given, as scikit-learn wants it. In a decorated class every annotation has one of
    the two, or is a ``ClassVar``. Documented first is what has to be given, then what the class itself declares, then
    what its bases do.
    """
    doc = cls.__doc__
    made = dataclasses.dataclass(kw_only=True, eq=False, repr=False, match_args=False)(cls)
    fields = sorted(dataclasses.fields(made), key=lambda field: _place(made, field))  # type: ignore[arg-type]
    known = inspect.signature(made.__init__).parameters
    ordered = [known["self"], *(known[field.name] for field in fields if field.init)]
    setattr(made.__init__, "__signature__", inspect.Signature(ordered, return_annotation=None))  # noqa: B010
    for name in [field.name for field in fields if field.name in vars(made)]:
        delattr(made, name)  # the constructor has the default; the class is left without
    made.__doc__ = None if doc is None else _with_sections(inspect.cleandoc(doc), fields)  # None: ``python -OO``
    return made


def _place(cls: type, field: dataclasses.Field[Any]) -> tuple[bool, bool, int]:
    declared = [field.name in getattr(base, "__dataclass_fields__", ()) for base in cls.__mro__]
    by_name = field.kw_only is not False
    return by_name, not _is_needed(field), 0 if _is_needed(field) else len(declared) - declared[::-1].index(True)


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    without = field.default is _REQUIRED or (field.default is None and "None" not in field.metadata["kind"])
    return field.init and without


def _with_sections(doc: str, fields: list[dataclasses.Field[Any]]) -> str:
    later = _LATER.search(doc)
    place = len(doc) if later is None else later.start()
    parts = [
        doc[:place].rstrip(),
        *_section("Parameters", [field for field in fields if field.init]),
        *_section("Attributes", [field for field in fields if not field.init]),
        doc[place:].rstrip(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, fields: list[dataclasses.Field[Any]]) -> list[str]:
    return ["\n".join([title, "-" * len(title), *map(_entry, fields)])] if fields else []


def _entry(field: dataclasses.Field[Any]) -> str:
    shown = json.dumps(field.default) if isinstance(field.default, str) else repr(field.default)
    default = f", default {shown}" if field.init and not _is_needed(field) else ""
    text = textwrap.fill(
        " ".join(field.metadata["text"].split()), 116, initial_indent="    ", subsequent_indent="    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return f"{field.name} : {field.metadata['kind']}{default}\n{text}".rstrip()


@estimator
class Budgeted:
    """What spends a privacy budget: the budget, where it is kept, and where the noise comes from."""

    epsilon: float | None = parameter(
        "float, > 0",
        default=None,
        text="Privacy budget; ``inf`` trains without noise and says so in the receipt.",
    )
    delta: float | None = parameter(
        "float, in (0, 1)",
        default=None,
        text="Probability with which the guarantee may fail; choose it well below 1 / n_samples.",
    )
    random_state: Any = parameter(
        "None, int or numpy generator",
        default=None,
        text="""None is the private choice. A seed makes the run repeatable, and not private against whoever knows
        it.""",
    )
    ledger: Any = parameter(
        "None, str or Ledger",
        default=None,
        text="""Privacy budget on disk that `fit` charges before it reads the data (`sottovoce.Ledger`, or its
        address).""",
    )
    dataset: str | None = parameter("str or None", default=None, text="Name of the data set in that ledger.")
    accept_delta: float | None = parameter(
        "float or None",
        default=None,
        text="""The same number as ``delta``, said again, where that is 1 / sqrt(n) or more; it is refused
        otherwise.""",
    )
