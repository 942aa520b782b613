"""Prometheus histograms, the event loop's lag, and the export of traces.

Traces are exported over OTLP/HTTP, if enabled. Only then ``tracing`` is imported, which needs the packages
of the extra ``otel``.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Histogram

from spectator.clock import Clock
from spectator.errors import ConfigurationError
from spectator.events import RecordedEvent

from .settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from .tracing import EpisodeTracer


THINKING_S: Final = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper bounds of the buckets for decisions: scripted captains take under a millisecond, models seconds."""

WORKING_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0,
)  # fmt: skip
"""Upper bounds of the buckets for everything else."""


class Timings:
    """Histograms of durations of one server.

    >>> timings = Timings()
    >>> timings.commit.observe(0.002)
    >>> timings.registry.get_sample_value("spectator_commit_seconds_count")
    1.0
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.decision = self._histogram("decision", "Time that a policy took for a decision", THINKING_S)
        self.step = self._histogram("step", "Time that a world took for a step", WORKING_S)
        self.commit = self._histogram("commit", "Time until events were in the journal", WORKING_S)
        self.loop_lag = self._histogram("loop_lag", "How late the event loop was", WORKING_S)
        self.publish = self._histogram(
            "publish", "Time from the publication of events until every viewer was written to", WORKING_S
        )

    def note(self, recorded: RecordedEvent) -> None:
        """Observe the durations in a recorded event."""
        event = recorded.event
        if event.type == "decision.made":
            self.decision.observe(event.data["latency_s"])
        elif event.type == "step.taken":
            self.step.observe(event.data["duration_s"])

    def _histogram(self, name: str, summary: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"spectator_{name}_seconds", summary, registry=self.registry, buckets=buckets)


EVERY_S: Final = 0.25

MINUTE: Final = round(60 / EVERY_S)
"""Measurements per minute."""


class LoopLag:
    """Measures by how much the event loop delays a periodic sleep."""

    def __init__(self, clock: Clock, histogram: Histogram) -> None:
        self._clock = clock
        self._histogram = histogram
        self._lately: deque[float] = deque(maxlen=MINUTE)

    @property
    def worst(self) -> float:
        """The longest lag of the last minute, in seconds; 0.0 at first."""
        return max(self._lately, default=0.0)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            began = self._clock.monotonic()
            await self._clock.sleep(EVERY_S)
            self.note(self._clock.monotonic() - began - EVERY_S)

    def note(self, lag: float) -> None:
        """Record one lag, in seconds."""
        self._lately.append(max(0.0, lag))
        self._histogram.observe(max(0.0, lag))


logger = logging.getLogger(__name__)

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

LEAVE_S: Final = 2.0
"""Seconds that sending the last spans may take during a shutdown."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """The export of traces."""

    tracer: EpisodeTracer
    provider: TracerProvider

    async def aclose(self) -> None:
        """Send the remaining spans, waiting at most :data:`LEAVE_S`."""
        self.tracer.close()
        leaving = threading.Thread(target=self.provider.shutdown, name="last spans", daemon=True)
        leaving.start()
        await asyncio.to_thread(leaving.join, LEAVE_S)


def wants_tracing(settings: Settings) -> bool:
    """Whether ``SPECTATOR_TRACES`` and the standard variables enable traces.

    >>> wants_tracing(Settings.from_environ({}))
    False
    >>> wants_tracing(Settings.from_environ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}))
    True
    """
    given = settings.variables
    if settings.traces == "off" or given.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = given.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() or "otlp"
    if settings.traces == "on":
        return True
    return exporter == "otlp" and any(given.get(name, "").strip() for name in (ENDPOINT, TRACES_ENDPOINT))


def open_tracing(settings: Settings) -> Tracing | None:
    """Open the export of traces; ``None`` if disabled, without importing its packages.

    Raises:
        ConfigurationError: ``SPECTATOR_TRACES=on`` and the packages are missing, or the protocol is not
            supported.
    """
    if not wants_tracing(settings):
        return None
    if importlib.util.find_spec("opentelemetry.sdk") is None:
        lacking = "traces need OpenTelemetry: pip install openenv-spectator[otel]"
        if settings.traces == "on":
            raise ConfigurationError(f"SPECTATOR_TRACES: {lacking}")
        logger.warning("%s is set, and %s", ENDPOINT, lacking)
        return None
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from spectator import __version__

    from .tracing import EpisodeTracer

    given = settings.variables
    named = {} if given.get("OTEL_SERVICE_NAME") else {"service.name": "spectator"}
    provider = TracerProvider(resource=Resource.create({**named, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(_over_http(given)))
    tracer = provider.get_tracer("spectator", __version__)
    return Tracing(EpisodeTracer(tracer, content=settings.trace_content), provider)


def _over_http(variables: Mapping[str, str]) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    protocol = next((variables[name] for name in PROTOCOLS if variables.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        raise ConfigurationError(f"{PROTOCOLS[1]}: {protocol!r} is not supported; use http/protobuf")
    base = variables.get(ENDPOINT, "").rstrip("/")
    endpoint = variables.get(TRACES_ENDPOINT) or (f"{base}/v1/traces" if base else None)
    return OTLPSpanExporter(endpoint=endpoint)
