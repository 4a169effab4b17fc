"""Every page that the product writes in a real browser: no error, no request, its data read back; and for everybody."""

import json
import re
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


def receipt(epsilon: float = 1.0, **changes: Any) -> Guarantee:
    given: dict[str, Any] = {
        "epsilon": epsilon, "delta": 1e-5, "adjacency": "zero-out", "unit": "one row", "seeded": False,
        "mechanism": "passes with noise", "releases": ("the coefficients", "the number of passes"),
        "event": ComposedEvent((GaussianEvent(27.0), RepeatedEvent(GaussianEvent(25.5), 45))),
        "assumptions": ("n_samples = 500",), "not_covered": ("timing",), "accountant": "exact Gaussian DP",
        "proof": "docs/privacy/dp_scd.md", "version": "0.1.0",
        "parameters": {"estimator": "DPRidge", "solver": "scd"}, **changes,
    }  # fmt: skip
    return Guarantee(**given)


# ----------------------------- a page that somebody wants to break

HOSTILE = receipt(
    unit='one row </script><script>document.title="taken"</script>',
    releases=tuple(f"release {count}" for count in range(12)),
    assumptions=("n_samples = 500", '"><img src="http://127.0.0.1:9/a.png" onerror="document.title=1">'),
    parameters={"estimator": "DPRidge", "solver": "scd"} | {f"p{k}": k for k in range(30)},
)
HURT = '<img src="http://127.0.0.1:9/a.png"><script>document.title = "taken"; console.error("boo")</script></body>'


def visit(chromium: Any, path: Path, text: str) -> tuple[Any, list[str], list[str]]:
    """Return the page as the browser has it, what its console says, and what it asked others for."""
    path.write_text(text, encoding="utf-8")
    page, said, asked = chromium.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request) if request.url.startswith(("http", "ws")) else None)
    page.goto(path.as_uri(), wait_until="networkidle")
    return page, said, [request.url for request in asked if "csp" not in str(request.failure).lower()]


def test_no_error_and_no_request_and_the_data_are_read_back(chromium: Any, tmp_path: Path) -> None:
    text = receipt_page(HOSTILE, title="A title", model_card={"name": "<b>Card</b>", "contact": "me"})
    page, said, asked = visit(chromium, tmp_path / "page.html", text)
    assert (page.title(), said, asked) == ("A title", [], [])
    assert Guarantee.from_json(page.locator("#receipt").text_content()) == HOSTILE
    assert json.loads(page.locator("#page").text_content())["model_card"]["name"] == "<b>Card</b>"
    content = page.pdf(prefer_css_page_size=True)
    sizes = re.findall(rb"/MediaBox \[([^\]]*)\]", content)
    assert 3 <= len(sizes) <= 9
    assert {tuple(round(float(x)) for x in size.split()) for size in sizes} == {(0, 0, 595, 842)}


def test_the_policy_stops_what_would_get_in(chromium: Any, tmp_path: Path) -> None:
    page, said, asked = visit(
        chromium, tmp_path / "page.html", receipt_page(HOSTILE, title="A title").replace("</body>", HURT)
    )
    assert (page.title(), asked) == ("A title", [])
    assert len([line for line in said if "Content Security Policy" in line]) == 2
    page, said, asked = visit(chromium, tmp_path / "open.html", f"<!doctype html><body>{HURT}")  # they would be noticed
    assert (page.title(), asked) == ("taken", ["http://127.0.0.1:9/a.png"])
    assert "boo" in said


# ----------------------------- pages for everybody


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
    "a receipt": lambda: receipt_page(receipt()),
    "a receipt with a card": lambda: receipt_page(receipt(), model_card=CARD),
    "a weak receipt": lambda: receipt_page(receipt(20.0)),
    "a seeded receipt": lambda: receipt_page(receipt(seeded=True)),
    "an evaluation, two classes": lambda: evaluated("two"),
    "an evaluation, three classes": lambda: evaluated("three"),
    "an evaluation, numbers": lambda: evaluated("ridge"),
    "a forecast": forecast_document,
}


@pytest.mark.slow
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


@pytest.mark.slow
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
