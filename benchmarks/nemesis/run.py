"""Run one history: start everything, let the nemeses break it, heal, and collect what was seen."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from benchmarks.endpoint import ScriptedModel, completion
from benchmarks.nemesis.checker import (
    LIMIT_S,
    Record,
    RunHistory,
    Spending,
    Violation,
    check,
    effects,
    outline,
)
from benchmarks.nemesis.cluster import (
    ForkServer,
    KillableProcess,
    NemesisServer,
    NemesisStage,
    new_server,
)
from benchmarks.nemesis.fork_server import HEARTBEAT_S, Program
from benchmarks.nemesis.plan import NemesisPlan
from benchmarks.nemesis.proxy import Proxy
from benchmarks.nemesis.replicated_postgres import Postgres
from benchmarks.nemesis.viewers import NemesisViewer
from spectator.errors import EpisodeError
from spectator.journal.contract import Chain
from spectator.journal.coordination import held
from spectator.journal.ownership import living
from spectator.journal.sql_journal import SqlJournal

EPISODE: Final = {
    "environment": "counting",
    "pace": "fast",
    "options": {"turns": 100_000, "payload_bytes": 100},
}

BEGUN_S: Final = 60.0
"""Seconds until every viewer has seen play begin."""

CAP: Final = 20_000
"""Tokens that the worker's run may use, after some seconds of play."""

IN_FLIGHT: Final = 4
"""Requests of the worker at once."""

ANSWER_TOKENS: Final = 600
"""Most tokens of a request of the worker."""

LATENCY_S: Final = 0.1
"""Seconds of an answer of the worker's model."""


@dataclass(frozen=True, slots=True)
class NemesisOutcome:
    """What was found in a run.

    Args:
        plan: The run.
        violations: Broken promises.
        effects: What the nemeses did, counted by name.
        seconds: How long it took.
        logs: Logs of its servers, if a promise was broken.
    """

    plan: NemesisPlan
    violations: Sequence[Violation]
    effects: Mapping[str, int]
    seconds: float
    logs: str = ""


class CountingModel(ScriptedModel):
    """A scripted model that counts the tokens of its answers."""

    used = 0

    def _answer(self, body: bytes) -> None:
        said = completion(orjson.loads(body))
        CountingModel.used += sum(said["usage"].values())
        text = orjson.dumps(said)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._loop.call_later(self._latency_s, self._write, head % len(text) + text)


@dataclass(slots=True)
class Tools:
    """What runs share: the process that forks servers, and PostgreSQL's programs and template."""

    fork_server: ForkServer
    programs: str | None
    template: Path | None


async def play(plan: NemesisPlan, tools: Tools, folder: Path) -> NemesisOutcome:
    """Play a run in ``folder``, check it, and end all its processes."""
    began = time.monotonic()
    async with staged(plan, tools, folder) as stage:
        history = await NemesisPlay(plan, stage).run()
        violations = check(history)
        effect = effects(history)
        effect["writes that failed"] += stage.failed_writes
        logs = ""
        if violations:
            processes = [*stage.servers, *([stage.worker] if stage.worker else [])]
            logs = "".join(f"--- {one.program.log}\n{one.log()}" for one in processes)
            logs += "".join(outline(viewer) for viewer in history.viewers)
    return NemesisOutcome(plan, violations, effect, time.monotonic() - began, logs)


@asynccontextmanager
async def staged(plan: NemesisPlan, tools: Tools, folder: Path) -> AsyncIterator[NemesisStage]:
    """Start the database, the servers and the worker of a run."""
    async with AsyncExitStack() as stack:
        postgres = await asyncio.to_thread(_database, plan, tools, folder) if plan.postgres else None
        stage = NemesisStage(folder, [], postgres)
        stack.push_async_callback(asyncio.to_thread, stage.close)
        if postgres is not None:
            with_standby = any(one.name == "lagging-promotion" for one in plan.nemeses)
            await asyncio.to_thread(postgres.start, standby=with_standby)
        for name in ("a", "b") if postgres is not None else ("a",):
            ways: list[Proxy] = []
            for _ in range(2 if postgres is not None else 0):
                assert postgres is not None
                way = Proxy(lambda: postgres.socket)
                await way.open()
                stack.push_async_callback(way.aclose)
                ways.append(way)
            stage.servers.append(new_server(tools.fork_server, folder, name, {}, bug=plan.bug, ways=ways))
        for server in stage.servers:
            server.start()
        for server in stage.servers:
            await asyncio.to_thread(server.wait)
        if plan.worker:
            loop = asyncio.get_running_loop()
            CountingModel.used = 0
            model = await loop.create_server(lambda: CountingModel(0.0, LATENCY_S), "127.0.0.1", 0)
            stack.callback(model.close)
            port = model.sockets[0].getsockname()[1]
            stage.worker = _worker(plan, tools, folder, stage.url, port)
            stage.worker.start()
        yield stage


