"""The receipt as one HTML page: for the person who signs, the person who trains, and the auditor years later."""

import math
from collections.abc import Mapping
from typing import Final

from sottovoce._addresses import where_to_read
from sottovoce._version import __version__
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.curve import PrivacyCurve, privacy_curve
from sottovoce.report.pages._document import (
    Markup,
    data_block,
    document,
    element,
    fact_table,
    figure,
    join,
    listed,
    section,
    table,
    verdict,
)
from sottovoce.report.pages.figures import detection_figure, privacy_figure
from sottovoce.report.reading import CARD_FIELDS, check_model_card, fingerprint
from sottovoce.report.verdict import (
    digits,
    flat_parameters,
    noise_lines,
    one_in,
    percent,
    public_size,
    rounded_up,
    verdict_of,
)

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
        What the author says about the model; see `sottovoce.report.CARD_FIELDS`. Shown as not checked.
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
        If an argument is of the wrong kind, or the model card has an unknown field.
    """
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(f"guarantee must be a Guarantee; got {type(guarantee).__name__}.")
    if title is not None and not (isinstance(title, str) and title.strip()):
        raise ParameterError(f"title must be a text that is not empty, or None; got {title!r}.")
    card = None if model_card is None else check_model_card(model_card)
    found, curve = verdict_of(guarantee), privacy_curve(guarantee)
    statement = element("p", element("strong", "The statement: "), guarantee.statement())
    first_words = verdict(_COLOURS[found.kind], found.headline, element("p", found.explanation), statement)
    heading = title or _title(guarantee, card)
    first = (
        _promise(guarantee), _not_covered(guarantee), _meaning(guarantee, curve), _released(guarantee),
        _belongs(guarantee), _card(card), _decision(guarantee),
    )  # fmt: skip
    schema = () if guarantee.schema is None else (_schema(guarantee.schema),)
    annex = (
        _verification(guarantee), _curves(guarantee, curve), _noise(guarantee), _accounting(guarantee), *schema,
        _parameters(guarantee),
    )  # fmt: skip
    return document(
        title=heading,
        lead=(element("p", "Privacy receipt", class_="kicker"), element("h1", heading), first_words),
        first=first,
        annex_title="Annex: the evidence",
        annex=annex,
        data=(
            data_block("receipt", guarantee.to_dict()),
            data_block("page", {"title": title, "model_card": card, "made by": __version__}),
        ),
        foot=f"Page made by sottovoce {__version__} from a receipt of sottovoce {guarantee.version}. "
        f"Fingerprint {fingerprint(guarantee)}.",
    )


def _title(guarantee: Guarantee, card: Mapping[str, str | list[str]] | None) -> str:
    if card is not None and isinstance(card.get("name"), str):
        return str(card["name"])
    name = guarantee.parameters.get("estimator")
    return f"{name} model" if isinstance(name, str) else "What was released about the data"


def _promise(guarantee: Guarantee) -> Markup:
    rows = [("Unit of protection", guarantee.unit)]
    words = "The statement rests on these facts. Nothing in the receipt can prove them: confirm each."
    if math.isfinite(guarantee.epsilon):
        rows += [
            ("Neighbours", Adjacency.parse(guarantee.adjacency).statement(guarantee.unit)),
            ("Epsilon", rounded_up(guarantee.epsilon, 6)),
            ("Delta", rounded_up(guarantee.delta, 6)),
        ]
    else:
        words = "No finite epsilon is promised, whether or not these facts hold."
    return section(
        "promise",
        "What is promised, and on what that rests",
        fact_table("The promise in short", rows),
        element("h3", "Taken as public, or as true"),
        words,
        listed(guarantee.assumptions, "nothing"),
    )


def _meaning(guarantee: Guarantee, curve: PrivacyCurve | None) -> Markup:
    if curve is None or not math.isfinite(guarantee.epsilon):
        words = "There is no bound on what an attacker can learn about any person in the data from what was released."
        if curve is not None:
            words = "At the delta of this receipt there is no bound. The annex shows those at other values of delta."
        return section("meaning", "What this means", words)
    whose, that, found = _questions(guarantee.adjacency)
    times = math.exp(guarantee.epsilon) if guarantee.epsilon < 700.0 else math.inf
    promise = element(
        "p",
        "Imagine two tables that are equal but for one thing, the unit of protection: ",
        element("em", guarantee.unit),
        f". Everything released is almost as likely from the one as from the other: nothing becomes more than "
        f"{rounded_up(times)} times as likely (that is epsilon = "
        f"{rounded_up(guarantee.epsilon, 6)}), ",
        "without exception."
        if guarantee.delta == 0.0
        else f"but for a slip of probability {one_in(guarantee.delta)} (that is delta = "
        f"{rounded_up(guarantee.delta, 6)}).",
    )
    rare = f"in all but {one_in(_RARE)} runs"
    rows = [
        (f"A guess {whose}, both equally likely before, is right", "50 %", percent(curve.guess())),
        (f"A detector that is wrong about 1 in 100 {found}", "1 %", percent(curve.detection(0.01))),
        (f"A detector that is wrong about 1 in 1,000 {found}", "0.1 %", percent(curve.detection(0.001))),
        (f"A belief of 50 % {that} grows, {rare}, to", "50 %", percent(curve.belief(0.5, _RARE))),
        (f"A suspicion of 1 % {that} grows, {rare}, to", "1 %", percent(curve.belief(0.01, _RARE))),
    ]
    return section(
        "meaning",
        "What this means",
        promise,
        "The table holds for every attacker, also one who knows all the rest of the data, the program and all that "
        "was released, as long as the noise cannot be predicted."
        + (" Whoever knows the seed of this run can predict it: against them nothing holds." * guarantee.seeded),
        table(
            "What an attacker can learn about the unit of protection",
            ("Attack", "without the release", "with it, at most"),
            rows,
            figures=2,
        ),
        element(
            "p",
            "The promise is silent about facts that hold for many people alike: those are what a model is for.",
            class_="soft",
        ),
    )


def _questions(adjacency: str) -> tuple[str, str, str]:
    if Adjacency.parse(adjacency) is Adjacency.REPLACE_ONE:
        return (
            "which of two records is the true one",
            "that a record is the true one of two",
            "false records finds the true one",
        )
    return "whether the row is in the table", "that the row is in the table", "absent rows finds a present one"


def _not_covered(guarantee: Guarantee) -> Markup:
    return section(
        "not-covered", "What is not covered", listed(guarantee.not_covered, "the receipt names nothing: ask its author")
    )


def _released(guarantee: Guarantee) -> Markup:
    holds = math.isfinite(guarantee.epsilon)
    return section(
        "released",
        "What was released",
        "The statement holds for anybody who sees all of this, and for nothing else:"
        if holds
        else "The receipt promises nothing about this:",
        listed(guarantee.releases, "nothing"),
        fact_table("How it was made", [("Mechanism", guarantee.mechanism)]),
    )


def _belongs(guarantee: Guarantee) -> Markup:
    named = [(name[0].upper() + name[1:], text) for name, text in guarantee.ties()]
    rows = [("Made on", f"{guarantee.day or 'a day that is not named'} (UTC)"), *named]
    words = (
        "The digest of the model is over its coefficients: the file of another model has another one. The schema, "
        "where there is one, is in the annex: confirm its bounds and categories. A signature is worth what is known "
        "of the key."
    )
    return section("belongs", "What this receipt belongs to", words, fact_table("Model, schema, day, ledger", rows))


def _schema(text: str) -> Markup:
    return section(
        "schema",
        "The schema of the table",
        "Bounds and categories that were taken as public, as the training read them:",
        element("pre", element("code", text)),
    )


def _card(card: Mapping[str, str | list[str]] | None) -> Markup:
    if not card:
        words = "No model card was given: purpose, data and contact are not stated here."
        return section("model-card", "Model card", element("p", words, class_="soft"))
    rows = [(CARD_FIELDS[name], value if isinstance(value, str) else listed(value, "")) for name, value in card.items()]
    return section("model-card", "Model card", fact_table("Stated by the author, not checked.", rows))


def _decision(guarantee: Guarantee) -> Markup:
    choices = join(
        element("span", element("span", class_="box", aria_hidden="true"), choice, class_="choices")
        for choice in ("approved", "approved on conditions", "refused")
    )
    rows = [("Decision", choices), *((name, "") for name in ("Conditions", "Name and role", "Date", "Signature"))]
    code = element("code", fingerprint(guarantee))
    about = element("p", "About the receipt with the fingerprint ", code, " (SHA-256 of its JSON file).")
    return section("decision", "Decision", about, fact_table("For the signature", rows, class_="decision"))


def _curves(guarantee: Guarantee, curve: PrivacyCurve | None) -> Markup:
    if curve is None:
        return section("curve", "The privacy curve", "There is none: no finite epsilon holds.")
    if curve.points[-1] == (0.0, 0.0):
        return section("curve", "The privacy curve", "Epsilon is 0 at every delta: nothing depends on the data.")
    promised = (guarantee.epsilon, guarantee.delta) if math.isfinite(guarantee.epsilon) else None
    deltas = sorted({*_DELTAS, guarantee.delta} - {0.0}, reverse=True)
    rows = [(f"{delta:.4g}", rounded_up(guarantee.epsilon_at(delta), 4)) for delta in deltas]
    rates = [(f"{100.0 * rate:g} %", percent(curve.detection(rate))) for rate in _RATES]
    return section(
        "curve",
        "The privacy curve",
        "An event keeps to many pairs (epsilon, delta) at once; the receipt promises one of them. The curve is "
        "accounted anew from the event of this receipt, and so are all figures on this page. At delta = "
        f"{guarantee.delta:.6g} the event costs epsilon = {rounded_up(guarantee.epsilon_at(guarantee.delta), 6)}; "
        f"promised is {rounded_up(guarantee.epsilon, 6)}.",
        figure(
            privacy_figure(curve, promised),
            "Delta against epsilon, on a logarithmic axis. Lower and further left is more private.",
        ),
        table("Epsilon at other values of delta", ("delta", "epsilon"), rows, figures=1, class_="narrow"),
        element("h3", "The best detector"),
        figure(
            detection_figure(curve),
            "A detector decides from everything released which of two neighbouring tables is the true one. None "
            "can be above the curve; the dashed line is pure chance. The dot is at 1 % wrongly accused.",
        ),
        table(
            "What it finds, by the share that it wrongly accuses",
            ("wrongly accused", "found, at most"),
            rates,
            figures=1,
            class_="narrow",
        ),
    )


def _noise(guarantee: Guarantee) -> Markup:
    lines = noise_lines(guarantee)
    size = public_size(guarantee)
    if not lines:
        return section("noise", "Noise against signal", "Nothing was released.")
    with_share = size is not None and any(line.share for line in lines)
    heads = ("Release", "how often", "noise", *(("of what all rows can sum to",) if with_share else ()))
    rows = [(line.release, line.times, line.noise, *((line.share,) if with_share else ())) for line in lines]
    explained = (
        "The sensitivity is the most that one neighbouring change can move what is released; noise far above it hides "
        "the change."
    )
    if with_share:
        explained += (
            f" The last column compares the noise of one release with the most that the {size:,} rows can sum to: "
            "noise far below it leaves facts about many rows visible. It says nothing about these data: real sums are "
            "smaller."
        )
    return section(
        "noise",
        "Noise against signal",
        explained + " All figures follow from the event and from public parameters.",
        table("Standard deviation of the noise, by kind of release", heads, rows, figures=1 if with_share else 0),
    )


def _accounting(guarantee: Guarantee) -> Markup:
    return section(
        "accounting",
        "How it was accounted",
        fact_table(
            "Accounting",
            [
                ("Accountant", guarantee.accountant),
                ("Proof", "\n".join(where_to_read(guarantee.proof))),
                ("Seeded", "yes: the noise can be repeated" if guarantee.seeded else "no"),
                ("Made by", f"sottovoce {guarantee.version}"),
            ],
        ),
        element("h3", "The event"),
        "What the mechanisms did, as they recorded it; this is what is accounted.",
        element("ul", _event(guarantee.event), class_="events"),
    )


def _event(event: Event) -> Markup:
    """Return an event in words and with all its digits, and the events in it."""
    one = getattr(event, "event", None)
    inner = getattr(event, "events", () if one is None else (one,))
    numbers = {name: value for name, value in event.to_dict().items() if name not in ("kind", "event", "events")}
    facts = ", ".join(f"{name} = {value}" for name, value in numbers.items())
    words = "all of:" if event.kind == "composed" else event.describe().partition("\n")[0]
    exact = (element("br"), element("code", f"{event.kind}: {facts}")) if facts else ()
    return element("li", words, *exact, *((element("ul", *map(_event, inner)),) if inner else ()))


def _parameters(guarantee: Guarantee) -> Markup:
    rows = [(name, digits(value)) for name, value in flat_parameters(guarantee.parameters).items()]
    return section(
        "parameters",
        "Parameters of the run",
        "Public: the plan, and what its rules made of the noisy releases.",
        fact_table("Parameters", rows) if rows else "None are recorded.",
    )


_COMMANDS: Final = """\
pip install sottovoce
sottovoce receipt verify receipt.html
sottovoce receipt verify model.receipt.json --model model.json --public-key officer.key.pub
sottovoce-receipt model.receipt.json"""


def _verification(guarantee: Guarantee) -> Markup:
    return section(
        "verify",
        "How to verify",
        f"This receipt was made by sottovoce {guarantee.version}; later versions read it.",
        element("pre", element("code", _COMMANDS)),
        "The first verification reads the data in this page, accounts the event again, plans the run again and "
        "compares event, words and page with its own. The second compares model and signature too. Both print the "
        "fingerprint, to be compared with that on paper. The last command is one file that needs nothing but Python: "
        "it looks at less, and says at what. Then read the proof that is named below, and the code that it is about.",
        "A forger who rewrites all of a file so that it holds together is caught by a signature alone. No file can "
        "show that the public facts were public, that the noise was random, or what else was released about the same "
        "people.",
    )
