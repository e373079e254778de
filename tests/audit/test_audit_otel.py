"""OpenTelemetry: few labels, the right counts, and no error for expected contention."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import azlatch
from azlatch.audit import otel

sdk = pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")


@pytest.fixture
def collected() -> Any:
    """A sink, and functions that return what it has produced."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    reader, exporter = InMemoryMetricReader(), InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader])

    def metrics() -> dict[str, list[Any]]:
        found = reader.get_metrics_data()
        scopes = found.resource_metrics[0].scope_metrics
        return {each.name: list(each.data.data_points) for scope in scopes for each in scope.metrics}

    yield otel.OtelSink(meters, tracers), metrics, exporter.get_finished_spans
    meters.shutdown()
    tracers.shutdown()


def test_counts_labels_and_spans(collected: Any) -> None:
    """A grant, a contended try, a timeout, a loss and a break are counted with labels of few values."""
    sink, metrics, spans = collected
    with azlatch.connect("memory:", audit=sink) as latches:
        with latches.hold("secret-name"):
            assert latches.try_acquire("secret-name") is None
            with pytest.raises(azlatch.AcquireTimeout):
                latches.acquire("secret-name", timeout=0.05)
        lost = latches.acquire("other", ttl=0.5, heartbeat=False)
        assert lost.wait_lost(10)
        held = latches.acquire("third")
        latches.break_hold("third", reason="x", now=True)
        held.release()
    found = metrics()
    outcomes = {point.attributes["outcome"]: point.value for point in found["azlatch.acquire.attempts"]}
    assert outcomes == {"granted": 3, "contended": 1, "timeout": 1}
    assert found["azlatch.acquire.first_misses"][0].value == 2
    assert {point.attributes["reason"] for point in found["azlatch.hold.lost"]} == {"expired"}
    assert found["azlatch.breaks"][0].value == 1
    labels = {key for points in found.values() for point in points for key in point.attributes}
    assert labels == {"store", "outcome", "reason"}
    assert {span.name for span in spans()} == {"azlatch.acquire"}
    assert all(span.status.is_unset for span in spans())
    assert "secret-name" not in str(found) + str([span.attributes for span in spans()])


def test_an_outage_is_an_error(collected: Any, tmp_path: Path) -> None:
    """A store that cannot be used makes its span an error."""
    from azlatch.audit.events import Event

    sink, metrics, spans = collected
    sink(
        Event(
            "ended",
            1,
            10.0,
            1.0,
            "",
            "i",
            {"name": "a", "outcome": "unavailable", "failures": 2, "wait_s": 1.5},
        )
    )
    assert not spans()[0].status.is_ok
    assert not spans()[0].status.is_unset
    assert spans()[0].end_time - spans()[0].start_time == 1_500_000_000
    assert metrics()["azlatch.store.failures"][0].value == 2


def test_every_metric_is_documented() -> None:
    """The table of the module and docs/metrics.md have every metric that the code makes."""
    code = Path(otel.__file__).read_text(encoding="utf-8")
    made = set(re.findall(r'create_\w+\("([\w.]+)"', code))
    documented = (Path(__file__).parent.parent.parent / "docs/metrics.md").read_text(encoding="utf-8")
    assert len(made) == 9
    for name in made:
        assert name in (otel.__doc__ or "")
        assert name in documented


def test_every_event_is_documented() -> None:
    """docs/metrics.md has every kind of event."""
    from typing import get_args

    from azlatch.audit.events import Kind

    documented = (Path(__file__).parent.parent.parent / "docs/metrics.md").read_text(encoding="utf-8")
    assert [kind for kind in get_args(Kind) if f"`{kind}`" not in documented] == []
