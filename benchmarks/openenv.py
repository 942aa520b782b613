"""Compare a step over OpenEnv on our server and on the official echo server.

Thirty-two clients of the ``websockets`` package, connected as the official client connects, each send an
action as soon as the last one is answered. Counted is the processor time of the server's process per step,
without resets. The same episodes are stepped in process by :class:`SingleAgent`: the world's own cost.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.figures import Figure, spread
from benchmarks.serving import server_process
from spectator.episodes.single_agent import SingleAgent

SESSIONS: Final = 32
"""Clients at once."""

ROUNDS: Final = 5
"""Measurements of each server, in turns."""

SETTINGS: Final = {"SPECTATOR_OPENENV_MAX_SESSIONS": "64", "SPECTATOR_LOG_LEVEL": "error"}
"""Settings of our server."""

PYTHON: Final = Path(__file__).resolve().parents[1] / ".venv-openenv" / "bin" / "python"
"""Python with the official package; see `make openenv-venv`."""

PREFERRED: Final = ("play_delivery", "bowl_delivery", "select_bowler")
"""Tools of a captain that leaves all else to the defaults."""

Choose = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Makes an action from an observation."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is played.

    Args:
        path: Path of the socket.
        options: Options of the world.
        choose: Makes an action from an observation.
        steps: Steps of each client.
    """

    path: str
    options: Mapping[str, Any]
    choose: Choose
    steps: int


def _echo(seen: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"message": "ACTION: 1"}


def _count(seen: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"text": f"ACTION: {seen['next']}"}


def _captain(seen: Mapping[str, Any]) -> Mapping[str, Any]:
    legal = [one["tool"] for one in seen["legal_actions"]]
    return {"tool": next((one for one in PREFERRED if one in legal), legal[0])}


ECHO: Final = Load("/ws", {}, _echo, 300)
COUNTING: Final = Load("/envs/counting/ws", {"turns": 400}, _count, 300)
CRICKET: Final = Load("/envs/cricket/ws", {"max_overs": 20}, _captain, 100)


async def play(port: int, load: Load, process_id: int) -> float:
    """Return the server's processor seconds per step, over all clients."""
    address = f"ws://127.0.0.1:{port}{load.path}"
    clients = [await connect(address) for _ in range(SESSIONS)]
    first = [await _reset(one, load, seed) for seed, one in enumerate(clients)]
    clock = (~process_id << 3) | 2  # see clock_getcpuclockid(3)
    before = time.clock_gettime(clock)
    await asyncio.gather(*(_steps(one, seen, load) for one, seen in zip(clients, first, strict=True)))
    spent = time.clock_gettime(clock) - before
    for one in clients:
        await one.close()
    return spent / (SESSIONS * load.steps)


async def _reset(client: ClientConnection, load: Load, seed: int) -> Mapping[str, Any]:
    await client.send(json.dumps({"type": "reset", "data": {"seed": seed, **load.options}}))
    return _observation(await client.recv())


async def _steps(client: ClientConnection, seen: Mapping[str, Any], load: Load) -> None:
    for _ in range(load.steps):
        await client.send(json.dumps({"type": "step", "data": load.choose(seen)}))
        seen = _observation(await client.recv())


def _observation(text: str | bytes) -> Mapping[str, Any]:
    answer = json.loads(text)
    assert answer["type"] == "observation", answer
    assert not answer["data"]["observation"].get("refused"), answer
    seen: Mapping[str, Any] = answer["data"]["observation"]
    return seen


def in_process(load: Load) -> float:
    """Return processor seconds per step of the same episodes in this process."""
    world = load.path.split("/")[2]
    agents = [SingleAgent(world) for _ in range(SESSIONS)]
    actions = [_actions(agent, seed, load) for seed, agent in enumerate(agents)]
    for seed, agent in enumerate(agents):
        agent.reset(seed=seed, options=load.options)
    began = time.process_time()
    for turn in range(load.steps):
        for agent, own in zip(agents, actions, strict=True):
            agent.step(own[turn])
    spent = time.process_time() - began
    for agent in agents:
        agent.close()
    return spent / (SESSIONS * load.steps)


def _actions(agent: SingleAgent, seed: int, load: Load) -> list[Mapping[str, Any]]:
    """Return the actions of an episode, chosen in advance so that choosing is not counted."""
    agent.reset(seed=seed, options=load.options)
    actions = []
    for _ in range(load.steps):
        actions.append(load.choose(agent.shown))
        agent.step(actions[-1])
    return actions


@contextmanager
def official() -> Iterator[tuple[int, int]]:
    """Run the official echo server; yields its port and process id."""
    script = Path(__file__).with_name("openenv_echo.py")
    command = [str(PYTHON), str(script), str(2 * SESSIONS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        answer = process.stdout.readline().split()
        if not answer:
            raise RuntimeError("the official echo server did not start; see its message above")
        try:
            yield int(answer[0]), int(answer[1])
        finally:
            process.stdin.close()
            process.wait()


def measure() -> Iterator[Figure]:
    """Measure the echo server, counting, cricket, and cricket in process, in turns."""
    if not PYTHON.exists():
        sys.exit("benchmarks: the official package is not installed; run `make openenv-venv`")
    spent: dict[str, list[float]] = {"echo": [], "counting": [], "cricket": [], "own": []}
    with official() as echo, server_process(SETTINGS) as (base, process_id):
        ours = int(base.rsplit(":", 1)[1])
        for _ in range(ROUNDS):
            spent["echo"].append(asyncio.run(play(echo[0], ECHO, echo[1])))
            spent["counting"].append(asyncio.run(play(ours, COUNTING, process_id)))
            spent["cricket"].append(asyncio.run(play(ours, CRICKET, process_id)))
            spent["own"].append(in_process(CRICKET))
    yield from _figures({name: [1e6 * one for one in values] for name, values in spent.items()})


def _figures(spent: Mapping[str, list[float]]) -> Iterator[Figure]:
    echo, counting, cricket, own = (spent[name] for name in ("echo", "counting", "cricket", "own"))
    yield Figure(
        f"CPU of the server for a step of counting, {SESSIONS} clients",
        f"{spread(counting)} us, {_ratio(counting, echo)} times the official echo server",
        "below the official echo server",
        f"official echo server: {spread(echo)} us",
    )
    yield Figure(
        f"CPU of the server for a step of cricket, {SESSIONS} clients",
        f"{spread(cricket)} us, {_ratio(cricket, own)} times the world's own",
        "at most 2 times the world's own",
        f"the world in process: {spread(own)} us",
    )


def _ratio(one: list[float], other: list[float]) -> str:
    """Return the ratio of two series measured in turns."""
    return spread([mine / theirs for mine, theirs in zip(one, other, strict=True)])
