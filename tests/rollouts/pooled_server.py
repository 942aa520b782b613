"""A pooled rollout server, as others run one: so many environments at once, each asked for a number in turn.

``python -m tests.rollouts.pooled_server PORT PLACES TURNS STEP_S``: a process of its own, to be killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Played:
    """One environment: its seed, and how many of its questions were answered."""

    seed: int
    turn: int = 0
    said: list[str] = field(default_factory=list)


@dataclass
class PooledServer:
    """Environments by id, in at most ``places``.

    Args:
        places: Environments at once.
        turns: Questions in each.
        step_s: Seconds that a step takes.
        wrong: What is answered instead, by operation.
    """

    places: int = 64
    turns: int = 3
    step_s: float = 0.0
    wrong: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Played] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    most: int = 0
    steps: Counter[tuple[str, str]] = field(default_factory=Counter)

    def app(self) -> web.Application:
        """Its routes."""
        app = web.Application()
        app.router.add_get("/envs", self.envs)
        app.router.add_get("/held", self.held)
        app.router.add_route("*", "/qa/{env_id}/{operation}", self.handle)
        return app

    async def envs(self, request: web.Request) -> web.Response:
        """What it has."""
        return web.json_response([{"env_name": "qa"}])

    async def held(self, request: web.Request) -> web.Response:
        """How many of its places are taken."""
        return web.json_response(len(self.kept))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One operation of one environment."""
        env_id, operation = request.match_info["env_id"], request.match_info["operation"]
        body = await request.json() if request.can_read_body else {}
        self.asked[operation] += 1
        if operation in self.wrong:
            answer = self.wrong[operation]
            answer = answer(self, request) if callable(answer) else answer
            if answer is not None:
                return answer if isinstance(answer, web.StreamResponse) else await answer
        if operation == "reset":
            return self.reset(env_id, body)
        if env_id not in self.kept:
            return web.json_response({"error": "no such environment"}, status=404)
        if operation == "done":
            del self.kept[env_id]
            return web.json_response({})
        if operation == "step":
            return await self.step(env_id, body)
        played = self.kept[env_id]
        said = [{"role": "assistant", "content": text} for text in played.said]
        asked = [{"role": "user", "content": f"Say {played.seed + n}"} for n in range(played.turn + 1)]
        talk = [one for pair in zip(asked, [*said, None], strict=True) for one in pair if one is not None]
        return web.json_response([{"role": "system", "content": "Say the number."}, *talk])

    def reset(self, env_id: str, body: dict[str, Any]) -> web.Response:
        """Begin an episode, where there is a place."""
        if env_id not in self.kept and len(self.kept) >= self.places:
            return web.json_response({"error": "no room"}, status=503)
        self.kept[env_id] = Played(body["seed"] % 1000)
        self.most = max(self.most, len(self.kept))
        return web.json_response({"ok": True})

    async def step(self, env_id: str, body: dict[str, Any]) -> web.Response:
        """Take an answer."""
        await asyncio.sleep(self.step_s)
        played = self.kept[env_id]
        right = body["action"].strip() == str(played.seed + played.turn)
        self.steps[env_id, str(played.turn)] += 1
        played.turn += 1
        played.said.append(body["action"])
        return web.json_response(
            {"reward": 0.5 if right else 0.0, "terminated": played.turn >= self.turns, "truncated": False}
        )


if __name__ == "__main__":
    port, places, turns, step_s = sys.argv[1:5]
    server = PooledServer(int(places), int(turns), float(step_s))
    web.run_app(server.app(), host="127.0.0.1", port=int(port), print=None, handle_signals=False)
