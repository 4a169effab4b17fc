"""A survey by invitation: what cannot be sent is told before the first question, and nothing is lost or made twice."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sottovoce.local.collector.tokens import TokenKey
from sottovoce.local.device.survey import LANGUAGES, catalogue
from support.pairs import by_pairs, every_second
from support.survey import KEY, PROTOCOL, Visit, invited_survey, visits

pytest.importorskip("starlette")
from sottovoce.local.collector.storage import ReportStore

WORDS = catalogue("en")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("invitations")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """A collector that takes issued tokens only, and a page that was not told so."""
    with invited_survey(folder) as running:
        yield running


@pytest.fixture
def visit(chromium: Any, address: str) -> Iterator[Any]:
    with visits(chromium, address) as start:
        yield start


def changed(token: str) -> str:
    return ("A" if token[0] != "A" else "B") + token[1:]


LINKS = {
    "none": "", "empty": "#token=", "made up": "#token=a-token.of-ones-own-making",
    "cut short": f"#token={KEY.issue()[:-1]}", "changed": f"#token={changed(KEY.issue())}",
    "of another key": f"#token={TokenKey(bytes(32), PROTOCOL.id).issue()}",
    "of another survey": f"#token={TokenKey(bytes(range(32)), bytes(8)).issue()}",
}  # fmt: skip


@pytest.mark.parametrize(("link", "language"), by_pairs(list(LINKS), LANGUAGES))
def test_a_link_that_cannot_work_is_told_before_any_question(visit: Any, link: str, language: str) -> None:
    person = visit(LINKS[link], locale=language)
    told = "damaged-invitation" if LINKS[link] else "no-invitation"
    assert person.page.get_by_role("alert").inner_text() == catalogue(language)[told]
    assert person.page.locator("input, select, button[type=submit]").locator("visible=true").count() == 0
    assert person.posts() == []
    assert person.kept() == {}
    assert person.problems == []


def test_the_link_is_checked_without_being_sent(visit: Any) -> None:
    token = KEY.issue()
    person = visit(f"#token={token}")
    person.fill()
    person.randomise()
    person.page.get_by_text(WORDS["not-sent"]).wait_for()
    secrets = [token, token[:16], base64.urlsafe_b64decode(token).hex()]
    for request in person.requests:
        sent = " ".join([request.url, *request.all_headers().values(), repr(request.post_data_buffer)])
        assert not any(secret in sent for secret in secrets), sent
    assert person.page.get_by_text(WORDS["code-invited"]).is_visible()  # though survey.json says nothing of invitations
    person.send()
    assert person.posts()[0].headers["sottovoce-token"] == token


def test_a_forged_link_is_refused_and_the_report_stays(visit: Any) -> None:
    """Whoever knows the public mark can make a link that the page takes: the collector does not."""
    forged = bytearray(base64.urlsafe_b64decode(KEY.issue()))
    forged[20] ^= 1
    forged[32:] = KEY._check(bytes(forged[:32]))
    person = visit(f"#token={base64.urlsafe_b64encode(bytes(forged)).decode()}")
    person.fill()
    person.randomise()
    person.page.locator("#send").click()
    person.page.get_by_role("alert").get_by_text(WORDS["refused-unknown-token"]).wait_for()
    assert person.page.get_by_text(WORDS["kept"]).is_visible()
    assert person.page.get_by_role("button", name=WORDS["send-retry"]).is_visible()


@pytest.mark.parametrize("failure", every_second(["offline", 503, 429, 500]))
def test_what_was_not_taken_is_kept_and_sent_again_unchanged(visit: Any, folder: Path, failure: Any) -> None:
    person = visit(f"#token={KEY.issue()}")
    person.fill()
    person.randomise()
    body = json.dumps({"status": "refused", "reason": {503: "unavailable", 429: "too-fast"}.get(failure, "x")})
    answers = {"status": failure, "body": body}
    person.page.route("**/reports", lambda route: route.abort() if failure == "offline" else route.fulfill(**answers))
    for _ in range(2):
        person.page.locator("#send").click()
        person.page.get_by_text(WORDS["kept"]).wait_for()
        assert person.page.evaluate("() => document.activeElement.id") == "send"
    person.open()  # later, in a new tab; it asks nothing
    assert person.page.get_by_text(WORDS["made-before"]).is_visible()
    person.send()
    reports = {post.post_data_buffer for post in person.posts()}
    assert len(person.posts()) == 3
    assert len(reports) == 1
    with ReportStore(str(folder / "reports.db"), PROTOCOL) as store:
        assert reports.pop() in b"".join(store.reports())


def test_the_second_tab_takes_up_the_report_of_the_first(visit: Any) -> None:
    token = KEY.issue()
    person = visit(f"#token={token}")
    first = person.page
    person.open()
    for page in (first, person.page):
        person.page = page
        person.fill()
        person.randomise()
        person.page.locator("#report").wait_for()
    assert first.locator("#bytes").inner_text() == person.page.locator("#bytes").inner_text()
    person.send()


def test_another_invitation_in_the_same_browser(visit: Any) -> None:
    first = KEY.issue()
    person = visit(f"#token={first}")
    person.fill()
    person.randomise()
    person.page.get_by_text(WORDS["not-sent"]).wait_for()
    person.url = person.url.replace(first, KEY.issue())
    person.open()
    assert person.page.get_by_role("alert").inner_text() == WORDS["other-invitation"]
    assert person.page.locator("#token").inner_text() == first


def test_a_used_link_tells_so_after_sending_and_offers_no_more(visit: Any) -> None:
    token = KEY.issue()
    for _ in range(6):  # two devices may draw the same index; six hardly
        person = visit(f"#token={token}")
        person.fill()
        person.randomise()
        person.page.locator("#send").click()
        person.page.locator("#status:not(:empty), #problem:not([hidden])").first.wait_for()
        person.page.get_by_text(WORDS["sending"]).wait_for(state="hidden")
        if person.page.get_by_text(WORDS["refused-token-used"]).is_visible():
            assert not person.page.locator("#send").is_visible()
            return
    pytest.fail("no second report was refused")


def test_a_browser_that_keeps_nothing(visit: Any, chromium: Any, address: str) -> None:
    context = chromium.new_context(locale="en")
    context.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('no'); }});")
    page = context.new_page()
    page.goto(f"{address}/#token={KEY.issue()}")
    page.get_by_role("alert").get_by_text(WORDS["no-storage"]).wait_for()
    person = Visit.__new__(Visit)
    person.page = page
    person.fill()
    page.locator("button[type=submit]").click()
    page.route("**/reports", lambda route: route.abort())
    page.locator("#send").click()
    page.get_by_text(WORDS["kept-page"]).wait_for()
    context.close()
