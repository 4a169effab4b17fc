"""Receipts and the page of known limits say the same."""

import math
from pathlib import Path

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.local import Aggregator, Protocol, Randomizer
from sottovoce.papers.ldp import BernsteinProtocol
from sottovoce.papers.ldp.server import guarantee
from sottovoce.privacy.guarantee import FURTHER_LIMITS
from sottovoce.vertical import Party, VerticalLasso, VerticalLogisticRegression
from sottovoce.vertical.coordinator.parties import InProcessParties

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
X, Y = RNG.uniform(0.0, 0.5, (60, 2)), np.where(RNG.random(60) < 0.5, 1, -1)
PUBLIC = {"epsilon": 2.0, "delta": 1e-4}


def parties():
    public = {"data_norm": 1.0, "data_bound": 1.0, "nonnegative": True}
    return InProcessParties([Party(X, name=name, **public) for name in ("holder", "other")])


def vertical(mechanism, **changed):
    public = {**PUBLIC, "classes": [-1, 1], "mechanism": mechanism, **changed}
    return VerticalLogisticRegression(**public).fit(parties(), Y).guarantee_


def cap_report():
    protocol = Protocol(n_features=2, epsilon=2.0)
    device, aggregator = Randomizer(protocol), Aggregator(protocol)
    aggregator.add(b"".join(device.report(x, int(label)) for x, label in zip(X, Y, strict=True)))
    return aggregator.fit().guarantee_


RECEIPTS = {
    "central": lambda: sv.DPLogisticRegression(data_norm=1.0, classes=[-1, 1], **PUBLIC).fit(X, Y).guarantee_,
    "search": lambda: (
        sv.DPSearchCV(sv.DPLogisticRegression(data_norm=1.0, classes=[-1, 1]), {"alpha": [0.1]}, n_iter=1, **PUBLIC)
        .fit(X, Y)
        .guarantee_
    ),
    "local-models": lambda: vertical("local-models"),
    "vertical Frank-Wolfe": lambda: (
        VerticalLasso(radius=1.0, label_bounds=(-1.0, 1.0), **PUBLIC).fit(parties(), Y * 1.0).guarantee_
    ),
    "cap report": cap_report,
    "Bernstein report": lambda: guarantee(BernsteinProtocol("hinge", 2, 4.0, 1e-6), 1),
}


@pytest.mark.parametrize("kind", RECEIPTS)
def test_private_receipts_name_what_all_have_in_common(kind):
    limits = RECEIPTS[kind]().not_covered
    assert limits[-1] == FURTHER_LIMITS
    assert len(set(limits)) == len(limits)
    text = " ".join(limits)
    assert "timing" in text
    assert "everything" not in text
    if "report" in kind:
        assert "k of them cost k" in text
        assert "forged" in text
    else:
        assert "adds up" in text
        assert "rows of the same person" in text
        assert "how exactly floating-point Gaussians follow their law" in text


def test_receipts_without_privacy_cover_nothing():
    lasso = VerticalLasso(radius=1.0, epsilon=math.inf).fit(parties(), Y * 1.0)
    receipts = [vertical("local-models", epsilon=math.inf), lasso.guarantee_]
    for receipt in receipts:
        assert all(limit.startswith("everything") for limit in receipt.not_covered)
        assert len(receipt.not_covered) == 1


def test_the_page_that_receipts_name_exists_and_is_linked():
    page = FURTHER_LIMITS.split()[-1]
    assert (ROOT / page).read_text(encoding="utf-8").startswith("# Known limits")
    for other, link in (("README.md", page), ("docs/privacy/README.md", "../known_limits.md"), ("SECURITY.md", page)):
        assert f"]({link})" in (ROOT / other).read_text(encoding="utf-8")
