"""Make a receipt again from its own parameters, by the code that makes receipts of fits.

A receipt says which estimator ran, with which arguments and public facts, and what it released on the way. From these
the plan follows, and from the plan everything else: event, mechanism, releases, assumptions, exceptions, proof, the
promise. What a receipt says that does not follow from its parameters was not written by this library.

Whoever makes a kind of receipt also makes it again: a function ``receipt_again(receipt, parameters)`` beside the one
that the fit calls, found here by an entry that the parameters of no other kind have.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from sottovoce._plain_data import decode
from sottovoce.central.plan import OBJECT, Plan
from sottovoce.exceptions import ModelFormatError, ParameterError
from sottovoce.privacy.guarantee import Guarantee

# a closed list: nothing that a receipt says is imported. The first entry that is there counts
_MAKERS: Final = {
    "evaluation": "sottovoce.evaluation.plan",
    "search": "sottovoce.estimators.search.search",
    "pipeline": "sottovoce.estimators.pipeline",
    "described": "sottovoce.vertical.estimators.receipts",
    "n_reports": "sottovoce.local.fits.receipts",
    "estimator": "sottovoce.estimators.models",
}
NO_RUN: Final = "its parameters describe no run that this version of sottovoce can make"


def made_again(receipt: Guarantee, solvers: Sequence[type[Plan]] = ()) -> Guarantee:
    """Return the receipt that a run with these parameters gets.

    Day, ledger entry, model, schema and signature are taken over: no parameters tell them.
    Raises ModelFormatError if the parameters describe no run, or one that could not take place; the message says why.

    ``receipt``: of format 2.
    ``solvers``: solver objects that may have made it, beside the solvers with names.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the person who verifies is not the one who chose
            parameters = _with_solver(receipt.parameters, solvers)
            maker = next((module for entry, module in _MAKERS.items() if entry in parameters), None)
            if maker is None:
                raise ModelFormatError("it knows no such mechanism.")
            again: Guarantee = import_module(maker).receipt_again(receipt, parameters)
    except KeyError as error:
        raise ModelFormatError(f"{NO_RUN}: there is no {error}.") from None
    except Exception as error:  # a stranger's parameters may lead anywhere; what they lead to is not a receipt of ours
        raise ModelFormatError(f"{NO_RUN}: {error or type(error).__name__}") from None
    return replace(
        again, day=receipt.day, charge=receipt.charge, fits=receipt.fits, model=receipt.model, schema=receipt.schema,
        signature=receipt.signature,
    )  # fmt: skip


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
