"""Constructor parameters and fitted attributes of estimators, each written once: type, default and text.

The constructor, its signature and two sections of the docstring are made from them. A subclass has what its bases have,
and declares a name again only for what differs.
"""

import dataclasses
import functools
import inspect
import json
import re
import textwrap
from typing import Any, Final, Literal, TypeVar, dataclass_transform

from sottovoce._validation import nearest

_REQUIRED: Final = dataclasses.MISSING
_LATER: Final = re.compile(r"^(Attributes|Raises|Notes|References|Examples)\n-{3,}$", re.MULTILINE)

Estimator = TypeVar("Estimator")


def parameter(
    kind: str | None = None, *, default: Any = _REQUIRED, text: str | None = None, kw_only: bool = True
) -> Any:
    """Declare a constructor parameter: ``alpha: float = parameter("float, > 0", default=1.0, text="...")``.

    ``kind``: type and range, as numpydoc writes them; the default is added. A parameter whose default is None although
        its kind does not speak of None has to be given before a fit: such parameters are documented first. None takes
        what the base says, and ``alpha: float = parameter(default=2.0)`` changes the default alone.
    ``default``: immutable. Without one, the constructor asks for the parameter.
    ``text``: what it means; spaces and line ends do not matter. None takes what the base says.
    ``kw_only``: False for a parameter that may be given by its place.
    """
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"kind": kind, "text": text})


def attribute(kind: str | None = None, text: str | None = None, *, init: Literal[False] = False) -> Any:
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
    declared = _declared(made)
    known = inspect.signature(made.__init__).parameters
    ordered = [known["self"], *(known[one.name] for one in declared if one.field.init)]
    store = made.__init__

    @functools.wraps(store)
    def init(self: Any, *args: Any, **given: Any) -> None:
        for name in given.keys() - known.keys():
            raise TypeError(f"{cls.__name__} takes no {name!r}.{getattr(self, 'instead_of', nearest)(name, known)}")
        store(self, *args, **given)

    setattr(init, "__signature__", inspect.Signature(ordered, return_annotation=None))  # noqa: B010
    made.__init__ = init  # type: ignore[method-assign]
    for name in [one.name for one in declared if one.field.init and one.name in vars(made)]:
        delattr(made, name)  # the constructor has the default; the class is left without
    made.__doc__ = None if doc is None else _with_sections(inspect.cleandoc(doc), declared)  # None: ``python -OO``
    return made


def parameters(cls: type) -> "dict[str, Declared]":
    """Return what a class that `estimator` has made takes, by name, in the order of its documentation."""
    return {one.name: one for one in _declared(cls) if one.field.init}


def _declared(cls: type) -> "list[Declared]":
    return sorted((Declared(cls, field) for field in dataclasses.fields(cls)), key=Declared.place)


class Declared:
    """A field of a class, with what the class and its bases say of it."""

    def __init__(self, cls: type, field: dataclasses.Field[Any]) -> None:
        self.field, self.name = field, field.name
        own = {
            depth: vars(base)["__dataclass_fields__"][self.name]
            for depth, base in enumerate(cls.__mro__)
            if self.name in inspect.get_annotations(base) and "__dataclass_fields__" in vars(base)
        }  # the class's own declaration first, that of the first base last
        if next(iter(own.values())).default is not field.default:  # dataclasses look at bases in another order
            raise TypeError(f"{cls.__name__}: the base that says what {self.name} is must come first.")
        self._depth = max(own)
        self.kind, self.text = (
            next((one.metadata[what] for one in own.values() if one.metadata[what] is not None), "")
            for what in ("kind", "text")
        )

    @property
    def is_needed(self) -> bool:
        without = self.field.default is _REQUIRED or (self.field.default is None and "None" not in self.kind)
        return self.field.init and without

    def place(self) -> tuple[bool, bool, int]:
        return self.field.kw_only is not False, not self.is_needed, 0 if self.is_needed else self._depth

    def __str__(self) -> str:
        shown = json.dumps(self.field.default) if isinstance(self.field.default, str) else repr(self.field.default)
        default = f", default {shown}" if self.field.init and not self.is_needed else ""
        text = textwrap.fill(
            " ".join(self.text.split()), 116, initial_indent="    ", subsequent_indent="    ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        return f"{self.name} : {self.kind}{default}\n{text}".rstrip()


def _with_sections(doc: str, declared: list[Declared]) -> str:
    later = _LATER.search(doc)
    place = len(doc) if later is None else later.start()
    parts = [
        doc[:place].rstrip(),
        *_section("Parameters", [one for one in declared if one.field.init]),
        *_section("Attributes", [one for one in declared if not one.field.init]),
        doc[place:].rstrip(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, declared: list[Declared]) -> list[str]:
    return ["\n".join([title, "-" * len(title), *map(str, declared)])] if declared else []


EPSILON: Final[Any] = parameter(
    "float, > 0", default=None, text="Privacy budget; ``inf`` trains without noise and says so in the receipt."
)
DELTA: Final[Any] = parameter(
    "float, in (0, 1)",
    default=None,
    text="Probability with which the guarantee may fail; choose it well below 1 / n_samples.",
)
RANDOM_STATE: Final[Any] = parameter(
    "None, int or numpy generator",
    default=None,
    text="""None is the private choice. A seed makes the run repeatable, and not private against whoever knows
    it, nor if it is used twice.""",
)
LEDGER: Final[Any] = parameter(
    "None, str or Ledger",
    default=None,
    text="""Privacy budget on disk that `fit` charges before it reads the data (`sottovoce.Ledger`, or its
    address).""",
)
DATASET: Final[Any] = parameter("str or None", default=None, text="Name of the data set in that ledger.")
ACCEPT_DELTA: Final[Any] = parameter(
    "float or None",
    default=None,
    text="""The same number as ``delta``, said again, where that is 1 / sqrt(n) or more; it is refused
    otherwise.""",
)


@estimator
class Budgeted:
    """What spends a privacy budget: the budget, where it is kept, and where the noise comes from."""

    epsilon: float | None = EPSILON
    delta: float | None = DELTA
    random_state: Any = RANDOM_STATE
    ledger: Any = LEDGER
    dataset: str | None = DATASET
    accept_delta: float | None = ACCEPT_DELTA
