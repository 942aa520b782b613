"""The report says what was found and no more, stands alone, and shows strangers' text as text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.core_events import FailedDecisions
from spectator.errors import INVALID_ANSWERS, FailureClass
from spectator.evaluation.figures import EpisodeFigures, SeatFigures
from spectator.evaluation.forest_plot import Row, forest, round_ticks
from spectator.evaluation.report import certain, conclusions, plots_of, report_page
from spectator.evaluation.results import Estimate, Results, results_of
from spectator.evaluation.schedule import EvaluationRequest, Schedule, ScheduledMatch, plan_evaluation
from spectator.evaluation.standings import Standings

COMMAND = ["spectator", "evaluate", "--out", "a folder & more"]


def schedule_of(*captains: str, matches: int = 40) -> Schedule:
    return plan_evaluation(EvaluationRequest("cricket", captains, matches=matches))


def figures(
    match: ScheduledMatch, outcome: float | None, reason: Any = "finished", **shown: float
) -> EpisodeFigures:
    def seat(actor: str, name: str | None, won: float | None) -> SeatFigures:
        found = dict(shown) if won is None else {"outcome": won, **shown}
        return SeatFigures(actor, str(name), str(name), "heuristic", found)

    away = None if outcome is None else 1.0 - outcome
    return EpisodeFigures(
        f"ep-{match.home}-{match.away}-{match.pair}", "cricket", "1.0", "default", match.seed, {}, "",
        reason, "Home won <b>by a mile</b>", False,
        (seat("home", match.home, outcome), seat("away", match.away, away)),
    )  # fmt: skip


def results(schedule: Schedule, winner: str, every: int = 1) -> Results:
    """``winner`` wins all of its matches but each ``every``-th seed; else home does."""
    found = {}
    for match in schedule.matches:
        best = winner in (match.home, match.away) and (every == 1 or match.pair % every)
        home_wins = match.home == winner if best else True
        found[match] = figures(match, float(home_wins), tool_validity=0.9, coherence=0.5 + match.pair / 100)
    return results_of(schedule, found)


def test_the_better_captain_is_first_and_every_share_adds_up() -> None:
    found = results(schedule_of("anchor", "heuristic", "tactician"), "tactician", every=5)
    assert found.captains[0].name == "tactician"
    best = found.captains[0]
    assert best.share is not None and best.share.value == pytest.approx(0.9)
    assert (best.rank_low, best.rank_high) == (1, 1)
    assert best.tally.matches == 80 and best.tally.wins + best.tally.losses == 80
    level = next(pair for pair in found.pairs if "tactician" not in (pair.first, pair.second))
    assert level.share is not None and level.share.value == 0.5
    assert best.measures["tool_validity"].n == 20


def test_the_leaderboard_has_the_order_shares_and_intervals_of_the_report() -> None:
    """Up to the error of resampling: a twentieth of the interval's width."""
    schedule = schedule_of("anchor", "heuristic", "tactician", "aggressive")
    found = {}
    for place, match in enumerate(schedule.matches):
        best = {"tactician", "anchor"} & {match.home, match.away}
        won = match.home in best if len(best) == 1 and place % 7 else place % 2 == 0
        found[match] = replace(figures(match, float(won)), run_id="evaluation:1")
    report, board = results_of(schedule, found), Standings()
    for one in found.values():
        board.add(one)
    ranked = [one for one in board.look() if one.unranked is None]
    assert [one.captain for one in ranked] == [one.name for one in report.ranked]
    for mine, theirs in zip(ranked, report.ranked, strict=True):
        assert mine.share is not None and theirs.share is not None
        near = pytest.approx(
            (theirs.share.low, theirs.share.high), abs=0.05 * (mine.share.high - mine.share.low)
        )
        assert (
            mine.share.value == pytest.approx(theirs.share.value)
            and (mine.share.low, mine.share.high) == near
        )


def test_decision_value_separates_captains_whom_a_few_matches_do_not() -> None:
    schedule = schedule_of("anchor", "tactician", matches=8)
    found = {}
    for match in schedule.matches:
        one = figures(match, 0.5)
        worth = {"anchor": -5.0 - match.pair, "tactician": 5.0}
        seats = tuple(
            replace(seat, figures={**seat.figures, "decision_value": worth[seat.captain]})
            for seat in one.seats
        )
        found[match] = replace(one, seats=seats)
    results = results_of(schedule, found)
    (pair,) = results.pairs
    assert pair.share is not None and not certain(pair.share)
    assert pair.edge is not None and abs(pair.edge.value) == pytest.approx(11.5) and pair.edge.n == 4
    assert (pair.edge.value > 0) is (pair.first == "tactician")
    said = [*conclusions(results)]
    assert any(line.startswith("No captain is shown to be better") for line in said)
    assert any("Tactician decided better than Anchor" in line and "11.5 hundredths" in line for line in said)
    page = report_page(results, COMMAND, plots_of(results))
    assert "Decision value: of the one named first" in page


