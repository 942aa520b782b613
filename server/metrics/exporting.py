"""Whether traces leave this server, and how: by the standard variables of OpenTelemetry, over OTLP/HTTP."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spectator.errors import ConfigurationError

from ..settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from .tracing import EpisodeTracer

logger = logging.getLogger(__name__)

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

LEAVE_S: Final = 2.0
"""How long the last spans may take to leave once the server must go."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """Traces that leave this server.

    Args:
        tracer: Makes the spans.
        provider: Sends them.
    """

    tracer: EpisodeTracer
    provider: TracerProvider

    async def aclose(self) -> None:
        """Send what is left, for a short while; an endpoint that does not answer keeps nobody."""
        self.tracer.close()
        leaving = threading.Thread(target=self.provider.shutdown, name="last spans", daemon=True)
        leaving.start()
        await asyncio.to_thread(leaving.join, LEAVE_S)


def wants_tracing(settings: Settings) -> bool:
    """Whether traces are to leave, by ``SPECTATOR_TRACES`` and the standard variables.

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


def open_tracing(
    settings: Settings, exporter: Callable[[Mapping[str, str]], SpanExporter] | None = None
) -> Tracing | None:
    """What makes and sends traces; ``None``, and nothing imported, where none are wanted.

    Args:
        settings: Whether, and how.
        exporter: Makes what takes the spans; OTLP over HTTP when left out.

    Raises:
        ConfigurationError: They are wanted by ``SPECTATOR_TRACES=on`` and the packages are missing, or over a
            protocol that is not spoken here.
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
    provider.add_span_processor(BatchSpanProcessor((exporter or _over_http)(given)))
    tracer = provider.get_tracer("spectator", __version__)
    return Tracing(EpisodeTracer(tracer, content=settings.trace_content), provider)


def _over_http(variables: Mapping[str, str]) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    protocol = next((variables[name] for name in PROTOCOLS if variables.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        raise ConfigurationError(f"{PROTOCOLS[1]}: traces go over http/protobuf here, not {protocol!r}")
    base = variables.get(ENDPOINT, "").rstrip("/")
    endpoint = variables.get(TRACES_ENDPOINT) or (f"{base}/v1/traces" if base else None)
    return OTLPSpanExporter(endpoint=endpoint)
