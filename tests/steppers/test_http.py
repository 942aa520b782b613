"""The HTTP stepper plays with a pooled rollout server over real connections, and never steps twice."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from spectator.errors import EnvironmentFault, EnvironmentMalformed, EnvironmentUnavailable, StepTimeout
from spectator.steppers.http import HttpEnvironment, HttpStepper
from spectator.steppers.local import on_a_thread
from spectator.steppers.remote_world import http_world
from tests.episodes.harness import drive
from tests.fakes import until

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Pool:
    """A server with one environment: so many questions, 0.25 for a right answer, -0.1 for a wrong one."""

    def __init__(self, turns: int = 3) -> None:
        self.turns, self.turn = turns, 0
        self.asked: list[tuple[str, Any]] = []
        self.instead: dict[str, list[Answer]] = {}
        """What is answered instead, by operation; taken from the front, one a request."""
        self.known: dict[str, Any] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        operation = request.match_info["operation"]
        body = await request.json() if request.can_read_body else None
        self.asked.append((operation, body))
        if self.instead.get(operation):
            return await self.instead[operation].pop(0)(request)
        return await getattr(self, f"on_{operation}")(body)  # type: ignore[no-any-return]

    async def on_reset(self, body: Any) -> web.Response:
        self.turn = 0
        return web.json_response({"ok": True})

    async def on_get_task_prompt(self, body: Any) -> web.Response:
        return web.json_response([{"role": "user", "content": f"Say {self.turn}"}])

    async def on_step(self, body: Any) -> web.Response:
        if body.get("step_id") in self.known:
            return web.json_response(self.known[body["step_id"]])
        right = body["action"] == str(self.turn)
        self.turn += 1
        result = {
            "reward": 0.25 if right else -0.1,
            "terminated": self.turn >= self.turns,
            "truncated": False,
            "info": {"turn": self.turn},
        }
        if "step_id" in body:
            self.known[body["step_id"]] = {**result, "step_id": body["step_id"]}
        return web.json_response(result)

    async def on_done(self, body: Any) -> web.Response:
        return web.json_response({})

    def count(self, operation: str) -> int:
        """How often an operation was asked for."""
        return sum(name == operation for name, _ in self.asked)


@asynccontextmanager
async def serving(pool: Pool) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/qa/7/{operation}", pool.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site.name if "://127.0.0.1:0" not in site.name else f"http://127.0.0.1:{_port(runner)}"
    finally:
        await runner.cleanup()


def _port(runner: web.AppRunner) -> int:
    return int(runner.addresses[0][1])


def status(code: int, body: Any = "", **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(
            status=code, text=body if isinstance(body, str) else json.dumps(body), headers=headers
        )

    return answer


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Carry nothing out, and cut the connection."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class Waits:
    """Notes how long would have been waited."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.waited.append(seconds)


async def open_stepper(url: str, pool: Pool, **where: Any) -> tuple[HttpStepper, Waits]:
    waits = Waits()
    stepper = HttpStepper(
        HttpEnvironment(url, "qa", "7", **where), sleep=waits, rng=random.Random(1), backoff_s=0.5
    )
    await stepper.reset(seed=5, episode_id="ep-1", options={"level": 2}, limit_s=20)
    return stepper, waits


@asynccontextmanager
async def playing(pool: Pool, **where: Any) -> AsyncIterator[tuple[HttpStepper, Waits]]:
    """A stepper that began an episode there, and how long it would have waited."""
    async with serving(pool) as url, asyncio.timeout(30):
        stepper, waits = await open_stepper(url, pool, **where)
        yield stepper, waits
        await stepper.aclose()


def run(scenario: Callable[[Pool, str], Awaitable[None]], pool: Pool | None = None) -> Pool:
    served = pool or Pool()

    async def play() -> None:
        async with serving(served) as url, asyncio.timeout(30):
            await scenario(served, url)

    asyncio.run(play())
    return served


def say(text: str) -> dict[str, Any]:
    return {"text": text}


def test_a_whole_episode() -> None:
    async def scenario(pool: Pool, url: str) -> None:
        stepper, _ = await open_stepper(url, pool)
        first = await stepper.step(say("0"), limit_s=20)
        assert first.observation.reward == 0.25
        assert first.observation.content["prompt"] == [{"role": "user", "content": "Say 1"}]
        assert first.observation.content["info"] == {"turn": 1}
        assert (await stepper.step(say("?"), limit_s=20)).observation.reward == -0.1
        last = await stepper.step(say("2"), limit_s=20)
        assert (last.observation.done, last.observation.actor) == (True, None)
        assert last.facts[0].data["total"] == pytest.approx(0.4)
        await stepper.aclose()
        await stepper.aclose()

    pool = run(scenario)
    assert pool.asked[0] == ("reset", {"env_param": {"level": 2}, "seed": 5})
    assert pool.asked[2] == ("step", {"action": "0"})
    assert pool.asked[-1][0] == "done" and pool.count("done") == 1
    assert pool.count("step") == 3


