"""A database that goes back in time: what was acknowledged is recorded again, or named as lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from ulid import ULID

from spectator.errors import JournalUnavailable, LeaseLost
from spectator.journal import incarnation
from spectator.journal.contract import Chain
from spectator.journal.sql_journal import SqlJournal
from tests.journal.records import ended, run, said, seqs, started
from tests.postgres import Cluster, find_programs, running_cluster


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/journal.db"
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    yield cluster.url(cluster.database_of(tmp_path, request.getfixturevalue("journal_template")))
    cluster.give_back()


async def opened(url: str, *, keeps: bool = True) -> SqlJournal:
    journal = await SqlJournal.open(url, shared_as=str(ULID()))
    if keeps:
        journal.keep_acknowledged()
    return journal


def go_back(journal: SqlJournal, *statements: str) -> None:
    """Change the database in one transaction, as a rollback of its last ones would."""
    with journal._database.engine.begin() as connection:
        for one in statements:
            connection.exec_driver_sql(one)


async def digest(journal: SqlJournal, episode_id: str = "ep-1") -> tuple[int, bytes]:
    chain = Chain()
    async for links in journal.links(episode_id):
        assert list(chain.check(links)) == []
    return chain.seq, chain.digest


LATER = "DELETE FROM events WHERE seq > 2"
LEASE = "DELETE FROM leases"
UNENDED = "UPDATE episodes SET ended_at = NULL, reason = NULL"
WHOLE = ("DELETE FROM events", "DELETE FROM episodes", LEASE, "DELETE FROM owners")


@pytest.mark.parametrize("undone", [(LATER,), (LATER, LEASE), WHOLE], ids=["events", "lease", "episode"])
async def test_acknowledged_events_that_the_database_lost_are_recorded_again(
    url: str, undone: Sequence[str]
) -> None:
    journal = await opened(url)
    await journal.append([started("ep-1")])
    for seq in (2, 3, 4):
        await journal.append([said("ep-1", seq)])
    before = await digest(journal)
    go_back(journal, *undone)
    await journal.append([said("ep-1", 5)])
    assert await digest(journal) != before
    assert seqs(await journal.read("ep-1")) == [1, 2, 3, 4, 5]
    await journal.append([ended("ep-1", 6)])
    before = await digest(journal)
    go_back(journal, LATER, UNENDED)
    await journal.restore()
    assert await digest(journal) == before, "no append was needed to notice it"
    assert (await journal.end("ep-1"), await journal.leases()) == (before, [])
    await journal.remove("ep-1")
    await journal.restore()
    assert await journal.episode("ep-1") is None, "what was removed on purpose stays away"
    await journal.aclose()


@pytest.mark.parametrize("keeps", [True, False], ids=["another wrote", "nothing kept"])
async def test_an_episode_that_cannot_be_completed_is_left_and_its_loss_known(url: str, keeps: bool) -> None:
    journal, other = await opened(url, keeps=keeps), await opened(url)
    assert journal.ownership is not None and other.ownership is not None
    await journal.append([started("ep-1"), said("ep-1", 2)])
    await journal.append([said("ep-1", 3), said("ep-1", 4)])
    go_back(journal, LATER, *([LEASE] if keeps else []))
    if keeps:
        await other.append([said("ep-1", 3, "another one")])
        await other.ownership.release("ep-1")
    with pytest.raises(LeaseLost, match="event 4 was acknowledged"):
        await journal.append([said("ep-1", 5)])
    with pytest.raises(LeaseLost):
        await journal.append([said("ep-1", 5)])
    assert await journal.ownership.unowned_episodes(9) == ["ep-1"], "anyone may play on"
    head = 3 if keeps else 2
    assert await journal.ownership.claim("ep-1")
    assert await journal.lost_until("ep-1", head) == 4
    await journal.append([said("ep-1", head + 1)])
    assert await journal.lost_until("ep-1", head + 1) is None
    assert (await digest(journal))[0] == head + 1
    await journal.aclose()
    await other.aclose()


def promote(cluster: Cluster) -> None:
    """Put the standby in the place of the server, which dies."""
    cluster.stop()
    (cluster.folder / "data").rename(cluster.folder / "old")
    (cluster.folder / "standby").rename(cluster.folder / "data")
    cluster.start()
    cluster._run("pg_ctl", "-D", str(cluster.folder / "data"), "-w", "promote")


def test_a_promoted_standby_that_lagged_gets_what_it_lacks() -> None:
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")

    async def scenario(cluster: Cluster, url: str) -> None:
        journal, dying, other = await opened(url), await opened(url), await opened(url)
        assert other.ownership is not None and dying.ownership is not None
        for one, episode_id in ((journal, "ep-1"), (dying, "ep-2"), (journal, "ep-3")):
            await one.append([started(episode_id), said(episode_id, 2)])
        backup = ["-D", str(cluster.folder / "standby"), "-h", str(cluster.folder), "-U", "spectator"]
        cluster._run("pg_basebackup", *backup, "--checkpoint=fast", "--write-recovery-conf", "--no-sync")
        await journal.append([said("ep-1", 3)])
        await dying.append([said("ep-2", 3)])
        promote(cluster)
        with pytest.raises(JournalUnavailable):
            await other.ownership.beat()
        with pytest.raises(JournalUnavailable):
            await journal.append([said("ep-1", 4)])
        await journal.append([said("ep-1", 4)])
        assert seqs(await journal.read("ep-1")) == [1, 2, 3, 4]
        await digest(journal)
        await journal.restore()
        await journal.append([said("ep-3", 3)])
        assert await other.ownership.depose(dying.ownership.name) == ["ep-2"]
        assert await other.lost_until("ep-2", 2) == 2, "how much it lost is unknown"
        assert await other.lost_until("ep-3", 3) is None, "its owner has seen the new incarnation"
        for one in (journal, dying, other):
            await one.aclose()

    with running_cluster(programs) as cluster:
        run(scenario(cluster, cluster.url(cluster.make())))


def test_a_copied_file_is_another_incarnation(tmp_path: Path) -> None:
    async def record() -> None:
        journal = await SqlJournal.open(f"sqlite:///{tmp_path}/journal.db")
        await journal.append([started("ep-1")])
        await journal.aclose()

    async def lost(name: str) -> int | None:
        journal = await SqlJournal.open(f"sqlite:///{tmp_path}/{name}")
        found = await journal.lost_until("ep-1", 1)
        await journal.aclose()
        return found

    run(record())
    (tmp_path / "copy.db").write_bytes((tmp_path / "journal.db").read_bytes())
    assert (run(lost("journal.db")), run(lost("copy.db")), run(lost("copy.db"))) == (None, 1, 1)
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("SELECT count(*) FROM incarnations").fetchone() == (2,)
    content = (tmp_path / "journal.db").read_bytes()
    (tmp_path / "journal.db").unlink()
    (tmp_path / "journal.db").write_bytes(content)  # often with the same inode
    assert run(lost("journal.db")) == 1


FRAME = 24 + 8192


def torn(log: bytes, at: int) -> bytes:
    return log[:at] + bytes(255 - one for one in log[at : at + 16]) + log[at + 16 :]


LOGS: dict[str, tuple[Callable[[bytes, int], bytes | None], bool]] = {
    "page of the last commit": (lambda log, last: torn(log, last + 4096), True),
    "header of the last commit": (lambda log, last: torn(log, last), True),
    "page in the middle": (lambda log, last: torn(log, last - 3 * FRAME + 999), True),
    "first page": (lambda log, last: torn(log, 32 + 999), True),
    "header": (lambda log, last: torn(log, 8), True),
    "empty": (lambda log, last: b"", True),
    "removed": (lambda log, last: None, True),
    "whole": (lambda log, last: log, False),
    "unfinished commit": (lambda log, last: log[: last + FRAME] + half_written(log), False),
}
"""What is left of a log, given where its last frame is; and whether it loses commits."""


def half_written(log: bytes) -> bytes:
    return log[32:36] + bytes(4) + log[16:24] + bytes(99)


@pytest.mark.parametrize("shared", [None, "process"])
@pytest.mark.parametrize("name", LOGS)
def test_a_log_that_lost_commits_begins_a_new_incarnation_once(
    name: str, shared: str | None, tmp_path: Path
) -> None:
    tear, loses = LOGS[name]
    path, log = tmp_path / "journal.db", tmp_path / "journal.db-wal"

    async def record() -> tuple[bytes, bytes]:
        journal = await SqlJournal.open(f"sqlite:///{path}", shared_as=shared)
        await journal.append([started("ep-1")])
        for seq in range(2, 6):
            await journal.append([said("ep-1", seq)])
        files = path.read_bytes(), log.read_bytes()
        await journal.aclose()
        return files

    async def look(episode_id: str) -> tuple[int, int | None]:
        reader = await SqlJournal.open(f"sqlite:///{path}", writable=False)
        await reader.aclose()
        journal = await SqlJournal.open(f"sqlite:///{path}", shared_as=shared)
        head = len(await journal.texts(episode_id))
        lost = await journal.lost_until(episode_id, head) if head else None
        if not head:
            await journal.append([started(episode_id)])
        await journal.aclose()
        return head, lost

    content, logged = run(record())
    path.write_bytes(content)  # the same file, so the same incarnation, as a killed process leaves it
    frames = [at for at in range(32, len(logged), FRAME) if logged[at + 8 : at + 16] == logged[16:24]]
    if (left := tear(logged, frames[-1])) is not None:
        log.write_bytes(left)
    (head, lost), *later = [run(look("ep-1")), run(look("ep-2")), run(look("ep-2"))]
    with closing(sqlite3.connect(path)) as database:
        begun = database.execute("SELECT count(*) FROM incarnations").fetchone()
    assert head < 5 if loses else (head, lost) == (5, None)
    assert loses == (lost is not None or head == 0)
    assert (later, begun) == ([(0, None), (1, None)], (1 + loses,))


def test_the_ends_that_are_kept_are_bounded() -> None:
    seconds = [0.0]
    kept = incarnation.Acknowledged(lambda: seconds[0])
    kept.characters = 3_000
    for number in range(20):
        episode_id = f"ep-{number % 3}"
        seq = number // 3 + 1
        kept.note([said(episode_id, seq, "x" * 200)], None, before=(seq - 1, bytes(32)), after=(seq, b""))
        assert kept._size <= kept.characters
    assert kept.last("ep-1") == 7
    seconds[0] += incarnation.KEPT_S + 1
    kept.note([ended("ep-1", 8)], None, before=(7, bytes(32)), after=(8, b""))
    assert len(kept._tails["ep-1"].kept) == 1, "what is older is forgotten"
    seconds[0] += incarnation.KEPT_S + 1
    for episode_id in ("ep-0", "ep-2"):
        kept.forget(episode_id)
    kept.note([said("ep-0", 8)], None, before=(7, bytes(32)), after=(8, b""))
    assert kept.last("ep-1") == 0
    worker = incarnation.Acknowledged()
    for seq, event in ((1, started("ep-1")), (2, ended("ep-1", 2))):
        worker.note([event], None, before=(seq - 1, bytes(32)), after=(seq, b""))
        assert (worker.last("ep-1"), worker._size) == (seq % 2, 0), "a worker of a fleet keeps no events"
