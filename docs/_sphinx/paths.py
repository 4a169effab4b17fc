"""Pages are plain files that also read well on a code host. Here they become a site.

A link to a file outside docs/ becomes one to the source code, a link to a folder one to its first page. Some pages have
their text in the top folder. The first page of a folder lists the others: those that it links, in that order, then the
rest.
"""

import os
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class PathsOutside(SphinxTransform):
    """Make a link to a file outside docs/, or to a folder, a link to the source code or to the folder's first page."""

    default_priority = 5

    def apply(self, **kwargs: Any) -> None:
        """Look at all links that MyST left as paths."""
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for node in list(self.document.findall(kind)):
                if node.get("reftype") == "myst":
                    self._one(node)

    def _one(self, node: Any) -> None:
        target = node["reftarget"]
        here = Path(self.env.srcdir)
        path, _, anchor = target.partition("#")
        if node.get("refdomain") == "doc":
            anchor = node.get("reftargetid") or ""
            path = Path(target) if Path(target).is_absolute() else here / target
            path = path.with_name(path.name + ".md")
        else:
            path = Path(os.path.normpath(here / Path(self.env.docname).parent / path))
        if not path.exists():
            return
        files = {file: page for page, file in self.config.paths_pages.items()} | self.config.paths_rendered
        pages = {self.env.srcdir.parent / file: page for file, page in files.items()}
        page = pages.get(path)
        if page is None and path.is_relative_to(here):
            if not path.is_dir():
                return
            found = [name for name in ("index", "README") if (path / f"{name}.md").exists()]
            if not found:
                return
            page = str((path / found[0]).relative_to(here))
        if page is not None:
            words = {"refdomain": "doc", "reftarget": page, "reftargetid": anchor or None}
            link = addnodes.pending_xref(**{**node.attributes, **words})
            link["reftype"] = "myst"
        else:
            # an address of a file on a code host may end in an anchor, a folder ends in a slash
            address = path.relative_to(here.parent).as_posix() + "/" * path.is_dir()
            link = nodes.reference(refuri=self.config.paths_source + address + ("#" + anchor) * bool(anchor))
        link.source, link.line = node.source, node.line
        link += node.children
        node.replace_self(link)


def read_outside(app: Sphinx, docname: str, source: list[str]) -> None:
    """Read the whole text of a page that only names a file of the top folder."""
    file = app.config.paths_pages.get(docname)
    if file is None:
        return
    path = Path(app.srcdir).parent / file
    app.env.note_dependency(str(path))

    def moved(link: re.Match[str]) -> str:
        target = link[1]
        if target.startswith(("http:", "https:", "mailto:", "#")):
            return link[0]
        return f"]({target.removeprefix('docs/') if target.startswith('docs/') else '../' + target})"

    source[0] = re.sub(r"\]\(([^)\s]+)\)", moved, path.read_text(encoding="utf-8"))


def list_folder(app: Sphinx, docname: str, source: list[str]) -> None:
    """Let the first page of a folder lead to all its pages; those that it does not link are listed at its end."""
    folder = app.config.paths_folders.get(docname)
    if folder is None:
        return
    app.env.note_reread()  # pages of the folder come and go
    here = {path.stem for path in (Path(app.srcdir) / folder).glob("*.md")} - {Path(docname).name, "index"}
    linked = [page for page in dict.fromkeys(re.findall(r"\]\((\w+)\.md[#)]", source[0])) if page in here]
    groups = [("", linked)]
    if docname in app.config.paths_grouped:  # the headings of the page are those of the sidebar
        parts = re.split(r"^## (.+)\n", source[0], flags=re.MULTILINE)
        groups = [
            (parts[i], [page for page in linked if f"({page}.md" in parts[i + 1]]) for i in range(1, len(parts), 2)
        ]
    toctrees = [(f":caption: {name}\n" * bool(name) + ":hidden:", pages) for name, pages in groups]
    for options, pages in (*toctrees, (":maxdepth: 1", sorted(here - set(linked)))):
        if pages:
            source[0] += "\n\n```{toctree}\n" + options + "\n\n" + "\n".join(pages) + "\n```\n"


def link_back(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Let the source of a class lead to where it is listed: viewcode knows one module a file, we list some from two."""
    if pagename.startswith("_modules/") and "body" in context:
        context["body"] = re.sub(r"(/([\w.]+\.(\w+))\.html#)(?!\2\b)[\w.]+?\.\3(?=[.\"])", r"\1\2", context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_config_value("paths_source", "", "env", str)
    app.add_config_value("paths_pages", {}, "env", dict)
    app.add_config_value("paths_rendered", {}, "env", dict)
    app.add_config_value("paths_folders", {}, "env", dict)
    app.add_config_value("paths_grouped", [], "env", list)
    app.add_transform(PathsOutside)
    app.connect("source-read", read_outside)
    app.connect("source-read", list_folder)
    app.connect("html-page-context", link_back)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
