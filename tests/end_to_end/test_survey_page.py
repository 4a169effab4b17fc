"""From the form in a real browser to the collector: answers are randomised before they leave, and counted once."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sottovoce.local import Aggregator
from sottovoce.local.wire import REPORT_BYTES, Report, parse
from support.accessible import axe_violations, overflow
from support.survey import PROTOCOL, survey_collector, visits
from support.waiting import until

pytest.importorskip("starlette")
from sottovoce.local.collector.storage import ReportStore

SECRETS = ["41.62", "private", "town 7", "yes"]
TOKEN = "an-invitation.to_somebody~17"


def stats(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{address}/stats") as answer:
        return json.load(answer)


def stored(database: Path) -> list[bytes]:
    """Return all reports in the collector's database."""
    with ReportStore(str(database), PROTOCOL) as store:
        raw = b"".join(store.reports())
    return [raw[place : place + REPORT_BYTES] for place in range(0, len(raw), REPORT_BYTES)]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("survey") / "reports.db"


@pytest.fixture(scope="module")
def address(database: Path) -> Iterator[str]:
    with survey_collector(database.parent) as running:
        yield running


@pytest.fixture
def visit(chromium: Any, address: str) -> Iterator[Any]:
    with visits(chromium, address) as start:
        yield start


def test_only_the_report_leaves_the_page(visit: Any, address: str, database: Path) -> None:
    before = len(stored(database))
    person = visit(f"#token={TOKEN}")
    assert not person.page.locator("#report").is_visible()
    person.fill()
    assert person.posts() == []
    person.randomise()
    person.page.get_by_text("Nothing has been sent yet.").wait_for()
    assert person.posts() == []
    assert person.page.locator("form, input, select").count() == 0  # the answers are gone

    person.send()
    [post] = person.posts()
    body = post.post_data_buffer
    report = parse(body, PROTOCOL, token=TOKEN.encode())
    assert isinstance(report, Report)
    assert len(body) == 22
    headers = post.all_headers()
    assert headers["sottovoce-token"] == TOKEN
    assert "cookie" not in headers
    assert "referer" not in headers

    for request in person.requests:
        sent = " ".join([request.url, *request.all_headers().values()]).lower() + repr(request.post_data_buffer)
        assert not any(secret in sent for secret in SECRETS), sent
        assert request.url.startswith(address)
    assert set(person.kept().values()) == {TOKEN, body.hex()}
    shown = person.page.locator("#bytes code").all_inner_texts()
    assert "".join(shown).replace(" ", "") == body.hex()

    reports = stored(database)
    assert len(reports) == before + 1
    assert reports.count(body) == 1
    aggregator = Aggregator(PROTOCOL)
    assert aggregator.add(reports) == before + 1
    assert aggregator.rejected_ == {}
    assert person.problems == []


def test_the_same_report_is_sent_again_and_counts_once(visit: Any, address: str, database: Path) -> None:
    person = visit()
    person.fill()
    person.randomise()
    person.send()
    count = len(stored(database))
    person.send()
    person.open()  # a new tab, later
    assert not person.page.locator("#form").is_visible()
    person.send()
    posts = person.posts()
    assert len(posts) == 3
    assert len({post.post_data_buffer for post in posts}) == 1
    assert len({post.headers["sottovoce-token"] for post in posts}) == 1
    assert len(stored(database)) == count
    until(lambda: stats(address)["accepted"] == count)  # it counts seldom


def test_what_is_not_answered_is_asked_again(visit: Any) -> None:
    person = visit()
    person.randomise()
    assert person.page.get_by_text("Please choose one.").count() == 3
    assert person.page.get_by_text("Please give a number.").count() == 2
    assert person.page.evaluate("() => document.activeElement === document.querySelector('input')")
    person.fill()
    person.page.get_by_role("textbox", name="age").fill("forty")
    person.randomise()
    person.page.get_by_text("This is not a number.").wait_for()
    assert person.page.get_by_role("textbox", name="age").get_attribute("aria-invalid") == "true"
    assert person.posts() == []
    assert person.kept() == {}


def test_the_page_works_by_keyboard_and_on_a_phone(visit: Any) -> None:
    person = visit(f"#token={'a1' * 64}", viewport={"width": 320, "height": 640})
    page = person.page
    page.get_by_role("textbox", name="age").focus()
    keys = ["4", "1", "Tab", "Space", "Tab", "Tab", "Space", "Tab", "t", "Tab", "Space", "Enter"]
    for key in keys:
        page.keyboard.press(key)
    page.locator("#report:not([hidden])").wait_for()
    assert page.evaluate("() => document.activeElement.id") == "report-title"
    for key in ["Tab", "Enter"]:
        page.keyboard.press(key)
    page.get_by_text("Sent and stored.").wait_for()
    assert overflow(page) <= 0


def test_questions_and_a_link_that_cannot_work_are_for_everybody(visit: Any) -> None:
    """In all states and languages: test_survey_accessibility.py."""
    assert axe_violations(visit(bypass_csp=True).page) == []
    page = visit("#token=short", bypass_csp=True).page
    page.get_by_role("alert").get_by_text("This is not the link of an invitation to this survey.").wait_for()
    assert not page.locator("#form").is_visible()
    assert axe_violations(page) == []


def test_nothing_from_elsewhere_may_run_or_be_asked(visit: Any) -> None:
    page = visit().page
    everybody = {"Access-Control-Allow-Origin": "*"}
    page.route("https://example.org/**", lambda route: route.fulfill(body="reached", headers=everybody))
    assert page.evaluate("() => fetch('https://example.org/').then(() => 'sent', () => 'refused')") == "refused"
    policy = page.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content")
    assert "default-src 'none'" in policy
    assert "form-action 'none'" in policy
    assert "unsafe" not in policy
