"""The numbers in the text format of Prometheus.

The library's own numbers of a process are left out: processor time and memory move with every single request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from sottovoce._version import __version__
from sottovoce.local.collector.counts import BOUNDS

if TYPE_CHECKING:
    from sottovoce.local.collector.operator import Facts

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX: Final = "sottovoce_collector"


def text(facts: Facts) -> bytes:
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
