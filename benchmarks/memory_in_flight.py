"""The measurement of the memory that an episode in flight holds."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from benchmarks.supervised import request, supervised

HELD: Final = (128, 512)
"""Episodes in flight when memory is measured."""

HELD_AT: Final = 30
"""Turns that each of them has behind it then, at least."""

HELD_OVERS: Final = 20
"""Overs of an innings of those: one of five could end before it is seen to have begun."""

WARMING: Final = 99
"""Seed of an episode that is played first: a journal compiles its statements at their first use."""


def _resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def held() -> dict[str, float]:
    """Memory of an episode of cricket in flight, in kB, when so many stand in mid-match."""
    found: dict[str, float] = {}
    async with supervised(max(HELD), "derived") as (supervisor, _, _journal):
        await (await supervisor.start(request("cricket", WARMING, "derived"))).wait()
        before, begun = _resident(), 0
        for wanted in HELD:
            while begun < wanted:
                begun += 1
                episode = await supervisor.start(
                    request("cricket", begun, "derived", {"max_overs": HELD_OVERS})
                )
                while episode.turn < HELD_AT and not episode.ended:  # noqa: ASYNC110 - listening would be watching
                    await asyncio.sleep(0)
                await supervisor.pause(episode.episode_id, by="the benchmark")
            await asyncio.sleep(0.2)
            found[f"cricket: memory of one of {wanted} in flight, kB"] = (
                (_resident() - before) / wanted / 1000
            )
        await supervisor.aclose()
    return found
