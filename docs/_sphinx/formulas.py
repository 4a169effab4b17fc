"""Formulas as MathML, written when the site is built: browsers draw them without a script and without a network."""

import re
from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx


def _inline(writer: Any, node: Any) -> None:
    writer.body.append(_mathml(node.astext(), as_block=False))
    raise SkipNode


def _block(writer: Any, node: Any) -> None:
    # a wide formula scrolls in its own box
    writer.body.append(f'<div class="formula">{_mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode


def _mathml(tex: str, as_block: bool) -> str:
    # a blank line or an alignment sign makes several lines of a block
    tex = re.sub(r"\\dots\b", r"\\ldots", tex.strip())
    if as_block and ("&" in tex or r"\\" in tex) and r"\begin" not in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    mathml = str(latex2mathml.tex2mathml(tex, as_block=as_block))
    # bars around a value are no relation: without this browsers put spaces around them
    return re.sub(r"<mo>([|‖])</mo>", r'<mo lspace="0" rspace="0" stretchy="false">\1</mo>', mathml)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("config-inited", lambda app, config: setattr(config, "html_math_renderer", "mathml"))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
