"""Evaluates with verifiers against a stand-in endpoint; runs where ``verifiers`` is.

peer_verifiers.py FOLDER COMMAND TABLE

The endpoint's models count by rote, each with a failing of its own. Tells what was recorded by
``vf-eval``, by COMMAND and by the configuration TABLE of the page, and by ``vf.load_environment``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import verifiers.v1 as vf
from verifiers.v1.cli.eval.main import main as vf_eval

from spectator.errors import EpisodeError
from spectator.training.text_episode import TextEpisode

CALLS = {"rote": 1, "twice": 2}
"""How many tool calls an answer of these models has."""


class Endpoint(BaseHTTPRequestHandler):
    """Chat completions of models that read the next number in what they were told last."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        answered = sum(one["role"] == "assistant" for one in body["messages"])
        if body["model"] == "breaks" and answered:
            return self.reply(400, {"error": {"message": "the model broke down"}})
        if body["model"] == "small" and answered:
            return self.reply(400, {"error": {"message": "maximum context length is 8 tokens"}})
        message = {"role": "assistant", **said(body["model"], body["messages"])}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        shape = {"id": "one", "object": "chat.completion", "created": 0, "model": body["model"]}
        return self.reply(200, {**shape, "choices": [choice], "usage": usage})

    def reply(self, status: int, told: Mapping[str, Any]) -> None:
        text = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def said(model: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer of a model."""
    told = [one["content"] for one in messages if one["role"] in ("user", "tool")]
    if model == "silent":
        return {"content": ""}
    if model == "first":
        legal = next(found[-1] for text in reversed(told) if (found := re.findall(r"legal now: (\w+)", text)))
        return {"content": None, "tool_calls": [call(len(messages), legal, "{}")]}
    number = next(int(found[-1]) for text in reversed(told) if (found := re.findall(r"next: (\d+)", text)))
    if model == "json":
        action = {"reason": "It is next.", "tool": "say", "arguments": {"text": f"ACTION: {number}"}}
        return {"content": f"So:\n{json.dumps(action)}"}
    if model == "torn":
        return {"content": None, "tool_calls": [call(number, "say", "{")]}
    calls = [call(number + one, "say", counted(number + one)) for one in range(CALLS.get(model, 1))]
    return {"content": None, "tool_calls": calls}


def counted(number: int) -> str:
    """The arguments of an action."""
    return json.dumps({"text": f"ACTION: {number}"})


def call(number: int, name: str, arguments: str) -> dict[str, Any]:
    """A tool call."""
    return {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


async def played(model: str, url: str, env: Any) -> dict[str, Any]:
    """What one rollout came to."""
    [task] = env.taskset
    client = vf.EvalClientConfig(base_url=url, api_key_var="NO_KEY")
    Endpoint.asked.clear()
    episode = await env.run_slot(env.slots(task)[0], vf.ModelContext(model=model, client=client))
    [trace] = episode.traces
    first = Endpoint.asked[0]
    return {
        "ok": trace.ok,
        "rewards": {name: reward and reward.score for name, reward in trace.rewards.items()},
        "metrics": trace.metrics,
        "told": trace.info.get("spectator"),
        "stop": trace.stop_condition,
        "roles": "".join(one.role[0] for one in trace.messages),
        "errors": [one.type for one in trace.errors],
        "tools": [tool["function"]["name"] for tool in first.get("tools", [])],
        "system": [one["content"] for one in first["messages"] if one["role"] == "system"],
        "prompt": first["messages"][-1]["content"] == task.data.prompt,
    }


def environment(agent: Mapping[str, Any], watched: Path | None = None, **taskset: Any) -> Any:
    """An environment, loaded as a trainer loads it."""
    asked: dict[str, Any] = {"taskset": {"id": "spectator", **taskset}, "agent": {"max_turns": 4, **agent}}
    if watched is not None:
        asked |= {"run": str(watched), "group_size": 2}
    return vf.load_environment(vf.resolve_env_config(asked))


async def in_process(url: str, folder: Path) -> dict[str, Any]:
    """Rollouts of one episode, one for each failing."""
    three: dict[str, Any] = {"world": "counting", "options": {"turns": 3}, "seeds": [5]}
    told = {}
    async with (env := environment({}, **three)).serving():
        for model in ("rote", "twice", "json", "torn", "silent", "breaks", "small"):
            told[model] = await played(model, url, env)
        with mock.patch.object(TextEpisode, "act", side_effect=EpisodeError("the world failed")):
            told["world"] = await played("rote", url, env)
    async with (env := environment({"harness": {"id": "spectator", "tools": False}}, **three)).serving():
        told["text"] = await played("json", url, env)
    async with (env := environment({"max_turns": None}, **three)).serving():
        told["capped"] = await played("silent", url, env)
    async with (env := environment({}, folder / "watched", **three)).serving():
        for model in ("rote", "silent", "breaks", "rote"):
            await played(model, url, env)
    return told


def refused(**taskset: Any) -> str:
    """Why a configuration is refused."""
    try:
        vf.resolve_env_config({"taskset": {"id": "spectator", **taskset}})
    except ValueError as error:
        return str(error)
    return "nothing"


def evaluated(url: str, folder: Path, name: str, *arguments: str) -> list[dict[str, Any]]:
    """The traces that ``vf-eval`` writes."""
    rest = ["--client.base-url", url, "--no-rich", "-o", str(folder), "--run.name", name]
    with contextlib.redirect_stdout(sys.stderr):
        vf_eval([*arguments, *rest])
    rows = [json.loads(line) for line in (folder / name / "traces.jsonl").read_text().splitlines()]
    return [trace for row in rows for trace in row.get("traces", [row])]


def main() -> None:
    """Tell it all."""
    folder, command, table = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    (folder / "cricket.toml").write_text(table)
    counting = [
        "spectator",
        "-m",
        "rote",
        "-n",
        "2",
        "-r",
        "2",
        "--no-push",
        "--env.taskset.options",
        '{"turns": 2}',
    ]
    as_text = [one if one != "rote" else "json" for one in counting]
    as_text += ["--env.agent.harness.id", "spectator", "--env.agent.harness.tools", "False"]
    counting += ["--env.run", str(folder / "seen"), "--env.group-size", "2"]
    told: dict[str, Any] = {
        "evaluated": evaluated(url, folder, "counting", *counting),
        "text": evaluated(url, folder, "text", *as_text),
        "page": evaluated(url, folder, "page", *shlex.split(command)[1:], "-n", "1", "-r", "2"),
        "table": evaluated(url, folder, "table", "@", str(folder / "cricket.toml"), "-n", "1"),
        "rollouts": asyncio.run(in_process(url, folder)),
        "refused": [
            refused(world="nonsense"), refused(options={"turnz": 1}), refused(opponent="nobody"),
            refused(pack="none"), refused(seeds=[1, 1]), refused(seeds=[-1]), refused(seeds=[]),
            refused(first_seed=2**53 - 1, num_tasks=2), refused(seed=1),
        ],
    }  # fmt: skip
    server.shutdown()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
