"""The process that weighs decisions ends with its server, whoever waits for an answer."""

from __future__ import annotations

import asyncio
import os

import pytest

from server.background.child_processes import AlternativesProcess
from spectator.clock import SystemClock
from spectator.episodes.alternatives import AnalysisRequest
from spectator.errors import StepTimeout
from tests.fakes import until

WANTED = AnalysisRequest("ep-1", "cricket", 7, {}, ["home"], [{}])


def test_who_waits_while_the_server_goes_is_told_and_no_other_process_begins() -> None:
    async def scenario() -> int:
        weighing = AlternativesProcess(SystemClock())
        waiting = asyncio.create_task(weighing.weigh(WANTED, ("ep-1", "e", 1)))
        await until(lambda: weighing.process_id is not None, what="a process")
        process_id = weighing.process_id
        assert process_id is not None
        await weighing.aclose()
        with pytest.raises(StepTimeout, match="the server is shutting down"):
            await waiting
        assert weighing.process_id is None
        with pytest.raises(StepTimeout, match="the server is shutting down"):
            await weighing.weigh(WANTED, ("ep-1", "e", 1))
        return process_id

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(scenario()), 0)
