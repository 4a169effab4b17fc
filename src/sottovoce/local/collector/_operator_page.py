"""The page of the person who runs a collector: HTML without scripts; all texts in it are made here or escaped."""

from __future__ import annotations

import html
from datetime import UTC, datetime
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
        ""
        if facts.only_issued_tokens
        else '<p class="verdict bad">Any token is accepted: one person can send many reports. '
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
        warning=warning,
        numbers=_numbers(facts),
        health="\n".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in health),
        pace=_text(str(facts.pace)),
        meaning=f"{'They are not' if facts.pace.is_coarse else 'This is nearly'} a list of arrival times.",
    )


def _numbers(facts: Facts) -> str:
    picture = facts.picture
    if picture is None:
        return "<p>There are no numbers: the database did not answer when it was asked last.</p>"
    return "\n".join([_reports(picture, facts.expected), _refused(picture), _requests(picture)])


def _reports(picture: Picture, expected: int | None) -> str:
    shown = f'<p class="number" id="stored">{picture.stored:,} <span>stored</span></p>'
    if expected is not None:
        part = min(1.0, picture.stored / expected)
        shown += (
            f'<p><progress max="{expected}" value="{min(picture.stored, expected)}" aria-labelledby="share">'
            f'</progress></p><p id="share">{int(100 * part)} % of the {expected:,} reports that are planned for.</p>'
        )
    return (
        '<section aria-labelledby="reports"><h2 id="reports">Reports</h2>'
        f"{shown}<p>As of {_time(picture.at)}.</p></section>"
    )


def _refused(picture: Picture) -> str:
    rows = [(reason, f"{count:,}") for reason, count in picture.refused.items()]
    return _table("refused", "Refused reports", ("Reason", "Reports"), rows, "None to speak of.")


def _requests(picture: Picture) -> str:
    rows = [(f"{path}, answered {status}", f"{count:,}") for (path, status), count in picture.requests.items()]
    times = _quick(picture.within)
    return _table("requests", "Requests to this process", ("Request", "Number"), rows, "None to speak of.") + times


def _quick(within: tuple[int, ...]) -> str:
    total = within[-1]
    if not total:
        return ""
    words = []
    for part, name in ((0.5, "half"), (0.99, "99 %")):
        bound = next((bound for bound, count in zip(BOUNDS, within, strict=False) if count >= part * total), None)
        words.append(f"{name} within {bound:g} s" if bound is not None else f"{name} in more than {BOUNDS[-1]:g} s")
    return f"<p>Of the requests with reports {words[0]}, {words[1]}.</p>"


def _table(name: str, heading: str, heads: tuple[str, str], rows: list[tuple[str, str]], none: str) -> str:
    title = f'<h2 id="{name}">{heading}</h2>'
    if not rows:
        return f'<section aria-labelledby="{name}">{title}<p>{none}</p></section>'
    body = "".join(f'<tr><th scope="row">{_text(key)}</th><td>{_text(value)}</td></tr>' for key, value in rows)
    head = f'<thead><tr><th scope="col">{heads[0]}</th><th scope="col">{heads[1]}</th></tr></thead>'
    table = f'<table aria-labelledby="{name}">{head}<tbody>{body}</tbody></table>'
    return f'<section aria-labelledby="{name}">{title}{table}</section>'


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _text(value: str) -> str:
    return html.escape(value)
