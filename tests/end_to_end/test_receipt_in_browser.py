"""The page of a receipt in a real browser: no error, no request, the data in it read back, four pages or so of A4."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest

from sottovoce.privacy.events import ComposedEvent, GaussianEvent, RepeatedEvent
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report import receipt_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

# what the browser asks of its maker by itself, whatever page it shows
OWN = re.compile(r"(^|\.)(google|googleapis|gstatic|gvt1)\.com$")

RECEIPT = Guarantee(
    epsilon=1.0, delta=1e-5, adjacency="zero-out", unit='one row </script><script>document.title="taken"</script>',
    mechanism="passes with noise", releases=tuple(f"release {count}" for count in range(12)),
    event=ComposedEvent((GaussianEvent(27.0), RepeatedEvent(GaussianEvent(25.5), 45))),
    assumptions=("n_samples = 500", '"><img src="http://127.0.0.1:9/a.png" onerror="document.title=1">'),
    not_covered=("timing",), seeded=False, accountant="exact Gaussian DP", proof="docs/privacy/dp_scd.md",
    version="0.1.0", parameters={"estimator": "DPRidge", "solver": "scd"} | {f"p{k}": k for k in range(30)},
)  # fmt: skip


class Run:
    """One visit: the document as the browser has it, its console, and the hosts it turned to."""

    def __init__(self, folder, page, *options):
        (folder / "page.html").write_text(page, encoding="utf-8")
        done = subprocess.run(
            [
                BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={folder / 'profile'}",
                "--enable-logging=stderr", f"--log-net-log={folder / 'net.json'}", *(options or ("--dump-dom",)),
                (folder / "page.html").as_uri(),
            ],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        self.dom = done.stdout
        self.console = re.findall(r"CONSOLE[^\n]*", done.stderr)
        urls = re.findall(r'"url":"([^"]*)"', (folder / "net.json").read_text(encoding="utf-8"))
        self.hosts = {urlsplit(url).hostname or "" for url in urls if url.startswith(("http", "ws", "ftp"))}
        self.hosts = {host for host in self.hosts if not OWN.search(host)}


class Found(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tag, self.text = None, {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tag = dict(attrs).get("id", tag)

    def handle_endtag(self, tag):
        self.tag = None

    def handle_data(self, data):
        self.text[self.tag] = self.text.get(self.tag, "") + data


@pytest.fixture(scope="module")
def visit(tmp_path_factory):
    page = receipt_page(RECEIPT, title="A title", model_card={"name": "<b>Card</b>", "contact": "me"})
    return Run(tmp_path_factory.mktemp("visit"), page)


def test_no_error_and_no_request(visit):
    assert visit.console == []
    assert visit.hosts == set()


def test_the_browser_sees_title_and_data(visit):
    found = Found(visit.dom)
    assert found.text["title"] == "A title"
    assert Guarantee.from_json(found.text["receipt"]) == RECEIPT
    assert json.loads(found.text["page"])["model_card"]["name"] == "<b>Card</b>"


def test_requests_and_errors_would_be_noticed(tmp_path):
    run = Run(tmp_path, '<!doctype html><img src="http://127.0.0.1:9/a.png"><script>console.error("boo")</script>')
    assert run.hosts == {"127.0.0.1"}
    assert any("boo" in line for line in run.console)


def test_the_policy_stops_what_would_get_in(tmp_path):
    page = receipt_page(RECEIPT, title="A title")
    hurt = '<img src="http://127.0.0.1:9/a.png"><script>document.title = "taken"</script></body>'
    run = Run(tmp_path, page.replace("</body>", hurt))
    assert run.hosts == set()
    assert Found(run.dom).text["title"] == "A title"
    assert len([line for line in run.console if "Content Security Policy" in line]) == 2


def test_it_prints_on_a_few_pages_of_a4(tmp_path):
    Run(tmp_path, receipt_page(RECEIPT), "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'out.pdf'}")
    content = (tmp_path / "out.pdf").read_bytes()
    sizes = re.findall(rb"/MediaBox \[([^\]]*)\]", content)
    assert 3 <= len(sizes) <= 9
    assert {tuple(round(float(x)) for x in size.split()) for size in sizes} == {(0, 0, 595, 842)}
