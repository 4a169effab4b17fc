"""Receipts that come from anybody: read with limits, verified, compared; model cards from files."""

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sottovoce._plain_data import digest
from sottovoce.exceptions import AccountingError, ModelFormatError, ParameterError
from sottovoce.privacy.events import (
    GaussianEvent,
    PoissonSampledEvent,
    PureEvent,
    RepeatAndSelectEvent,
    compose,
)  # fmt: skip
from sottovoce.report import read_model_card, read_receipt, receipt_page, verify_receipt
from sottovoce.report.reading import fingerprint
from support.receipts import made_up

PARAMETERS = {"solver": "scd", "limit": math.inf, "nothing": None, "shares": {"a": [0.5, 0.5]}}


@pytest.fixture(autouse=True)
def no_run(monkeypatch):
    """These receipts are made by hand: no run has such words."""
    monkeypatch.setattr("sottovoce.report.verification.compared_with_run", lambda *_: [])


def receipt(**changes):
    return made_up(**({"parameters": PARAMETERS} | changes))


def written(tmp_path, content, name="file.json"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


# --- reading ----------------------------------------------------------------------------------------------------------


def test_every_kind_of_file_gives_the_same_receipt(tmp_path):
    made = receipt(model=digest({}))
    model = {"format": "sottovoce-model", "version": 1, "fitted": {}, "guarantee": made.to_dict()}
    files = [
        ("receipt", written(tmp_path, made.to_json(), "a.json")),
        ("model", written(tmp_path, model, "b.json")),
        ("page", written(tmp_path, receipt_page(made, title="</script> & <b>", model_card={"name": "x"}), "c.html")),
    ]
    for kind, path in files:
        assert read_receipt(path) == made
        found = verify_receipt(path)
        assert (found.kind, found.passed, found.guarantee) == (kind, True, made)
        assert fingerprint(found.guarantee) == fingerprint(made)


def nested(levels):
    event = {"kind": "gaussian", "noise_multiplier": 100.0}
    for _ in range(levels):
        event = {"kind": "repeated", "count": 1, "event": event}
    return receipt().to_dict() | {"event": event}


WIDE = {"kind": "composed", "events": [{"kind": "gaussian", "noise_multiplier": 1e6}] * 10_001}
GOOD = json.dumps(receipt().to_dict())
GAUSSIANS = [GaussianEvent(100.0 + k) for k in range(1000)]
SAMPLED = [PoissonSampledEvent(0.01, one) for one in GAUSSIANS]
SLOW = [
    compose(*SAMPLED), compose(SAMPLED[0], *GAUSSIANS), compose(GAUSSIANS[0], *map(PureEvent, np.arange(1, 99) / 1e3)),
    RepeatAndSelectEvent(compose(*SAMPLED), 5.0),
    compose(*(RepeatAndSelectEvent(one, 5.0) for one in SAMPLED)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ("[]", "neither a receipt, a model, an evaluation, nor the page"),
        ('{"format": "x"}', "neither a receipt"),
        (GOOD[:-9], "not JSON"),
        (GOOD.replace('"epsilon": 1.5', '"epsilon": 1.5, "epsilon": 9.5'), "a name is given twice"),
        (GOOD.replace('"epsilon": 1.5', '"epsilon": NaN'), "NaN is not allowed"),
        (GOOD.replace('"epsilon": 1.5', '"epsilon": 1e999'), "a number is too large"),
        (GOOD.replace("[0.5, 0.5]", "[1e999]"), "a number is too large"),
        (GOOD.replace('"epsilon": 1.5', '"epsilon": ' + "9" * 5000), "not JSON"),
        (GOOD.replace('"version": 2', '"version": 3'), "update sottovoce"),
        (GOOD.replace('"seeded": false', '"seeded": 0'), "wrong kind"),
        (json.dumps(nested(70)), "nested more than 64 levels"),
        ("[" * 100_000, "not JSON"),
        (json.dumps(receipt().to_dict() | {"event": WIDE}), "more than 10,000 events"),
        *((json.dumps(receipt().to_dict() | {"event": one.to_dict()}), "more kinds of releases than") for one in SLOW),
        (json.dumps(receipt().to_dict() | {"mechanism": "x" * 4_000_001}), "at most 4,000,000 bytes"),
        ('{"format": "sottovoce-model", "guarantee": 3}', "holds no receipt"),
        ("<!doctype html><p>nothing", "this page holds no receipt"),
        ("<!doctype html>" + " " * 4_000_001, "too large"),
        ('<!doctype html><script id="receipt">{}</script><script id="receipt">{}</script>', "two data blocks"),
        ('<!doctype html><script id="receipt">[]</script><script id="page">{}</script>', "are no receipt"),
        ('<!doctype html><script id="receipt">{}</script><script id="page">{"title": 3}</script>', "wrong kind"),
        (
            '<!doctype html><script id="receipt">{}</script><script id="page">{"model_card": {"a": 3}}</script>',
            "no valid model card",
        ),
    ],
    ids=range(22 + len(SLOW)),
)
def test_what_is_refused(tmp_path, content, message):
    path = written(tmp_path, content)
    for read in (read_receipt, verify_receipt):
        with pytest.raises(ModelFormatError, match=message) as caught:
            read(path)
        assert str(caught.value).startswith(str(path))
        assert len(str(caught.value)) < 1000


def test_files_that_are_none(tmp_path):
    with pytest.raises(ModelFormatError, match="cannot read the file: No such file"):
        read_receipt(tmp_path / "none.json")
    with pytest.raises(ModelFormatError, match="cannot read the file"):
        read_receipt(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelFormatError, match="not UTF-8"):
        verify_receipt(tmp_path / "bytes")


def test_a_receipt_in_memory_is_verified_as_its_file_is(tmp_path):
    known, changed = receipt(), receipt().to_dict() | {"epsilon": 0.5}
    wanted = verify_receipt(written(tmp_path, known.to_json())).to_dict()
    for given in (known, known.to_dict(), SimpleNamespace(guarantee_=known)):
        assert verify_receipt(given).to_dict() == wanted
    assert not verify_receipt(changed).passed
    with pytest.raises(ParameterError, match="path must be that of a file, a receipt, its dict"):
        verify_receipt(3.0)


# --- verification -----------------------------------------------------------------------------------------------------


def failed(found):
    return [check.name for check in found.checks if not check.passed]


def test_an_overstated_promise_fails(tmp_path):
    path = written(tmp_path, receipt().to_dict() | {"epsilon": 0.5})
    found = verify_receipt(path)
    assert failed(found) == ["promise against event"]
    assert not found.passed and found.guarantee is None
    assert dict(found.rows())["verdict"].startswith("FAILED")
    with pytest.raises(AccountingError, match="the receipt does not describe the run"):
        read_receipt(path)


@pytest.mark.parametrize(
    "change",
    [
        {"statement": "(0.1, 1e-09)-differential privacy for everybody."},
        {"statement": None},
        {"approved": True},
        {"unit": "one person"},  # the sentence names the unit
    ],
)
def test_words_that_the_data_do_not_mean_fail(tmp_path, change):
    found = verify_receipt(written(tmp_path, receipt().to_dict() | change))
    assert failed(found) == ["statement", "checksum"]
    assert not found.passed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<li class="text">timing</li>', ""),
        (">Private<", ">Perfectly private<"),
        ("<p>A detector", "<p>No detector"),
        ("</body>", "<p>approved</p></body>"),
        ("</html>\n", "</html>"),
    ],
)
def test_a_page_that_was_changed_fails(tmp_path, before, after):
    page = receipt_page(receipt(), model_card={"name": "Mine"})
    changed = page.replace(before, after)
    if before == "<p>A detector":
        changed = page.replace("A detector", "No detector")
    assert changed != page
    found = verify_receipt(written(tmp_path, changed))
    assert failed(found) == ["page"]
    assert not found.passed and found.guarantee == receipt()


