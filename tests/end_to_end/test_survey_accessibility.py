"""The survey page for everybody: axe in each state and language, by keyboard alone, enlarged, without motion."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sottovoce.local.device.survey import LANGUAGES
from support.accessible import axe_violations, moving, overflow
from support.pairs import by_pairs
from support.survey import KEY, invited_survey, visits

pytest.importorskip("starlette")

pytestmark = pytest.mark.slow  # a browser, three languages, every state


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("accessibility")
    with invited_survey(folder) as running:
        yield running


@pytest.fixture
def visit(chromium: Any, address: str) -> Iterator[Any]:
    with visits(chromium, address, bypass_csp=True) as start:
        yield lambda fragment=None, **options: start(
            f"#token={KEY.issue()}" if fragment is None else fragment, **options
        )


def through_all_states(visit: Any, look: Callable[[str, Any], None], **options: Any) -> None:
    """Show a page in each state it can be in."""
    person = visit("", **options)
    look("not invited", person.page)
    person = visit("#token=not-an-invitation", **options)
    look("damaged link", person.page)
    person = visit(**options)
    look("questions", person.page)
    person.page.locator("summary").click()
    person.randomise()
    look("errors", person.page)
    person.fill()
    person.randomise()
    person.page.locator("#report:not([hidden])").wait_for()
    look("report", person.page)
    person.page.route("**/reports", lambda route: route.abort())
    person.page.locator("#send").click()
    person.page.get_by_text(person.words["kept"]).wait_for()
    look("offline", person.page)
    person.page.unroute("**/reports")
    person.page.route("**/reports", lambda route: route.fulfill(status=409, body='{"reason": "token-used"}'))
    person.page.locator("#send").click()
    person.page.get_by_text(person.words["refused-token-used"]).wait_for()
    look("refused", person.page)
    person.page.unroute("**/reports")
    person.open()
    look("made before", person.page)
    person.page.route("**/reports", lambda route: None)  # no answer
    person.page.locator("#send").click()
    person.page.get_by_text(person.words["sending"]).wait_for()
    look("sending", person.page)
    person.open()
    person.send()
    look("sent", person.page)


@pytest.mark.parametrize(("language", "width", "scheme"), by_pairs(LANGUAGES, [390, 1280], ["light", "dark"]))
def test_axe_finds_nothing(visit: Any, language: str, width: int, scheme: str) -> None:
    found: dict[str, list[str]] = {}

    def look(state: str, page: Any) -> None:
        assert page.evaluate("() => document.documentElement.lang") == language
        assert overflow(page) <= 0, state
        found[state] = axe_violations(page)
        if width == 390:  # 320 px are 1280 at 400 %; and text of twice the size in a window of 640
            for narrow, size in ((320, ""), (640, "200%")):
                page.set_viewport_size({"width": narrow, "height": 640})
                page.evaluate(f"() => {{ document.documentElement.style.fontSize = '{size}'; }}")
                assert overflow(page) <= 0, (state, narrow)
            page.evaluate("() => { document.documentElement.style.fontSize = ''; }")
            page.set_viewport_size(viewport)

    viewport = {"width": width, "height": 800}
    through_all_states(visit, look, locale=language, viewport=viewport, color_scheme=scheme)
    assert len(found) == 10
    assert {state: wrong for state, wrong in found.items() if wrong} == {}


def test_axe_finds_what_is_wrong(visit: Any) -> None:
    page = visit().page
    page.evaluate("() => document.querySelector('.text').remove()")
    assert any(found.startswith("label:") for found in axe_violations(page))


def test_nothing_moves(visit: Any) -> None:
    page = visit(reduced_motion="reduce").page
    assert moving(page) == []
    page.add_style_tag(content="button { transition: color 1s; }")
    assert moving(page) != []


def test_by_keyboard_alone(visit: Any) -> None:
    """From the top of the page; another language in the middle, answers kept, and each place in sight."""
    person = visit(viewport={"width": 390, "height": 640})
    page = person.page

    def press(*keys: str) -> None:
        for key in keys:
            page.keyboard.press(key)
            if key == "Tab":
                focused = "() => { const b = document.activeElement.getBoundingClientRect();"
                assert page.evaluate(focused + " return b.bottom > 0 && b.top < innerHeight; }")
                assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") != "none"

    press("Tab", "Tab", "Tab", "Tab", "Enter")  # three languages, and what the page promises
    assert page.locator("details[open]").count() == 1
    press("Tab", "4", "1", "Tab", "Space", "Tab", "Tab", "Space")
    for _ in range(5):  # back to the second language
        press("Shift+Tab")
    while page.evaluate("() => document.activeElement.lang") != "de":
        press("Shift+Tab")
    press("Enter")
    assert page.evaluate("() => document.documentElement.lang") == "de"
    assert page.evaluate("() => document.activeElement.lang") == "de"
    assert page.locator("input.number").first.input_value() == "41"
    assert page.get_by_role("checkbox").is_checked()
    assert page.locator("input.number").nth(1).is_disabled()
    press("Tab", "Tab", "Tab", "Tab", "Tab", "Tab", "t", "Tab", "Space", "Tab", "Enter")
    page.locator("#report:not([hidden])").wait_for()
    assert page.evaluate("() => document.activeElement.id") == "report-title"
    press("Tab", "Enter")
    page.get_by_text("Gesendet und gespeichert.").wait_for()


def test_what_the_language_is(visit: Any) -> None:
    assert visit(locale="fr").page.get_by_text("Vos réponses restent").is_visible()  # what the browser asks for
    person = visit(f"#lang=de&token={KEY.issue()}", locale="fr")  # what the link says
    assert person.page.title() == "Umfrage"
    person.page.get_by_role("textbox", name="age").fill("vierzig")
    person.randomise()
    person.page.get_by_role("button", name="English").click()
    assert person.page.get_by_text("This is not a number.").is_visible()
    assert person.page.get_by_role("button", name="English").get_attribute("aria-pressed") == "true"
    assert person.page.get_by_role("button", name="Deutsch").get_attribute("lang") == "de"
    assert "lang=en" in person.page.url
    assert person.kept() == {}
    person.page.reload()
    person.page.get_by_text("Your answers stay on this device").wait_for()


@pytest.mark.parametrize(
    ("language", "written", "told"),
    [("en", "1,500", True), ("en", "1.500", False), ("de", "1.500", True), ("de", "1,5", False), ("fr", "1,5", False)],
)  # fmt: skip
def test_a_number_that_can_be_read_in_two_ways_is_asked_again(
    visit: Any, language: str, written: str, told: bool
) -> None:
    person = visit(locale=language)
    person.page.get_by_role("textbox", name="age").fill(written)
    person.randomise()
    assert person.page.get_by_text(person.words["unclear-number"]).is_visible() == told
    assert person.page.locator(f"[aria-invalid=true] >> text={person.words['missing-number']}").count() == 0


def test_a_page_without_words_says_so_in_three_languages(chromium: Any, address: str) -> None:
    page = chromium.new_context().new_page()
    page.route("**/languages/*", lambda route: route.abort())
    page.goto(address)
    page.get_by_role("alert").get_by_text("Diese Seite kann nicht geladen werden.").wait_for()
    page.context.close()
