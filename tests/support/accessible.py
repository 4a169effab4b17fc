"""What axe finds wrong with a page, and what it does not look for."""

from typing import Any

import pytest

# every element that moves, fades or slides for somebody who asked for less of it
_MOVING = """() => [...document.querySelectorAll('*')].filter((one) => {
  const style = getComputedStyle(one);
  return style.animationName !== 'none' || style.transitionDuration.split(',').some((time) => parseFloat(time) > 0);
}).map((one) => one.outerHTML.slice(0, 80))"""


def axe_violations(page: Any) -> list[str]:
    """Return what axe finds, best practices included; skip without axe. The page's own policy must be switched off."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    return [
        f"{violation['id']}: {node['html'][:120]} {node['failureSummary']}"
        for violation in found
        for node in violation["nodes"]
    ]


def moving(page: Any) -> list[str]:
    """Return the elements that move though less motion was asked for."""
    found: list[str] = page.evaluate(_MOVING)
    return found


def overflow(page: Any) -> int:
    """Return by how many pixels a page is wider than its window."""
    beyond: int = page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
    return beyond
