"""A survey page in a real browser, and the collector that serves it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sottovoce.local import CategoricalFeature, NumericFeature, Protocol
from sottovoce.local.collector.tokens import TokenKey
from sottovoce.local.device.survey import LANGUAGES, catalogue, wording_of, write_survey
from support.collector import running_collector

PROTOCOL = Protocol(
    features=[
        NumericFeature("age", 17, 90),
        CategoricalFeature("work", ["private", "public"]),
        NumericFeature("hours", 0, 99.5, missing=True),
        CategoricalFeature("town", [f"town {i}" for i in range(12)], missing=True),
    ],
    classes=["no", "yes"], epsilon=2.0, K=128, m=18, b=1.0,
)  # fmt: skip

_SECRET = bytes(range(32))
KEY = TokenKey(_SECRET, PROTOCOL.id)


@contextmanager
def survey_collector(folder: Path, *options: object, **wording: object) -> Iterator[str]:
    """Run a collector that serves a page and tells exact numbers at once; yield its address."""
    site = folder / "site"
    write_survey(PROTOCOL, site, **wording)
    told = ("--static", site, "--count-seconds", 0.2, "--count-step", 1, *options)
    with running_collector(folder, str(folder / "reports.db"), *map(str, told), protocol=PROTOCOL) as running:
        yield running.url


@contextmanager
def invited_survey(folder: Path) -> Iterator[str]:
    """Run a collector that takes tokens of ``KEY`` only, and a page in all languages that was not told so."""
    (folder / "tokens.key").write_text(_SECRET.hex())
    wording = wording_of(PROTOCOL, LANGUAGES)
    with survey_collector(folder, "--token-key", folder / "tokens.key", wording=wording) as running:
        yield running


class Visit:
    """A page in a browser that has kept nothing yet, and every request that leaves it."""

    def __init__(self, chromium: Any, url: str, *, locale: str = "en", **options: Any) -> None:
        self.words = catalogue(locale)
        self.context = chromium.new_context(locale=locale, **options)
        self.requests: list[Any] = []
        self.problems: list[str] = []
        self.context.on("request", lambda request: self.requests.append(request))
        self.url = url
        self.open()

    def open(self) -> None:
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.goto(self.url)
        self.page.locator("#form:not([hidden]), #report:not([hidden]), #problem:not([hidden])").first.wait_for()

    def fill(self) -> None:
        """Answer every question; choices and questions are named by the protocol in every language."""
        self.page.get_by_role("textbox", name="age").fill("41.62")
        self.page.get_by_label("private").check()
        self.page.get_by_role("checkbox").check()
        self.page.get_by_label("town").select_option("town 7")
        self.page.get_by_label("yes").check()

    def randomise(self) -> None:
        self.page.locator("button[type=submit]").click()

    def send(self) -> None:
        with self.page.expect_response("**/reports"):
            self.page.locator("#send").click()
        self.page.get_by_text(self.words["sent"]).wait_for()

    def posts(self) -> list[Any]:
        return [request for request in self.requests if request.method != "GET"]

    def kept(self) -> dict[str, str]:
        return self.page.evaluate("() => ({...localStorage})")

    def close(self) -> None:
        self.context.close()


@contextmanager
def visits(chromium: Any, address: str, **always: Any) -> Iterator[Callable[..., Visit]]:
    """Yield what opens the page, at a fragment of its address; all are closed at the end."""
    opened: list[Visit] = []

    def visit(fragment: str = "", **options: Any) -> Visit:
        opened.append(Visit(chromium, f"{address}/{fragment}", **always, **options))
        return opened[-1]

    yield visit
    for each in opened:
        each.close()
