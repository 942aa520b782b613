"""Statistics for comparing simulated matches with the tables of real ones."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

PHASES = ("pp", "mid", "death")
PHASE_OF_OVER = (0,) * 6 + (1,) * 9 + (2,) * 5
TARGET_BANDS = ((0, 139), (140, 159), (160, 179), (180, 199), (200, 399))
WICKET_BANDS = ("0-1", "2-3", "4-5", "6+")


@dataclass(slots=True)
class InningsLog:
    """One innings of 20 overs, counted.

    Args:
        target: Runs to win; ``None`` for the first innings.
        over_runs: Runs of each over.
        over_wickets: Wickets of each over.
        overs_begun: Overs with at least one ball.
        cells: Deliveries, runs, valid balls, wickets, dots, singles, fours, sixes by phase and wickets band
            lost.
        kinds: Dismissals by kind and phase.
        extras: Runs by kind of extra, and the count of wides and no-balls.
        batters: Runs, balls and whether out, in order of appearance.
        stands: Runs of every partnership, in order.
        balls: Valid balls.
        last_over_run_outs: Run-outs in the twentieth over, and its deliveries.
    """

    target: int | None
    over_runs: list[int] = field(default_factory=lambda: [0] * 20)
    over_wickets: list[int] = field(default_factory=lambda: [0] * 20)
    overs_begun: int = 0
    cells: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 8))
    kinds: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    extras: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    batters: dict[str, list[int]] = field(default_factory=dict)
    stands: list[int] = field(default_factory=lambda: [0])
    balls: int = 0
    free_hits: int = 0
    free_hit_runs: int = 0

    @property
    def runs(self) -> int:
        """Total."""
        return sum(self.over_runs)

    @property
    def wickets(self) -> int:
        """Dismissals."""
        return sum(self.over_wickets)

    def count(self, ball: Mapping[str, Any]) -> None:
        """Add one delivery of the log."""
        over, bat, kind = ball["over"], ball["runs_off_bat"], ball["extra_kind"]
        runs, wicket = bat + ball["extras"], bool(ball["wicket"])
        valid = kind not in ("wide", "noball")
        band = min(3, self.wickets // 2)
        cell = self.cells[PHASE_OF_OVER[over], band]
        plain = kind is None and not wicket
        for at, value in enumerate(
            (
                1,
                runs,
                valid,
                wicket,
                plain and bat == 0,
                plain and bat == 1,
                plain and bat == 4,
                plain and bat == 6,
            )
        ):
            cell[at] += int(value)
        for name in (ball["batter"], ball["non_striker"]):
            self.batters.setdefault(name, [0, 0])
        self.batters[ball["batter"]][0] += bat
        self.batters[ball["batter"]][1] += kind != "wide"
        self.stands[-1] += runs
        if kind is not None:
            self.extras[kind] += ball["extras"]
            if kind == "noball":
                self.extras["bye"] += ball["extras"] - 1
            self.extras[f"{kind}s"] += 1
        if ball["free_hit"]:
            self.free_hits += 1
            self.free_hit_runs += bat
        if wicket:
            self.kinds[ball["dismissal_kind"], PHASE_OF_OVER[over]] += 1
            self.kinds[ball["dismissal_kind"], 3 if over == 19 else 4] += 1
            self.stands.append(0)
        self.overs_begun = max(self.overs_begun, over + 1)
        self.over_runs[over] += runs
        self.over_wickets[over] += wicket
        self.balls += valid


@dataclass(slots=True)
class MatchLog:
    """The two innings of a match; without super overs, as in the tables."""

    first: InningsLog
    second: InningsLog

    @property
    def chase_won(self) -> bool:
        """Whether the side batting second won."""
        return self.second.runs > self.first.runs


def read_matches(deliveries: Iterable[Mapping[str, Any]]) -> Iterator[MatchLog]:
    """Group a ball log into matches."""
    for _, of_match in groupby(deliveries, key=lambda ball: ball["match_id"]):
        innings = {1: InningsLog(None), 2: InningsLog(None)}
        for ball in of_match:
            if ball["innings"] in innings:
                innings[ball["innings"]].target = ball["target"]
                innings[ball["innings"]].count(ball)
        yield MatchLog(innings[1], innings[2])


def statistics(matches: Sequence[MatchLog]) -> dict[str, float]:
    """Return all statistics of some matches, named as in `targets.real_statistics`."""
    figures: dict[str, float] = {}
    for number, innings in (
        (1, [match.first for match in matches]),
        (2, [match.second for match in matches]),
    ):
        figures |= (
            _rates(number, innings)
            | _totals(number, innings)
            | _progress(number, innings)
            | _batting(number, innings)
        )
    both = [match.first for match in matches] + [match.second for match in matches]
    return figures | _events(both) | _chases(matches)


def _rates(number: int, innings: Sequence[InningsLog]) -> dict[str, float]:
    cells: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0] * 8)
    for one in innings:
        for key, counts in one.cells.items():
            cells[key] = [a + b for a, b in zip(cells[key], counts, strict=True)]
    figures: dict[str, float] = {}
    for phase, name in enumerate(PHASES):
        n, runs, valid, out, dots, ones, fours, sixes = (
            sum(cells[phase, band][at] for band in range(4)) for at in range(8)
        )
        figures |= {
            f"{number} {name} runs per over": 6 * runs / max(1, valid),
            f"{number} {name} wickets per delivery": out / max(1, n),
            f"{number} {name} dots": dots / max(1, n),
            f"{number} {name} singles": ones / max(1, n),
            f"{number} {name} fours": fours / max(1, n),
            f"{number} {name} sixes": sixes / max(1, n),
        }
        for band in range(4):
            n, runs, valid, out = cells[phase, band][:4]
            if (phase, band) not in ((0, 2), (0, 3)):
                figures[f"{number} {name} runs per over, {WICKET_BANDS[band]} down"] = (
                    6 * runs / max(1, valid)
                )
                figures[f"{number} {name} wickets per delivery, {WICKET_BANDS[band]} down"] = out / max(1, n)
    return figures


def _totals(number: int, innings: Sequence[InningsLog]) -> dict[str, float]:
    totals, wickets = [one.runs for one in innings], [one.wickets for one in innings]
    return {
        f"{number} total mean": _mean(totals),
        f"{number} total sd": _sd(totals),
        f"{number} total 5 %": _percentile(totals, 0.05),
        f"{number} total 95 %": _percentile(totals, 0.95),
        f"{number} wickets mean": _mean(wickets),
        f"{number} wickets sd": _sd(wickets),
        f"{number} all out": _mean([count == 10 for count in wickets]),
    }


def _progress(number: int, innings: Sequence[InningsLog]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for overs in (6, 10, 15):
        scores = [sum(one.over_runs[:overs]) for one in innings if one.overs_begun >= overs]
        figures |= {
            f"{number} score after {overs} mean": _mean(scores),
            f"{number} score after {overs} sd": _sd(scores),
            f"{number} wickets after {overs}": _mean(
                [sum(one.over_wickets[:overs]) for one in innings if one.overs_begun >= overs]
            ),
        }
    return figures


def _batting(number: int, innings: Sequence[InningsLog]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for wicket in (1, 2, 3, 4, 5, 6, 8):
        stands = [one.stands[wicket - 1] for one in innings if len(one.stands) >= wicket]
        figures[f"{number} stand for wicket {wicket}"] = _mean(stands)
    return figures


def _events(innings: Sequence[InningsLog]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for position in (1, 2, 3, 4, 5, 6, 7, 9):
        scores = [list(one.batters.values())[position - 1] for one in innings if len(one.batters) >= position]
        figures[f"batter {position} runs"] = _mean([runs for runs, _ in scores])
        figures[f"batter {position} balls"] = _mean([balls for _, balls in scores])
        if position <= 5:
            figures[f"batter {position} fifties"] = _mean([runs >= 50 for runs, _ in scores])
    wickets = sum(one.wickets for one in innings)
    for kind in ("caught", "bowled", "lbw", "run out", "stumped", "caught and bowled"):
        figures[f"dismissed {kind}"] = sum(one.kinds[kind, p] for one in innings for p in (3, 4)) / max(
            1, wickets
        )
    for kind in ("wide", "noball", "bye", "legbye"):
        # A no-ball's penalty alone counts as no-balls; byes off one are byes in the tables.
        runs = sum(one.extras["noballs"] if kind == "noball" else one.extras[kind] for one in innings)
        figures[f"extras {kind}"] = runs / len(innings)
    overs = [
        (one.over_runs[over], one.over_wickets[over])
        for one in innings
        for over in range(20)
        if one.balls >= 6 * (over + 1)
    ]
    figures |= {
        "over runs mean": _mean([runs for runs, _ in overs]),
        "over runs sd": _sd([runs for runs, _ in overs]),
        "over without wicket": _mean([fallen == 0 for _, fallen in overs]),
        "over of 15 or more": _mean([runs >= 15 for runs, _ in overs]),
        "over of 3 or fewer": _mean([runs <= 3 for runs, _ in overs]),
        "free hit runs": sum(one.free_hit_runs for one in innings)
        / max(1, sum(one.free_hits for one in innings)),
    }
    return figures


def _chases(matches: Sequence[MatchLog]) -> dict[str, float]:
    won = [match for match in matches if match.chase_won]
    lost = [match for match in matches if match.second.runs < match.first.runs]
    figures = {
        "chase won": len(won) / len(matches),
        "tied": 1 - (len(won) + len(lost)) / len(matches),
        "runs short in lost chases": _mean([match.first.runs - match.second.runs for match in lost]),
        "balls left in won chases": _mean([120 - match.second.balls for match in won]),
        "chases reaching the last over": _mean([match.second.overs_begun == 20 for match in matches]),
        "correlation of powerplays": _correlation(
            [sum(match.first.over_runs[:6]) for match in matches],
            [sum(match.second.over_runs[:6]) for match in matches],
        ),
        "correlation of powerplay and overs 7-15": _correlation(
            [sum(match.first.over_runs[:6]) for match in matches],
            [sum(match.first.over_runs[6:15]) for match in matches],
        ),
    }
    for low, high in TARGET_BANDS:
        band = [match.chase_won for match in matches if low <= match.first.runs + 1 <= high]
        figures[f"chase won, target {low}-{high}"] = _mean(band)
    return figures


def spread_of(matches: Sequence[MatchLog], parts: int) -> dict[str, float]:
    """Return the standard deviation of every statistic between equal parts of the matches."""
    size = len(matches) // parts
    drawn = [statistics(matches[part * size : (part + 1) * size]) for part in range(parts)]
    known = {name: [figures[name] for figures in drawn if not math.isnan(figures[name])] for name in drawn[0]}
    return {name: _sd(values) if len(values) > 1 else math.nan for name, values in known.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _sd(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1))


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def _correlation(a: Sequence[float], b: Sequence[float]) -> float:
    mean_a, mean_b = _mean(a), _mean(b)
    product = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True)) / (len(a) - 1)
    return product / (_sd(a) * _sd(b))