def by_fallbacks(found: EpisodeFigures, captain: str, share: float, why: str) -> EpisodeFigures:
    """The same, that share of the decisions of ``captain`` having failed."""
    seats = tuple(
        replace(seat, decisions=100, fallbacks={why: round(100 * share)}) if seat.captain == captain else seat
        for seat in found.seats
    )
    return replace(found, seats=seats, failed_decisions="random")


def beaten_by(schedule: Schedule, winner: str, share: float, why: str = "model_infra") -> Results:
    """``winner`` wins everything, while that share of its decisions failed."""
    return results_of(
        schedule,
        {
            match: by_fallbacks(figures(match, float(match.home == winner)), winner, share, why)
            for match in schedule.matches
        },
    )


def test_a_captain_whose_fallback_won_is_not_ranked_and_the_others_are_as_if_it_had_not_been_there() -> None:
    schedule = schedule_of("anchor", "heuristic", "tactician")
    found = beaten_by(schedule, "tactician", 0.03)
    *ranked, last = found.captains
    assert [one.name for one in ranked] == ["anchor", "heuristic"] and found.ranked == ranked
    assert (last.name, last.rank, last.rating, last.own_share) == ("tactician", None, None, 0.97)
    assert last.share is None and all(
        (one.share is None) == ("tactician" in (one.first, one.second)) for one in found.pairs
    )
    assert [one.rank for one in ranked] == [1, 2] and all(one.tally.matches == 40 for one in ranked)
    alone = results_of(
        schedule_of("anchor", "heuristic"),
        {
            match: figures(match, float(match.home == "tactician"))
            for match in schedule_of("anchor", "heuristic").matches
        },
    )
    assert [one.rating for one in ranked] == [one.rating for one in alone.captains]
    lines = list(conclusions(found))
    assert "Tactician" not in lines[0] + lines[1]
    lost = "3.0 % of its decisions failed for reasons other than its answers; the limit is 2.0 %."
    assert f"Tactician is not ranked: {lost}" in lines
    plots = plots_of(found)
    assert "not ranked" in report_page(found, COMMAND, plots)
    assert "Tactician" not in plots["win-share"] + plots["pairs"]


@pytest.mark.parametrize("why", sorted(INVALID_ANSWERS))
def test_answers_that_are_no_actions_are_the_captains_own_and_count(why: FailureClass) -> None:
    found = beaten_by(schedule_of("anchor", "heuristic"), "heuristic", 1.0, why)
    assert [one.name for one in found.ranked] == ["heuristic", "anchor"]
    assert found.ranked[0].share is not None and found.ranked[0].share.value > 0.9
    assert not any(match.unreached for match in found.matches)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("random", "a random legal action was drawn instead"),
        ("fallback", "the world's scripted captain decided instead"),
        ("forfeit", "each lost its match"),
    ],
)
def test_what_counted_for_a_failed_decision_is_named(rule: FailedDecisions, said: str) -> None:
    found = beaten_by(schedule_of("anchor", "heuristic"), "heuristic", 1.0, "unparsable")
    models = [one.model_copy(update={"source": "model"}) for one in found.captains]
    lines = conclusions(found.model_copy(update={"captains": models, "failed_decisions": rule}))
    failed = f"4000 of the 4000 decisions of {models[0].label} failed (unparsable 4000); {said}."
    assert failed in list(lines)


def test_a_captain_that_never_decided_won_nothing() -> None:
    found = beaten_by(schedule_of("anchor", "heuristic", "tactician"), "tactician", 1.0)
    last = found.captains[-1]
    assert (last.name, last.tally.wins, last.tally.unfinished, last.own_share) == ("tactician", 0, 80, 0.0)
    assert {name for match in found.matches for name in match.unreached} == {"tactician"}
    assert any("80 matches no decision says anything about a captain" in line for line in conclusions(found))
    assert "not counted" in report_page(found, COMMAND, plots_of(found))


def test_a_field_of_one_is_no_ranking() -> None:
    found = beaten_by(schedule_of("anchor", "tactician"), "tactician", 0.5)
    assert [one.rank for one in found.captains] == [None, None] and found.ranked == []
    lines = list(conclusions(found))
    assert lines[0].startswith("No captain is ranked: fewer than two kept failures other than of their")
    assert [one.share for one in found.captains] == [None, None] and "win-share" not in plots_of(found)
    assert "ranking" not in plots_of(found) and "not ranked" in report_page(found, COMMAND, plots_of(found))


