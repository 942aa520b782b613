"""Traces of episodes, decisions and model calls: by the conventions, off unless asked for, without keys."""

from __future__ import annotations

import gzip
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from server.settings import Settings
from server.telemetry import open_tracing, wants_tracing
from server.tracing import EpisodeTracer
from spectator.errors import ConfigurationError
from spectator.events import Event, RecordedEvent
from spectator.journal.contract import Attachments
from spectator.model_calls import ModelCall
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import Mode
from tests.serving import Serving, serve, test_settings, without_errors

CANARY = "sk-canary-4711-do-not-print"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@contextmanager
def receiver() -> Iterator[tuple[str, list[bytes]]]:
    """An OTLP/HTTP receiver on loopback; gives its address and what it received."""
    received: list[bytes] = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
            received.append(gzip.decompress(body) if packed else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()


def spans_in(received: Sequence[bytes]) -> list[dict[str, Any]]:
    """Name, ids, kind, times, status and attributes of every span, the earliest first."""
    found: list[dict[str, Any]] = []
    for body in received:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    attributes = {}
                    for one in span.attributes:
                        kind = one.value.WhichOneof("value")
                        value = getattr(one.value, kind)
                        if kind == "array_value":
                            value = [item.string_value for item in value.values]
                        attributes[one.key] = value
                    found.append({"span": span, "service": about["service.name"], **attributes})
    return sorted(found, key=lambda one: one["span"].start_time_unix_nano)


def play(serving: Serving, captain: str) -> str:
    episode_id = serving.start(captain_preset=captain, options={"turns": 2})
    serving.finish(episode_id)
    return episode_id


@pytest.mark.parametrize("content", [False, True], ids=["without content", "with content"])
def test_an_episode_arrives_as_a_tree_of_spans(tmp_path: Path, content: bool) -> None:
    with receiver() as (address, received), endpoint(counter) as model:
        table = {"base_url": model.base_url, "api_key_env": "FAKE_KEY", "style": "json"}
        captains = write_captains(tmp_path / "captains.toml", traced=table)
        settings = test_settings(
            tmp_path, captains_file=captains, llm_live="llm:traced", trace_content=content
        ).with_variables({"FAKE_KEY": CANARY, ENDPOINT: address})
        with without_errors(), serve(settings) as serving:
            episode_id = play(serving, "llm:traced")
            events = serving.events(episode_id)
    assert CANARY.encode() not in b"".join(received)
    assert (b"gen_ai.input.messages" in b"".join(received)) is content
    episode, *others = spans = spans_in(received)
    decided = [one["data"] for one in events if one["type"] == "decision.made"]
    assert {one["service"] for one in spans} == {"spectator"}
    assert episode["span"].name == "invoke_workflow counting" and not episode["span"].parent_span_id
    assert episode["gen_ai.operation.name"] == "invoke_workflow"
    assert (episode["spectator.end.reason"], episode["spectator.turns"]) == ("finished", 2)
    decisions = [one for one in others if one["gen_ai.operation.name"] == "invoke_agent"]
    calls = [one for one in others if one["gen_ai.operation.name"] == "chat"]
    assert len(decisions) == len(calls) == len(decided) == 2
    for decision, call, data in zip(decisions, calls, decided, strict=True):
        assert decision["span"].parent_span_id == episode["span"].span_id
        assert call["span"].parent_span_id == decision["span"].span_id
        assert decision["span"].name == "invoke_agent llm:traced"
        assert decision["gen_ai.usage.input_tokens"] == data["tokens_in"] > 0
        assert call["span"].name == "chat traced-1" and call["span"].kind == 3, "a client's"
        assert call["gen_ai.provider.name"] == "openai" and call["gen_ai.request.model"] == "traced-1"
        assert call["gen_ai.usage.output_tokens"] == data["tokens_out"] > 0
        assert call["gen_ai.response.finish_reasons"] == ["stop"]
        for one in (decision, call):
            assert one["gen_ai.conversation.id"] == episode_id
            assert one["span"].trace_id == episode["span"].trace_id
            assert one["span"].start_time_unix_nano <= one["span"].end_time_unix_nano
        lasted = decision["span"].end_time_unix_nano - decision["span"].start_time_unix_nano
        assert lasted == round(data["latency_s"] * 1e9)
        if content:
            assert json.loads(call["gen_ai.input.messages"])[0]["role"] == "system"
            (answer,) = json.loads(call["gen_ai.output.messages"])
            assert answer["role"] == "assistant" and answer["parts"]


def test_a_failed_call_names_its_error(tmp_path: Path) -> None:
    with receiver() as (address, received), endpoint(counter, [Mode.UNAUTHORIZED] * 9) as model:
        captains = write_captains(tmp_path / "captains.toml", traced={"base_url": model.base_url})
        settings = test_settings(tmp_path, captains_file=captains, llm_live="llm:traced")
        with serve(settings.with_variables({ENDPOINT: address})) as serving:
            play(serving, "llm:traced")
    spans = spans_in(received)
    decision = next(one for one in spans if one["gen_ai.operation.name"] == "invoke_agent")
    call = next(one for one in spans if one["gen_ai.operation.name"] == "chat")
    assert decision["error.type"] == "model_rejected" and decision["spectator.decision.source"] == "fallback"
    assert call["error.type"] and call["http.response.status_code"] == 401
    assert call["span"].status.code == decision["span"].status.code == 2, "an error"
    assert "gen_ai.input.messages" not in call


def recorded(
    seq: int, kind: str, data: dict[str, Any], at: str = "2026-11-21T05:00:01.000Z"
) -> RecordedEvent:
    return RecordedEvent(Event("ep-1", "e", seq, at, 1, kind, data), "")


@pytest.fixture
def traced() -> Iterator[tuple[EpisodeTracer, InMemorySpanExporter]]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield EpisodeTracer(provider.get_tracer("test")), exporter
    provider.shutdown()


def known(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_calls_share_a_decision_in_order_and_those_not_measured_the_rest(
    traced: tuple[EpisodeTracer, InMemorySpanExporter],
) -> None:
    tracer, exporter = traced
    calls = [
        ModelCall(messages=[], about={"model": "m", "stop": ["x"]}),
        ModelCall(messages=[], about={"model": "m"}, reply={"usage": None}, measured={"latency_s": 0.25}),
    ]
    decided = {
        "actor": "a", "source": "model", "action": {"tool": "say"}, "latency_s": 1.0, "model": "m",
        "exchanges": [{"failure": {"kind": "timeout", "status": None}}, {"reply": None}],
    }  # fmt: skip
    tracer.note([recorded(1, "commentary", {"text": "not of the record's bones"})])
    tracer.note(
        [recorded(2, "decision.made", decided), recorded(3, "step.taken", {"duration_s": 0.5})],
        Attachments([calls]),
    )
    tracer.note([recorded(4, "episode.ended", {"reason": "timeout", "turns": 1, "score": None})])
    first, second, decision, episode = exporter.get_finished_spans()
    whole = 1_795_237_200_000_000_000
    assert (decision.start_time, decision.end_time) == (whole - 500_000_000, whole + 500_000_000)
    assert (first.start_time, first.end_time) == (whole - 500_000_000, whole + 250_000_000)
    assert (second.start_time, second.end_time) == (whole + 250_000_000, whole + 500_000_000)
    assert known(first)["error.type"] == "timeout" and known(first)["gen_ai.request.stop_sequences"] == ("x",)
    assert second.status.status_code is StatusCode.UNSET
    assert known(episode)["spectator.played_on"] is True, "its beginning was another process's"
    assert (known(episode)["error.type"], episode.status.status_code) == ("timeout", StatusCode.ERROR)


def test_a_decision_that_nobody_made_and_what_is_left_open(
    traced: tuple[EpisodeTracer, InMemorySpanExporter],
) -> None:
    tracer, exporter = traced
    call = ModelCall(messages=[], about={"model": "m"})
    exchanges = [{"failure": {"kind": "http", "status": 503}}]
    undecided = {"actor": "a", "model": "m", "latency_s": 0.1, "exchanges": exchanges}
    suspended = {"actor": "a", "failure_class": "model_infra", "undecided": undecided}
    tracer.note([recorded(1, "episode.suspended", suspended)], Attachments([[call]]))
    chat, decision, episode = exporter.get_finished_spans()
    assert known(decision)["spectator.decision.source"] == "nobody"
    assert known(decision)["error.type"] == known(episode)["error.type"] == "model_infra"
    assert known(chat)["http.response.status_code"] == 503
    exporter.clear()
    tracer.note([recorded(2, "episode.started", {"environment": "counting", "seats": {}})])
    tracer.close()
    (left,) = exporter.get_finished_spans()
    assert known(left)["spectator.end.reason"] == "suspended"
    tracer.close()
    assert len(exporter.get_finished_spans()) == 1


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({ENDPOINT: ""}, False),
        ({ENDPOINT: "http://127.0.0.1:1"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/x"}, True),
        ({ENDPOINT: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, False),
        ({ENDPOINT: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({ENDPOINT: "http://127.0.0.1:1", "SPECTATOR_TRACES": "off"}, False),
        ({"SPECTATOR_TRACES": "on"}, True),
        ({"SPECTATOR_TRACES": "on", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_traces_leave_only_where_that_is_configured(variables: dict[str, str], wanted: bool) -> None:
    settings = Settings.from_environ(variables)
    assert wants_tracing(settings) is wanted
    if not wanted:
        assert open_tracing(settings) is None


def test_what_cannot_be_traced_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    over = {ENDPOINT: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' is not supported"):
        open_tracing(Settings.from_environ(over))
    with pytest.raises(ConfigurationError, match="SPECTATOR_TRACES"):
        Settings.from_environ({"SPECTATOR_TRACES": "perhaps"})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install openenv-spectator\[otel\]"):
        open_tracing(Settings.from_environ({"SPECTATOR_TRACES": "on"}))
    assert open_tracing(Settings.from_environ({ENDPOINT: "http://127.0.0.1:1"})) is None


@pytest.mark.usefixtures("real_starts")
def test_nothing_of_it_is_imported_while_it_is_off() -> None:
    """Neither by the module that decides nor by the journal that would tell it."""
    code = "import sys; from server.settings import Settings; import server.journal; "
    code += "from server.telemetry import open_tracing; assert open_tracing(Settings()) is None; "
    code += "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', "
    code += "'opentelemetry.exporter', 'server.tracing'))])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_receiver_that_is_away_keeps_nobody(tmp_path: Path) -> None:
    """Play and the server's end go on; what cannot be sent is lost."""
    settings = test_settings(tmp_path).with_variables({ENDPOINT: "http://127.0.0.1:9"})
    with serve(settings) as serving:
        play(serving, "heuristic")