def test_it_says_what_no_file_can_show(tmp_path):
    found = verify_receipt(written(tmp_path, receipt().to_json()))
    assert any("without a signature" in text for text in found.not_checkable)
    assert not any("model card" in text for text in found.not_checkable)
    carded = verify_receipt(written(tmp_path, receipt_page(receipt(), model_card={"name": "x"})))
    assert any("model card" in text for text in carded.not_checkable)
    rows = dict(found.rows())
    assert rows["verdict"] == "passed" and rows["fingerprint (SHA-256)"] == fingerprint(receipt())
    assert "epsilon = " + repr(receipt().epsilon_at(1e-5)) in rows["promise against event"]
    local = receipt(event=PureEvent(1.5), delta=0.0, accountant="pure local differential privacy")
    rows = dict(verify_receipt(written(tmp_path, local.to_json())).rows())
    assert "the receipt names: pure local differential privacy" in rows["accountant"]


# --- model cards ------------------------------------------------------------------------------------------------------

CARD = 'name = "Mine"\nintended_use = "calls"\nauthors = ["A", "B"]\n'


def test_cards_from_toml_and_json(tmp_path):
    wanted = {"name": "Mine", "intended_use": "calls", "authors": ["A", "B"]}
    assert read_model_card(written(tmp_path, CARD, "card.toml")) == wanted
    assert read_model_card(written(tmp_path, wanted, "card.json")) == wanted


def test_the_card_of_the_guide_is_read_and_the_guides_name_every_field_of_a_receipt(tmp_path):
    guides = Path(__file__).parents[3] / "docs" / "guide"
    cards, page = ((guides / name).read_text(encoding="utf-8") for name in ("model_cards.md", "receipts.md"))
    assert read_model_card(written(tmp_path, re.search(r"```toml\n(.*?)```", cards, re.DOTALL)[1], "card.toml"))
    assert not [name for name in receipt().to_dict() if f"`{name}`" not in page]


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ('"" = "x"', "card.toml", "the name of a field must be a text"),
        ("date = 2026-01-01", "card.toml", "date must be a text.* Dates and numbers go between quotes"),
        ('[name]\nx = "y"', "card.toml", "name must be a text"),
        ("name", "card.toml", "not TOML"),
        ("{", "card.json", "not JSON"),
        ("[]", "card.json", "must be a mapping"),
        ('name = "' + "x" * 1_000_001 + '"', "card.toml", "at most 1,000,000 bytes"),
    ],
)
def test_cards_that_are_refused(tmp_path, content, name, message):
    with pytest.raises(ParameterError, match=message):
        read_model_card(written(tmp_path, content, name))
    with pytest.raises(ParameterError, match="cannot read the model card"):
        read_model_card(Path(tmp_path) / "none.toml")
