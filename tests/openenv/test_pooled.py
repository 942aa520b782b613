"""Our own server by the routes of pooled rollout servers: every step is carried out exactly once."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from spectator.rollouts.fleet_plan import Deadlines
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.rollouts.test_fleet import request, run
from tests.serving import Serving


def say(number: int) -> str:
    """The action as an agent writes it."""
    return f'Counting on. {{"tool": "say", "arguments": {{"text": "ACTION: {number}"}}}}'


def begin(client: httpx.Client, env_id: str, name: str = "counting", **options: Any) -> str:
    where = f"/pooled/{name}/{env_id}"
    begun = client.post(f"{where}/reset", json={"env_param": options, "seed": 7})
    assert begun.json() == {"ok": True, "step_ids": True}, begun.text
    return where


def test_an_episode_from_reset_to_done(shared: Serving) -> None:
    client = shared.client
    where = begin(client, "e-1", turns=2)
    first = client.get(f"{where}/get_task_prompt").json()
    assert [message["role"] for message in first] == ["system", "user"]
    step = client.post(f"{where}/step", json={"action": say(1), "step_id": "s-1"}).json()
    assert step == {"reward": 0.0, "terminated": False, "truncated": False, "info": {}, "step_id": "s-1"}
    assert client.get(f"{where}/is_done").json() == {"is_done": False}
    second = client.get(f"{where}/get_task_prompt").json()
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert second[2]["content"] == say(1)
    last = client.post(f"{where}/step", json={"action": say(2), "step_id": "s-2"}).json()
    assert (last["reward"], last["terminated"]) == (1.0, True)
    assert client.get(f"{where}/get_task_prompt").json() == []
    assert client.post(f"{where}/done").json() == {"ok": True}
    assert client.delete(where).json() == {"ok": True}, "giving back twice changes nothing"
    assert client.get(f"{where}/get_task_prompt").status_code == 404


def test_a_repeated_step_is_answered_from_memory(shared: Serving) -> None:
    client = shared.client
    where = begin(client, "e-2", turns=3)
    asked = {"action": say(1), "step_id": "s-1"}
    answers = [client.post(f"{where}/step", json=asked).text for _ in range(5)]
    assert len(set(answers)) == 1
    again = client.post(f"{where}/step", json={**asked, "action": say(2)}).text
    assert again == answers[0], "whatever the action: its id was carried out"
    for number in (2, 3):
        last = client.post(f"{where}/step", json={"action": say(number), "step_id": f"s-{number}"})
    assert last.json()["reward"] == 1.0, "no number was said twice"
    assert client.post(f"{where}/step", json={"action": say(3), "step_id": "s-3"}).json() == last.json()
    client.post(f"{where}/done")


def test_the_same_step_at_the_same_time_is_carried_out_once(shared: Serving) -> None:
    where = begin(shared.client, "e-3", turns=2)

    async def all_at_once() -> set[str]:
        async with httpx.AsyncClient(base_url=shared.base_url) as client:
            asked = [
                client.post(f"{where}/step", json={"action": say(1), "step_id": "s-1"}) for _ in range(8)
            ]
            return {answer.text for answer in await asyncio.gather(*asked)}

    assert len(asyncio.run(all_at_once())) == 1
    last = shared.client.post(f"{where}/step", json={"action": say(2), "step_id": "s-2"})
    assert last.json()["reward"] == 1.0
    shared.client.post(f"{where}/done")


def test_an_answer_that_is_no_action_does_nothing_and_is_said_so(shared: Serving) -> None:
    client = shared.client
    where = begin(client, "e-4", "cricket", max_overs=1)
    step = client.post(f"{where}/step", json={"action": "let us wait and see", "step_id": "s-1"}).json()
    assert (step["reward"], step["terminated"]) == (0.0, False)
    assert "names no action" in step["info"]["refused"]
    prompt = client.get(f"{where}/get_task_prompt").json()
    assert "Nothing has happened" in prompt[-1]["content"]
    client.post(f"{where}/done")


@pytest.mark.parametrize(
    ("operation", "body", "status", "said"),
    [
        ("reset", {"seed": "x"}, 422, "seed"),
        ("reset", {"env_param": [1]}, 422, "env_param"),
        ("reset", {"env_param": {"tern": 2}}, 422, "tern"),
        ("step", {"action": 1}, 422, "action"),
        ("step", {"action": "ACTION: 1", "step_id": 5}, 422, "step_id"),
        ("step", {"action": "x" * 70_000}, 422, "action"),
    ],
)
def test_what_is_wrong_is_named_and_holds_no_place(
    shared: Serving, operation: str, body: Any, status: int, said: str
) -> None:
    answer = shared.client.post(f"/pooled/counting/e-5/{operation}", json=body)
    assert (answer.status_code, said in answer.text) == (status, True), answer.text
    assert shared.client.get("/pooled/counting/e-5/is_done").status_code == 404
    assert shared.client.post("/pooled/chess/e-5/reset", json={}).status_code == 404


@contextmanager
def losing(target: str, lost: float) -> Iterator[tuple[str, list[int]]]:
    """A proxy that passes every request on, and cuts the connection instead of so many of the answers."""
    host, port = target.removeprefix("http://").split(":")
    rng, counts, ready = random.Random(5), [0, 0], threading.Event()
    address: list[str] = []
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                there_writer.write(head + await reader.readexactly(length(head)))
                answer = await there_reader.readuntil(b"\r\n\r\n")
                body = await there_reader.readexactly(length(answer))
                counts[0] += 1
                if b"/step" in head and rng.random() < lost:
                    counts[1] += 1
                    break
                writer.write(answer + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            there_writer.close()

    def length(head: bytes) -> int:
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                return int(line.split(b":")[1])
        return 0

    async def main() -> asyncio.Server:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        return server

    def work() -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(main())
        ready.set()
        loop.run_forever()
        server.close()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(20)
    try:
        yield address[0], counts
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)


def test_a_fleet_behind_a_connection_that_loses_answers_steps_everything_once(
    shared: Serving, tmp_path: Path
) -> None:
    """A number said twice would lose the count: every score of 1 is a proof that no step was doubled."""
    with losing(shared.base_url, 0.15) as (url, counts), endpoint(counter) as fake:
        asked = request(
            fake, environment=f"{url}/pooled/counting", options={"turns": 5}, episodes=20, group_size=4
        )
        report = run(asked, tmp_path, concurrency=6, deadlines=Deadlines(startup_jitter_s=0.0, env_wait_s=20))
    assert counts[1] >= 8, "answers were lost"
    assert (report.over, report.report.succeeded) == (20, True)
    assert {one.total_reward for one in report.report.last} == {1.0}
    again = [one for one in report.report.results if one.again]
    assert len(again) <= 2, "a lost answer costs no attempt, but where three are lost in a row"
