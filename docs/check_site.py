"""Check a built site: ``python docs/check_site.py site``.

Nothing on a page may come from another address. Every link within the site must lead somewhere, anchor included. Every
page must be reachable from the first.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# what a browser loads by itself; `a` is followed by people
LOADED = {
    ("audio", "src"),
    ("embed", "src"),
    ("iframe", "src"),
    ("image", "href"),
    ("img", "src"),
    ("img", "srcset"),
    ("input", "src"),
    ("link", "href"),
    ("object", "data"),
    ("script", "src"),
    ("source", "src"),
    ("source", "srcset"),
    ("track", "src"),
    ("use", "href"),
    ("video", "poster"),
    ("video", "src"),
}
FOLLOWED = {("a", "href"), ("area", "href"), ("form", "action")}
# a `link` with one of these is a statement about the page and loads nothing
NOT_LOADED = {"author", "canonical", "index", "license", "next", "prev", "search", "up"}
OUTSIDE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
IN_STYLES = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", re.IGNORECASE)


@dataclass
class Page(HTMLParser):
    """What one page loads, links and can be linked by."""

    text: str
    loaded: list[str] = field(default_factory=list)
    linked: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self._in_style = False
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag loads, links and names."""
        values = {name.removeprefix("xlink:"): value or "" for name, value in attrs}
        self._in_style = tag == "style"
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.loaded += styles(values.get("style", ""))
        if tag == "link" and set(values.get("rel", "").split()) <= NOT_LOADED:
            return
        for name, value in values.items():
            if (tag, name) in LOADED:
                parts = value.split(",") if name == "srcset" else [value]
                self.loaded += [part.split()[0] for part in parts if part.split()]
            elif (tag, name) in FOLLOWED:
                self.linked.append(value)

    def handle_endtag(self, tag: str) -> None:
        """Leave a style sheet."""
        if tag == "style":
            self._in_style = False

    def handle_data(self, data: str) -> None:
        """Note what a style sheet on the page loads."""
        if self._in_style:
            self.loaded += styles(data)


def styles(text: str) -> list[str]:
    """Return the addresses that a style sheet loads."""
    return [found[0] or found[1] for found in IN_STYLES.findall(text)]


def html(site: Path) -> list[Path]:
    """Return the pages of a site; what a theme keeps beside its scripts is none."""
    return sorted(path for path in site.rglob("*.html") if path.relative_to(site).parts[0] != "_static")


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong, a line each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in html(site)}
    sheets = {path: styles(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.css"))}
    start = site / "index.html"
    if start not in pages:
        yield f"{start}: there is no first page"
        return
    leads: dict[Path, set[Path]] = {}
    for path, loaded in [*sheets.items(), *((path, page.loaded) for path, page in pages.items())]:
        for address in loaded:
            if OUTSIDE.match(address):
                yield f"{path.relative_to(site)}: loads {address} from elsewhere"
            elif not address.startswith(("data:", "#")) and not target(path, address)[0].exists():
                yield f"{path.relative_to(site)}: loads {address}, which is not there"
    for path, page in pages.items():
        leads[path] = set()
        for address in page.linked:
            if urlsplit(address).scheme or address.startswith("//"):
                continue
            other, anchor = target(path, address)
            if not other.exists():
                yield f"{path.relative_to(site)}: links {address}, which is not there"
            elif other in pages:
                leads[path].add(other)
                if anchor and anchor not in pages[other].anchors:
                    yield f"{path.relative_to(site)}: links {address}, whose anchor is not there"
    reached, waiting = {start}, [start]
    while waiting:
        new = leads[waiting.pop()] - reached
        reached |= new
        waiting += new
    for path in pages.keys() - reached:
        yield f"{path.relative_to(site)}: no page leads here"


def target(path: Path, address: str) -> tuple[Path, str]:
    """Return the file that an address on a page means, and the anchor in it."""
    parts = urlsplit(address)
    other = path if not parts.path else Path(unquote(parts.path))
    other = (path.parent / other).resolve() if not other.is_absolute() else other
    return (other / "index.html" if other.is_dir() else other), unquote(parts.fragment)


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    found = sorted(faults(folder))
    sys.stdout.write("".join(f"{line}\n" for line in found) + f"{len(html(folder))} pages, {len(found)} faults\n")
    sys.exit(bool(found))
