"""What captains have shown, summed up: who counts for what, in which order; a journal is read once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from spectator.core_events import FailedDecisions
from spectator.errors import FAILURES, INVALID_ANSWERS, FailureClass, JournalError
from spectator.evaluation.figure_store import FigureStore
from spectator.evaluation.figures import EpisodeFigures, SeatFigures
from spectator.evaluation.standings import Scorekeeper, Standings
from spectator.events import RecordedEvent
from spectator.journal.sql_journal import SqlJournal
from tests.evaluation.played import played
from tests.fakes import until


def figures(
    number: int, home: str, away: str | None, outcome: float | None, reason: Any = "finished", **shown: float
) -> EpisodeFigures:
    def seat(actor: str, name: str, won: float | None) -> SeatFigures:
        return SeatFigures(
            actor, name, name.title(), "heuristic", shown if won is None else {"outcome": won, **shown}
        )

    seats = [seat("home", home, outcome)]
    if away is not None:
        seats.append(seat("away", away, None if outcome is None else 1.0 - outcome))
    return EpisodeFigures(
        f"ep-{number:03}", "cricket", "1.0", "default", number, {}, f"2026-11-21T05:00:{number:02}Z", reason,
        None, False, tuple(seats), run_id="evaluation:0815",
    )  # fmt: skip


def standings(*played: EpisodeFigures) -> Standings:
    kept = Standings()
    for one in played:
        kept.add(one)
    return kept


def test_both_captains_of_a_match_are_credited_and_sums_are_means_in_the_end() -> None:
    kept = standings(
        figures(1, "a", "b", 1.0, score=0.8), figures(2, "b", "a", 0.5, score=0.4), figures(3, "a", "c", 0.0)
    )
    found = {one.captain: one for one in kept.look()}
    a = found["a"].sums
    assert (a.wins, a.ties, a.losses, a.episodes) == (1, 1, 1, 3)
    assert found["a"].share is not None and found["a"].share.value == 0.5
    score = a.means["score"]
    assert score.n == 2 and (a.mean("score"), score.error) == pytest.approx((0.6, 0.2))
    assert [name for name, _ in found["a"].against] == ["b", "c"]
    assert (found["c"].sums.wins, found["c"].sums.label) == (1, "C")
    assert [episode_id for _, episode_id in a.recent] == ["ep-001", "ep-002", "ep-003"]


def test_a_match_against_itself_a_fork_and_a_cut_match_count_for_no_share() -> None:
    kept = standings(
        figures(1, "a", "a", 1.0, score=0.5),
        replace(figures(2, "a", "b", 1.0), forked=True),
        figures(3, "a", "b", None, reason="stopped", score=0.1),
    )
    (a, b) = sorted(kept.look(), key=lambda one: one.captain)
    assert a.share is None and (a.sums.mirrored, a.sums.unfinished, a.sums.mean("score")) == (1, 1, 0.5)
    assert b.share is None and b.sums.episodes == 1
    assert kept.episodes == 2


def by(figures: EpisodeFigures, own: int, fallbacks: int) -> EpisodeFigures:
    """The same, the agent's captain having made so many decisions itself."""
    agent = replace(figures.seats[0], decisions=own + fallbacks, fallbacks={"unparsable": fallbacks})
    return replace(figures, seats=(agent, *figures.seats[1:]))


def test_a_model_that_never_decided_wins_nothing_and_nobody_beats_it() -> None:
    kept = standings(by(figures(1, "dead", "b", 1.0, score=0.9), 0, 100), figures(2, "b", "c", 1.0))
    found = {one.captain: one for one in kept.look()}
    dead, b = found["dead"].sums, found["b"].sums
    assert (dead.wins, dead.unreached, dead.episodes, dead.own_share) == (0, 1, 1, 0.0)
    assert found["dead"].share is None and dead.mean("score") is None and not dead.ranked
    assert (b.wins, b.losses, b.unreached) == (1, 0, 1), "its loss to a fallback counts as little"
    assert [one.captain for one in kept.look()][-1] == "dead"


@pytest.mark.parametrize(("own", "ranked"), [(100, True), (98, True), (97, False)])
def test_who_decides_less_than_98_percent_itself_stands_last_and_unranked(own: int, ranked: bool) -> None:
    good = [by(figures(number, "a", "c", 1.0), own, 100 - own) for number in range(20)]
    poor = [figures(30, "b", "c", 0.0)]
    found = standings(*good, *poor).look()
    a = next(one for one in found if one.captain == "a")
    assert a.unranked == (None if ranked else "failed decisions")
    assert a.sums.ranked is ranked and a.sums.own_share == own / 100 and a.sums.wins == 20
    assert [one.captain for one in found][0 if ranked else -1] == "a"


