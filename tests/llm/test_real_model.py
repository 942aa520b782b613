"""The whole client against llama.cpp's own server with a real small model, SmolLM2-135M-Instruct.

The server runs in an environment of its own, ``make llama-venv``; nothing is downloaded at run time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.llm.chat import ChatAnswer, ChatRequest
from spectator.llm.client import ChatClient, ClientLimits
from spectator.llm.endpoints import StaticAddress
from spectator.llm.retry import RetryPolicy
from tests.commands import run
from tests.conftest import ROOT, require
from tests.llm.endpoints import write_captains

MODEL = "smollm2-135m"
PATIENCE_S = 300.0
"""A busy machine needs a while for a long prompt; nothing here measures time."""

PAINT = {
    "type": "function",
    "function": {
        "name": "paint",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
            "required": ["colour"],
        },
    },
}


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """The address of a server with the model; it ends with its standard input."""
    python = ROOT / ".venv-llama" / "bin" / "python"
    installed = (ROOT / ".venv-llama" / ".installed").exists()
    command = [
        require("llama.cpp", str(python) if installed else None),
        str(Path(__file__).with_name("llama_server.py")),
    ]
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait(20)
        server.stdin.close()
        server.stdout.close()


def ask(url: str, *requests: ChatRequest, deltas: list[str] | None = None) -> list[ChatAnswer]:
    """The answers to requests that follow each other on kept connections, without any retry."""

    async def run() -> list[ChatAnswer]:
        limits = ClientLimits(request_s=PATIENCE_S)
        client = ChatClient(
            limits.transport(),
            StaticAddress(f"{url}/v1"),
            clock=SystemClock(),
            rng=random.Random(1),
            limits=limits,
            retry=RetryPolicy(busy=0, unavailable=0),
        )
        heard = None if deltas is None else lambda kind, text: deltas.append(text)
        try:
            return [
                await client.complete(
                    request, deadline=PATIENCE_S, on_delta=heard if request.stream else None
                )
                for request in requests
            ]
        finally:
            await client.aclose()

    return asyncio.run(run())


def asking(content: str, **more: Any) -> ChatRequest:
    messages = [{"role": "user", "content": content}]
    return ChatRequest(model=MODEL, messages=messages, temperature=0.0, max_tokens=24, seed=1, **more)


def test_an_answer_is_the_same_whole_and_streamed(llama: str) -> None:
    deltas: list[str] = []
    whole, streamed = ask(llama, asking("Say hello."), asking("Say hello.", stream=True), deltas=deltas)
    assert whole.text and whole.text == streamed.text == "".join(deltas).strip()
    assert whole.model == streamed.model == MODEL
    assert whole.usage is not None and streamed.usage is not None
    assert 0 < whole.usage.tokens_out == streamed.usage.tokens_out <= 24
    assert whole.finish_reason == streamed.finish_reason


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_required_tool_is_called_with_legal_arguments(llama: str, stream: bool) -> None:
    """Its grammar holds from the opening mark on, to which this model needs a push."""
    push = {"logit_bias": [["<tool_call>\n", 12]]}
    request = asking("Paint the door blue.", tools=[PAINT], tool_choice="required", stream=stream, extra=push)
    [answer] = ask(llama, replace(request, max_tokens=48))
    call, *_ = answer.tool_calls
    assert call.name == "paint"
    assert json.loads(call.arguments)["colour"] in ("red", "blue")


def test_a_json_schema_binds_the_answer(llama: str) -> None:
    schema = {
        "type": "object",
        "properties": {"tool": {"const": "say"}, "number": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["tool", "number"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "action", "schema": schema}}
    [answer] = ask(llama, replace(asking("Say a number.", extra={"response_format": form}), max_tokens=64))
    read = json.loads(answer.text)
    assert read["tool"] == "say" and 0 <= read["number"] <= 9


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_token_ids_and_log_probabilities_are_read(llama: str, stream: bool) -> None:
    [answer] = ask(llama, asking("Say hello.", logprobs=True, token_ids=True, stream=stream))
    assert answer.usage is not None and answer.logprobs is not None and answer.token_ids is not None
    assert len(answer.logprobs) == len(answer.token_ids) == answer.usage.tokens_out
    assert all(value <= 0 for value in answer.logprobs) and all(0 <= one < 49_152 for one in answer.token_ids)


def test_a_server_that_closes_after_each_stream_costs_no_attempt(
    llama: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It announces no close, so the next request meets a dead connection."""
    caplog.set_level(logging.DEBUG, "spectator.llm")
    answers = ask(llama, *[replace(asking("Count to three.", stream=True), max_tokens=4)] * 6)
    assert [answer.attempts for answer in answers] == [1] * 6
    assert not [record for record in caplog.records if "failed" in record.getMessage()]


