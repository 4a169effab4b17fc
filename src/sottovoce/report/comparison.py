"""A receipt against the one that a run with its parameters gets, against its schema, and against a model file.

A receipt says which estimator ran, with which arguments and public facts, and what it released on the way. From these
the plan follows, and from the plan everything else: event, mechanism, releases, assumptions, exceptions, proof, the
promise. What a receipt says that does not follow from its parameters was not written by this library.

Whoever makes a kind of receipt also makes it again: a function ``receipt_again(receipt, parameters)`` beside the one
that the fit calls, found here by an entry that the parameters of no other kind have.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sottovoce._plain_data import OBJECT, canonical_text, decode, digest
from sottovoce._shown import QUOTED
from sottovoce._version import __version__
from sottovoce.exceptions import ModelFormatError, ParameterError, SottovoceError
from sottovoce.privacy.guarantee import TABLE, Guarantee
from sottovoce.privacy.receipts import releases
from sottovoce.report.reading import ReceiptFile, fingerprint

if TYPE_CHECKING:
    from sottovoce.central.plan import Plan

_NEAR: Final = 1e-9  # relative; the last digits may differ between machines
_ENTRIES: Final = (
    "epsilon", "delta", "adjacency", "unit", "mechanism", "releases", "assumptions", "not_covered", "proof",
    "accountant", "seeded", "parameters",
)  # fmt: skip
# a closed list: nothing that a receipt says is imported. The first entry that is there counts
_MAKERS: Final = {
    "evaluation": "sottovoce.evaluation.plan",
    "search": "sottovoce.estimators.search",
    "pipeline": "sottovoce.estimators.pipeline",
    "described": "sottovoce.vertical.estimators.receipts",
    "n_reports": "sottovoce.local.fits.receipts",
    "estimator": "sottovoce.estimators.models",
}
NO_RUN: Final = "its parameters describe no run that this version of sottovoce can make"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    passed: bool
    detail: str


def compared(name: str, passed: bool, right: str, wrong: str) -> Check:
    """Return what a comparison found, in the words for how it ended."""
    return Check(name, passed, right if passed else wrong)


def same(found: Any, wanted: Any, near: float = _NEAR, least: float = 0.0) -> bool:
    """Compare plain data; numbers may differ by ``near``, relative, or ``least``, whichever is more."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return set(found) == set(wanted) and all(same(found[key], wanted[key], near, least) for key in found)
    if isinstance(found, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(same(*both, near, least) for both in zip(found, wanted, strict=True))
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, float) or isinstance(wanted, float):
        both_doubles = _is_double(found) and _is_double(wanted)
        return bool(found == wanted) or (both_doubles and math.isclose(found, wanted, rel_tol=near, abs_tol=least))
    return bool(found == wanted)


def _is_double(value: Any) -> bool:
    """Tell numbers from all else, and from whole numbers beyond the doubles."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**1000)


def same_text(found: Any, wanted: Any) -> bool:
    """Compare plain data to the last digit and type."""
    try:
        return canonical_text(found) == canonical_text(wanted)
    except ValueError:
        return False


# --- the run


def made_again(receipt: Guarantee, solvers: Sequence[type[Plan]] = ()) -> Guarantee:
    """Return the receipt that a run with these parameters gets.

    Day, ledger entry, model, schema and signature are taken over: no parameters tell them.
    Raises ModelFormatError if the parameters describe no run, or one that could not take place; the message says why.

    ``solvers``: solver objects that may have made it, beside the solvers with names.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # the person who verifies is not the one who chose
            parameters = _with_solver(receipt.parameters, solvers)
            maker = next((module for entry, module in _MAKERS.items() if entry in parameters), None)
            if maker is None:
                raise ModelFormatError("it knows no such mechanism.")
            again: Guarantee = import_module(maker).receipt_again(receipt, parameters)
    except KeyError as error:
        raise ModelFormatError(f"{NO_RUN}: there is no {error}.") from None
    except Exception as error:  # a stranger's parameters may lead anywhere; what they lead to is not a receipt of ours
        raise ModelFormatError(f"{NO_RUN}: {error or type(error).__name__}") from None
    kept = ("day", "charge", "fits", "model", "schema", "signature")
    return replace(again, **{name: getattr(receipt, name) for name in kept})


