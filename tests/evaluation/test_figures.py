"""The figures of an episode, read from its record: of real episodes, and of records made by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.errors import JournalError
from spectator.evaluation.figure_store import FigureStore
from spectator.evaluation.figures import MEASURES, EpisodeFigures, Gauge, figures_of, measures_of
from spectator.events import Event, RecordedEvent, record
from tests.evaluation.played import played

ROOT = Path(__file__).resolve().parent.parent.parent


def play(
    environment: str = "counting", captain: str = "random", opponent: str | None = None, **options: Any
) -> list[RecordedEvent]:
    return played(environment, captain, opponent, seed=5, options=options)


def decided(**changes: Any) -> Event:
    usual = {
        "actor": "a", "source": "model", "parse": "ok", "latency_s": 2.0, "tokens_in": 100, "tokens_out": 10,
    }  # fmt: skip
    return Event("ep-1", "e", 1, "", 1, "decision.made", usual | changes)


def gauged(*events: Event) -> dict[str, float]:
    gauge = Gauge()
    for event in events:
        gauge.take(event)
    return gauge.figures()


def test_decisions_are_counted_by_what_became_of_them() -> None:
    refused = replace(decided(), type="action.refused")
    found = gauged(
        decided(), decided(parse="repaired", latency_s=4.0), refused,
        decided(source="fallback", parse="failed", tokens_in=None, tokens_out=None),
        decided(source="fallback", parse=None, latency_s=0.0, cost=0.25),
    )  # fmt: skip
    assert found == {
        "tool_validity": 0.5, "own_share": 0.5, "fallbacks": 0.5, "latency_s": 2.0,
        "clean_answers": pytest.approx(1 / 3), "tokens": 330.0, "cost": 0.25,
    }  # fmt: skip


def test_what_nobody_counted_is_left_out_and_never_nought() -> None:
    assert gauged() == {}
    found = gauged(decided(source="heuristic", parse=None, tokens_in=None, tokens_out=None))
    assert set(found) == {"tool_validity", "own_share", "fallbacks", "latency_s"}


def test_what_the_world_refused_of_a_fallback_is_no_fault_of_the_captain() -> None:
    refused = replace(decided(), type="action.refused")
    assert gauged(decided(), decided(source="fallback"), refused)["tool_validity"] == 1.0
    alone = gauged(decided(source="fallback"), refused)
    assert "tool_validity" not in alone and alone["own_share"] == 0.0


def by_its_fallback(recorded: list[RecordedEvent], actor: str) -> list[RecordedEvent]:
    """The record as it would be if nobody had decided for ``actor``."""
    return [
        record(replace(one.event, data={**one.event.data, "source": "fallback", "failure_class": "timeout"}))
        if one.event.type == "decision.made" and one.event.data["actor"] == actor
        else one
        for one in recorded
    ]


def test_what_is_played_by_a_fallback_alone_is_no_match_of_its_captain() -> None:
    recorded = play("cricket", "heuristic", "anchor", max_overs=1)
    whole, without = figures_of(recorded), figures_of(by_its_fallback(recorded, "home"))
    assert whole is not None and without is not None
    assert whole.counts and not without.counts and without.finished
    home, away = without.seats
    assert (
        not home.reached("random")
        and away.reached("random")
        and home.fallbacks == {"timeout": home.decisions}
    )
    assert set(home.figures) == {"own_share", "fallbacks", "latency_s"}, "neither its score nor its deeds"
    assert away.figures == whole.seats[1].figures


def test_a_real_match_has_figures_for_both_captains() -> None:
    figures = figures_of(play("cricket", "tactician", "aggressive", max_overs=1))
    assert figures is not None and figures.finished and not figures.forked
    home, away = figures.seats
    assert (home.actor, home.captain, away.captain) == ("home", "tactician", "aggressive")
    assert home.figures["outcome"] + away.figures["outcome"] == 1.0
    assert 0 < home.figures["score"] < 1 and "score" not in away.figures
    assert figures.options["max_overs"] == 1 and figures.seed == 5
    assert {*home.figures, *away.figures} <= {measure.name for measure in measures_of(load_world("cricket"))}
    assert EpisodeFigures.from_json(figures.to_json()) == figures


def test_a_record_without_an_end_has_no_figures_and_one_without_a_beginning_is_an_error() -> None:
    recorded = play()
    assert figures_of(recorded[:-1]) is None
    with pytest.raises(JournalError, match="beginning"):
        figures_of(recorded[1:])


def test_another_versions_events_are_not_read_by_this_versions_meter() -> None:
    first, *rest = play("cricket", "heuristic", "heuristic", max_overs=1)
    older = replace(first.event, data={**first.event.data, "environment_version": "0.1"})
    figures = figures_of([record(older), *rest])
    assert figures is not None
    assert set(figures.seats[0].figures) == {
        "tool_validity", "own_share", "fallbacks", "latency_s", "score",
    }  # fmt: skip
    gone = replace(first.event, data={**first.event.data, "environment": "chess"})
    assert figures_of([record(gone), *rest]) is not None


def test_a_fork_says_so() -> None:
    first, *rest = play()
    forked = replace(first.event, data={**first.event.data, "parent": {"episode_id": "ep-0", "seq": 9}})
    figures = figures_of([record(forked), *rest])
    assert figures is not None and figures.forked


def test_every_measure_is_documented_with_its_formula_and_what_it_cannot_show() -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    for measure in {*MEASURES, *load_world("cricket").measures}:
        assert measure.formula and measure.blind
        assert f"`{measure.name}`" in page, measure.name


def test_figures_are_kept_replaced_and_dropped(tmp_path: Path) -> None:
    store = FigureStore(tmp_path / "figures.db")
    assert store.load() == []
    figures = figures_of(play())
    assert figures is not None
    store.save([figures, replace(figures, episode_id="ep-0")])
    store.save([replace(figures, result="changed")])
    assert [(one.episode_id, one.result) for one in store.load()] == [
        ("ep-0", figures.result),
        ("ep-1", "changed"),
    ]
    store.drop(["ep-0", "ep-9"])
    assert [one.episode_id for one in store.load()] == ["ep-1"]


def test_several_may_make_the_file_at_once(tmp_path: Path) -> None:
    """SQLite does not wait for another connection that makes the same file use a log."""
    with ThreadPoolExecutor(8) as threads:
        for number in range(40):
            store, begin = FigureStore(tmp_path / f"{number}.db"), Barrier(8)

            def come(store: FigureStore = store, begin: Barrier = begin) -> int:
                begin.wait(10)
                return len(store.load())

            assert [one.result(20) for one in [threads.submit(come) for _ in range(8)]] == [0] * 8


def test_a_damaged_file_says_that_it_may_be_deleted(tmp_path: Path) -> None:
    path = tmp_path / "figures.db"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(JournalError, match=r"figures\.db.*delete the file"):
        FigureStore(path).load()


def test_the_same_match_gives_the_same_figures_but_for_its_time() -> None:
    def timeless(figures: EpisodeFigures | None) -> list[dict[str, float]]:
        assert figures is not None
        return [{**seat.figures, "latency_s": 0.0} for seat in figures.seats]

    assert timeless(figures_of(play(turns=5))) == timeless(figures_of(play(turns=5)))
