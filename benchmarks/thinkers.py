"""The crowd of a measurement with models: it starts matches between them and watches until they end."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter

import httpx
from websockets.asyncio.client import connect

MATCHES = 8
VIEWERS = 4
"""Viewers of each match."""


async def _watch(address: str) -> Counter[str]:
    """Count the frames until the match is over."""
    async with connect(address, max_size=None) as viewer:
        return Counter([json.loads(text)["frame"] async for text in viewer])


async def play(base: str) -> None:
    """Play them all at once; prints how many frames of each kind the viewers got, as JSON."""
    match = {"environment": "cricket", "captain_preset": "llm:bench", "opponent_choice": "llm_live"}
    async with httpx.AsyncClient(base_url=base, timeout=60) as client:
        addresses = []
        for seed in range(MATCHES):
            body = {**match, "max_overs": 1, "pace": "max", "seed": seed, "enable_tts": False}
            answer = (await client.post("/custom/start_episode", json=body)).raise_for_status()
            addresses += [f"ws{base[4:]}{answer.json()['live_url']}"] * VIEWERS
    counts = await asyncio.gather(*map(_watch, addresses))
    print(json.dumps(sum(counts, Counter())))


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1]))
