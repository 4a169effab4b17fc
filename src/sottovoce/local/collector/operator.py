"""What the person who runs a collector looks at: a page and numbers for a monitoring system, behind a key.

It is an application of its own, for a port of its own: what is public and what is not never share an address, whatever
a proxy in front lets through.
"""

import binascii
import hmac
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from importlib.resources import files
from typing import Final, NamedTuple

from jinja2 import Environment
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sottovoce._version import __version__
from sottovoce.local.collector.answers import Discretion
from sottovoce.local.collector.counts import BOUNDS, Counts, Pace, Picture
from sottovoce.local.collector.storage import ReportStore
from sottovoce.local.protocol import Protocol

_FILES: Final = files("sottovoce.local.collector")
_PAGE: Final = Environment(autoescape=True, trim_blocks=True, keep_trailing_newline=True).from_string(
    _FILES.joinpath("operator.html").read_text(encoding="utf-8")
)
_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX: Final = "sottovoce_collector"
_STEP_OF_DISK: Final = 100_000_000  # the exact number falls with every report
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Facts(NamedTuple):
    """What is shown."""

    protocol: Protocol
    started: float  # seconds since 1970
    only_issued_tokens: bool
    expected: int | None  # reports that are planned for
    ready: bool
    disk_free: int | None  # bytes on the disk of a SQLite file, rounded down
    pace: Pace
    picture: Picture | None  # None: the database did not answer when it was asked last


def make_operator_app(
    protocol: Protocol,
    store: ReportStore,
    counts: Counts,
    *,
    key: bytes,
    is_ready: Callable[[], Awaitable[bool]],
    only_issued_tokens: bool,
    expected: int | None,
) -> ASGIApp:
    """Return the application, which tells the same numbers that everybody else is told.

    The hexadecimal digits of ``key`` are the password, with any user name, or the bearer token.
    """
    started = time.time()

    async def look() -> Facts:
        free = store.disk_free()
        return Facts(
            protocol, started, only_issued_tokens, expected, await is_ready(),
            disk_free=None if free is None else free - free % _STEP_OF_DISK, pace=counts.pace, picture=counts.picture,
        )  # fmt: skip

    async def page(_: Request) -> Response:
        return Response(_page(await look()), media_type="text/html", headers=_HEADERS)

    async def numbers(_: Request) -> Response:
        return Response(_text(await look()), headers=_HEADERS | {"Content-Type": _CONTENT_TYPE})

    style = _FILES.joinpath("operator.css").read_text(encoding="utf-8")

    async def style_sheet(_: Request) -> Response:
        return Response(style, media_type="text/css", headers=_HEADERS)

    app = Starlette(routes=[Route("/", page), Route("/metrics", numbers), Route("/style.css", style_sheet)])
    return Discretion(_Guarded(app, key.hex()))


class _Guarded:
    """Lets in who has the key: as the password of HTTP's basic authentication, or as a bearer token; never in a URL."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._opens([v for k, v in scope["headers"] if k == b"authorization"]):
            refusal = Response(
                "The key of this page is the password; the user name does not matter.\n", 401, media_type="text/plain",
                headers=_HEADERS | {"WWW-Authenticate": 'Basic realm="sottovoce collector", charset="UTF-8"'},
            )  # fmt: skip
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _opens(self, headers: list[bytes]) -> bool:
        if len(headers) != 1:
            return False
        kind, _, given = headers[0].partition(b" ")
        given = given.strip()
        if kind.lower() == b"basic":
            try:
                given = binascii.a2b_base64(given, strict_mode=True).partition(b":")[2]
            except ValueError:
                return False
        elif kind.lower() != b"bearer":
            return False
        return hmac.compare_digest(given, self._key)


def _page(facts: Facts) -> str:
    """Return HTML without scripts, in which all texts are escaped."""
    picture = facts.picture
    return _PAGE.render(
        facts=facts,
        picture=picture,
        requests={}
        if picture is None
        else {f"{path}, answered {status}": n for (path, status), n in picture.requests.items()},
        quick=None if picture is None else _quick(picture.within),
        time=_time,
        version=__version__,
    )


def _quick(within: tuple[int, ...]) -> list[str]:
    """Return how soon half of the requests with reports were answered, and nearly all; nothing where there are none."""
    words = []
    for part, name in ((0.5, "half"), (0.99, "99 %")) if within[-1] else ():
        bound = next((bound for bound, n in zip(BOUNDS, within, strict=False) if n >= part * within[-1]), None)
        words.append(f"{name} within {bound:g} s" if bound is not None else f"{name} in more than {BOUNDS[-1]:g} s")
    return words


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _text(facts: Facts) -> bytes:
    """Return the numbers in the text format of Prometheus.

    The library's own numbers of a process are left out: processor time and memory move with every single request.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Numbers(facts))
    return generate_latest(registry)


class _Numbers(Collector):
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        facts = self._facts
        about = GaugeMetricFamily(f"{_PREFIX}_info", "What runs.", labels=["version", "protocol"])
        about.add_metric([__version__, facts.protocol.id.hex()], 1)
        yield about
        yield _gauge("start_time_seconds", "When this process began, in seconds since 1970.", facts.started)
        yield _gauge("ready", "1 if reports can be stored now.", int(facts.ready))
        if facts.disk_free is not None:
            yield _gauge("disk_free_bytes", "Free on the disk of the database, in steps of 100 MB.", facts.disk_free)
        if facts.expected is not None:
            yield _gauge("reports_expected", "Reports that are planned for.", facts.expected)
        if facts.picture is None:
            return
        rule = f"{str(facts.pace).capitalize()}."
        yield _gauge("counted_at_seconds", "Of when the numbers below are, in seconds since 1970.", facts.picture.at)
        yield _gauge("reports_stored", f"Reports in the database. {rule}", facts.picture.stored)
        refused = CounterMetricFamily(
            f"{_PREFIX}_reports_refused", f"Refused by all collectors on the database. {rule}", labels=["reason"]
        )
        for reason, count in facts.picture.refused.items():
            refused.add_metric([reason], count)
        yield refused
        requests = CounterMetricFamily(
            f"{_PREFIX}_requests", f"Requests to this process. {rule}", labels=["path", "status"]
        )
        for (path, status), count in facts.picture.requests.items():
            requests.add_metric([path, str(status)], count)
        yield requests
        # without the sum of all times, which would give single ones away
        times = HistogramMetricFamily(
            f"{_PREFIX}_report_seconds", f"Requests with reports, by the time until their answer. {rule}"
        )
        names = [*(f"{bound:g}" for bound in BOUNDS), "+Inf"]
        times.add_metric([], list(zip(names, facts.picture.within, strict=True)), sum_value=None)
        yield times


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", about, value=value)
