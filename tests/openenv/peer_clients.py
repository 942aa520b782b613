"""What fastmcp's client and OpenEnv's own harness do with our worlds; runs where both packages are.

    peer_clients.py BASE_URL

Its path must find this package too. Plays a whole match by each and tells what came of it as one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client  # type: ignore[import-not-found]
from openenv.core.harness import HarnessRunLimits, MCPHarnessAdapter, ModelStepResult
from openenv.core.llm_client import LLMResponse, ToolCall

from spectator.training.openenv_session import WorldSessionFactory

WANTED = (
    "call_toss", "elect", "select_batter", "select_bowler", "bowl_delivery", "play_delivery",
)  # fmt: skip


def legal(text: str, before: list[str]) -> list[str]:
    """Names of the tools that are legal now, by the lines that were told."""
    for line in reversed(text.splitlines()):
        if line.startswith("legal now: "):
            return line.removeprefix("legal now: ").split(", ")
    return before


def choose(names: list[str]) -> str:
    """A tool that makes the match go on."""
    return next((one for one in WANTED if one in names), names[0])


async def match(base_url: str) -> dict[str, Any]:
    """A match through fastmcp's client, which lists the tools once."""
    async with Client(f"{base_url}/envs/cricket/mcp") as client:
        listed = [one.name for one in await client.list_tools()]
        begun = await client.call_tool("start_episode", {"seed": 11, "max_overs": 1, "observe": "text"})
        names: list[str] = []
        answer, calls, refused = begun, 0, 0
        while not answer.structured_content["done"] and calls < 400:
            names = legal(answer.content[0].text, names)
            answer = await client.call_tool(choose(names), {}, raise_on_error=False)
            calls, refused = calls + 1, refused + answer.is_error
        illegal = await client.call_tool("play_delivery", {}, raise_on_error=False)
        return {
            "listed": listed,
            "calls": calls,
            "refused": refused,
            "done": answer.structured_content["done"],
            "reward": answer.structured_content["reward"],
            "value": answer.structured_content["metadata"]["value"],
            "late": illegal.structured_content["metadata"].get("value"),
            "late_refused": illegal.is_error,
        }


def harness() -> dict[str, Any]:
    """The same match through OpenEnv's harness, in process."""
    session = WorldSessionFactory("cricket", {"max_overs": 1}).create(None, seed=11)
    names: list[str] = []

    def model_step(messages: list[dict[str, Any]], tools: list[Any], sampling: dict[str, Any]) -> Any:
        names[:] = legal(messages[-1]["content"], list(names))
        call = ToolCall(id=f"c{len(messages)}", name=choose(names), args={})
        return ModelStepResult(response=LLMResponse(content="", tool_calls=[call]))

    result = MCPHarnessAdapter().run_white_box(model_step, session, HarnessRunLimits(max_turns=400))
    verified = session.verify(result.messages)
    tools = [one.name for one in session.list_tools()]
    session.close()
    return {
        "listed": tools,
        "calls": len(result.tool_trace),
        "refused": sum(one.result.error is not None for one in result.tool_trace),
        "done": result.done and verified.done,
        "reward": verified.env_reward,
        "last": result.tool_trace[-1].result.metadata["reward"],
        "value": verified.metrics["value"],
    }


def main() -> None:
    """Play both."""
    print(json.dumps({"fastmcp": asyncio.run(match(sys.argv[1])), "harness": harness()}))


if __name__ == "__main__":
    main()
