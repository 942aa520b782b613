"""The check of a captain: what works is told in words, and what does not with what to change."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.llm.endpoints import ApiKey
from spectator.llm.recorded_responses import RecordingTransport, read_responses
from spectator.llm.transport import HttpTransport
from spectator.policies.captain_check import PROSE, WORD, CaptainCheck, CheckFinding
from spectator.policies.captains import ModelCaptain
from spectator.policies.model_presets import captain_client
from tests.commands import spectator
from tests.llm.brains import Said
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.stand_in_anthropic import AnthropicStandIn
from tests.llm.stand_in_chat import RULES, ChatRules, ChatStandIn, wrong
from tests.llm.stand_in_gemini import GeminiStandIn
from tests.llm.stand_ins import KEY, Refused, StandIn, standing_in


def pupil(body: Mapping[str, Any]) -> Said:
    """Does what the check asks for."""
    content = body["messages"][-1]["content"]
    if PROSE[:-1] in content:
        return constrained(body)
    if body.get("tools") and "Paint" in content:
        return Said(thought="Blue.", calls=[("paint", {"colour": "blue"})], finish="tool_calls")
    if "Write only this: " in content:
        return Said(text=content.partition("Write only this: ")[2])
    return Said(text=WORD if WORD in content else "ok", thought="Hm.")


def constrained(body: Mapping[str, Any]) -> Said:
    """Answers prose, unless the request asks for something else."""
    if body.get("tools"):
        return Said(calls=[("paint", {"reason": "Calm.", "colour": "blue"})], finish="tool_calls")
    asked = body.get("response_format", {"type": "text"})
    call = {"reason": "Calm.", "tool": "paint", "arguments": {"colour": "blue"}}
    if asked["type"] == "json_schema":
        listed = "actions" in asked["json_schema"]["schema"]["properties"]
        return Said(text=json.dumps({"actions": [call]} if listed else call))
    return Said(text="{}" if asked["type"] == "json_object" else "The sea is calm.")


def checked(
    stand_in: StandIn,
    path: str = "/v1",
    *,
    key: str = KEY,
    script: Mapping[int, Refused] | None = None,
    **table: Any,
) -> dict[str, CheckFinding]:
    async def run() -> dict[str, CheckFinding]:
        async with standing_in(stand_in, script) as served:
            told = {"label": "x", "model": "m-1", "retries": 0, "context_tokens": 4_096, **table}
            captain = ModelCaptain(**{"base_url": served.url + path, "api_key_env": "MY_KEY", **told})
            transport = RecordingTransport(HttpTransport())
            client = captain_client(
                captain, ApiKey(key), clock=SystemClock(), rng=random.Random(1), transport=transport
            )
            found = [one async for one in CaptainCheck(captain, client, transport.limits).findings()]
            await client.aclose()
            return {one.about: one for one in found}

    return asyncio.run(run())


def broken(found: Mapping[str, CheckFinding]) -> list[str]:
    return [about for about, one in found.items() if one.works is False]


@pytest.mark.parametrize("name", RULES)
def test_all_works_by_the_presets_of_chat_completions(name: str) -> None:
    found = checked(ChatStandIn(pupil, RULES[name]), provider=name)
    assert broken(found) == []
    assert found.keys() == {
        "answer", "streaming", "tools", "JSON", "constraint", "thoughts", "usage", "context", "limits"
    }  # fmt: skip


@pytest.mark.parametrize("style", ["tools", "json", "xml"])
def test_all_works_by_the_native_forms(style: str) -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    claude = AnthropicStandIn(pupil)
    told: dict[str, Any] = {
        "provider": "anthropic",
        "model": claude.model,
        "extra": thinking,
        "max_tokens": 2_000,
    }
    found = checked(claude, style=style, **told)
    assert broken(found) == [] and found["thoughts"].works
    gemini = GeminiStandIn(pupil)
    found = checked(gemini, "/v1beta", style=style, provider="gemini", model=gemini.model)
    assert set(broken(found)) <= {"context"}  # this stand-in always counts 90 tokens


def test_a_wrong_key_names_the_variable() -> None:
    found = checked(ChatStandIn(pupil, RULES["openai"]), key="sk-wrong-0815", provider="openai")
    assert found.keys() == {"answer"} and "does not accept the key" in found["answer"].message
    assert found["answer"].change == "set the variable MY_KEY to a valid key"
    assert "0815" not in str(found)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"model": "m-2"}, "check the model's name (m-2)"),
        ({"extra": {"colour": "red"}}, "change or remove the field that it names"),
    ],
)
def test_a_wrong_model_or_field_is_told_with_what_to_change(table: dict[str, Any], words: str) -> None:
    found = checked(ChatStandIn(pupil, RULES["openai"]), provider="openai", **table)
    assert found.keys() == {"answer"} and words in found["answer"].change


def test_a_wrong_path_is_told() -> None:
    found = checked(ChatStandIn(pupil, RULES["sglang"]), "/api", provider="sglang")
    assert "check the model's name (m-1) and the address" in found["answer"].change


def test_streaming_that_is_refused_is_told_and_the_rest_is_checked() -> None:
    found = checked(ChatStandIn(pupil, RULES["openai"]), provider="openai", stream=True)
    assert broken(found) == ["streaming"] and "stream = false" in found["streaming"].change


def test_a_server_that_was_not_started_for_tools_is_told_with_its_flag() -> None:
    refusal = wrong('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
    found = checked(ChatStandIn(pupil, replace(RULES["vllm"], tools=refusal)), provider="vllm")
    assert broken(found) == ["tools", "constraint"] and found["tools"].needed
    assert "--enable-auto-tool-choice" in found["tools"].change and 'style = "json"' in found["tools"].change
    found = checked(ChatStandIn(pupil, replace(RULES["vllm"], tools=refusal)), provider="vllm", style="json")
    assert broken(found) == ["tools"] and not found["tools"].needed


def test_a_model_that_calls_no_tool_and_writes_no_json_is_told() -> None:
    found = checked(ChatStandIn(lambda body: Said(text="Well."), ChatRules()))
    assert {"tools", "JSON"} <= set(broken(found)) and found["tools"].needed and not found["JSON"].needed


def test_a_second_call_that_is_refused_is_found_before_the_match() -> None:
    found = checked(ChatStandIn(pupil, RULES["vllm"]), provider="vllm", send_back=False)
    assert "the next request is rejected" in found["tools"].message
    assert found["tools"].change == "set send_back = true"


def test_a_prompt_that_is_cut_in_silence_is_told() -> None:
    found = checked(ChatStandIn(pupil, replace(RULES["ollama"], cuts_at=500)), provider="ollama")
    assert broken(found) == ["context"] and "OLLAMA_CONTEXT_LENGTH" in found["context"].change


def test_a_context_that_is_too_small_is_told() -> None:
    found = checked(ChatStandIn(pupil, replace(RULES["llama.cpp"], context=1_000)), provider="llama.cpp")
    assert broken(found) == ["context"] and "--ctx-size" in found["context"].change


def test_nobody_there_is_told() -> None:
    async def run() -> list[CheckFinding]:
        captain = ModelCaptain(label="x", model="m", base_url="http://127.0.0.1:9/v1", retries=0)
        client = captain_client(captain, None, clock=SystemClock(), rng=random.Random(1))
        found = [one async for one in CaptainCheck(captain, client, {}).findings()]
        await client.aclose()
        return found

    [found] = asyncio.run(run())
    assert not found.works and "check that the endpoint is running" in found.change


def test_the_command_says_all_of_it_and_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint(pupil) as fake:
        path = write_captains(
            tmp_path / "c.toml", mine={"base_url": fake.base_url, "api_key_env": "FAKE_KEY"}
        )
        monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(path))
        monkeypatch.setenv("FAKE_KEY", "sk-canary-4711-do-not-print")
        told = spectator("captain", "check", "llm:mine", "--no-context")
        assert told.exit_code == 0, told.output
        assert "works  tools" in told.output and "llm:mine can play" in told.output
        assert "4711" not in told.output
    told = spectator("captain", "check", "llm:mine")
    assert told.exit_code == 3 and "check that the endpoint is running" in told.output
    told = spectator("captain", "check", "llm:nobody")
    assert told.exit_code == 1 and "unknown model captain 'llm:nobody'" in told.output
    monkeypatch.delenv("FAKE_KEY")
    told = spectator("captain", "check", "llm:mine")
    assert told.exit_code == 1 and "there is no key in the variable FAKE_KEY" in told.output


def test_a_recorded_endpoint_passes_the_same_check_without_the_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def repeats_the_key(body: Mapping[str, Any]) -> Said:
        return replace(pupil(body), text=pupil(body).text + " sk-canary-4711-do-not-print")

    check = ["captain", "check", "llm:mine"]
    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(tmp_path / "c.toml"))
    monkeypatch.setenv("FAKE_KEY", "sk-canary-4711-do-not-print")
    with endpoint(repeats_the_key) as fake:
        table = {"base_url": fake.base_url, "api_key_env": "FAKE_KEY"}
        write_captains(tmp_path / "c.toml", mine=table)
        streamed = spectator(*check, "--record", tmp_path / "streamed")
        assert streamed.exit_code == 0, streamed.output
        fake.received.clear()
        write_captains(tmp_path / "c.toml", mine={**table, "stream": False})
        first = spectator(*check, "--record", tmp_path / "lab")
    assert first.exit_code == 0, first.output
    assert "4711" not in (tmp_path / "lab" / "responses.json").read_text()
    assert all("data:" not in str(one.body) for one in read_responses(tmp_path / "streamed"))
    recorded = read_responses(tmp_path / "lab")
    assert len(recorded) == len(fake.received) and all(one.status == 200 for one in recorded)
    monkeypatch.delenv("FAKE_KEY")
    again = spectator(*check, "--replay", tmp_path / "lab")
    assert again.exit_code == 0, again.output
    assert _untimed(again.stdout) == _untimed(first.stdout)

    write_captains(tmp_path / "c.toml", mine={**table, "stream": False, "temperature": 0.5})
    other = spectator(*check, "--replay", tmp_path / "lab")
    assert other.exit_code == 3 and "the most similar one differs in temperature" in other.output


def _untimed(output: str) -> str:
    return re.sub(r"(in|after) [0-9.e-]+ s", r"\1 T", output)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file or directory; record it first"),
        ("[{", "is not a recording"),
        ('[{"status": "fine"}]', "is not a recording: 0.status"),
    ],
)
def test_a_folder_without_a_valid_recording_is_rejected(
    tmp_path: Path, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "responses.json").write_text(content)
    told = spectator("captain", "check", "llm:vllm", "--replay", tmp_path)
    assert told.exit_code == 1 and words in told.output
    both = ["captain", "check", "llm:vllm", "--replay", str(tmp_path), "--record", str(tmp_path)]
    assert spectator(*both).exit_code == 2


def test_the_limits_that_an_endpoint_states_are_told() -> None:
    error = Refused(429, {"error": {"message": "slow"}}, {"x-ratelimit-limit-requests": "60"})
    found = checked(ChatStandIn(pupil, ChatRules()), script={1: error}, requests_per_minute=50)
    assert "x-ratelimit-limit-requests: 60" in found["limits"].message
    assert "requests_per_minute = 50" in found["limits"].message


def test_constraints_that_work_are_named_the_strongest_first() -> None:
    found = checked(ChatStandIn(pupil, RULES["llama.cpp"]), provider="llama.cpp", style="json")
    assert found["constraint"] == CheckFinding("constraint", True, "json_schema works", needed=False)
    found = checked(ChatStandIn(pupil, RULES["openai"]), provider="openai", style="json")
    assert 'set constraint = "json_schema" to use it' in found["constraint"].message
    found = checked(ChatStandIn(pupil, ChatRules()), style="xml")
    assert found["constraint"].works is None and "the style xml has none" in found["constraint"].message


def test_a_schema_that_is_rejected_is_shown_with_what_works_instead() -> None:
    def picky(body: Mapping[str, Any]) -> Said:
        if body.get("response_format", {}).get("type") == "json_schema":
            raise wrong("Failed to initialize samplers: failed to parse grammar")
        return pupil(body)

    found = checked(ChatStandIn(picky, RULES["llama.cpp"]), provider="llama.cpp", style="json")["constraint"]
    assert found.works and found.message.startswith("json_object works (json_schema is rejected: ")
    assert "failed to parse grammar" in found.message


def test_a_model_that_ignores_its_constraint_is_found() -> None:
    def free(body: Mapping[str, Any]) -> Said:
        return Said(text="The sea is calm.") if PROSE[:-1] in str(body["messages"][-1]) else pupil(body)

    found = checked(ChatStandIn(free, RULES["vllm"]), provider="vllm", style="json")["constraint"]
    assert not found.works and found.change == 'set constraint = "none"'
    ignored = "is accepted but ignored"
    assert found.message == f"json_schema {ignored}; json_object {ignored}; answers are not constrained"