def test_it_says_no_more_than_the_intervals_allow() -> None:
    sure = list(conclusions(results(schedule_of("anchor", "tactician"), "tactician")))
    assert sure[0].startswith("Tactician won 100.0 % of its matches") and "Tactician over Anchor" in sure[1]
    unsure = list(conclusions(results(schedule_of("anchor", "tactician", matches=4), "nobody")))
    assert unsure[1] == "No captain is shown to be better: the interval contains one half."


def test_an_interval_that_ends_at_one_half_decides_nothing() -> None:
    assert not certain(Estimate(value=0.53, low=0.5 + 1e-15, high=0.56, n=200))
    assert certain(Estimate(value=0.53, low=0.501, high=0.56, n=200))
    assert certain(Estimate(value=0.4, low=0.3, high=0.499, n=200))


def test_matches_that_broke_down_take_their_pair_with_them_and_are_told() -> None:
    schedule = schedule_of("anchor", "tactician", matches=8)
    found = {match: figures(match, 1.0) for match in schedule.matches}
    broken = schedule.matches[0]
    found[broken] = figures(broken, None, reason="policy_error")
    concluded = results_of(schedule, found)
    tally = concluded.pairs[0].tally
    assert (tally.matches, tally.unfinished, tally.wins + tally.losses) == (8, 1, 7)
    assert concluded.pairs[0].share is not None and concluded.pairs[0].share.n == 3
    assert "1 of 8 matches did not finish" in list(conclusions(concluded))[-1]
    nothing = results_of(
        schedule, {match: figures(match, None, reason="timeout") for match in schedule.matches}
    )
    share = nothing.captains[0].share
    assert nothing.pairs[0].share is None and share is not None and share.n == 0
    assert "<svg" in report_page(nothing, COMMAND, plots_of(nothing))


def test_without_an_outcome_the_scores_in_the_agents_seat_are_compared() -> None:
    schedule = schedule_of("anchor", "tactician", matches=8)
    found = {
        match: figures(match, None, score=0.9 if match.home == "tactician" else 0.1)
        for match in schedule.matches
    }
    best = results_of(schedule, found).captains[0]
    assert best.name == "tactician" and best.tally.wins == 4


def test_the_page_stands_alone_and_escapes_what_others_wrote() -> None:
    schedule = schedule_of("anchor", "tactician", matches=8)
    hostile = replace(
        schedule.world.captains["anchor"], label="<script>alert(1)</script>" + "ä" * 80, summary="x"
    )
    schedule = replace(
        schedule, world=replace(schedule.world, captains={**schedule.world.captains, "anchor": hostile})
    )
    found = results(schedule, "tactician")
    page = report_page(found, COMMAND, plots_of(found))
    assert "<script" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<b>by a mile</b>" not in page
    assert not re.search(r"(src|href)=", page) and "@import" not in page and "url(" not in page
    assert "spectator evaluate --out &#x27;a folder &amp; more&#x27;" in page
    for match in schedule.matches:
        assert f"ep-{match.home}-{match.away}-{match.pair}" in page


def test_every_plot_is_well_formed_and_named_for_those_who_cannot_see_it() -> None:
    plots = plots_of(results(schedule_of("anchor", "heuristic", "tactician"), "tactician", every=4))
    assert {"ranking", "win-share", "pairs"} <= set(plots)
    for svg in plots.values():
        root = ElementTree.fromstring(svg)
        assert root.get("role") == "img" and root.get("aria-label")
        low, _, width, height = (float(part) for part in str(root.get("viewBox")).split())
        for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
            assert (
                low <= float(str(circle.get("cx"))) <= width and 0 <= float(str(circle.get("cy"))) <= height
            )


def test_a_plot_of_one_certain_figure_has_an_axis() -> None:
    svg = forest("One", "x", [Row("a", Estimate(value=1.0, low=1.0, high=1.0, n=1))])
    assert svg.count('class="grid"') >= 2


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (44.1, 61.7), (-0.02, 0.013), (-350.0, 420.0), (3.0, 3.0), (1e-9, 2e-9)]
)
def test_ticks_are_few_and_reach_around(low: float, high: float) -> None:
    ticks = round_ticks(low, high)
    assert ticks[0] <= low and ticks[-1] >= high and 2 <= len(ticks) <= 7


def test_the_same_matches_give_the_same_report() -> None:
    schedule = schedule_of("anchor", "tactician", matches=8)
    assert results(schedule, "anchor") == results(schedule, "anchor")
    assert load_world("cricket").measures