@pytest.mark.parametrize("why", sorted(FAILURES))
@pytest.mark.parametrize("rule", get_args(FailedDecisions))
def test_only_failures_that_are_not_the_captains_own_unrank_it(
    why: FailureClass, rule: FailedDecisions
) -> None:
    def failing(number: int) -> EpisodeFigures:
        found = by(figures(number, "a", "c", 1.0), 95, 5)
        seats = (replace(found.seats[0], fallbacks={why: 5}), *found.seats[1:])
        return replace(found, seats=seats, failed_decisions=rule)

    [a] = [one for one in standings(*map(failing, range(9))).look() if one.captain == "a"]
    ranked = rule != "fallback" and why in INVALID_ANSWERS
    assert (a.unranked, a.share is None) == ((None, False) if ranked else ("failed decisions", True))
    assert (a.sums.own, a.sums.lost) == (9 * 95, 0 if ranked else 9 * 5)


def test_only_evaluations_rank_and_what_was_played_otherwise_stands_apart() -> None:
    single = [replace(figures(number, "vain", "c", 1.0), run_id=None) for number in range(30)]
    ranked = [figures(number, "a", "c", float(number % 3 > 0)) for number in range(30, 40)]
    found = standings(*single, *ranked).look()
    assert [(one.captain, one.unranked) for one in found] == [
        ("a", None), ("c", None), ("vain", "history"), ("c", "history"),
    ]  # fmt: skip
    assert (found[1].sums.wins, found[1].sums.losses) == (4, 6), "its thirty single matches are not in it"
    rollout = replace(figures(50, "a", "c", 1.0), run_id="training-run")
    assert {one.unranked for one in standings(rollout).look()} == {"history"}


def test_a_seed_counts_once_however_often_it_is_played() -> None:
    """One seed played ten times over used to lead the board."""
    often = [replace(figures(7, "a", "b", 1.0), episode_id=f"ep-7-{again}") for again in range(10)]
    both_seats = replace(figures(8, "b", "a", 0.0), seed=7)
    a = next(one for one in standings(*often, both_seats).look() if one.captain == "a")
    assert (a.sums.wins, a.sums.repeats, a.sums.episodes) == (2, 9, 2)
    assert a.share is not None and a.share.n == 1 and a.share.low < 0.25, "two matches of one seed: one piece"


def test_a_preset_that_asks_another_model_is_another_captain_and_other_options_another_place() -> None:
    def asked(one: EpisodeFigures, fingerprint: str) -> EpisodeFigures:
        return replace(one, seats=(replace(one.seats[0], fingerprint=fingerprint), *one.seats[1:]))

    before, after = figures(1, "llm:x", "b", 1.0), figures(2, "llm:x", "b", 0.0)
    found = standings(asked(before, "old"), asked(after, "new")).look()
    rows = {one.entrant.fingerprint: one.sums.wins for one in found if one.captain == "llm:x"}
    assert rows == {"old": 1, "new": 0}
    valued = replace(figures(3, "a", "b", 1.0), options={"reward": "result"})
    forfeits = replace(figures(4, "a", "b", 1.0), failed_decisions="forfeit")
    assert len(standings(figures(5, "a", "b", 1.0), valued, forfeits).places()) == 3


def test_decision_value_stands_beside_the_share_as_a_difference_to_the_opponents() -> None:
    def valued(number: int, mine: float, theirs: float) -> EpisodeFigures:
        one = figures(number, "a", "b", 0.5)
        worth = [
            {**seat.figures, "decision_value": value}
            for seat, value in zip(one.seats, (mine, theirs), strict=True)
        ]
        seats = tuple(replace(seat, figures=found) for seat, found in zip(one.seats, worth, strict=True))
        return replace(one, seats=seats)

    found = standings(*(valued(number, 3.0 + number % 2, -2.0) for number in range(10))).look()
    a, b = sorted(found, key=lambda one: one.captain)
    assert a.share is not None and a.share.low < 0.5 < a.share.high
    assert a.edge is not None and (a.edge.value, a.edge.n) == (5.5, 10) and a.edge.low > 5.0
    assert b.edge is not None and b.edge.value == -5.5 and b.edge.high < -5.0


def test_one_lucky_win_does_not_lead() -> None:
    lucky = [figures(1, "lucky", "c", 1.0)]
    good = [figures(number, "good", "c", float(number != 5)) for number in range(2, 30)]
    assert standings(*lucky, *good).look()[0].captain == "good"