def _database(plan: NemesisPlan, tools: Tools, folder: Path) -> Postgres:
    assert tools.programs is not None and tools.template is not None
    settings = dict(one.split("=", 1) for nemesis in plan.nemeses for one in nemesis.settings)
    return Postgres(tools.programs, tools.template, folder, settings, tools.fork_server.library)


def _worker(plan: NemesisPlan, tools: Tools, folder: Path, url: str, port: int) -> KillableProcess:
    arguments = [
        "rollouts", "run", "--env", "counting", "--option", "turns=20", "--episodes", "64",
        "--base-url", f"http://127.0.0.1:{port}/v1", "--model", "scripted",
        "--concurrency", str(IN_FLIGHT), "--max-tokens", str(CAP), "--startup-jitter", "0",
    ]  # fmt: skip
    if plan.postgres:
        arguments += ["--run", "first"]
    else:
        arguments += ["--out", str(folder / "rollouts")]
    variables = {"SPECTATOR_JOURNAL_URL": url} if plan.postgres else {}
    program = Program("spectator", arguments, variables, str(folder / "worker.log"), bug=plan.bug)
    return KillableProcess(tools.fork_server, program)


@dataclass(slots=True)
class NemesisPlay:
    """The play of a run.

    Args:
        plan: The run.
        stage: Its processes.
    """

    plan: NemesisPlan
    stage: NemesisStage
    history: RunHistory = field(default_factory=RunHistory)
    _viewers: list[NemesisViewer] = field(default_factory=list)

    async def run(self) -> RunHistory:
        """Play, break, heal, stop, and collect the history."""
        chance, history = random.Random(f"{self.plan.seed}/play"), self.history
        for number in range(self.plan.episodes):
            history.started.append(await asyncio.to_thread(_start, self.stage.servers, number))
        for episode_id in history.started:
            for number in range(self.plan.viewers):
                name = f"viewer {number + 1} of {episode_id}"
                own = random.Random(f"{self.plan.seed}/{len(self._viewers)}")
                self._viewers.append(NemesisViewer(name, self.stage.bases, episode_id, own))
        history.viewers = [viewer.history for viewer in self._viewers]
        following = [asyncio.ensure_future(viewer.follow()) for viewer in self._viewers]
        try:
            history.unbegun = await self._begun()
            for nemesis in self.plan.nemeses if not history.unbegun else ():
                await nemesis.break_it(self.stage, chance)
                await asyncio.sleep(chance.uniform(0.2, 0.8))
            await asyncio.to_thread(self.stage.heal)
            history.lost, history.restarted = self.stage.lost, self.stage.restarted
            await self._played_again()
            await self._stop_all()
            await asyncio.wait(following, timeout=LIMIT_S / 3)
        finally:
            for one in following:
                one.cancel()
            for failure in await asyncio.gather(*following, return_exceptions=True):
                if isinstance(failure, Exception):
                    raise failure
        await self._end_worker()
        await self._no_dead_leases()
        for episode_id in history.started:
            history.records[episode_id] = await self._record(episode_id)
        return history

    async def _begun(self) -> list[str]:
        """Wait until play has begun; returns the viewers that were not shown so."""
        until = time.monotonic() + BEGUN_S
        while waiting := [viewer.history.name for viewer in self._viewers if viewer.steps < 3]:
            if time.monotonic() > until:
                break
            await asyncio.sleep(0.02)
        return waiting

    async def _played_again(self) -> None:
        """Wait until every unended episode goes on, or is named, at most :data:`LIMIT_S`."""
        before = await self._heads()
        waiting, began = set(before), time.monotonic()
        while waiting and time.monotonic() < began + LIMIT_S:
            await asyncio.sleep(0.1)
            heads = await self._heads()
            waiting = {one for one in waiting if one in heads and heads[one] <= before[one]}
            waiting -= await self._named() if waiting else set()
        for episode_id in waiting:
            self.history.unplayed[episode_id] = time.monotonic() - began

    async def _heads(self) -> dict[str, int]:
        """Return the last event of each unended episode that was started."""
        with contextlib.suppress(EpisodeError):
            journal = await SqlJournal.open(self.stage.url, writable=False)
            try:
                heads = {}
                for one in self.history.started:
                    summary = await journal.episode(one)
                    if summary is not None and summary.ended_at is None:
                        heads[one] = len(await journal.texts(one))
                return heads
            finally:
                await journal.aclose()
        return dict.fromkeys(self.history.started, 0)

    async def _named(self) -> set[str]:
        """Return the episodes that a server names as troubled."""
        named: set[str] = set()
        async with httpx.AsyncClient(timeout=5, trust_env=False) as client:
            for server in self.stage.living:
                with contextlib.suppress(httpx.HTTPError):
                    for path in ("/custom/status", "/readyz"):
                        text = (await client.get(server.base + path)).text
                        named |= {one for one in self.history.started if _troubled(text, path, one)}
        return named

    async def _stop_all(self) -> None:
        """Stop every episode at any server; retries while servers ask for it."""
        async with httpx.AsyncClient(timeout=25, trust_env=False) as client:
            await asyncio.gather(*(self._stop(client, one) for one in self.history.started))

    async def _stop(self, client: httpx.AsyncClient, episode_id: str) -> None:
        said, until = "no answer", time.monotonic() + LIMIT_S
        servers = self.stage.living
        while time.monotonic() < until:
            for server in servers:
                try:
                    answer = await client.post(
                        f"{server.base}/custom/stop_episode", json={"episode_id": episode_id}
                    )
                except httpx.HTTPError as error:
                    said = repr(error)
                    continue
                said = f"{answer.status_code} {answer.text[:200]}"
                if answer.is_success:
                    self.history.stopped.append(episode_id)
                    return
                if answer.status_code == 404 and self.stage.lost:
                    return  # its start is among what was lost
                if answer.status_code == 409 and episode_id not in await self._heads():
                    return
            await asyncio.sleep(0.3)
        self.history.unstopped[episode_id] = said

    async def _end_worker(self) -> None:
        if self.stage.worker is None:
            return
        await asyncio.to_thread(self.stage.worker.end)
        starts = 1 + sum(one.worker for one in self.plan.nemeses)
        self.history.spending = Spending(CAP, CountingModel.used, starts * IN_FLIGHT * ANSWER_TOKENS)

    async def _no_dead_leases(self) -> None:
        """Wait until no lease is held by a process that sends no heartbeats."""
        if self.stage.postgres is None:
            return
        until = time.monotonic() + LIMIT_S
        beats: Mapping[str, int] = {}
        while True:
            journal = await SqlJournal.open(self.stage.url)
            try:
                found = await journal.transact(lambda connection: (held(connection), living(connection)))
            finally:
                await journal.aclose()
            leases, now = found
            dead = [one for one in leases if beats and now.get(one.owner) == beats.get(one.owner)]
            if (beats and not dead) or time.monotonic() > until:
                break
            beats = now
            await asyncio.sleep(4 * HEARTBEAT_S)
        self.history.dead_leases = [f"{one.owner} holds {one.episode_id}" for one in dead]

    async def _record(self, episode_id: str) -> Record:
        """Read a record, past every server."""
        try:
            journal = await SqlJournal.open(self.stage.url, writable=False)
        except EpisodeError as error:
            return Record(named=str(error))
        try:
            if await journal.episode(episode_id) is None:
                return Record()
            noted = await journal.end(episode_id)
            chain = Chain(head_seq=noted and noted[0], digest=noted and noted[1])
            breaks = []
            async for links in journal.links(episode_id):
                breaks += [f"event {one.seq} {one}" for one in chain.check(links)]
            breaks += [f"event {one.seq} {one}" for one in chain.finish()]
            return Record(await journal.texts(episode_id), breaks)
        except EpisodeError as error:
            logging.getLogger(__name__).info("cannot read %s: %s", episode_id, error)
            return Record(named=str(error))
        finally:
            await journal.aclose()


def _troubled(text: str, path: str, episode_id: str) -> bool:
    if path == "/readyz":
        return episode_id in text
    return any(
        one.get("episode_id") == episode_id and one.get("trouble")
        for value in orjson.loads(text).values()
        if isinstance(value, list)
        for one in value
        if isinstance(one, dict)
    )


def _start(servers: Sequence[NemesisServer], number: int) -> str:
    """Start an episode; retries as a server asks for that cannot start one yet."""
    base, until = servers[number % len(servers)].base, time.monotonic() + BEGUN_S
    while True:
        answer = httpx.post(f"{base}/custom/start_episode", json=EPISODE, timeout=30, trust_env=False)
        again_s = answer.headers.get("retry-after") if answer.status_code == 503 else None
        if again_s is None or time.monotonic() > until:
            break
        time.sleep(float(again_s))
    if not answer.is_success:
        raise RuntimeError(f"a start was answered with {answer.status_code}: {answer.text[:200]}")
    found: dict[str, Any] = answer.json()
    return str(found["episode_id"])
