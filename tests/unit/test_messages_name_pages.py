"""No message sends an installed user to a page that the package does not bring along."""

import ast
import re
from pathlib import Path

import sottovoce
from sottovoce.cli.proof import proof_page

PACKAGE = Path(sottovoce.__file__).parent
PAGE = re.compile(r"docs/[\w/]+\.md")


def texts(tree):
    """Yield the texts of a module that are no docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    for call in ast.walk(tree):  # texts of parameters end in docstrings
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("parameter", "attribute"):
            docstrings |= {id(node) for node in ast.walk(call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_pages_that_messages_name_come_with_the_package():
    seen = 0
    for file in sorted(PACKAGE.rglob("*.py")):
        if "papers" in file.parts:
            continue
        for text in texts(ast.parse(file.read_text(encoding="utf-8"))):
            for page in PAGE.findall(text):
                assert proof_page(page), (file, page)  # refuses a page that is not there
                seen += 1
    assert seen > 20