def _with_solver(parameters: Mapping[str, Any], solvers: Sequence[type[Plan]]) -> Mapping[str, Any]:
    """Return the parameters with the solver object itself in place of its description, where there is one."""
    arguments = parameters.get("arguments")
    if not (isinstance(arguments, Mapping) and isinstance(arguments.get("solver"), Mapping)):
        return parameters
    options = decode(arguments["solver"])
    name = options.pop(OBJECT)
    known = {kind.solver: kind for kind in solvers}
    if name not in known:
        raise ParameterError(
            f"it was made by the solver object {name!r}, which readers of receipts do not know by themselves. What the "
            "event costs was checked, but not that it is the event of such a run: give verify_receipt the class of the "
            "object (solvers=...)."
        )
    return {**parameters, "arguments": {**arguments, "solver": known[name](**options)}}


def compared_with_run(guarantee: Guarantee, solvers: Sequence[type[Plan]] = ()) -> list[Check]:
    """Plan the run again from the parameters, and compare the event and every entry that follows from it."""
    other = "" if guarantee.version == __version__ else (
        f". The receipt says that it was made by sottovoce {guarantee.version}; this is {__version__}, whose rules and "
        "words may be others: verify it with that version"
    )  # fmt: skip
    try:
        again = made_again(guarantee, solvers)
    except ModelFormatError as error:
        return [Check("run", False, f"{error}{other}")]
    except SottovoceError as error:
        return [Check("run", False, f"a run with these parameters would not get a receipt: {error}")]
    named = guarantee.parameters.get(TABLE)  # follows from nothing else, as the day
    if isinstance(named, str) and re.fullmatch(QUOTED, named):
        again = replace(again, parameters={**again.parameters, TABLE: named})
    found, wanted = guarantee.to_dict(), again.to_dict()
    wrong = [_difference(name, found[name], wanted[name]) for name in _ENTRIES if not same(found[name], wanted[name])]
    return [
        compared(
            "event against parameters",
            releases(guarantee.event) == releases(again.event),
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


def _difference(name: str, found: Any, wanted: Any, alike: Callable[[Any, Any], bool] = same) -> str:
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        names = [key for key in {**wanted, **found} if not alike(found.get(key), wanted.get(key)) or key not in found]
        return f"{name}: " + ", ".join(f"{key!r} is {_short(found, key)}, not {_short(wanted, key)}" for key in names)
    if isinstance(found, list) and isinstance(wanted, list):
        missing = [f"{item!r} is missing" for item in wanted if item not in found]
        foreign = [f"{item!r} is not of this run" for item in found if item not in wanted]
        return f"{name}: {', '.join(missing + foreign) or 'in another order'}"
    return f"{name} is {found!r}, not {wanted!r}"


def _short(entries: Mapping[str, Any], key: str) -> str:
    return repr(entries[key])[:100] if key in entries else "not there"


# --- the schema


def same_schema(guarantee: Guarantee, entry: Mapping[str, Any]) -> Check:
    """Compare the text of the schema with its digest, and with the features and labels that were trained."""
    from sottovoce.tables import Schema

    if dict(entry) != guarantee.to_dict()["schema"]:
        return Check("schema", False, "the text of the schema is not the one that its SHA-256 is about")
    assert guarantee.schema is not None
    try:
        schema = Schema.from_text(guarantee.schema)
        labelled = schema.target is not None  # with features alone, of a `SchemaEncoder`, it says nothing of labels
    except SottovoceError as error:
        return Check("schema", False, f"its text is not a schema: {error}")
    parameters = guarantee.parameters
    if schema.n_features != parameters.get("n_features"):
        said = f"it makes {schema.n_features} features, and {parameters.get('n_features')!r} were trained"
        return Check("schema", False, said)
    arguments: Any = parameters.get("arguments")
    for name, described in {"classes": schema.classes, "label_bounds": schema.label_bounds}.items():
        given = decode(arguments[name]) if isinstance(arguments, Mapping) and name in arguments else None
        if not (labelled and isinstance(given, list)):
            continue
        # bounds as numbers, and classes in any order; 1 and 1.0 are one
        if described is None or len(given) != len(described) or set(given) != set(described):
            return Check("schema", False, f"{name} is {described!r} in it, and {given!r} in the parameters")
    what = "features and labels" if labelled else "features"
    return Check("schema", True, f"its text has the SHA-256 beside it, and describes the {what} trained")


# --- a model file


def compared_with_model(guarantee: Guarantee, file: ReceiptFile, *, own: bool) -> list[Check]:
    """Compare a receipt with a model file; ``own`` says that it was read from it."""
    model = file.model
    assert model is not None
    local = model.get("format") == "sottovoce-local-model"
    coefficients = compared(
        "model",
        guarantee.model is not None and guarantee.model == digest(model.get("weights" if local else "fitted")),
        f"the coefficients are those that the receipt is about ({str(guarantee.model)[:16]}...)",
        "the coefficients of the model are not those that the receipt is about",
    )
    if "evaluation" in guarantee.parameters:  # about the coefficients; the receipt in the model is another one
        return [coefficients]
    facts = [_protocol(guarantee, model)] if local else [_arguments(guarantee, model), _schema(guarantee, model)]
    return [coefficients, *facts, *(() if own else (_same_receipt(guarantee, file),))]


def _arguments(guarantee: Guarantee, model: Mapping[str, Any]) -> Check:
    arguments = model.get("parameters")
    if isinstance(arguments, dict):
        arguments = {name: value for name, value in arguments.items() if name != "random_state"}
    found = {"estimator": model.get("estimator"), "arguments": arguments}
    pairs = {name: (value, guarantee.parameters.get(name)) for name, value in found.items()}
    wrong = [_difference(name, *both, same_text) for name, both in pairs.items() if not same_text(*both)]
    right = "estimator and arguments of the model are those of the receipt"
    return compared("arguments of the model", not wrong, right, f"in the model, {'; '.join(wrong)} as in the receipt")


def _schema(guarantee: Guarantee, model: Mapping[str, Any]) -> Check:
    from sottovoce.tables import Schema

    try:
        text = None if model.get("schema") is None else Schema.from_dict(model["schema"]).to_toml()
    except (SottovoceError, TypeError, ValueError, AttributeError) as error:
        return Check("schema of the model", False, f"it is not a schema: {error}")
    wrong = "the model has another schema than the receipt"
    return compared("schema of the model", text == guarantee.schema, "that of the receipt", wrong)


def _protocol(guarantee: Guarantee, model: Mapping[str, Any]) -> Check:
    from sottovoce.local.protocol import Protocol

    try:
        protocol = Protocol.from_json(model["protocol"])
    except (SottovoceError, KeyError, TypeError) as error:
        return Check("protocol of the model", False, f"it is not a protocol: {error}")
    parameters = guarantee.parameters
    found = protocol.id.hex(), protocol.epsilon, model.get("n_reports")
    return compared(
        "protocol of the model",
        found == (parameters.get("protocol"), guarantee.epsilon, parameters.get("n_reports")),
        "protocol, epsilon and number of reports are those of the receipt",
        "protocol, epsilon or number of reports are not those of the receipt",
    )


def _same_receipt(guarantee: Guarantee, file: ReceiptFile) -> Check:
    """Compare with the receipt in the model file: day and ledger entry, for instance, follow from nothing else."""
    try:
        own: str | None = fingerprint(Guarantee.from_dict(file.data))
    except SottovoceError:
        own = None
    return compared(
        "receipt in the model",
        own == fingerprint(guarantee),
        "the model holds the same receipt",
        "the model holds another receipt: the fingerprints differ",
    )
