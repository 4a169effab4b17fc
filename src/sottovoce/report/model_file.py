"""A receipt against a model file: whether it is about these coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sottovoce._plain_data import canonical_text, digest
from sottovoce.exceptions import SottovoceError
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.check import Check, compared
from sottovoce.report.reading import ReceiptFile, fingerprint


def compared_with_model(guarantee: Guarantee, file: ReceiptFile, *, own: bool) -> list[Check]:
    """Compare a receipt with a model file.

    ``file``: of a model.
    ``own``: whether the receipt was read from that file.
    """
    assert file.model is not None
    if guarantee.format == 1:
        return [Check("model", own, "a receipt of version 1 ties no model: nothing could be compared")]
    if (
        "evaluation" in guarantee.parameters
    ):  # it is about the coefficients, and the receipt in the model is another one
        return [_coefficients(guarantee, file.model)]
    checks = [_coefficients(guarantee, file.model), *_facts(guarantee, file.model)]
    return checks if own else [*checks, _same_receipt(guarantee, file)]


def _coefficients(guarantee: Guarantee, model: Mapping[str, Any]) -> Check:
    released = model.get("weights") if model.get("format") == "sottovoce-local-model" else model.get("fitted")
    return compared(
        "model",
        guarantee.model is not None and guarantee.model == digest(released),
        f"the coefficients are those that the receipt is about ({str(guarantee.model)[:16]}...)",
        "the coefficients of the model are not those that the receipt is about",
    )


def _facts(guarantee: Guarantee, model: Mapping[str, Any]) -> list[Check]:
    if model.get("format") == "sottovoce-local-model":
        return [_protocol(guarantee, model)]
    parameters = guarantee.parameters
    stored = model.get("parameters")
    arguments = (
        {name: stored[name] for name in stored if name != "random_state"} if isinstance(stored, dict) else stored
    )
    found = {"estimator": model.get("estimator"), "arguments": arguments}
    wrong = [name for name, value in found.items() if not _equal(value, parameters.get(name))]
    detail = "estimator and arguments of the model are those of the receipt"
    if wrong:
        detail = "; ".join(_difference(found[name], parameters.get(name)) for name in wrong)
    return [Check("arguments of the model", not wrong, detail), _schema(guarantee, model.get("schema"))]


def _difference(found: Any, wanted: Any) -> str:
    if not (isinstance(found, Mapping) and isinstance(wanted, Mapping)):
        return f"the model has {found!r}, the receipt {wanted!r}"
    names = [name for name in {**found, **wanted} if not _equal(found.get(name), wanted.get(name))]
    return ", ".join(
        f"{name} is {found.get(name)!r} in the model, {wanted.get(name)!r} in the receipt" for name in names
    )


def _equal(found: Any, wanted: Any) -> bool:
    try:
        return canonical_text(found) == canonical_text(wanted)
    except ValueError:
        return False


def _schema(guarantee: Guarantee, entries: Any) -> Check:
    from sottovoce.tables import Schema

    try:
        text = None if entries is None else Schema.from_dict(entries).to_toml()
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
    same = (
        protocol.id.hex() == parameters.get("protocol")
        and protocol.epsilon == guarantee.epsilon
        and model.get("n_reports") == parameters.get("n_reports")
    )
    return compared(
        "protocol of the model",
        same,
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
