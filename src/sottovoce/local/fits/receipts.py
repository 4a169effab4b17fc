"""Receipts of models from reports: what each person's own device has promised them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce._validation import choice, refuse_large_delta, warn_of_large_delta, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import PureEvent
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.receipts import make_receipt
from sottovoce.privacy.shuffling import shuffled_epsilon


def device_receipt(
    *, parameters: Mapping[str, object], second_report: str, not_covered: Sequence[str] = (), **rest: Any
) -> Guarantee:
    """Return a receipt with what holds for every mechanism whose noise comes from each person's own device.

    ``parameters``, ``**rest``: as for `make_receipt`.
    ``second_report``: what further reports of the same person cost.
    ``not_covered``: of this mechanism alone.
    """
    return make_receipt(
        adjacency=Adjacency.REPLACE_ONE,
        not_covered=(
            *not_covered,
            "that a person took part, when, and from which address",
            f"a second report of the same person with fresh coins: {second_report}",
            "the device itself: its operating system, its random bytes, its timing",
            "the quality of the model: people who send forged reports can move it",
        ),
        parameters={"noise from": "each person's own device", **parameters},
        preprocessing=False,
        seeded=False,
        **rest,
    )


def local_receipt(
    protocol_id: str,
    mechanism: str,
    epsilon: float,
    n: int,
    *,
    public_rows: bool,
    shuffled_delta: float | None,
    model: str | None = None,
) -> Guarantee:
    """Return the receipt of a model from reports; `sottovoce.report` makes it again from its own parameters."""
    parameters: dict[str, object] = {
        "protocol": protocol_id,
        "n_reports": n,
        "mechanism": mechanism,
        "epsilon of a report": epsilon,
        "public rows were given": public_rows,
    }
    assumptions = [
        "each person's device followed the protocol and sent one report",
        "the protocol is public: features, bounds, classes, sizes",
    ]
    if public_rows:
        assumptions.append("the rows that were given as public are public")
    if shuffled_delta is not None:
        # nothing is spent at this delta, so there is no saying it twice: another one costs nothing either
        refuse_large_delta(shuffled_delta, n, None, acceptable=False)
        warn_of_large_delta(shuffled_delta, n)
        central = shuffled_epsilon(epsilon, n, shuffled_delta)
        parameters["central epsilon, if a trusted shuffler mixed the reports"] = central
        parameters["at delta"] = shuffled_delta
        assumptions.append(
            "for the central epsilon only: a trusted shuffler mixed the reports before anybody saw them, and nothing "
            "in a report or beside it, its seed included, tells whose it is"
        )
    return device_receipt(
        epsilon=epsilon,
        delta=0.0,
        unit="one report of one person: the whole record, label included",
        mechanism="cap report: an index among candidates that a seed defines, drawn on the person's own device",
        releases=(
            "the report itself, to whoever collects it and to anybody who sees it on the way",
            "all sums, models, estimates and choices that are made from reports",
        ),
        event=PureEvent(epsilon),
        assumptions=assumptions,
        second_report="k of them cost k times epsilon",
        parameters=parameters,
        accountant="pure local differential privacy",
        proof="docs/privacy/local_reports.md",
        model=model,
    )


def receipt_again(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    """Return the receipt that a model from such reports gets."""
    if not re.fullmatch("[0-9a-f]{16}", parameters["protocol"]):
        raise ParameterError(f"protocol must be 16 hexadecimal digits; got {parameters['protocol']!r}.")
    if not isinstance(parameters["public rows were given"], bool):
        raise ParameterError("'public rows were given' must be true or false.")
    return local_receipt(
        parameters["protocol"],
        choice("mechanism", parameters["mechanism"], ("cap",)),
        parameters["epsilon of a report"],
        whole_number("n_reports", parameters["n_reports"], at_least=1),
        public_rows=parameters["public rows were given"],
        shuffled_delta=parameters.get("at delta"),
    )
