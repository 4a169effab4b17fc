"""Each page of five minutes is followed in an empty folder, as it is printed."""

import re
import shutil
from pathlib import Path

import pytest

from sottovoce.report import make_key, read_receipt, sign_receipt
from support.pages import follow

START = Path(__file__).parents[2] / "docs" / "start"


def test_data_scientist(tmp_path):
    follow(START / "data_scientist.md", tmp_path)
    assert (tmp_path / "model.json").exists()


@pytest.fixture(scope="module")
def analyst(tmp_path_factory):
    pytest.importorskip("sqlalchemy")
    folder = tmp_path_factory.mktemp("analyst")
    follow(START / "analyst.md", folder)
    return folder


def test_analyst(analyst):
    assert {"model.json", "model.receipt.json", "report.html", "predictions.csv"} <= {
        path.name for path in analyst.iterdir()
    }


def test_privacy_officer(analyst, tmp_path):
    """With the files that an analyst hands over, signed."""
    pytest.importorskip("cryptography")
    for name in ("model.json", "model.receipt.json"):
        shutil.copy(analyst / name, tmp_path)
    make_key(tmp_path / "officer.key")
    receipt = tmp_path / "model.receipt.json"
    receipt.write_text(sign_receipt(read_receipt(receipt), tmp_path / "officer.key").to_json(), encoding="utf-8")
    follow(START / "privacy_officer.md", tmp_path)


def test_what_the_privacy_officer_looks_for_is_on_the_page(analyst):
    page = (START / "privacy_officer.md").read_text(encoding="utf-8")
    receipt = re.sub(r"<[^>]+>", "", (analyst / "report.html").read_text(encoding="utf-8")).lower()
    rows = re.findall(r"^\| \*\*(.*?)\*\*", page, re.MULTILINE)
    assert len(rows) >= 8
    for words in rows:
        for word in words.split(", "):
            assert word.lower() in receipt, word


@pytest.mark.slow
def test_product_team(tmp_path):
    pytest.importorskip("starlette")
    follow(START / "product_team.md", tmp_path)