def test_where_nobody_plays_against_anybody_the_score_decides() -> None:
    kept = standings(figures(1, "a", None, None, score=0.2), figures(2, "b", None, None, score=0.9))
    assert [one.captain for one in kept.look()] == ["b", "a"]
    assert kept.opponents() == []


def test_versions_and_packs_do_not_mix_and_can_be_asked_for() -> None:
    first = figures(1, "a", "b", 1.0)
    kept = standings(first, replace(first, environment_version="2.0"), replace(first, pack="chase"))
    assert len(kept.places()) == 3
    assert all(one.sums.episodes == 1 for one in kept.look())
    assert {one.place.pack for one in kept.look(pack="chase")} == {"chase"}
    assert [one.captain for one in kept.look(pack="chase", opponent="b")] == ["a"]
    assert kept.look(environment="chess") == []


class CountedJournal:
    """A journal that counts what is read of each episode."""

    def __init__(self, journal: SqlJournal) -> None:
        self.journal = journal
        self.read_ids: list[str] = []
        self.failing: set[str] = set()

    async def read(self, episode_id: str, **asked: Any) -> list[RecordedEvent]:
        if not asked.get("after_seq"):
            self.read_ids.append(episode_id)
        if episode_id in self.failing:
            raise JournalError("a page of it is damaged")
        return await self.journal.read(episode_id, **asked)

    async def episodes(self, wanted: Any) -> Sequence[Any]:
        return await self.journal.episodes(wanted)


@asynccontextmanager
async def keeping(journal: CountedJournal, folder: Path) -> AsyncIterator[Scorekeeper]:
    counted: Any = journal
    keeper = Scorekeeper(counted, FigureStore(folder / "figures.db"))
    running = asyncio.create_task(keeper.run())
    try:
        yield keeper
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(scope="module")
def records() -> dict[str, list[RecordedEvent]]:
    """Three short episodes by their ids."""
    found = {}
    for number in range(3):
        episode_id = f"ep-{number}"
        found[episode_id] = played("counting", seed=number, episode_id=episode_id, options={"turns": 3})
    return found


async def test_every_episode_is_read_once_ever_and_new_ones_as_they_end(
    records: dict[str, list[RecordedEvent]], tmp_path: Path
) -> None:
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
    counted = CountedJournal(journal)
    await journal.append(records["ep-0"])
    async with keeping(counted, tmp_path) as keeper:
        await until(lambda: keeper.standings.episodes == 1)
        await journal.append(records["ep-1"])
        keeper.note_ended("ep-1")
        await until(lambda: keeper.standings.episodes == 2 and not keeper.pending)
    await journal.append(records["ep-2"])
    async with keeping(counted, tmp_path) as keeper:
        await until(lambda: keeper.standings.episodes == 3 and not keeper.pending)
    assert sorted(counted.read_ids) == ["ep-0", "ep-1", "ep-2"]
    await journal.aclose()


async def test_what_left_the_journal_leaves_the_standings(
    records: dict[str, list[RecordedEvent]], tmp_path: Path
) -> None:
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
    await journal.append(records["ep-0"])
    store = FigureStore(tmp_path / "figures.db")
    store.save([replace(figures(9, "gone", None, None), episode_id="ep-9")])
    async with keeping(CountedJournal(journal), tmp_path) as keeper:
        await until(lambda: [one.captain for one in keeper.standings.look()] == ["heuristic"])
        await until(lambda: [one.episode_id for one in store.load()] == ["ep-0"])
    await journal.aclose()


async def test_an_episode_that_cannot_be_read_is_left_out_and_the_others_are_not(
    records: dict[str, list[RecordedEvent]], tmp_path: Path
) -> None:
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
    for recorded in records.values():
        await journal.append(recorded)
    counted = CountedJournal(journal)
    counted.failing = {"ep-1"}
    async with keeping(counted, tmp_path) as keeper:
        await until(lambda: not keeper.pending and keeper.standings.episodes == 2)
    await journal.aclose()


async def test_without_a_place_to_keep_figures_the_standings_are_there_all_the_same(
    records: dict[str, list[RecordedEvent]], tmp_path: Path
) -> None:
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
    await journal.append(records["ep-0"])
    (tmp_path / "figures.db").write_bytes(b"no database at all" * 100)
    async with keeping(CountedJournal(journal), tmp_path) as keeper:
        await until(lambda: keeper.standings.episodes == 1)
    await journal.aclose()
