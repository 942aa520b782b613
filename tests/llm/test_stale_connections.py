"""A server that closes each connection after one streamed answer, without a word, as llama.cpp does."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from spectator.environments.counting import WORLD as COUNTING
from tests.episodes.harness import Played, drive
from tests.llm.brains import counter
from tests.llm.fake_server import streamed_answer
from tests.policies.seats import counting_led_by, endpoint_preset

DECISIONS = 30


async def play(at_once: bool) -> tuple[Played, int]:
    """Play over a server that closes right after its answer, or once the next request is there."""
    answered = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answered
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        events = [b"data: %b\n\n" % event for event in (*streamed_answer(counter(body), body, 8), b"[DONE]")]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
        for event in events:
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        answered += 1
        if not at_once:
            await reader.read(1)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        preset = endpoint_preset(COUNTING, url, retries=0, stream=True)
        return await drive(counting_led_by(preset), turns=DECISIONS), answered


@pytest.mark.parametrize("at_once", [True, False], ids=["after the answer", "at the next request"])
def test_every_decision_is_the_models_own_without_a_retry(
    at_once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    played, answered = asyncio.run(play(at_once))
    made = [one.event.data for one in played.events if one.event.type == "decision.made"]
    assert [one["source"] for one in made] == ["model"] * DECISIONS
    assert answered == DECISIONS
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
