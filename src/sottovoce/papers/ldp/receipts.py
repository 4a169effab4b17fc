"""Receipts of Bernstein reports: made from the protocol, and made again from their own parameters to verify them."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sottovoce._validation import whole_number
from sottovoce.exceptions import ModelFormatError
from sottovoce.local.fits.receipts import device_receipt
from sottovoce.papers.ldp.protocol import BernsteinProtocol
from sottovoce.privacy.guarantee import Guarantee

__all__ = ["guarantee", "verify_receipt"]

_PROOF: Final = "docs/privacy/bernstein_reports.md"
_SAME: Final = 1e-9  # relative; the last digits may differ between machines


def guarantee(protocol: BernsteinProtocol, n_reports: int, model: str | None = None) -> Guarantee:
    """Return the receipt of a collection: each person's only report, accounted from the noise that devices add."""
    true = protocol.true_epsilon
    claimed = (
        f"The paper claims epsilon = {protocol.epsilon:g} for this noise; one report really costs {true:.6g} at the "
        f"same delta{', more than claimed' if true > protocol.epsilon else ''}."
    )
    return device_receipt(
        epsilon=protocol.epsilon if protocol.noise == "tight" else true,
        delta=protocol.delta,
        unit="one person's record (x, y), label included, in the local model: against everybody, the server included",
        mechanism=(
            f"Bernstein reports (Wang, Smith, Xu 2019), {protocol.noise} noise: {protocol.n_copies} copies of (x, y), "
            "one Gaussian release"
        ),
        releases=(f"each person's only report: {protocol.n_copies} noisy copies of the record",),
        event=protocol.copy_noise.event,
        assumptions=(
            "every parameter of the protocol is public and was chosen without looking at the data",
            "a device makes one report, from random bytes of its operating system, and only ever sends that one",
        ),
        not_covered=(claimed,) if protocol.noise == "printed" else (),
        second_report="k of them cost k of these events, composed",
        parameters={
            "protocol": protocol.id.hex(),
            "loss": protocol.loss,
            "n_features": protocol.n_features,
            "degree": protocol.degree,
            "beta": protocol.beta,
            "noise": protocol.noise,
            "claimed epsilon": protocol.epsilon,
            "data_norm": protocol.data_norm,
            "noise of copy 0": protocol.first_std,
            "noise of the other copies": protocol.other_std,
            "reports": n_reports,
        },
        accountant="exact Gaussian differential privacy",
        proof=_PROOF,
        model=model,
    )


def verify_receipt(path: str | Path) -> Guarantee:
    """Return the receipt of a file, if it is one that a collection of Bernstein reports gets.

    Event, promise and every word are made again from the parameters and compared. Day, ledger entry, model and
    signature follow from nothing else in the file.

    Raises
    ------
    ModelFormatError
        If the file is damaged, or says what such a collection does not; the message names it.
    """
    from sottovoce.report import read_receipt

    receipt = read_receipt(path)
    parameters: Mapping[str, Any] = receipt.parameters
    try:
        names = ("loss", "n_features", "degree", "beta", "noise", "data_norm")
        given = {name: parameters[name] for name in names}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the person who verifies is not the one who chose
            protocol = BernsteinProtocol(epsilon=parameters["claimed epsilon"], delta=receipt.delta, **given)
        again = guarantee(protocol, whole_number("reports", parameters["reports"], at_least=1), receipt.model)
    except Exception as error:  # a stranger's parameters may lead anywhere; what they lead to is not a receipt of ours
        raise ModelFormatError(f"{path}: no collection of Bernstein reports has these parameters: {error!r}") from None
    free = {name: getattr(receipt, name) for name in ("day", "charge", "schema", "signature", "version")}
    found, wanted = receipt.to_dict(), replace(again, **free).to_dict()
    wrong = [name for name in wanted if name != "checksum" and not _same(found.get(name), wanted[name])]
    if wrong:
        raise ModelFormatError(f"{path}: not what such a collection gets: {', '.join(wrong)}.")
    return receipt


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _SAME * abs(other)
    return bool(one == other)