async def test_a_server_without_reset_begins_an_episode_once() -> None:
    """A second time, the environment of that id may be in the middle of a step."""

    pool = Pool()
    pool.instead["reset"] = [status(404)] * 2
    async with playing(pool) as (stepper, _):
        assert (await stepper.step(say("0"), limit_s=20)).observation.reward == 0.25
        stepper.must_reset = True
        with pytest.raises(EnvironmentFault, match="reset: the server answers 404"):
            await stepper.reset(seed=5, episode_id="ep-1", options={}, limit_s=20)


def test_a_driver_plays_it_and_its_rewards_add_up() -> None:
    async def scenario(pool: Pool, url: str) -> None:
        world = http_world(HttpEnvironment(url, "qa", "7"))
        played = await drive(world, open_stepper=on_a_thread)
        assert played.end["reason"] == "finished"
        assert played.end["score"] == played.end["total_reward"]
        assert played.end["total_reward"] == pytest.approx(-0.3)
        assert played.events[0].event.data["profile"]["actions"] == "text"

    assert run(scenario).count("done") == 1


async def test_who_is_cancelled_while_giving_it_back_gives_it_back_by_closing_again() -> None:
    arrived = asyncio.Event()

    async def never(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await until(lambda: request.transport is None)
        raise ConnectionResetError

    pool = Pool()
    async with playing(pool) as (stepper, _):
        pool.instead["done"] = [never]
        closing = asyncio.create_task(stepper.aclose())
        await arrived.wait()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await stepper.aclose()
    assert pool.count("done") == 2


async def test_a_step_whose_connection_was_cut_is_not_sent_again() -> None:
    pool = Pool()
    async with playing(pool) as (stepper, waits):
        pool.instead["step"] = [hang_up]
        with pytest.raises(EnvironmentUnavailable, match="step: the connection was lost"):
            await stepper.step(say("0"), limit_s=20)
        assert (pool.count("step"), waits.waited) == (1, [])


@pytest.mark.parametrize("answer", [hang_up, status(500), status(503), status(408)])
async def test_where_the_server_takes_step_ids_it_is_sent_again_by_the_same(answer: Answer) -> None:
    pool = Pool()
    async with playing(pool, step_ids=True) as (stepper, waits):
        pool.instead["step"] = [answer, answer]
        assert (await stepper.step(say("0"), limit_s=20)).observation.reward == 0.25
        sent = [body["step_id"] for name, body in pool.asked if name == "step"]
        assert sent == ["ep-1-1"] * 3
        assert pool.turn == 1, "it was carried out once"
        assert len(waits.waited) == 2 and 0 <= waits.waited[0] <= 0.5 and 0 <= waits.waited[1] <= 1.0
        await stepper.step(say("1"), limit_s=20)
        assert pool.asked[-2][1]["step_id"] == "ep-1-2"


def test_an_answer_that_was_lost_after_the_step_is_given_again_by_its_id() -> None:
    async def carried_out_and_lost(request: web.Request) -> web.StreamResponse:
        await pool.on_step(pool.asked[-1][1])
        return await hang_up(request)

    pool = Pool()

    async def scenario(pool: Pool, url: str) -> None:
        stepper, _ = await open_stepper(url, pool, step_ids=True)
        pool.instead["step"] = [carried_out_and_lost]
        assert (await stepper.step(say("0"), limit_s=20)).observation.reward == 0.25
        assert pool.turn == 1
        await stepper.aclose()

    run(scenario, pool)


async def test_a_server_that_is_busy_did_nothing_and_says_how_long() -> None:
    pool = Pool()
    async with playing(pool) as (stepper, waits):
        pool.instead["step"] = [status(429, **{"Retry-After": "7"})]
        assert (await stepper.step(say("0"), limit_s=20)).observation.reward == 0.25
        assert waits.waited == [7.0]


async def test_a_prompt_is_asked_for_again_and_given_up_in_the_end() -> None:
    pool = Pool()
    async with playing(pool) as (stepper, _):
        pool.instead["get_task_prompt"] = [status(502), hang_up]
        await stepper.step(say("0"), limit_s=20)
        pool.instead["get_task_prompt"] = [status(502)] * 3
        with pytest.raises(EnvironmentUnavailable, match="get_task_prompt: the server answers 502"):
            await stepper.step(say("1"), limit_s=20)
        assert pool.count("step") == 2


@pytest.mark.parametrize(
    ("operation", "answer", "said"),
    [
        ("step", status(200, "no json"), "not JSON"),
        ("step", status(200, [1]), "is list, not a JSON object"),
        ("step", status(200, {"error": "x"}), "a step has no reward"),
        ("step", status(200, '{"reward": NaN}'), "NaN is not JSON"),
        ("step", status(200, {"reward": "much"}), "not a finite number"),
        ("step", status(200, {"reward": 0, "terminated": "yes"}), "neither true nor false"),
        ("step", status(200, {"reward": 0, "step_id": "other"}), "answered step 'other'"),
        ("get_task_prompt", status(200, '"say 1"'), "the prompt is not a list of messages but str"),
        ("get_task_prompt", status(200, "null"), "the prompt is not a list of messages but NoneType"),
    ],
)
async def test_garbage_is_a_fault_of_its_own(operation: str, answer: Answer, said: str) -> None:
    pool = Pool()
    async with playing(pool) as (stepper, _):
        pool.instead[operation] = [answer]
        with pytest.raises(EnvironmentMalformed, match=said):
            await stepper.step(say("0"), limit_s=20)


async def test_a_refused_request_is_told_in_the_servers_words() -> None:
    pool = Pool()
    async with playing(pool) as (stepper, _):
        pool.instead["step"] = [status(422, "no such action")]
        with pytest.raises(EnvironmentFault, match="step: the server answers 422: no such action"):
            await stepper.step(say("0"), limit_s=20)
        assert pool.count("step") == 1


async def test_an_empty_prompt_is_the_end() -> None:
    pool = Pool()
    async with playing(pool) as (stepper, _):
        pool.instead["get_task_prompt"] = [status(200, "[]")]
        last = await stepper.step(say("0"), limit_s=20)
        assert (last.observation.done, last.observation.reward) == (True, 0.25)


async def test_a_truncated_step_says_that_the_environment_cut_it_short() -> None:
    pool = Pool()
    async with playing(pool) as (stepper, _):
        pool.instead["step"] = [status(200, {"reward": 0.5, "terminated": False, "truncated": True})]
        last = await stepper.step(say("0"), limit_s=20)
        assert last.observation.done and last.observation.metadata["truncated"]
        assert pool.count("get_task_prompt") == 1, "nothing is asked after the end"


def test_a_hanging_step_ends_at_its_deadline_and_nothing_more_is_sent() -> None:
    over = asyncio.Event

    async def scenario(pool: Pool, url: str) -> None:
        gate = over()

        async def hang(request: web.Request) -> web.Response:
            await gate.wait()
            return web.Response()

        stepper, _ = await open_stepper(url, pool)
        pool.instead["step"] = [hang]
        with pytest.raises(StepTimeout, match=r"within 0\.05 s"):
            await stepper.step(say("0"), limit_s=0.05)
        await until(lambda: pool.count("step") == 1)
        with pytest.raises(EnvironmentFault, match="closed or abandoned"):
            await stepper.step(say("0"), limit_s=20)
        gate.set()
        await stepper.aclose()
        assert pool.count("step") == 1

    run(scenario)


async def test_a_server_that_is_not_there() -> None:
    waits = Waits()
    stepper = HttpStepper(HttpEnvironment("http://127.0.0.1:1", "qa", "7"), sleep=waits)
    with pytest.raises(EnvironmentUnavailable, match="ClientConnectorError"):
        await stepper.reset(seed=1, episode_id="ep-1", options={}, limit_s=20)
    assert len(waits.waited) == 2, "what cannot have arrived is sent again"
    await stepper.aclose()


async def test_an_action_without_text_is_refused_here() -> None:
    pool = Pool()
    async with playing(pool) as (stepper, _):
        refused = (await stepper.step({"tool": "x"}, limit_s=20)).observation.refused
        assert refused is not None and refused.rule == "action.shape"
        assert pool.count("step") == 0


async def test_a_redirect_is_not_followed() -> None:
    pool = Pool()
    async with playing(pool) as (stepper, _):
        pool.instead["step"] = [status(307, "", Location="/qa/7/step")]
        with pytest.raises(EnvironmentFault, match="the server answers 307"):
            await stepper.step(say("0"), limit_s=20)
        assert (pool.count("step"), pool.turn) == (1, 0)