@pytest.fixture
def captains(llama: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model as ``llm:real``, without constraints, and as ``llm:bound``."""
    table: dict[str, Any] = {
        "base_url": f"{llama}/v1",
        "model": MODEL,
        "style": "json",
        "temperature": 0.0,
        "max_tokens": 160,
        "context_tokens": 8_192,
        "timeout_s": PATIENCE_S,
    }
    path = write_captains(tmp_path / "captains.toml", real=table, bound={**table, **BOUND})
    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(path))
    return path


BOUND: Mapping[str, Any] = {"constraint": "json_schema", "prompt": "short", "max_tokens": 200}


def test_its_check_is_recorded_and_passes_again_without_it(captains: Path, tmp_path: Path) -> None:
    check = ("captain", "check", "llm:real", "--no-context")
    code, found, _ = run(*check, "--record", tmp_path / "lab")
    assert "works  answer" in found and "works  streaming" in found and "works  usage" in found
    captains.write_text(captains.read_text().replace("http://127.0.0.1", "http://192.0.2.1"))
    again, replayed, _ = run(*check, "--replay", tmp_path / "lab")
    assert (again, replayed.splitlines()[2:]) == (code, found.splitlines()[2:])


def own(events: str) -> tuple[int, int]:
    """Decisions that the model made itself, and all of its decisions."""
    made = [json.loads(line)["data"] for line in events.splitlines() if '"type":"decision.made"' in line]
    asked = [one for one in made if one["exchanges"]]
    return sum(one["source"] == "model" for one in asked), len(asked)


def played(world: str, *arguments: str) -> str:
    code, events, errors = run("play", world, "--captain", "llm:bound", "--seed", "1", *arguments)
    assert code == 0, errors
    return events


@pytest.mark.parametrize(("world", "most_tokens"), [("counting --option turns=2", 0), ("collider", 1_700)])
def test_a_model_under_constraints_decides_itself_in_every_world(
    captains: Path, world: str, most_tokens: int
) -> None:
    """Each answer is a legal action; a cap bounds their number. The evaluation below asks it in cricket."""
    decided, asked = own(played(*world.split(), "--max-tokens", str(most_tokens)))
    assert asked >= 2 and decided / asked >= 0.95


def _no_network(*_: Any) -> None:
    raise AssertionError("a bundle is verified without any endpoint")


@pytest.mark.timeout(300)
def test_an_evaluation_is_published_and_verified_elsewhere_without_the_model(
    captains: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTATOR_MODEL_EPISODE_TOKENS", "700")  # the fallback plays the rest of a match
    code, output, errors = run(
        "evaluate", "cricket", "--captains", "llm:bound,random", "--matches", "2",
        "--option", "max_overs=1", "--option", "decisions=over",
        "--jobs", "1", "--out", tmp_path / "played", "--publish", tmp_path / "bundle",
    )  # fmt: skip
    assert code == 0, errors
    [asked] = [
        one["asked"]
        for one in json.loads((tmp_path / "bundle" / "manifest.json").read_text())["results"]["captains"]
        if one["name"] == "llm:bound"
    ]
    assert asked["replies"]["models"] == {MODEL: asked["replies"]["requests"]}
    assert asked["replies"]["requests"] >= 2 and asked["fallbacks"].keys() <= {"spent"}
    monkeypatch.delenv("SPECTATOR_CAPTAINS_FILE")
    monkeypatch.setattr("socket.socket.connect", _no_network)
    captains.unlink()
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "bundle", tmp_path / "elsewhere" / "bundle")
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, output, errors = run("verify-bundle", "bundle")
    assert code == 0, errors
    assert "verified: every decision, score, reward and interval is as claimed" in output
