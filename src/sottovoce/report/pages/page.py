"""The receipt as one HTML page: for the person who signs, the person who trains, and the auditor years later."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sottovoce._addresses import where_to_read
from sottovoce._shown import rounded_up
from sottovoce._version import __version__
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.curve import PrivacyCurve, privacy_curve
from sottovoce.report.pages._document import page
from sottovoce.report.pages.figures import detection_figure, privacy_figure
from sottovoce.report.reading import check_model_card, fingerprint
from sottovoce.report.verdict import one_in, percent, verdict_of

Rows = list[tuple[str, str]]

_COLOURS: Final = {"nothing": "good", "private": "good", "weak": "warn", "seeded": "bad", "not-private": "bad"}
_RARE: Final = 1e-6
_DELTAS: Final = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
_RATES: Final = (0.001, 0.01, 0.05, 0.1, 0.5)


def receipt_page(
    guarantee: Guarantee, *, model_card: Mapping[str, object] | None = None, title: str | None = None
) -> str:
    """Return the receipt as one self-contained HTML file.

    Parameters
    ----------
    guarantee : Guarantee
    model_card : mapping or None, default=None
        What the author says about the model: names to texts, or to lists of texts. Shown as not checked.
    title : str or None, default=None
        None takes the name in the model card, or one made from the receipt.

    Returns
    -------
    str
        HTML without scripts and without anything from elsewhere: for screen, telephone, screen reader and A4. Its data
        blocks hold the receipt and what else the page was made with; `sottovoce.report.verify_receipt` makes the page
        again from them and compares.

    Raises
    ------
    ParameterError
        If an argument is of the wrong kind, or the model card holds something else than texts.
    """
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(f"guarantee must be a Guarantee; got {type(guarantee).__name__}.")
    if title is not None and not (isinstance(title, str) and title.strip()):
        raise ParameterError(f"title must be a text that is not empty, or None; got {title!r}.")
    card = None if model_card is None else check_model_card(model_card)
    found, curve = verdict_of(guarantee), privacy_curve(guarantee)
    finite = math.isfinite(guarantee.epsilon)
    has_curve = curve is not None and curve.points[-1] != (0.0, 0.0)
    return page(
        "report/pages/receipt.html",
        title=title or _title(guarantee, card),
        kicker="Privacy receipt",
        receipt=guarantee,
        finite=finite,
        found=found,
        colour=_COLOURS[found.kind],
        fingerprint=fingerprint(guarantee),
        neighbours=Adjacency.parse(guarantee.adjacency).statement(guarantee.unit),
        likelier=rounded_up(math.exp(guarantee.epsilon) if guarantee.epsilon < 700.0 else math.inf),
        attacks=_attacks(guarantee, curve) if curve is not None and finite else (),
        ties=_ties(guarantee),
        card=[(name[:1].upper() + name[1:].replace("_", " "), value) for name, value in (card or {}).items()],
        curve=curve,
        epsilons=_epsilons(guarantee) if has_curve else (),
        rates=[(f"{100.0 * rate:g} %", percent(curve.detection(rate))) for rate in _RATES] if curve else (),
        drawings=(
            (privacy_figure(curve, (guarantee.epsilon, guarantee.delta) if finite else None), detection_figure(curve))
            if has_curve and curve
            else ()
        ),
        proof="\n".join(where_to_read(guarantee.proof)),
        events=[_tree(guarantee.event)],
        parameters=list(_parameters(guarantee.parameters)),
        data={
            "receipt": guarantee.to_dict(),
            "page": {"title": title, "model_card": card, "made by": __version__},
        },
    )


def _title(guarantee: Guarantee, card: Mapping[str, str | list[str]] | None) -> str:
    if card is not None and isinstance(card.get("name"), str):
        return str(card["name"])
    name = guarantee.parameters.get("estimator")
    return f"{name} model" if isinstance(name, str) else "What was released about the data"


def _attacks(guarantee: Guarantee, curve: PrivacyCurve) -> list[tuple[str, str, str]]:
    one, many = ("person", "people") if guarantee.unit.startswith("one person") else ("row", "rows")
    whose, that, found = (
        (
            "which of two records is the true one",
            "that a record is the true one of two",
            "false records recognises the true one",
        )
        if Adjacency.parse(guarantee.adjacency) is Adjacency.REPLACE_ONE
        else (
            f"whether the {one} is in the table",
            f"that the {one} is in the table",
            f"absent {many} recognises a present one",
        )
    )
    rare = f"in all but {one_in(_RARE)} runs"
    return [
        (f"A guess {whose}, both equally likely before, is right", "50 %", percent(curve.guess())),
        (f"A test with a false alarm for 1 in 100 {found}", "1 %", percent(curve.detection(0.01))),
        (f"A test with a false alarm for 1 in 1,000 {found}", "0.1 %", percent(curve.detection(0.001))),
        (f"A belief of 50 % {that} grows, {rare}, to", "50 %", percent(curve.belief(0.5, _RARE))),
        (f"A suspicion of 1 % {that} grows, {rare}, to", "1 %", percent(curve.belief(0.01, _RARE))),
    ]


def _ties(guarantee: Guarantee) -> Rows:
    made = ("Made on", f"{guarantee.day or 'a day that is not named'} (UTC)")
    return [made, *((name[0].upper() + name[1:], text) for name, text in guarantee.ties())]


def _epsilons(guarantee: Guarantee) -> Rows:
    deltas = sorted({*_DELTAS, guarantee.delta} - {0.0}, reverse=True)
    return [(f"{delta:.4g}", rounded_up(guarantee.epsilon_at(delta), 4)) for delta in deltas]


def _parameters(parameters: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield parameters with all digits, those of a group by its name and theirs: "arguments: alpha"."""
    for name, value in parameters.items():
        group = (
            {f"{name}: {inner}": item for inner, item in value.items()} if isinstance(value, Mapping) else {name: value}
        )
        yield from ((key, repr(one) if isinstance(one, float) else str(one)) for key, one in group.items())


def _tree(event: Event) -> tuple[str, str, list[Any]]:
    """Return an event in words and with all its digits, and the events in it."""
    one = getattr(event, "event", None)
    inner = getattr(event, "events", () if one is None else (one,))
    numbers = {name: value for name, value in event.to_dict().items() if name not in ("kind", "event", "events")}
    facts = ", ".join(f"{name} = {value}" for name, value in numbers.items())
    words = "all of:" if event.kind == "composed" else event.describe().partition("\n")[0]
    return words, f"{event.kind}: {facts}" if facts else "", [_tree(part) for part in inner]
