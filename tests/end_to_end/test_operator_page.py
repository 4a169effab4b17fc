"""The page of the person who runs a collector, in a real browser, beside a running collector."""

import re
import time

import httpx
import pytest

pytest.importorskip("starlette")
from support.accessible import axe_violations, overflow
from support.collector import entry, new_token, running_collector
from support.waiting import until


def operator_address(collector):
    return re.search(r"http://\S+", collector.process.stdout.readline())[0]


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    folder = tmp_path_factory.mktemp("operator")
    options = ["--operator-key", folder / "operator.key", "--operator-port", "0", "--expected", "2000"]
    pace = ["--count-seconds", "0.2"]
    with running_collector(folder, f"sqlite:///{folder / 'reports.db'}", *map(str, options), *pace) as running:
        running.operator = operator_address(running)
        running.password = (folder / "operator.key").read_text().strip()
        with httpx.Client(base_url=running.url) as client:
            client.post("/reports", json=[entry(new_token()) for _ in range(657)])
            for _ in range(31):
                client.post("/reports", json=17)
            until(lambda: client.get("/stats").json()["accepted"] >= 650)  # it counts seldom
        yield running


@pytest.fixture
def page(chromium, collector):
    opened = []

    def visit(**options):
        credentials = {"username": "operator", "password": collector.password}
        context = chromium.new_context(http_credentials=credentials, **options)
        opened.append(context)
        shown = context.new_page()
        shown.requests, shown.problems = [], []
        shown.on("request", lambda request: shown.requests.append(request.url))
        shown.on("console", lambda message: shown.problems.append(message.text))
        shown.goto(collector.operator)
        return shown

    yield visit
    for context in opened:
        context.close()


def test_the_page_shows_the_numbers_and_asks_nobody_else(page, collector):
    shown = page(java_script_enabled=False)
    assert shown.title() == "Collector: taking reports"
    assert shown.locator("#stored").inner_text() == "650 stored"
    assert shown.get_by_text("32 % of the 2,000 reports that are planned for.").count() == 1
    assert shown.get_by_role("row", name="not-a-form 30").count() == 1
    assert shown.requests == [f"{collector.operator}/", f"{collector.operator}/style.css"]
    assert not any(collector.password in request for request in shown.requests)
    assert shown.locator("body").evaluate("e => getComputedStyle(e).maxWidth") == "672px"  # the style was let in
    assert shown.problems == []


def test_how_much_is_there_is_a_bar_with_a_name(page):
    shown = page()
    bar = shown.get_by_role("progressbar", name="32 % of the 2,000 reports that are planned for.")
    assert bar.evaluate("e => e.value / e.max") == 0.325
    shown.keyboard.press("Tab")
    assert shown.evaluate("() => document.activeElement.textContent") == "Look again"


@pytest.mark.parametrize(("scheme", "width"), [("light", 320), ("dark", 1280)])
def test_the_page_can_be_read(page, scheme, width):
    shown = page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert overflow(shown) <= 0
    assert axe_violations(shown) == []


def test_both_doors_close_together(tmp_path):
    options = ["--operator-key", str(tmp_path / "key"), "--operator-port", "0"]
    with running_collector(tmp_path, f"sqlite:///{tmp_path / 'reports.db'}", *options) as running:
        address = operator_address(running)
        headers = {"Authorization": f"Bearer {(tmp_path / 'key').read_text().strip()}"}
        with httpx.Client() as client:
            assert "sottovoce_collector_ready 1.0" in client.get(f"{address}/metrics", headers=headers).text
            assert client.get(f"{address}/metrics").status_code == 401
            assert client.get(f"{running.url}/metrics", headers=headers).status_code == 404
            began = time.monotonic()
            assert running.stop() == 0
            assert time.monotonic() - began < 8
            with pytest.raises(httpx.ConnectError):
                client.get(address)
        assert running.process.stdout.read() == "stopped; all that was acknowledged is stored\n"
        log = running.log.read_text()
        assert len(log.splitlines()) == 1
        assert log.startswith("note: any token is accepted")
