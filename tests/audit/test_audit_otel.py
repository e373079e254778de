"""OpenTelemetry: few labels, the right counts, and no error for expected contention."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

import azlatch
from azlatch.audit import otel
from azlatch.audit.events import Event, Kind
from azlatch.errors import LossReason

DOCUMENT = (Path(__file__).parent.parent.parent / "docs/metrics.md").read_text(encoding="utf-8")


class Collected(NamedTuple):
    """A sink, and what it has produced."""

    sink: otel.OtelSink
    metrics: Callable[[], dict[str, list[Any]]]
    spans: Callable[[], Any]


@pytest.fixture
def collected() -> Iterator[Collected]:
    """A sink that feeds the SDK in memory."""
    pytest.importorskip("opentelemetry", reason="opentelemetry-api is not installed")
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
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

    yield Collected(otel.OtelSink(meters, tracers), metrics, exporter.get_finished_spans)
    meters.shutdown()
    tracers.shutdown()


def event(kind: str, **facts: object) -> Event:
    return Event(kind, 1, 10.0, 1.0, "", "instance-7", {"name": "name-7", "nonce": "nonce-7", **facts})


def every_event() -> list[Event]:
    """One event of each kind, outcome and reason, and words that nobody knows."""
    outcomes = [
        "contended",
        "timeout",
        "unavailable",
        "throttled",
        "denied",
        "misconfigured",
        "cancelled",
        "error",
    ]
    plain = [kind for kind in get_args(Kind) if kind not in ("open", "close", "ended", "lost")]
    return [
        event("open", store="sqlite"),
        *(event(kind, misses=1, failures=1, wait_s=0.1, held_s=0.1, renewals=1) for kind in plain),
        *(event("ended", outcome=outcome) for outcome in [*outcomes, "name-7", None]),
        *(event("lost", reason=reason, held_s=1.0) for reason in [*get_args(LossReason), "nonce-7", None]),
    ]


def table(title: str) -> dict[str, list[str]]:
    """A table of docs/metrics.md: its rows' other cells by the first."""
    part = DOCUMENT.partition(f"## {title}\n")[2].partition("\n## ")[0]
    first = part[part.index("|") :].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in first.splitlines()]
    return {row[0]: row[1:] for row in rows[2:]}


def test_real_work(collected: Collected) -> None:
    """A grant, a contended try, a timeout, a loss and a break are counted with labels of few values."""
    with azlatch.connect("memory:", audit=collected.sink) as latches:
        with latches.hold("secret-name"):
            assert latches.try_acquire("secret-name") is None
            with pytest.raises(azlatch.AcquireTimeout):
                latches.acquire("secret-name", timeout=0.05)
        lost = latches.acquire("other", ttl=0.5, heartbeat=False)
        assert lost.wait_lost(10)
        held = latches.acquire("third")
        latches.break_hold("third", reason="x", now=True)
        held.release()
    found = collected.metrics()
    outcomes = {point.attributes["outcome"]: point.value for point in found["azlatch.acquire.attempts"]}
    assert outcomes == {"granted": 3, "contended": 1, "timeout": 1}
    assert [point.value for point in found["azlatch.acquire.first_misses"]] == [2]
    assert [point.value for point in found["azlatch.acquire.timeouts"]] == [1]
    assert {point.attributes["reason"] for point in found["azlatch.holds.lost"]} == {"expired"}
    assert [point.value for point in found["azlatch.breaks"]] == [1]
    assert sum(point.count for point in found["azlatch.acquire.wait"]) == 5
    assert all(point.attributes["store"] == "memory" for points in found.values() for point in points)
    assert {span.name for span in collected.spans()} == {"azlatch.acquire"}
    assert all(span.status.is_unset for span in collected.spans())


