"""Events as OpenTelemetry metrics and spans, for `connect(audit=OtelSink())`; needs the extra ``otel``.

Labels have few values: the store's kind, the outcome, the reason. Never a name, a nonce or an instance. A word
that azlatch does not know becomes "other".

=================================  =========  ======================  ====================================
metric                             kind       labels                  counts
=================================  =========  ======================  ====================================
azlatch.acquire.attempts           counter    store, outcome          acquires that ended
azlatch.acquire.first_misses       counter    store                   those that found the name held
azlatch.acquire.timeouts           counter    store                   those that timed out
azlatch.acquire.wait               histogram  store, outcome          how long they took, s
azlatch.store.failures             counter    store                   calls that the store did not answer
azlatch.hold.duration              histogram  store                   how long holds lasted, s
azlatch.hold.renewals              counter    store                   renewals that succeeded
azlatch.holds.lost                 counter    store, reason           holds that ended without a release
azlatch.breaks                     counter    store                   breaks by operators
azlatch.gate.rejected              counter    store                   writes that gates refused
=================================  =========  ======================  ====================================

One span an acquire, ``azlatch.acquire``, from its request to its end, with the labels store and outcome.
Contention, timeouts and cancelling are expected and never an error of the span; an outage (unavailable,
throttled, error), a denial or a store that is set up wrong is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from azlatch.errors import LossReason, UsageError

if TYPE_CHECKING:
    from azlatch.audit.events import Event

_FAILED = frozenset({"unavailable", "throttled", "denied", "misconfigured", "error"})
_OUTCOMES = _FAILED | {"granted", "contended", "timeout", "cancelled"}
_REASONS = frozenset(get_args(LossReason))


class OtelSink:
    """Feeds the meter and tracer named ``azlatch``.

    Args:
        meter_provider: by default the global one.
        tracer_provider: by default the global one.

    Raises:
        UsageError: opentelemetry-api is not installed.
    """

    def __init__(self, meter_provider: Any = None, tracer_provider: Any = None) -> None:
        try:
            from opentelemetry import metrics, trace
        except ModuleNotFoundError as missing:
            raise UsageError("OtelSink needs opentelemetry-api: pip install 'azlatch[otel]'") from missing
        meter = metrics.get_meter("azlatch", meter_provider=meter_provider)
        self._tracer = trace.get_tracer("azlatch", tracer_provider=tracer_provider)
        self._error = trace.Status(trace.StatusCode.ERROR)
        self._stores: dict[str, str] = {}
        self._attempts = meter.create_counter("azlatch.acquire.attempts")
        self._first_misses = meter.create_counter("azlatch.acquire.first_misses")
        self._timeouts = meter.create_counter("azlatch.acquire.timeouts")
        self._wait = meter.create_histogram("azlatch.acquire.wait", unit="s")
        self._failures = meter.create_counter("azlatch.store.failures")
        self._duration = meter.create_histogram("azlatch.hold.duration", unit="s")
        self._renewals = meter.create_counter("azlatch.hold.renewals")
        self._lost = meter.create_counter("azlatch.holds.lost")
        self._breaks = meter.create_counter("azlatch.breaks")
        self._rejected = meter.create_counter("azlatch.gate.rejected")

    def __call__(self, event: Event) -> None:
        if event.kind == "open":
            self._stores[event.instance] = str(event.facts.get("store", ""))
        labels = {"store": self._stores.get(event.instance, "")}
        if event.kind in ("granted", "ended"):
            self._acquired(event, labels)
        elif event.kind in ("released", "lost"):
            self._duration.record(event.number("held_s"), labels)
            self._renewals.add(int(event.number("renewals")), labels)
            if event.kind == "lost":
                self._lost.add(1, {**labels, "reason": _known(event.facts.get("reason"), _REASONS)})
        elif event.kind == "broken":
            self._breaks.add(1, labels)
        elif event.kind == "rejected":
            self._rejected.add(1, labels)
        elif event.kind == "close":
            self._stores.pop(event.instance, None)

    def _acquired(self, event: Event, labels: dict[str, str]) -> None:
        outcome = "granted" if event.kind == "granted" else _known(event.facts.get("outcome"), _OUTCOMES)
        wait, failures = event.number("wait_s"), int(event.number("failures"))
        self._attempts.add(1, {**labels, "outcome": outcome})
        self._wait.record(wait, {**labels, "outcome": outcome})
        if event.number("misses") or outcome in ("timeout", "contended"):
            self._first_misses.add(1, labels)
        if outcome == "timeout":
            self._timeouts.add(1, labels)
        if failures:
            self._failures.add(failures, labels)
        end = int(event.wall * 1e9)
        span = self._tracer.start_span(
            "azlatch.acquire", start_time=end - int(wait * 1e9), attributes={**labels, "outcome": outcome}
        )
        if outcome in _FAILED:
            span.set_status(self._error)
        span.end(end_time=end)


def _known(word: object, words: frozenset[str]) -> str:
    return word if isinstance(word, str) and word in words else "other"
