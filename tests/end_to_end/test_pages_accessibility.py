"""Every page that the product writes, for everybody: axe in a real browser, narrow and wide, in light and in dark."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.forecasting import forecast
from sottovoce.privacy.events import ComposedEvent, GaussianEvent, RepeatedEvent
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report import receipt_page
from support.accessible import axe_violations, moving, overflow

pytestmark = pytest.mark.slow  # a browser, every page


def receipt(epsilon: float, *, seeded: bool = False) -> Guarantee:
    return Guarantee(
        epsilon=epsilon, delta=1e-5, adjacency="zero-out", unit="one row", mechanism="passes with noise",
        releases=("the coefficients", "the number of passes"),
        event=ComposedEvent((GaussianEvent(27.0), RepeatedEvent(GaussianEvent(25.5), 45))),
        assumptions=("n_samples = 500",), not_covered=("timing",), seeded=seeded, accountant="exact Gaussian DP",
        proof="docs/privacy/dp_scd.md", version="0.1.0", parameters={"estimator": "DPRidge", "solver": "scd"},
    )  # fmt: skip


def evaluated(task: str) -> str:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (3000, 3))
    z = X @ [2.0, -1.0, 0.5] + 0.4 * rng.normal(size=3000)
    fit = {"epsilon": 2.0, "delta": 1e-6, "data_norm": 3**0.5, "random_state": 0}
    if task == "ridge":
        model, y = sv.DPRidge(**fit, label_bounds=(-4.0, 4.0)), np.clip(z, -4.0, 4.0)
    else:
        bounds = [0.0] if task == "two" else [-0.7, 0.7]
        model, y = sv.DPLogisticRegression(**fit, classes=list(range(len(bounds) + 1))), np.digitize(z, bounds)
    page: str = sv.evaluate(model.fit(X, y), X, y, epsilon=1.0, random_state=0).to_html()
    return page


def forecast_document() -> str:
    found = forecast(sv.DPLogisticRegression(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[0, 1]), 5000, 10)
    return f"<!doctype html><html lang=en><title>Plan</title><main><h1>Plan</h1>{found._repr_html_()}</main></html>"


CARD = {"name": "Income", "intended_use": "A trial.", "contact": "office@example.org"}
PAGES = {
    "a receipt": lambda: receipt_page(receipt(1.0)),
    "a receipt with a card": lambda: receipt_page(receipt(1.0), model_card=CARD),
    "a weak receipt": lambda: receipt_page(receipt(20.0)),
    "a seeded receipt": lambda: receipt_page(receipt(1.0, seeded=True)),
    "an evaluation, two classes": lambda: evaluated("two"),
    "an evaluation, three classes": lambda: evaluated("three"),
    "an evaluation, numbers": lambda: evaluated("ridge"),
    "a forecast": forecast_document,
}


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(chromium: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "page.html").write_text(PAGES[name](), encoding="utf-8")
    found = {}
    for width, scheme in ((390, "light"), (1280, "dark")):
        context = chromium.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True
        )
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        if wrong := axe_violations(page):
            found[width, scheme] = wrong
        assert moving(page) == []
        context.close()
    assert found == {}


@pytest.mark.parametrize("name", [name for name in PAGES if name != "a forecast"])
def test_it_can_be_enlarged(chromium: Any, tmp_path: Path, name: str) -> None:
    """320 px are 1280 at 400 %; and text of twice the size in a window of 1280."""
    (tmp_path / "page.html").write_text(PAGES[name](), encoding="utf-8")
    context = chromium.new_context(viewport={"width": 320, "height": 800})
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    assert overflow(page) <= 0
    page.set_viewport_size({"width": 1280, "height": 800})
    page.evaluate("() => { document.documentElement.style.fontSize = '200%'; }")
    assert overflow(page) <= 0
    context.close()
