"""What the official client does with a server; runs where the ``openenv`` package is.

    peer_client.py BASE_URL SESSIONS

Plays cricket and counting, holds SESSIONS environments at once, asks for one more than there are, and tells
all of it as one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from openenv.core import GenericEnvClient

PREFERRED = ("play_delivery", "bowl_delivery")


def shown(result: Any) -> dict[str, Any]:
    return {"observation": result.observation, "reward": result.reward, "done": result.done}


def match(base_url: str) -> dict[str, Any]:
    """A whole match through the synchronous client."""
    seen, states = [], []
    with GenericEnvClient(base_url=f"{base_url}/envs/cricket").sync() as env:
        result = env.reset(seed=11, episode_id="match", max_overs=5)
        seen.append(shown(result))
        states.append(env.state())
        while not result.done:
            legal = [one["tool"] for one in result.observation["legal_actions"]]
            result = env.step({"tool": next((tool for tool in PREFERRED if tool in legal), legal[0])})
            seen.append(shown(result))
            states.append(env.state())
    return {"seen": seen, "states": states}


async def count(base_url: str, number: int) -> dict[str, Any]:
    """A count of its own length through the asynchronous client, a mistake in every second one."""
    async with GenericEnvClient(base_url=base_url) as env:
        result = await env.reset(seed=number, episode_id=f"count-{number}", turns=10 + number)
        rewards = []
        while not result.done:
            slip = number % 2 == 1 and result.observation["next"] == 5
            said = result.observation["next"] + slip
            result = await env.step({"text": f"ACTION: {said}"})
            rewards.append(result.reward)
            await asyncio.sleep(0)
        return {"rewards": rewards, "state": await env.state()}


async def crowd(base_url: str, sessions: int) -> dict[str, Any]:
    """All sessions at once, then one too many."""
    counts = await asyncio.gather(*(count(base_url, number) for number in range(sessions)))
    held = [GenericEnvClient(base_url=base_url) for _ in range(sessions)]
    for one in held:
        await one.connect()
        await one.reset()
    refusal = None
    try:
        async with GenericEnvClient(base_url=base_url) as late:
            await late.reset()
    except RuntimeError as error:
        refusal = str(error)
    for one in held:
        await one.close()
    again = await count(base_url, 0)
    return {"counts": counts, "refusal": refusal, "again": again}


async def errors(base_url: str) -> list[str]:
    """What the client makes of our errors; the session goes on after each."""
    told = []
    async with GenericEnvClient(base_url=base_url) as env:
        attempts: list[Callable[[], Any]] = [
            lambda: env.step({"text": "ACTION: 1"}),
            lambda: env.reset(seed=-1),
            lambda: env.reset(bogus=1),
        ]
        for attempt in attempts:
            try:
                await attempt()
            except RuntimeError as error:
                told.append(str(error))
        told.append(str((await env.reset(seed=1)).observation["turn"]))
        told.append((await env.step({"nonsense": 1})).observation["refused"]["rule"])
    return told


def main() -> None:
    """Do it all."""
    base_url, sessions = sys.argv[1], int(sys.argv[2])
    told = {
        "match": match(base_url),
        "errors": asyncio.run(errors(base_url)),
        "crowd": asyncio.run(crowd(base_url, sessions)),
    }
    print(json.dumps(told, allow_nan=False))


if __name__ == "__main__":
    main()
