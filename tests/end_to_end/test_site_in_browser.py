"""The built site in a browser: pages fit a phone, nothing is asked of another address, the search finds."""

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from support.browser import browser

SITE = Path(__file__).parents[2] / "site"
# one of each kind: pictures and cards, proof, wide tables, reference of a class, of a command, paper, formulas
PAGES = (
    "index",
    "privacy/dp_scd",
    "privacy/README",
    "api/generated/sottovoce.DPLogisticRegression",
    "api/commands/fit",
    "papers/dp_scd",
    "api/losses",
    "known_limits",
)
# what reaches beyond the window, but for what scrolls in a box of its own
BEYOND = """() => [...document.querySelectorAll(".bd-article *")].filter(element => {
    if (element.getBoundingClientRect().right <= innerWidth + 1) return false;
    for (let box = element; box.parentElement && !box.matches(".bd-article"); box = box.parentElement)
        if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return false;
    return true;
}).map(element => element.outerHTML.slice(0, 80))"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    if not (SITE / "index.html").exists():
        pytest.skip("no site is built: make docs")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def chromium(address):
    with browser() as running:
        yield running


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_ask_nobody_else(chromium, address, width, scheme):
    with chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        page = context.new_page()
        asked, faults = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        for name in PAGES:
            page.goto(f"{address}{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
            assert page.evaluate(BEYOND) == [], name
            assert page.evaluate("document.documentElement.dataset.theme") == scheme
        assert faults == []
        assert [url for url in asked if not url.startswith((address, "data:"))] == []


def test_the_search_finds(chromium, address):
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(f"{address}search.html?q=lambda_max")
        page.locator("#search-results li a").first.wait_for()
        assert any("dp_scd" in link.get_attribute("href") for link in page.locator("#search-results li a").all())
