"""The nemeses: each breaks one thing of a run in one way.

A nemesis may leave things broken; :meth:`.cluster.NemesisStage.heal` follows. Those that make the database
go back in time are marked, since viewers must then be notified of the loss.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import resource
import shutil
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

import httpx

from benchmarks.nemesis.cluster import KillableProcess, NemesisServer, NemesisStage
from benchmarks.nemesis.faults import NO_COMPILER
from benchmarks.nemesis.proxy import ProxyMode

Break = Callable[[NemesisStage, random.Random], Awaitable[None]]

CLOCK_JUMPS_S: Final = (-3_600, 3_600, 90_000, 315_576_000)
"""An hour back, an hour, a day and an hour, and ten years."""

DEPOSED_S: Final = 4.5
"""Seconds of a halt after which others have taken over, with the heartbeats of a run."""

SPARE_FILES: Final = (0, 12)
"""Range of the descriptors that a server may still open."""

NEXT_VERSION: Final = "999.0.0"
"""Version that a server of a rolling upgrade reports."""


@dataclass(frozen=True, slots=True)
class Nemesis:
    """One way to break a run.

    Args:
        name: Its name on the command line.
        break_it: Breaks it.
        sqlite: Whether it applies to a run on SQLite.
        postgres: Whether it applies to a run on PostgreSQL.
        loses: Whether the database may lose commits.
        faults: Whether it needs the library of ``faults.c``.
        worker: Whether it needs a worker of rollouts.
        settings: Settings of PostgreSQL that it needs, as ``name=value``.
    """

    name: str
    break_it: Break
    sqlite: bool = True
    postgres: bool = True
    loses: bool = False
    faults: bool = False
    worker: bool = False
    settings: tuple[str, ...] = ()


async def kill(stage: NemesisStage, chance: random.Random) -> None:
    """Kill a server with SIGKILL; leave it dead if another one lives, or start it again."""
    server = chance.choice(stage.living)
    await asyncio.to_thread(server.end)
    if len(stage.living) > 1 and chance.random() < 0.5:
        stage.left_dead.append(server)
        return
    await asyncio.sleep(chance.choice((0.0, 0.5)))
    server.start()
    if chance.random() < 0.2:  # it dies while it starts, too
        await asyncio.sleep(chance.uniform(0.0, 0.6))
        await asyncio.to_thread(server.end)
        server.start()
    await asyncio.to_thread(server.wait)


async def stall(stage: NemesisStage, chance: random.Random) -> None:
    """Halt a server for less time than its leases last."""
    await _halt(chance.choice(stage.living), chance.uniform(0.5, 2.0))


async def depose(stage: NemesisStage, chance: random.Random) -> None:
    """Halt the server that plays until others have taken over, then let it go on."""
    await _halt(await _player(stage, chance), DEPOSED_S)


async def _halt(process: KillableProcess, seconds: float) -> None:
    process.send(signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        process.send(signal.SIGCONT)


async def _player(stage: NemesisStage, chance: random.Random) -> NemesisServer:
    """Return a server that plays an episode, if any answers that it does."""
    async with httpx.AsyncClient(timeout=5, trust_env=False) as client:
        for server in chance.sample(stage.living, len(stage.living)):
            try:
                if (await client.get(f"{server.base}/custom/status")).json()["running"]:
                    return server
            except (httpx.HTTPError, KeyError):
                continue
    return chance.choice(stage.living)


async def database_dies(stage: NemesisStage, chance: random.Random) -> None:
    """Stop PostgreSQL as a death would, and start it again."""
    assert stage.postgres is not None
    await asyncio.to_thread(stage.postgres.current.stop)
    await asyncio.sleep(chance.uniform(0.0, 2.0))
    await asyncio.to_thread(stage.postgres.restart)


async def partition(stage: NemesisStage, chance: random.Random) -> None:
    """Cut or stall the way between one server and the database, and no other."""
    server = chance.choice(stage.living)
    assert server.database is not None
    server.database.set(chance.choice((ProxyMode.REFUSE, ProxyMode.STALL)))
    await asyncio.sleep(chance.choice((0.5, 1.5, DEPOSED_S)))
    server.database.set(ProxyMode.PASS)


async def lost_answers(stage: NemesisStage, chance: random.Random) -> None:
    """Let commits reach the database, lose their answers, and cut the connections."""
    server = await _player(stage, chance)
    assert server.database is not None
    for _ in range(3):
        server.database.set(ProxyMode.LOSE_ANSWERS)
        await asyncio.sleep(chance.uniform(0.1, 0.5))
        server.database.set(ProxyMode.REFUSE)
        server.database.set(ProxyMode.PASS)
        await asyncio.sleep(chance.uniform(0.2, 0.6))


async def stale_notices(stage: NemesisStage, chance: random.Random) -> None:
    """Let no notice of other servers arrive for a while."""
    for server in stage.living:
        assert server.notices is not None
        server.notices.set(chance.choice((ProxyMode.REFUSE, ProxyMode.STALL)))
    await asyncio.sleep(chance.uniform(1.0, 3.0))


async def clock_jump(stage: NemesisStage, chance: random.Random) -> None:
    """Move the clock of a server."""
    for server in chance.sample(stage.living, chance.randint(1, len(stage.living))):
        assert server.orders is not None
        server.orders.move_clock(chance.choice(CLOCK_JUMPS_S))
    await asyncio.sleep(chance.uniform(0.5, 2.5))


def _failing_disk(error: int) -> Break:
    async def fail(stage: NemesisStage, chance: random.Random) -> None:
        """Let every write and sync fail, from some write on."""
        orders = stage.servers[0].orders if stage.postgres is None else stage.postgres.orders
        assert orders is not None
        orders.fail(error, passing=chance.choice((0, 1, 2, 3, 5, 8, 13)))
        await asyncio.sleep(chance.uniform(0.5, 2.0))
        orders.heal()
        if stage.postgres is not None:
            await asyncio.sleep(0.3)
            await asyncio.to_thread(stage.postgres.restart)

    return fail


async def few_descriptors(stage: NemesisStage, chance: random.Random) -> None:
    """Let a server open hardly any more files and connections for a while."""
    server, spare, lasts_s = (
        chance.choice(stage.living),
        chance.randint(*SPARE_FILES),
        chance.uniform(1.0, 2.5),
    )
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # another nemesis may have ended it
        limits = resource.prlimit(server.process_id, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{server.process_id}/fd"))
        resource.prlimit(server.process_id, resource.RLIMIT_NOFILE, (used + spare, limits[1]))
        await asyncio.sleep(lasts_s)
        resource.prlimit(server.process_id, resource.RLIMIT_NOFILE, limits)


async def worker_dies(stage: NemesisStage, chance: random.Random) -> None:
    """Kill a worker of rollouts as the kernel does without memory, and start it again."""
    assert stage.worker is not None
    await asyncio.to_thread(stage.worker.end)
    await asyncio.sleep(chance.uniform(0.0, 1.0))
    stage.worker.start()
    await asyncio.sleep(chance.uniform(0.5, 1.5))


async def rolling_upgrade(stage: NemesisStage, chance: random.Random) -> None:
    """Replace one server after the other by another version, as docs/scale.md says."""
    for server in list(stage.living):
        await asyncio.to_thread(server.end, signal.SIGTERM)
        version = "" if server.program.version else NEXT_VERSION
        server.program = replace(server.program, version=version)
        server.start()
        await asyncio.to_thread(server.wait)
        await asyncio.sleep(chance.uniform(0.0, 0.5))


async def unsynchronous_death(stage: NemesisStage, chance: random.Random) -> None:
    """Stop PostgreSQL as a death would, without the commits that it had not written."""
    stage.lost = True
    await database_dies(stage, chance)


async def lagging_promotion(stage: NemesisStage, chance: random.Random) -> None:
    """Promote a standby that had stopped receiving, after the primary died."""
    assert stage.postgres is not None
    if stage.postgres.promoted:
        return
    stage.lost = True
    await asyncio.to_thread(stage.postgres.cut_replication)
    await asyncio.sleep(chance.uniform(0.5, 2.0))
    await asyncio.to_thread(stage.postgres.promote)
    for server in stage.servers:
        for proxy in (server.database, server.notices):
            assert proxy is not None
            proxy.cut()


async def restored_backup(stage: NemesisStage, chance: random.Random) -> None:
    """Restore the database from a copy that is some seconds old."""
    stage.lost = True
    if stage.postgres is not None:
        await asyncio.to_thread(stage.postgres.keep)
        await asyncio.sleep(chance.uniform(1.0, 2.5))
        await asyncio.to_thread(stage.postgres.restore)
        return
    (server,) = stage.servers
    kept = stage.folder / "kept"
    await asyncio.to_thread(server.end)
    for path in server.data.glob("journal.db*"):
        kept.mkdir(exist_ok=True)
        shutil.copy2(path, kept / path.name)
    server.start()
    await asyncio.to_thread(server.wait)
    await asyncio.sleep(chance.uniform(1.0, 2.5))
    await asyncio.to_thread(server.end)
    for path in server.data.glob("journal.db*"):
        path.unlink()
    for path in kept.iterdir():
        shutil.copy2(path, server.data / path.name)


async def torn_page(stage: NemesisStage, chance: random.Random) -> None:
    """Kill the server and leave half a page of its database, or of the log, as it was never written."""
    stage.lost = True
    (server,) = stage.servers
    await asyncio.to_thread(server.end)
    paths = [path for path in server.data.glob("journal.db*") if not path.name.endswith("-shm")]
    path = chance.choice([path for path in paths if path.stat().st_size >= 4096])
    page = chance.randrange(1, max(2, path.stat().st_size // 4096))
    with path.open("r+b") as file:
        file.seek(page * 4096 + 2048)
        file.write(chance.randbytes(2048))


async def deleted_log(stage: NemesisStage, chance: random.Random) -> None:
    """Delete the write-ahead log while the server plays, then stop it in order, which loses nothing."""
    (server,) = stage.servers
    (server.data / "journal.db-wal").unlink(missing_ok=True)
    await asyncio.sleep(chance.uniform(0.5, 1.5))
    await asyncio.to_thread(server.end, signal.SIGTERM, 20.0)


async def lost_log(stage: NemesisStage, chance: random.Random) -> None:
    """Kill the server and delete its write-ahead log."""
    stage.lost = True
    (server,) = stage.servers
    await asyncio.to_thread(server.end)
    for path in server.data.glob("journal.db-*"):
        path.unlink()


NEMESES: Final = {
    one.name: one
    for one in (
        Nemesis("kill", kill),
        Nemesis("stall", stall),
        Nemesis("depose", depose, sqlite=False),
        Nemesis("database-dies", database_dies, sqlite=False),
        Nemesis("partition", partition, sqlite=False),
        Nemesis("lost-answers", lost_answers, sqlite=False),
        Nemesis("stale-notices", stale_notices, sqlite=False),
        Nemesis("clock-jump", clock_jump, faults=True),
        Nemesis("disk-full", _failing_disk(errno.ENOSPC), faults=True),
        Nemesis("disk-error", _failing_disk(errno.EIO), faults=True),
        Nemesis("few-descriptors", few_descriptors),
        Nemesis("worker-dies", worker_dies, worker=True),
        Nemesis("rolling-upgrade", rolling_upgrade),
        Nemesis(
            "unsynchronous-death",
            unsynchronous_death,
            sqlite=False,
            loses=True,
            settings=("synchronous_commit=off", "wal_writer_delay=1s"),
        ),
        Nemesis("lagging-promotion", lagging_promotion, sqlite=False, loses=True),
        Nemesis("restored-backup", restored_backup, loses=True),
        Nemesis("torn-page", torn_page, postgres=False, loses=True),
        Nemesis("deleted-log", deleted_log, postgres=False),
        Nemesis("lost-log", lost_log, postgres=False, loses=True),
    )
}
"""All nemeses, by name."""


def skipped(*, faults: bool) -> dict[str, str]:
    """Return the nemeses that cannot be used here, with the reason."""
    return {} if faults else {name: NO_COMPILER for name, one in NEMESES.items() if one.faults}
