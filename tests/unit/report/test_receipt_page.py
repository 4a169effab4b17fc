"""The page of a receipt: what it says, its structure, its colours, and that no text of a receipt becomes markup."""

import base64
import hashlib
import itertools
import json
import math
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import gaussian_epsilon
from sottovoce.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    RepeatedEvent,
)
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report import receipt_page
from sottovoce.report.pages._document import DARK, LIGHT, style_sheet, templates
from sottovoce.report.verdict import verdict_of
from support.receipts import made_up

EVENT = ComposedEvent((GaussianEvent(27.0), RepeatedEvent(GaussianEvent(25.5), 45)))
PARAMETERS = {"estimator": "DPLogisticRegression", "solver": "scd", "alpha": 5e-5, "passes": 45}
CARD = {"name": "Readmission", "intended_use": "a call", "out_of_scope_use": ["children", "insurance"]}
NOT_PRIVATE = {"event": NonPrivateEvent(), "epsilon": math.inf, "delta": 0.0, "accountant": "none"}


def receipt(**changes):
    return made_up(**({"event": EVENT, "epsilon": 1.0, "parameters": PARAMETERS} | changes))


class Outline(HTMLParser):
    """The page as a list of (tag, attributes), its text, and its nesting checked."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.open, self.texts = [], [], {}
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in self.VOID:
            self.open.append((tag, len(self.tags) - 1))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, place in self.open:
            self.texts[place] = self.texts.get(place, "") + data

    def all(self, tag):
        return [(attrs, self.texts.get(place, "")) for place, (name, attrs) in enumerate(self.tags) if name == tag]

    @property
    def shape(self):
        return [(tag, sorted(attrs)) for tag, attrs in self.tags]


PAGES = {
    "private": receipt_page(receipt(), model_card=CARD),
    "bare": receipt_page(receipt(releases=(), assumptions=(), not_covered=(), parameters={})),
    "seeded": receipt_page(receipt(seeded=True)),
    "not private": receipt_page(receipt(**NOT_PRIVATE)),
    "infinite": receipt_page(receipt(epsilon=math.inf, delta=0.0)),
    "nothing": receipt_page(receipt(event=NothingReleased(), epsilon=0.0, delta=0.0)),
    "replace-one": receipt_page(receipt(adjacency="replace-one")),
}
EVERY = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


# --- what it says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "headline"),
    [
        ({}, "private", "Private"),
        ({"epsilon": 5.0}, "private", "Private"),
        ({"epsilon": 10.5}, "weak", "Weak protection"),
        ({"delta": 2e-3}, "weak", "Weak protection"),
        ({"seeded": True}, "seeded", "Private only against people without the seed"),
        (NOT_PRIVATE, "not-private", "Not private"),
        ({"epsilon": math.inf, "delta": 0.0}, "not-private", "Not private"),
        ({"event": NothingReleased(), "epsilon": 0.0}, "nothing", "Nothing was released"),
    ],
)
def test_the_verdict_comes_first(changes, kind, headline):
    made = receipt(**changes)
    assert verdict_of(made).kind == kind
    outline = Outline(receipt_page(made))
    (verdict,) = [text for attrs, text in outline.all("section") if attrs.get("aria-label") == "Verdict"]
    assert verdict.startswith(headline)
    assert made.statement() in verdict
    assert outline.all("section")[0][1] == verdict


def test_unit_promise_what_it_rests_on_and_what_is_not_covered_come_first_and_parameters_last():
    headings = [text for _, text in Outline(PAGES["private"]).all("h2")]
    assert headings[:2] == ["What is promised, and on what that rests", "What is not covered"]
    assert (headings[-1], len(headings)) == ("Parameters of the run", 12)
    facts = [text for _, text in Outline(PAGES["private"]).all("th")]
    assert facts[0] == "Unit of protection"
    assert [Outline(PAGES[name]).all("h1")[0][1] for name in ("private", "seeded")] == [
        CARD["name"], "DPLogisticRegression model",
    ]  # fmt: skip


def test_the_page_shows_everything_in_the_receipt():
    made = receipt()
    whole = " ".join(text for _, text in Outline(PAGES["private"]).all("body"))
    shown = [made.unit, made.mechanism, made.proof, made.accountant, *made.releases, *made.assumptions]
    for part in (
        *shown,
        *made.not_covered,
        "noise_multiplier = 25.5",
        "45 times",
        "5e-05",
        "solver",
        "insurance",
        "Out of scope use",
    ):
        assert part in whole
    assert "Stated by the author, not checked." in whole
    assert "for a slip of probability 1 in 100,000" in whole
    assert "2.72 times as likely" in whole


def test_the_numbers_of_the_table_are_those_of_the_exact_trade_off():
    mu = math.sqrt(1 / 27.0**2 + 45 / 25.5**2)
    outline = Outline(PAGES["private"])
    cells = [float(text[:-2]) / 100 for attrs, text in outline.all("td") if re.fullmatch(r"[\d.]+ %", text)][:10]
    without, found = cells[::2], cells[1::2]
    assert without == [0.5, 0.01, 0.001, 0.5, 0.01]
    loss = mu * mu / 2 + mu * norm.isf(1e-6)  # the privacy loss is N(mu^2 / 2, mu^2)
    exact = [
        norm.cdf(mu / 2), norm.cdf(norm.ppf(0.01) + mu), norm.cdf(norm.ppf(0.001) + mu),
        1 / (1 + math.exp(-loss)), 1 / (1 + 99 * math.exp(-loss)),
    ]  # fmt: skip
    for shown, least in zip(found, exact, strict=True):
        assert least <= shown <= 1.3 * least
    assert found[:3] == pytest.approx(exact[:3], rel=0.01)
    rows = re.findall(r'<th scope="row">(1e-\d+|0\.\d+)</th><td class="figure">([\d.]+)</td>', PAGES["private"])
    assert len(rows) == 9
    for delta, epsilon in rows:  # with four digits, and never less
        exact = gaussian_epsilon(mu, float(delta))
        assert exact <= float(epsilon) * (1 + 1e-9) <= 1.002 * exact
    assert "that a record is the true one of two" in PAGES["replace-one"]
    assert "that the row is in the table" in PAGES["private"]
    of_a_person = receipt_page(receipt(unit="one person: all rows of one group, labels included"))
    assert "that the person is in the table" in of_a_person and "absent rows" not in of_a_person


def test_a_seed_is_named_wherever_a_bound_is_given():
    meaning = {
        name: next(
            text for attrs, text in Outline(PAGES[name]).all("section") if attrs.get("aria-labelledby") == "meaning"
        )
        for name in ("private", "seeded", "not private", "infinite")
    }
    assert "knows the seed" not in meaning["private"]
    assert "Whoever knows the seed of this run can predict it: against them nothing holds." in meaning["seeded"]
    assert "no bound" in meaning["not private"] and "no bound" in meaning["infinite"]
    assert "covered by the statement" not in PAGES["not private"]
    assert "nothing depends on the data" in PAGES["nothing"] and "nothing depends on the data" not in PAGES["private"]


def test_the_data_blocks_round_trip():
    made = receipt(unit='</script><script>alert("x")</script> & <!-- ')
    outline = Outline(receipt_page(made, model_card=CARD, title="Its title"))
    blocks = {attrs["id"]: json.loads(text) for attrs, text in outline.all("script")}
    assert Guarantee.from_dict(blocks["receipt"]) == made
    assert blocks["page"]["title"] == "Its title"
    assert blocks["page"]["model_card"] == CARD
    assert [attrs["type"] for attrs, _ in outline.all("script")] == ["application/json"] * 2


def test_the_same_receipt_makes_the_same_page():
    assert receipt_page(receipt(), model_card=CARD) == PAGES["private"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model_card": {3: "x"}}, "the name of a field must be a text.* got 3"),
        ({"model_card": {"name": ""}}, "name must be a text"),
        ({"model_card": {"name": 3}}, "name must be a text.* got 3"),
        ({"model_card": {"authors": []}}, "authors must be a text"),
        ({"model_card": {"authors": ["A", None]}}, "authors must be a text.* got None"),
        ({"model_card": {"name": "x" * 20_001}}, "name has 20,001 characters"),
        ({"model_card": "card.toml"}, "model_card must be a mapping"),
        ({"title": " "}, "title must be a text"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        receipt_page(receipt(), **arguments)
    with pytest.raises(ParameterError, match="guarantee must be a Guarantee"):
        receipt_page({"epsilon": 1.0})


# --- structure --------------------------------------------------------------------------------------------------------


@EVERY
def test_tables_and_drawings_are_told_apart_and_references_lead_somewhere(page):
    """Beside what axe looks for in tests/end_to_end/test_pages_in_browser.py."""
    outline = Outline(page)
    captions = [text for _, text in outline.all("caption")]
    assert "" not in captions and len(captions) == len(set(captions)) == len(outline.all("table"))
    names = [attrs["id"] for _, attrs in outline.tags if "id" in attrs]
    assert {attrs["href"] for _, attrs in outline.tags if "href" in attrs} <= {f"#{name}" for name in names}
    assert len(outline.all("desc")) == len(outline.all("svg")) <= len(captions)
    assert all(len(text) > 40 for _, text in outline.all("desc"))


@EVERY
def test_nothing_is_loaded_run_or_sent(page):
    outline = Outline(page)
    loading = {"src", "srcset", "action", "formaction", "poster", "data", "background", "style", "xlink:href", "ping"}
    for tag, attrs in outline.tags:
        assert not loading & set(attrs), (tag, attrs)
        assert not any(name.startswith("on") for name in attrs)
        assert tag not in {"link", "img", "iframe", "object", "embed", "form", "base", "video", "audio", "image", "use"}
    (policy,) = [attrs["content"] for attrs, _ in outline.all("meta") if "http-equiv" in attrs]
    (style,) = [text for _, text in outline.all("style")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert style == style_sheet()
    assert not re.search(r"url\(|@import|expression", style)


# --- colours of drawings and borders, at which axe does not look ------------------------------------------------------


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast(colours):
    """WCAG 2.2 asks 3 of graphics and of borders of fields, 4.5 of text such as that of a mark."""
    for (ink, least), back in itertools.product({"curve": 3.0, "edge": 3.0, "mark": 4.5}.items(), ("paper", "shade")):
        high, low = sorted((luminance(colours[ink]), luminance(colours[back])), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= least, (ink, back)
    style = style_sheet()
    assert set(re.findall(r"var\(--([\w-]+)\)", style)) == set(colours)
    # the rest of the style sheet names no colour of its own, but for the white of paper
    assert set(re.findall(r"#[0-9a-fA-F]{3,6}\b", style)) - set(LIGHT.values()) - set(DARK.values()) <= {"#fff"}


# --- text that comes from anybody -------------------------------------------------------------------------------------

HOSTILE = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "<script>alert(1)</script>", "</title><script>", "\"><img src=x onerror=alert(1)>",
            "' onload='x", "</style>",
            "</script>", "</script ", "<!--<script ", "<!--", "-->", "]]>", "&lt;b&gt;",
            "javascript:alert(1)", "\u202e\u2066", "\x00", "\ud800",
            "<svg onload=x>", "&#60;b>", "<", "\n<b>\n", "{{7*7}}", "\ufeff",
        ]
    ),
)  # fmt: skip


PIECE = templates().from_string(
    '<p><b title="{{ other }}">{{ one }}</b><i>{{ one }}{{ other }}</i></p>{{ data|tojson }}'
)


@given(HOSTILE, HOSTILE)
@example("</script ", '" onclick="x')
@example("</script/x", "' onclick='x")
def test_text_stays_in_its_attribute_and_data_in_their_block(one, other):
    whole = PIECE.render(one=one, other=other, data={one: [other]})
    assert Outline(whole).shape == [("p", []), ("b", ["title"]), ("i", [])]
    text, block = whole.partition("<i>")[2].split("</i></p>")
    assert not set("<>\"'") & set(text)
    assert not set("<>&") & set(block) and json.loads(block) == {one: [other]}


@settings(max_examples=25, deadline=None)
@given(st.lists(HOSTILE.filter(lambda text: bool(text.strip())), min_size=15, max_size=15))
@example(["</script><script>alert(1)</script>"] * 15)
@example(['"><img src=x onerror=alert(1)>'] * 15)
def test_no_text_becomes_a_tag_or_an_attribute(texts):
    unit, mechanism, accountant, proof, r1, r2, a1, a2, n1, n2, key, value, name, use, out = texts
    made = receipt(
        unit=unit, mechanism=mechanism, accountant=accountant, proof=proof, releases=(r1, r2),
        assumptions=(a1, a2), not_covered=(n1, n2),
        parameters={"estimator": name, "solver": value, f"a{key}": [use, {out: value}], "passes": 45},
    )  # fmt: skip
    page = receipt_page(made, model_card={"name": name, "intended_use": use, "out_of_scope_use": [out, value]})
    outline = Outline(page)
    plain = Outline(
        receipt_page(
            receipt(assumptions=("x", "y"), parameters={"estimator": "e", "solver": "s", "ab": 1, "passes": 45}),
            model_card=CARD,
        )
    )
    assert outline.shape == plain.shape
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page)
    page.encode("utf-8")
    blocks = {attrs["id"]: json.loads(text) for attrs, text in outline.all("script")}
    assert blocks["receipt"] == made.to_dict()


def test_templates_are_written_out_to_the_letter():
    """Pages are verified so: a version of the library that writes others is noticed here."""
    parts = '{% from "report/pages/parts.html" import facts, listed, section %}\n'
    used = '{% call section("a", "B") %}\n{{ facts("C", rows) }}\n{{ listed(()) }}\n{% endcall %}\n'
    assert templates().from_string(parts + used).render(rows=[("<\u202e&>", "'\"\n")]) == (
        '<section aria-labelledby="a"><h2 id="a">B</h2>\n<table class="facts"><caption>C</caption><tbody>\n'
        '<tr><th scope="row" class="text">&lt;\\u202e&amp;&gt;</th><td class="text">&#39;&#34;\n</td></tr>\n'
        "</tbody></table>\n\n<p>nothing</p>\n\n</section>\n"
    )


def test_every_field_of_a_card_is_shown_under_its_own_name():
    page = receipt_page(receipt(), model_card={"intended_use": "calls", "Other <b>": ["one", "two"]})
    assert '<th scope="row" class="text">Intended use</th>\n<td class="text">calls</td>' in page
    assert '<th scope="row" class="text">Other &lt;b&gt;</th>' in page
