"""Processes that share nothing but a journal play a run; the outcome is that of an undisturbed run."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from spectator.errors import InvalidRequest, JournalError
from spectator.journal.coordination import FleetRow
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.spending import Caps
from spectator.rollouts.fleet_plan import find_rows, read_plan
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import FakeModelServer, Mode, billed
from tests.postgres import Cluster
from tests.rollouts.shared_runs import begin, digests, held, open_leases, play, stop, summaries, types, worker
from tests.rollouts.test_fleet import TURNS, request

EPISODES = 32


@pytest.fixture
def server_url(postgres: Cluster) -> str:
    return postgres.url(postgres.make())


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/journal.db"
    found: str = request.getfixturevalue("server_url")
    return found


@pytest.fixture
def whole(tmp_path: Path) -> str:
    """A second journal, for what an undisturbed run comes to."""
    return f"sqlite:///{tmp_path}/whole.db"


def until(what: str, true: Callable[[], bool], limit_s: float = 60.0) -> None:
    limit = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < limit, f"{what} did not come to pass"
        time.sleep(0.01)


def assert_whole(url: str, unbroken: dict[str, str], episodes: int) -> None:
    """Every episode was begun once, ended once, and played as in an unbroken run."""
    found = summaries(url)
    assert Counter(one.reason for one in found) == {"finished": episodes}
    assert len({one.episode_id for one in found}) == episodes
    for told in types(url, *(one.episode_id for one in found)).values():
        ends = (told.count("episode.started"), told.count("episode.ended"), told[-1])
        assert ends == (1, 1, "episode.ended")
    assert digests(url) == unbroken


def test_one_process_plays_a_run_and_another_finds_nothing_left(url: str) -> None:
    with endpoint(counter) as fake:
        begin(url, request(fake))
        report = asyncio.run(play(url))
        assert (report.over, report.total, report.halted) == (12, 12, None)
        assert report.report.succeeded
        assert len(fake.received) == 12 * TURNS
        again = asyncio.run(play(url))
        assert (again.over, len(again.report.results)) == (12, 0)
        assert len(fake.received) == 12 * TURNS, "nothing is asked again"
    assert Counter(one.group_id for one in summaries(url)) == {f"g-{n:06d}": 3 for n in range(4)}


def test_two_processes_share_a_run_and_ask_no_question_twice(url: str, whole: str) -> None:
    with endpoint(counter, [Mode.SLOW], pause_s=0.02) as fake:
        asked = request(fake, episodes=24)
        begin(whole, asked)
        asyncio.run(play(whole, concurrency=12))
        unbroken, before, fake.pause_s = digests(whole), len(fake.received), 0.15
        begin(url, asked)
        workers = [worker(url), worker(url)]
        owners: set[str] = set()
        with open_leases(url) as leased:
            while any(one.poll() is None for one in workers):
                owners |= {owner for _, owner in leased()}
                time.sleep(0.02)
        said = [one.communicate(timeout=60)[0] for one in workers]
        assert [one.returncode for one in workers] == [0, 0], said
        assert len(fake.received) == 2 * before
    assert len(owners) == 2, "both had some"
    assert_whole(url, unbroken, 24)
    assert held(url) == []


def disturb(url: str, fake: FakeModelServer, rng: random.Random, times: int, folder: Path) -> list[str]:
    """Kill or stop one of two workers at random moments, and replace it; what the stopped ones said."""
    playing = [folder / f"playing-{number}" for number in range(times + 2)]
    workers, stopped = [worker(url, begun=playing[0]), worker(url, begun=playing[1])], []
    begun = dict(zip((one.pid for one in workers), playing, strict=False))
    try:
        for number in range(times):
            chosen = rng.randrange(2)
            until("a victim that plays", begun[workers[chosen].pid].exists)
            wanted = len(fake.received) + rng.randint(1, 14)
            # On a starved machine workers take each other for dead, and play on what others held: slowly.
            until("a question more", lambda wanted=wanted: len(fake.received) >= wanted, 150.0)  # type: ignore[misc]
            victim = workers.pop(chosen)
            assert victim.poll() is None, victim.communicate()[0]
            if number % 2:
                victim.kill()
                victim.communicate()
            else:
                stop(victim, url)
                stopped.append(victim)
            workers.append(worker(url, begun=playing[number + 2]))
            begun[workers[-1].pid] = playing[number + 2]
        fake.pause_s = 0.005
        for one in workers:
            said = one.communicate(timeout=120)[0]
            assert one.returncode == 0, said
        for one in stopped:
            one.send_signal(signal.SIGCONT)
        return [one.communicate(timeout=60)[0] for one in stopped]
    finally:
        for one in (*workers, *stopped):
            if one.poll() is None:
                one.kill()
                one.communicate()


@pytest.mark.timeout(600)
def test_kills_and_stops_at_random_moments_change_nothing(url: str, whole: str, tmp_path: Path) -> None:
    """Those that were stopped wake up when all is over: nothing of theirs is taken."""
    with endpoint(counter, [Mode.SLOW], pause_s=0.005) as fake:
        asked = request(fake, episodes=EPISODES, group_size=4, options={"turns": 8})
        begin(whole, asked)
        asyncio.run(play(whole, concurrency=16))
        unbroken = digests(whole)
        fake.pause_s = 0.4
        begin(url, asked)
        woken = disturb(url, fake, random.Random(21), 4, tmp_path)
    assert_whole(url, unbroken, EPISODES)
    assert held(url) == []
    assert all("Traceback" not in one for one in woken), woken
    assert any("another process plays it" in one for one in woken), woken
    played = types(url, *(one.episode_id for one in summaries(url)))
    assert any("episode.recovered" in one for one in played.values())


def test_a_run_goes_on_while_the_database_restarts(server_url: str, whole: str, postgres: Cluster) -> None:
    with endpoint(counter, [Mode.SLOW], pause_s=0.05) as fake:
        asked = request(fake, episodes=12)
        begin(whole, asked)
        asyncio.run(play(whole))
        unbroken, before = digests(whole), len(fake.received)
        begin(server_url, asked)
        one = worker(server_url)
        until("some questions", lambda: len(fake.received) > before + 12)
        postgres.stop()
        try:
            time.sleep(0.5)
        finally:
            postgres.start()
        said = one.communicate(timeout=60)[0]
        assert one.returncode == 0, said
    assert "waiting for the database" in said
    assert_whole(server_url, unbroken, 12)


def test_a_database_that_stays_away_halts_a_worker_in_one_sentence(
    server_url: str, postgres: Cluster
) -> None:
    with endpoint(counter, [Mode.SLOW], pause_s=0.05) as fake:
        begin(server_url, request(fake, episodes=12))

        async def played() -> str | None:
            playing = asyncio.create_task(play(server_url, patience_s=0.5))
            await asyncio.to_thread(until, "some questions", lambda: len(fake.received) >= 8)
            await asyncio.to_thread(postgres.stop)
            return (await playing).halted

        try:
            halted = asyncio.run(played())
        finally:
            postgres.start()
        assert halted is not None
        assert "given up after" in halted
        assert "\n" not in halted
        report = asyncio.run(play(server_url))
    assert (report.over, report.halted) == (12, None)


def test_a_cap_of_the_whole_is_that_of_all_who_play(url: str) -> None:
    """Each question takes 228 tokens; one who joins counts what others spent before, and stops."""
    with endpoint(counter) as fake:
        begin(url, request(fake), whole=Caps(tokens=3000))
        first = asyncio.run(play(url, concurrency=1))
        assert first.halted is not None
        assert "cap of 3,000 tokens" in first.halted
        asked = len(fake.received)
        second = asyncio.run(play(url, concurrency=1))
        assert second.halted is not None
        assert len(fake.received) == asked, "nothing more is asked"
        begin(url, request(fake), whole=Caps(tokens=300_000))
        assert asyncio.run(play(url)).over == 12


def test_a_cap_holds_over_workers_at_once_of_which_one_is_killed(url: str) -> None:
    """What one that dies had reserved stays counted; the others stop at what is under way."""
    cap, at_once = 45_600, 3
    with endpoint(counter, [Mode.SLOW], pause_s=0.02) as fake:
        begin(url, request(fake, episodes=150, model={"max_tokens": 64}), whole=Caps(tokens=cap))
        workers = [worker(url, at_once) for _ in range(3)]
        until("some questions", lambda: billed(fake)[0] > cap / 4)
        workers[0].kill()
        said = [one.communicate(timeout=60)[0] for one in workers]
        assert [one.returncode for one in workers[1:]] == [3, 3], said
        assert all("the cap of 45,600 tokens for all of it is reached" in one for one in said[1:]), said
        spent, most = billed(fake)
        assert cap * 0.95 <= spent <= cap + 3 * at_once * most, "at most what was under way"
        report = asyncio.run(play(url))
        assert report.halted is not None
        later, _ = billed(fake)
        assert spent <= later <= max(spent, cap), "no more than the answers under way left over"


def test_no_more_are_in_flight_than_the_run_may_have_whoever_is_killed(url: str) -> None:
    with endpoint(counter, [Mode.SLOW], pause_s=0.05) as fake:
        begin(url, request(fake, episodes=24), max_in_flight=4)
        workers, seen = [worker(url, 6), worker(url, 6)], Counter[int]()
        with open_leases(url) as leased:
            while any(one.poll() is None for one in workers):
                seen[len(leased())] += 1
                if len(fake.received) > 24 and len(workers) == 2:
                    workers[0].kill()
                    workers.append(worker(url, 6))
                time.sleep(0.01)
        said = [one.communicate(timeout=60)[0] for one in workers]
        assert [one.returncode for one in workers[1:]] == [0, 0], said
    assert max(seen) == 4, seen
    assert {one.reason for one in summaries(url)} == {"finished"}
    assert held(url) == []


def test_a_run_can_be_made_longer_and_is_no_other(url: str) -> None:
    with endpoint(counter) as fake:
        begin(url, request(fake, episodes=3))
        asyncio.run(play(url))
        begin(url, request(fake, episodes=6))
        report = asyncio.run(play(url))
        assert (report.over, len(report.report.results)) == (6, 3)
        begin(url, request(fake, episodes=3))
        with pytest.raises(
            InvalidRequest, match=r"first is another run \(seed 1, now 2\); choose another name"
        ):
            begin(url, request(fake, episodes=6, seed=2))
        begin(url, request(fake, episodes=3, seed=2), name="second")
        assert asyncio.run(play(url, "second")).total == 3
    assert len(summaries(url, "second")) == 3


def change(url: str, plan: str) -> None:
    async def work() -> None:
        journal = await SqlJournal.open(url)
        try:
            from spectator.journal.coordination import FleetRuns

            await FleetRuns(journal).change("first", plan)
        finally:
            await journal.aclose()

    asyncio.run(work())


def kept(url: str) -> str:
    async def work() -> FleetRow:
        journal = await SqlJournal.open(url, writable=False)
        try:
            return (await find_rows(journal))[0]
        finally:
            await journal.aclose()

    return asyncio.run(work()).plan


@pytest.mark.parametrize(
    ("then", "now", "says"),
    [
        ('"format":1', '"format":2', "run first is of version 2; this program reads 1"),
        (
            '"environment_version":"1.0"',
            '"environment_version":"0.9"',
            "run first began with version 0.9 of counting, but this process has 1.0",
        ),
        ('"stepper":', '"pacer":1,"stepper":', "run first was started by Spectator 0.1.0, whose plan"),
        ('"request":', '"asked":', "the stored plan of first does not describe a run of rollouts"),
    ],
)
def test_a_run_of_another_version_is_refused_in_one_sentence(
    url: str, then: str, now: str, says: str
) -> None:
    begin(url, request("http://127.0.0.1:9/v1"))
    plan = kept(url)
    assert then in plan
    change(url, plan.replace(then, now, 1))
    with pytest.raises(InvalidRequest) as refused:
        asyncio.run(play(url))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert summaries(url) == []


def test_an_unknown_run_and_a_name_that_fits_no_address_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="this database does not hold a run of rollouts"):
        asyncio.run(play(url))
    begin(url, request("http://127.0.0.1:9/v1"))
    with pytest.raises(InvalidRequest, match="there is no run 'last' in this database; its runs are first"):
        asyncio.run(play(url, "last"))
    with pytest.raises(InvalidRequest, match="is not a valid run name"):
        begin(url, request("http://127.0.0.1:9/v1"), name="a/b")


def test_a_wrong_url_is_refused(postgres: Cluster) -> None:
    with pytest.raises(JournalError, match='database "nowhere" does not exist') as refused:
        asyncio.run(play(postgres.url("nowhere")))
    assert "\n" not in str(refused.value)


def test_a_plan_is_read_as_it_was_kept(url: str) -> None:
    asked = request("http://127.0.0.1:9/v1", episodes=6)
    row = begin(url, asked, stepper="thread", whole=Caps(tokens=7, cost=1.5))
    plan = read_plan(row)
    assert (plan.request, plan.stepper, plan.whole) == (asked, "thread", Caps(tokens=7, cost=1.5))
    assert (plan.environment_version, plan.limits.startup_jitter_s) == ("1.0", 0.0)
