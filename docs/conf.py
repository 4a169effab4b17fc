"""How the site is built: `make docs`. Warnings are errors, and nothing on a page comes from another address."""

import os
import re
import sys
import tomllib
from pathlib import Path

from docutils import nodes

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "_sphinx"), str(HERE), str(ROOT), str(ROOT / "tests")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TUTORIALS = ROOT / "examples" / "tutorials"

project = PROJECT["name"]
author = PROJECT["authors"][0]["name"]
project_copyright = author
version = release = PROJECT["version"]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "commands",
    "formulas",
    "paths",
]
exclude_patterns = ["_sphinx", "tutorials/*.ipynb", "tutorials/*.py"]
templates_path = ["_templates"]
# names in single backticks are code, as in scikit-learn's docstrings
default_role = "literal"
# pages show formulas, shell and output as plain blocks; code says its language
highlight_language = "none"
nitpicky = True

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# where files outside docs/ lie, and pages whose text is a file of the top folder
paths_source = PROJECT["urls"]["Source"]
paths_pages = {
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
}
# pages that lead to all pages of a folder
paths_folders = {
    **{f"{folder}/index": folder for folder in ("start", "guide", "measured", "operations", "decisions")},
    **{f"{folder}/README": folder for folder in ("papers", "privacy")},
    "about": "",
}
paths_grouped = ["guide/index"]

autosummary_generate = True
autosummary_imported_members = False
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = False

if any(TUTORIALS.glob("plot_*.py")):
    # a link to a tutorial's file leads to its page
    paths_rendered = {
        "examples/tutorials": "tutorials/index",
        **{f"examples/tutorials/{path.name}": f"tutorials/{path.stem}" for path in TUTORIALS.glob("plot_*.py")},
    }
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": [str(TUTORIALS)],
        "gallery_dirs": ["tutorials"],
        "filename_pattern": r"plot_",
        # `make docs TUTORIALS=` builds the pages without running them
        "plot_gallery": os.environ.get("TUTORIALS", "run") != "",
        "abort_on_example_error": True,
        "download_all_examples": False,
        "show_signature": False,
        # its page loads scripts from elsewhere
        "write_computation_times": False,
        "remove_config_comments": True,
        "within_subsection_order": "FileNameSortKey",
    }

html_theme = "pydata_sphinx_theme"
html_title = project
html_baseurl = PROJECT["urls"]["Documentation"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "logo": {"text": project},
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "back_to_top_button": False,
    "icon_links": [
        {"name": "Source", "url": PROJECT["urls"]["Source"], "icon": "fa-solid fa-code", "type": "fontawesome"}
    ],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


# what people call on an estimator; its other methods are for whoever writes one
CALLED = {
    *("fit", "transform", "inverse_transform", "predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("score", "plan", "confidence_intervals", "to_sklearn", "folded", "named_steps"),
    *("classes_", "coef_", "intercept_", "get_params", "set_params"),
}


def for_others(app, what, name, member, skip, options):
    """Leave out what scikit-learn gives every estimator, what estimators are made of, and classes inside of classes."""
    home = getattr(getattr(member, "fget", member), "__module__", None) or ""
    ours = home.startswith("sottovoce.estimators") and name not in CALLED
    if isinstance(member, type) or home.startswith("sklearn") or ours:
        return True
    return None


def pages_as_links(app, what, name, obj, options, lines):
    """Link the pages of docs/ that a docstring names."""
    lines[:] = [re.sub(r"`?`(docs/([\w/]+)\.md)``?", r":doc:`\1 </\2>`", line) for line in lines]


def mark_long_cells(app, doctree):
    """Mark cells with much text: a table of many columns would squeeze them to a word a line."""
    for cell in doctree.findall(nodes.entry):
        if len(cell.astext()) > 80:
            cell["classes"].append("long")


def tutorials_among_the_pages(app, docname, source):
    """Lead from the first page to the tutorials, where there are any."""
    if docname == "index" and "sphinx_gallery.gen_gallery" in extensions:
        source[0] = source[0].replace("How-to <guide/index>", "Tutorials <tutorials/index>\nHow-to <guide/index>")


def reasons_out_of_the_search(app, docname, source):
    """Leave decisions out of the search: whoever looks for a word wants to use something."""
    if docname.startswith("decisions/0"):
        source[0] = f"---\nnosearch: true\n---\n\n{source[0]}"


def made_from_the_code(app, docname, source):
    """Give two pages their text, which is made from the code and from the claims of the benchmarks."""
    if docname == "messages":
        import make_messages

        source[0] = make_messages.page()
    elif docname == "claims":
        from benchmarks import claims

        source[0] = claims.page()


def title_of_the_first_page(app, pagename, templatename, context, doctree):
    """Say in the window's title what this is."""
    if pagename == "index":
        context["title"] = PROJECT["description"]


def setup(app):
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", pages_as_links)
    app.connect("source-read", tutorials_among_the_pages)
    app.connect("source-read", made_from_the_code)
    app.connect("source-read", reasons_out_of_the_search)
    app.connect("doctree-read", mark_long_cells)
    app.connect("html-page-context", title_of_the_first_page)
    app.connect("autodoc-skip-member", for_others)
