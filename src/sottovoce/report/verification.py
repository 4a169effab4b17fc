"""Check a receipt, a model or a page for what can be checked from the file alone, and say what cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sottovoce._plain_data import digest, plain
from sottovoce._shown import in_one_line
from sottovoce._version import __version__
from sottovoce.exceptions import AccountingError, ModelFormatError, SottovoceError
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.comparison import (
    Check,
    compared,
    compared_with_model,
    compared_with_run,
    same,
    same_schema,
    same_text,
)
from sottovoce.report.pages.page import receipt_page
from sottovoce.report.reading import ReceiptFile, fingerprint, open_receipt
from sottovoce.report.signing import checked_signature

if TYPE_CHECKING:
    from sottovoce.central.plan import Plan

__all__ = ["Check", "Verification", "verify_receipt"]

_ANYBODY: Final = (
    "that the run was the one described: without a signature that you checked anybody can write a file that holds "
    "together"
)
_NOT_CHECKABLE: Final = (
    "that what is taken as public or true is so",
    "that the noise was drawn as stated, from an unpredictable source",
    "what else was released about the same people: budgets add up over releases",
    "the proof, and the program it is about: read both",
)
_NO_FIGURES: Final = "the figures: they are not in the receipt. Verify the evaluation's own file or page"
_NO_MODEL: Final = "which model it belongs to: no model was given to compare"
_FREE: Final = (
    "day, ledger entry, versions and the name of the table follow from nothing else in the file; compare the ledger",
    "values that came out of the run: noisy ones, what rules made of them, what a search chose, what was evaluated, "
    "how many reports there were and under which protocol, digests",
    "max_iter, tol, verbose, accept_delta, intercept_scaling, cut, with_centering, label_share and nonnegative, where "
    "nothing follows from them, and what a label holder trains for itself: its data_norm, fit_intercept",
)
_NEAR: Final = 1e-6  # figures are shown with four digits
_NOT_CHECKABLE_CARD: Final = "the model card: it is stated by the author"


@dataclass(frozen=True)
class Verification:
    """What became of a file.

    Attributes
    ----------
    kind : {"receipt", "model", "evaluation", "page"}
    guarantee : Guarantee or None
        None where the file gives none that holds.
    checks : tuple of Check
    not_checkable : tuple of str
        What no look at the file can tell.
    """

    kind: str
    guarantee: Guarantee | None
    checks: tuple[Check, ...]
    not_checkable: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing that can be checked is wrong."""
        return self.guarantee is not None and all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, object]:
        """Return the outcome as plain data for JSON."""
        return {
            "format": "sottovoce-receipt-verification",
            "version": 1,
            "kind": self.kind,
            "passed": self.passed,
            "statement": None if self.guarantee is None else self.guarantee.statement(),
            "fingerprint": None if self.guarantee is None else fingerprint(self.guarantee),
            "checks": plain(self.checks),
            "not_checkable": list(self.not_checkable),
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return (heading, text) pairs for a readable table."""
        verdict = "passed" if self.passed else "FAILED: do not rely on this file"
        checks = [
            (check.name, in_one_line(f"{'ok' if check.passed else 'WRONG'}: {check.detail}")) for check in self.checks
        ]
        promise = [] if self.guarantee is None else [
            ("statement", self.guarantee.statement()),
            ("fingerprint (SHA-256)", fingerprint(self.guarantee)),
        ]  # fmt: skip
        return [("verdict", verdict), *promise, *checks, ("cannot be checked", "\n".join(self.not_checkable))]


def verify_receipt(
    path: str | Path | Guarantee | Mapping[str, Any],
    *,
    model: str | Path | None = None,
    public_key: str | Path | None = None,
    solvers: Sequence[type[Plan]] = (),
) -> Verification:
    """Check a receipt, the receipt in a model file, an evaluation, or a page.

    Parameters
    ----------
    path : str, Path, Guarantee, dict, or what has a receipt as ``guarantee_``
        A file; or a receipt in memory, which is checked as its own file would be.
    model : str, Path or None, default=None
        A model file that the receipt should belong to. A model file in ``path`` is compared with its own receipt.
    public_key : str, Path or None, default=None
        File with the public key of whoever should have signed. Then a receipt without a signature fails.
    solvers : sequence of classes, default=()
        Classes of solver objects, such as ``sottovoce.papers.dp_scd.SOLVERS``. The receipt of a fit with an object of
        another class fails, in words: nobody here can tell what its run costs.

    Returns
    -------
    Verification
        The event is accounted again and compared with the promise. The run is planned again from the parameters, and
        event, words and promise are compared with what such a run has. What the file says in words is compared with
        what its data mean; a page is made again from its own data and compared letter by letter. The figures of an
        evaluation are computed again from its counts, which must be those that its receipt is about.

    Raises
    ------
    ModelFormatError
        If a file holds no receipt or no model, or one that this version cannot read.
    ParameterError
        If ``path`` is of another kind, ``public_key`` is no public key, or the library that checks signatures is
        missing.
    """
    opened = open_receipt(path)
    beside = None if model is None else open_receipt(model)
    if beside is not None and beside.model is None:
        raise ModelFormatError(f"{model}: this is a {beside.kind}, not a model file.")
    try:
        checks, guarantee = _checked(opened, solvers)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}" if isinstance(path, (str, Path)) else str(error)) from None
    if guarantee is not None and beside is not None:
        checks += compared_with_model(guarantee, beside, own=False)
    if guarantee is not None and public_key is not None:
        checks.append(_signature(opened, guarantee, public_key))
    signed = public_key is not None and checks[-1].passed
    return Verification(opened.kind, guarantee, tuple(checks), _left_open(opened, guarantee, model is not None, signed))


def _signature(opened: ReceiptFile, guarantee: Guarantee, public_key: str | Path) -> Check:
    found = checked_signature(guarantee, public_key)
    if found.passed and opened.kind == "receipt" and opened.raw != guarantee.to_json().encode("utf-8", "surrogatepass"):
        return Check("signature", False, "the file is not letter by letter the one that was signed")
    return found


def _left_open(opened: ReceiptFile, guarantee: Guarantee | None, with_model: bool, signed: bool) -> tuple[str, ...]:
    return (
        *(() if signed else (_ANYBODY,)),
        *(() if signed else _FREE),
        *(() if with_model or opened.model is not None else (_NO_MODEL,)),
        *((_NO_FIGURES,) if opened.evaluation is None and guarantee and "evaluation" in guarantee.parameters else ()),
        *_NOT_CHECKABLE,
        *((_NOT_CHECKABLE_CARD,) if opened.model_card else ()),
    )


def _checked(opened: ReceiptFile, solvers: Sequence[type[Plan]]) -> tuple[list[Check], Guarantee | None]:
    checks = [Check("file", True, f"a {opened.kind} of readable size and depth, no name given twice")]
    try:
        guarantee = Guarantee.from_dict(opened.data)
    except AccountingError as error:
        checks.append(Check("promise against event", False, str(error)))
        return checks, None
    except ModelFormatError:
        raise
    except SottovoceError as error:
        raise ModelFormatError(str(error)) from None
    spent = guarantee.epsilon_at(guarantee.delta)
    said = f"the event costs epsilon = {spent!r} at delta = {guarantee.delta!r}; promised is {guarantee.epsilon!r}"
    checks.append(Check("promise against event", True, said))
    checks += [*_as_read(opened.data, guarantee), *compared_with_run(guarantee, solvers)]
    if guarantee.schema is not None:
        checks.append(same_schema(guarantee, opened.data["schema"]))
    if opened.model is not None:
        checks += compared_with_model(guarantee, opened, own=True)
    if opened.evaluation is not None:
        checks += _figures(opened.evaluation, opened)
    elif opened.page is not None:
        checks.append(_same_page(opened, receipt_page(guarantee, model_card=opened.model_card, title=opened.title)))
    return checks, guarantee


def _as_read(data: Mapping[str, Any], guarantee: Guarantee) -> list[Check]:
    """Compare the file with the receipt made of it: the sentence, nothing beside the known entries, the checksum."""
    again, now = guarantee.to_dict(), accountant_for(guarantee.event).name
    unknown = ", ".join(map(repr, sorted(set(data) ^ set(again))))
    wrong = f"the file has entries that no receipt has, or lacks some: {unknown}"
    if (said := data.get("statement")) != again["statement"]:
        unknown = wrong = f"the file says {said!r}, but its data mean {again['statement']!r}"
    other = "" if now == guarantee.accountant else f"; the receipt names: {guarantee.accountant}"
    body = {name: value for name, value in data.items() if name not in ("checksum", "signature")}
    return [
        compared(
            "statement",
            not unknown,
            "the sentence in the file is the one that its data mean, and nothing was added",
            wrong,
        ),
        Check("accountant", True, f"accounted again by {'' if other else 'the same accountant: '}{now}{other}"),
        compared(
            "checksum",
            data.get("checksum") == digest(body),
            "nothing was changed since it was made, or the checksum with it",
            "an entry was changed after the receipt was made",
        ),
    ]


def _figures(data: Mapping[str, Any], opened: ReceiptFile) -> list[Check]:
    """Compute the figures of an evaluation again from its counts, and its page."""
    try:
        # it shows itself by our pages, and so stands above this room
        found = import_module("sottovoce.evaluation.evaluation").Evaluation.from_dict(data)
        again = found.to_dict()
        page = None if opened.page is None else found.to_html(title=opened.title)
    except ModelFormatError as error:
        return [Check("figures", False, str(error))]
    except Exception as error:  # a stranger's numbers may lead anywhere
        return [Check("figures", False, f"no figures follow from the counts: {error or type(error).__name__}")]
    wrong = sorted(
        name
        for name in {*data, *again}
        if not (
            same(data.get(name), again.get(name), _NEAR, _NEAR)  # other machines may round measures otherwise
            if name == "measures"
            else same_text(data.get(name), again.get(name))
        )
    )
    figures = compared(
        "figures",
        not wrong,
        "all measures and intervals follow from the released counts that the receipt is about",
        f"what the file says is not what follows from its released counts: {', '.join(map(repr, wrong))}",
    )
    return [figures] if page is None else [figures, _same_page(opened, page)]


def _same_page(opened: ReceiptFile, again: str) -> Check:
    return compared(
        "page",
        again == opened.page,
        "the page is, letter by letter, the one that its data make",
        f"the page is not the one that sottovoce {__version__} makes of its data: it was changed, or made by "
        "another version. Trust its data, not its text: `sottovoce show FILE`",
    )
