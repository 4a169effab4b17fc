"""Receipts and the page of known limits say the same."""

from pathlib import Path

import pytest

from sottovoce.privacy.guarantee import FURTHER_LIMITS
from support.receipts import PRIVATE, bernstein, receipts

ROOT = Path(__file__).parents[2]
KINDS = ("DPLogisticRegression auto", "search", "vertical local-models", "vertical lasso", "local", "Bernstein report")


@pytest.mark.parametrize("kind", KINDS)
def test_private_receipts_name_what_all_have_in_common(kind):
    made = next(receipts(kind)) if kind in PRIVATE else bernstein()
    limits = made.not_covered
    assert limits[-1] == FURTHER_LIMITS
    assert len(set(limits)) == len(limits)
    text = " ".join(limits)
    assert "timing" in text
    assert "everything" not in text
    if kind in ("local", "Bernstein report"):
        assert "k of them cost k" in text
        assert "forged" in text
    else:
        assert "adds up" in text
        assert "rows of the same person" in text
        assert "how exactly floating-point Gaussians follow their law" in text


@pytest.mark.parametrize("kind", ["no noise", "no noise, lasso", "pipeline no noise", "vertical no noise"])
def test_receipts_without_privacy_cover_nothing(kind):
    (limit,) = next(receipts(kind)).not_covered
    assert limit.startswith("everything")


def test_the_page_that_receipts_name_exists_and_is_linked():
    page = FURTHER_LIMITS.split()[-1]
    assert (ROOT / page).read_text(encoding="utf-8").startswith("# Known limits")
    for other, link in (("README.md", page), ("docs/privacy/README.md", "../known_limits.md"), ("SECURITY.md", page)):
        assert f"]({link})" in (ROOT / other).read_text(encoding="utf-8")
