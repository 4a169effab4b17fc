"""A receipt against the one that a run with its parameters gets, and its schema against what was trained."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sottovoce._plain_data import decode
from sottovoce._shown import QUOTED
from sottovoce._version import __version__
from sottovoce.central.plan import Plan
from sottovoce.exceptions import ModelFormatError, SottovoceError
from sottovoce.privacy.guarantee import TABLE, Guarantee
from sottovoce.privacy.receipts import releases
from sottovoce.report.check import Check, compared
from sottovoce.report.rebuilding import made_again

_SAME: Final = 1e-9  # relative; the last digits may differ between machines
_ENTRIES: Final = (
    "epsilon", "delta", "adjacency", "unit", "mechanism", "releases", "assumptions", "not_covered", "proof",
    "accountant", "seeded", "parameters",
)  # fmt: skip


def compared_with_run(guarantee: Guarantee, solvers: Sequence[type[Plan]] = ()) -> list[Check]:
    """Plan the run again from the parameters, and compare the event and every entry that follows from it."""
    try:
        again = made_again(guarantee, solvers)
    except ModelFormatError as error:
        return [Check("run", False, f"{error}{_other_version(guarantee)}")]
    except SottovoceError as error:
        return [Check("run", False, f"a run with these parameters would not get a receipt: {error}")]
    named = guarantee.parameters.get(TABLE)  # follows from nothing else, as the day
    if isinstance(named, str) and re.fullmatch(QUOTED, named):
        again = replace(again, parameters={**again.parameters, TABLE: named})
    found, wanted = guarantee.to_dict(), again.to_dict()
    wrong = [_difference(name, found[name], wanted[name]) for name in _ENTRIES if not _same(found[name], wanted[name])]
    event = releases(guarantee.event) == releases(again.event)
    other = _other_version(guarantee)
    return [
        compared(
            "event against parameters",
            event,
            "the event is that of a run with these parameters",
            f"a run with these parameters has another event{other}",
        ),
        compared(
            "words against the mechanism's own",
            not wrong,
            "promise, unit, mechanism, releases, assumptions, exceptions and proof are those of such a run",
            "; ".join(wrong) + other,
        ),
    ]


def _other_version(guarantee: Guarantee) -> str:
    here = __version__
    if guarantee.version == here:
        return ""
    return (
        f". The receipt says that it was made by sottovoce {guarantee.version}; this is {here}, whose rules and words "
        "may be others: verify it with that version"
    )


def _difference(name: str, found: Any, wanted: Any) -> str:
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        names = [key for key in {**wanted, **found} if not _same(found.get(key), wanted.get(key)) or key not in found]
        return f"{name}: " + ", ".join(f"{key!r} is {_short(found, key)}, not {_short(wanted, key)}" for key in names)
    if isinstance(found, list) and isinstance(wanted, list):
        missing = [item for item in wanted if item not in found]
        foreign = [item for item in found if item not in wanted]
        said = [*(f"{item!r} is missing" for item in missing), *(f"{item!r} is not of this run" for item in foreign)]
        return f"{name}: {', '.join(said) or 'in another order'}"
    return f"{name} is {found!r}, not {wanted!r}"


def _short(entries: Mapping[str, Any], key: str) -> str:
    return repr(entries[key])[:100] if key in entries else "not there"


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return set(found) == set(wanted) and all(_same(found[key], wanted[key]) for key in found)
    if isinstance(found, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, float) or isinstance(wanted, float):
        both = _is_double(found) and _is_double(wanted)
        return bool(found == wanted) or (both and math.isclose(found, wanted, rel_tol=_SAME))
    return bool(found == wanted)


def _is_double(value: Any) -> bool:
    """Tell numbers from all else, and from whole numbers beyond the doubles."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**1000)


def same_schema(guarantee: Guarantee, entry: Mapping[str, Any]) -> Check:
    """Compare the text of the schema with its digest, and with the features and labels that were trained."""
    from sottovoce.tables import Encoder, Schema

    stored = guarantee.to_dict()["schema"]
    if dict(entry) != stored:
        return Check("schema", False, "the text of the schema is not the one that its SHA-256 is about")
    assert guarantee.schema is not None
    try:
        schema = Schema.from_dict(tomllib.loads(guarantee.schema))
        labelled = schema.target is not None  # with features alone, of a `SchemaEncoder`, it says nothing of labels
        encoder = Encoder(schema, labelled=labelled)
    except (SottovoceError, ValueError, RecursionError) as error:
        return Check("schema", False, f"its text is not a schema: {error}")
    parameters = guarantee.parameters
    if encoder.n_features != parameters.get("n_features"):
        said = f"it makes {encoder.n_features} features, and {parameters.get('n_features')!r} were trained"
        return Check("schema", False, said)
    arguments: Any = parameters.get("arguments")
    labels = {"classes": schema.classes, "label_bounds": schema.label_bounds}
    for name, described in labels.items():
        given = decode(arguments[name]) if isinstance(arguments, Mapping) and name in arguments else None
        if labelled and isinstance(given, list) and not _same_labels(given, described):
            return Check("schema", False, f"{name} is {described!r} in it, and {given!r} in the parameters")
    what = "features and labels" if labelled else "features"
    return Check("schema", True, f"its text has the SHA-256 beside it, and describes the {what} trained")


def _same_labels(given: Sequence[Any], described: Sequence[Any] | None) -> bool:
    """Compare bounds as numbers, and classes in any order."""
    if described is None or len(given) != len(described):
        return False
    return set(given) == set(described)  # 1 and 1.0 are one element
