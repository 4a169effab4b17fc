"""The page of the person who runs a collector: HTML without scripts; all texts in it are made here or escaped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Final

from sottovoce._version import __version__
from sottovoce.local.collector.counts import BOUNDS

if TYPE_CHECKING:
    from sottovoce.local.collector.counts import Picture
    from sottovoce.local.collector.operator import Facts

_PAGE: Final = Template(files("sottovoce.local.collector").joinpath("operator.html").read_text(encoding="utf-8"))


def page(facts: Facts) -> str:
    verdict = "Reports are being taken." if facts.ready else "Reports cannot be stored now. Look at the database."
    warning = (
        '<p class="verdict bad">Any token is accepted: one person can send many reports. '
        "For a real collection issue tokens, and start with <code>--token-key</code>.</p>\n"
    )
    free = [] if facts.disk_free is None else [("Free on its disk", f"at least {facts.disk_free / 1e9:.1f} GB")]
    health = [
        ("Database", "answers" if facts.ready else "does not take reports"),
        *free,
        ("Tokens", "those issued with the key" if facts.only_issued_tokens else "any"),
        ("Protocol", f"{facts.protocol.id.hex()}, epsilon {facts.protocol.epsilon:g}"),
        ("Version", f"sottovoce {__version__}"),
        ("Running since", _time(facts.started)),
    ]
    return _PAGE.substitute(
        title="Collector: " + ("taking reports" if facts.ready else "not ready"),
        kind="good" if facts.ready else "bad",
        verdict=verdict,
        warning="" if facts.only_issued_tokens else warning,
        numbers=_numbers(facts.picture, facts.expected),
        health="\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in health),
        pace=escape(str(facts.pace)),
        meaning=f"{'They are not' if facts.pace.is_coarse else 'This is nearly'} a list of arrival times.",
    )


def _numbers(picture: Picture | None, expected: int | None) -> str:
    if picture is None:
        return "<p>There are no numbers: the database did not answer when it was asked last.</p>"
    shown = f'<p class="number" id="stored">{picture.stored:,} <span>stored</span></p>'
    if expected is not None:
        part = min(1.0, picture.stored / expected)
        shown += (
            f'<p><progress max="{expected}" value="{min(picture.stored, expected)}" aria-labelledby="share">'
            f'</progress></p><p id="share">{int(100 * part)} % of the {expected:,} reports that are planned for.</p>'
        )
    requests = {f"{path}, answered {status}": count for (path, status), count in picture.requests.items()}
    return "\n".join([
        _section("reports", "Reports", f"{shown}<p>As of {_time(picture.at)}.</p>"),
        _section("refused", "Refused reports", _table("refused", ("Reason", "Reports"), picture.refused)),
        _section("requests", "Requests to this process", _table("requests", ("Request", "Number"), requests)),
    ]) + _quick(picture.within)  # fmt: skip


def _quick(within: tuple[int, ...]) -> str:
    total = within[-1]
    if not total:
        return ""
    words = []
    for part, name in ((0.5, "half"), (0.99, "99 %")):
        bound = next((bound for bound, count in zip(BOUNDS, within, strict=False) if count >= part * total), None)
        words.append(f"{name} within {bound:g} s" if bound is not None else f"{name} in more than {BOUNDS[-1]:g} s")
    return f"<p>Of the requests with reports {words[0]}, {words[1]}.</p>"


def _section(name: str, heading: str, content: str) -> str:
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{heading}</h2>{content}</section>'


def _table(name: str, heads: tuple[str, str], counts: Mapping[str, int]) -> str:
    if not counts:
        return "<p>None to speak of.</p>"
    body = "".join(f'<tr><th scope="row">{escape(key)}</th><td>{count:,}</td></tr>' for key, count in counts.items())
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    return f'<table aria-labelledby="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