@pytest.mark.parametrize(
    ("outcome", "is_error"),
    [
        *(("granted", False), ("contended", False), ("timeout", False), ("cancelled", False)),
        *(
            ("unavailable", True),
            ("throttled", True),
            ("denied", True),
            ("misconfigured", True),
            ("error", True),
        ),
    ],
)
def test_only_what_nobody_expects_is_an_error(collected: Collected, outcome: str, is_error: bool) -> None:
    """A span begins with its request; contention, timeouts and cancelling are never its error."""
    kind = "granted" if outcome == "granted" else "ended"
    collected.sink(event(kind, outcome=outcome, failures=2, misses=1, wait_s=1.5))
    (span,) = collected.spans()
    assert (span.end_time, span.end_time - span.start_time) == (10_000_000_000, 1_500_000_000)
    assert (not span.status.is_unset and not span.status.is_ok) is is_error
    assert span.attributes == {"store": "", "outcome": outcome}
    assert [point.value for point in collected.metrics()["azlatch.store.failures"]] == [2]


def test_labels_have_few_values(collected: Collected) -> None:
    """Never a name, a nonce, an instance, nor a word that azlatch does not know."""
    for each in every_event():
        collected.sink(each)
    values = {
        value
        for points in collected.metrics().values()
        for point in points
        for value in point.attributes.values()
    }
    values |= {value for span in collected.spans() for value in span.attributes.values()}
    assert not [value for value in values if "-7" in str(value)]
    assert "other" in values
    assert len(values) < 25


def test_an_instance_that_has_ended_is_forgotten(collected: Collected) -> None:
    """A process that connects again and again does not grow."""
    collected.sink(event("open", store="sqlite"))
    collected.sink(event("close"))
    assert collected.sink._stores == {}


def test_every_metric_and_label_is_documented(collected: Collected) -> None:
    """docs/metrics.md has the metrics and labels that the code makes, and no others."""
    for each in every_event():
        collected.sink(each)
    made = {
        name: ", ".join(sorted({key for point in points for key in point.attributes}, reverse=True))
        for name, points in collected.metrics().items()
    }
    # "store" comes first in the table, then the others.
    assert made == {name.removesuffix(" (s)"): cells[0] for name, cells in table("Metrics").items()}


def test_every_span_is_documented(collected: Collected) -> None:
    """The same for spans, their attributes and what is an error of them."""
    for each in every_event():
        collected.sink(each)
    made = {span.name: ", ".join(sorted(span.attributes, reverse=True)) for span in collected.spans()}
    assert made == {name: cells[0] for name, cells in table("Spans").items()}
    failed = {span.attributes["outcome"] for span in collected.spans() if not span.status.is_unset}
    assert sorted(failed) == table("Spans")["azlatch.acquire"][1].split(", ")


def test_the_modules_own_table_is_complete() -> None:
    """So is the module's text, and seconds are said to be seconds."""
    code = Path(otel.__file__).read_text(encoding="utf-8")
    made = dict(re.findall(r'create_\w+\("([\w.]+)"(.*)\)', code))
    assert set(made) == {name.removesuffix(" (s)") for name in table("Metrics")}
    assert [name for name in made if name not in (otel.__doc__ or "")] == []
    assert {name for name, rest in made.items() if 'unit="s"' in rest} == {
        name.removesuffix(" (s)") for name in table("Metrics") if name.endswith(" (s)")
    }


def test_every_value_of_a_label_is_documented() -> None:
    """The outcomes and reasons are those that the code knows."""
    for words, label in ((otel._OUTCOMES, "outcome"), (otel._REASONS, "reason")):
        (row,) = re.findall(rf"^\| {label} \| ([^;]*);", DOCUMENT, re.MULTILINE)
        assert sorted(row.split(", ")) == sorted(words)


def test_every_event_is_documented() -> None:
    """docs/metrics.md has every kind of event, and no other."""
    documented = [kind for cell in table("Events") for kind in re.findall(r"`([\w-]+)`", cell)]
    assert sorted(documented) == sorted(get_args(Kind))


def test_opentelemetry_is_imported_by_who_uses_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing the module costs nothing; without the package the sink names what is missing."""
    look = "import azlatch.audit.otel, sys; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], check=False, timeout=60).returncode == 0
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(azlatch.UsageError, match="opentelemetry-api"):
        otel.OtelSink()
