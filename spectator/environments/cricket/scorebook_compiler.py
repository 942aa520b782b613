"""Records of real matches, compiled from scorebooks: orders, kinds of bowling, and every delivery."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spectator.environments.cricket.cricsheet import (
    DISMISSALS,
    Scorebook,
    SheetDelivery,
    SheetOutcome,
    SheetReplacement,
)
from spectator.environments.cricket.people import BowlingKind, Role
from spectator.environments.cricket.real_match_record import (
    MatchPlace,
    RealInnings,
    RealMatch,
    RealPlayer,
    RealWicket,
    Stop,
    Substitution,
)


@dataclass(frozen=True, slots=True)
class Habits:
    """What many matches say of people, by key, that no single one does.

    Args:
        kinds: Kind of bowling of everyone who bowled.
        places: Mean place in the batting order.
        keeping: Stumpings and catches.
    """

    kinds: Mapping[str, BowlingKind]
    places: Mapping[str, float]
    keeping: Mapping[str, tuple[int, int]]


SPIN_STUMPING: Final = 2.5
"""Log odds that a stumping adds to a bowler being a spinner; an assumption."""
KIND_OVERS: Final = 4.0
"""Overs of no evidence that are added to a bowler's, so that few overs decide little."""


def habits_of(books: Iterable[Scorebook], spin_by_over: Sequence[float]) -> Habits:
    """Infer everyone's habits from all matches.

    Args:
        spin_by_over: Share of spin in each over of a 20-over innings. Cricsheet records no styles, so bowlers
            are ranked by the mean log odds of their overs, and the first count as spinners, up to the usual
            share of all overs.
    """
    log_odds, overs = dict[str, float](), Counter[str]()
    caught, stumped, places = Counter[str](), Counter[str](), dict[str, list[int]]()
    for book in books:
        seen: dict[tuple[int, int], list[str]] = {}
        last: tuple[int, int, str] | None = None
        for place, over, ball, team in book.deliveries():
            order = seen.setdefault((place.innings, team), [])
            order += [one for one in (ball.batter, ball.non_striker) if one not in order]
            bowler = book.keys[ball.bowler]
            if (place.innings, over, bowler) != last:
                last = place.innings, over, bowler
                overs[bowler] += 1
                spin = spin_by_over[min(len(spin_by_over) - 1, over * len(spin_by_over) // book.overs)]
                log_odds[bowler] = log_odds.get(bowler, 0.0) + math.log(spin / (1.0 - spin))
            for wicket in ball.wickets:
                for one in wicket.fielders[:1]:
                    if one.name in book.keys:
                        caught[book.keys[one.name]] += wicket.kind == "caught"
                        stumped[book.keys[one.name]] += wicket.kind == "stumped"
                if wicket.kind == "stumped":
                    log_odds[bowler] += SPIN_STUMPING
        for order in seen.values():
            for at, name in enumerate(order):
                places.setdefault(book.keys[name], []).append(at)
    return Habits(
        _kinds(log_odds, overs, sum(spin_by_over) / len(spin_by_over)),
        {one: sum(found) / len(found) for one, found in places.items()},
        {one: (stumped[one], caught[one]) for one in caught.keys() | stumped.keys()},
    )


def _kinds(log_odds: Mapping[str, float], overs: Mapping[str, int], share: float) -> dict[str, BowlingKind]:
    average = math.log(share / (1.0 - share))

    def likely(bowler: str) -> float:
        return (log_odds[bowler] + KIND_OVERS * average) / (overs[bowler] + KIND_OVERS)

    kinds: dict[str, BowlingKind] = {}
    left = share * sum(overs.values())
    for bowler in sorted(log_odds, key=lambda one: (-likely(one), one)):
        kinds[bowler] = "spin" if left > 0.5 * overs[bowler] else "pace"
        left -= overs[bowler]
    return kinds


@dataclass(frozen=True, slots=True)
class Compiled:
    """A record with the keys of its people, by team and place in the order.

    Args:
        people: Keys of both elevens.
        substitutes: The key of each substitute of the record.
    """

    record: RealMatch
    people: list[list[str]]
    substitutes: list[str]


def compile_record(book: Scorebook, habits: Habits) -> Compiled:
    """Make a record, with ratings of 1, of a file that was read."""
    compiler = _Compiler(book, habits)
    for place, over, ball, team in book.deliveries():
        for new in ball.replacements.match:
            compiler.replace(place, over, new)
        compiler.retire(place, ball, team)
        if not compiler.bowl(place, over, ball, team):
            break
    people = [[book.keys[name] for name in eleven] for eleven in compiler.elevens]
    return Compiled(compiler.record(), people, compiler.keys)


class _Compiler:
    """A record in the making, delivery by delivery.

    Attributes:
        elevens: Names of both elevens in batting order.
        keys: The key of each substitute so far.
    """

    def __init__(self, book: Scorebook, habits: Habits) -> None:
        self._book, self._habits, self._stop = book, habits, book.stop
        self.elevens = [_in_order(book, team, habits) for team in range(2)]
        self.keys = list[str]()
        bowled = {ball.bowler for _, _, ball, _ in book.deliveries()}
        self._players = [_players(book, eleven, habits, bowled) for eleven in self.elevens]
        self._slots = [{name: at for at, name in enumerate(eleven)} for eleven in self.elevens]
        self._active, self._substitutions = set[str](), list[Substitution]()
        self._rows: dict[int, list[list[int]]] = {at: [] for at in range(1, len(book.innings) + 1)}
        self._wickets: dict[int, list[RealWicket]] = {at: [] for at in self._rows}

    def replace(self, place: MatchPlace, over: int, new: SheetReplacement) -> None:
        """Let a substitute take a player's slot."""
        teams = self._book.file.info.teams
        side = teams.index(new.team) if new.team in teams else 0
        slot = self._slots[side].get(new.outgoing or "")
        if slot is None or new.incoming not in self._book.keys:
            self._stop_at(place, f"the replacement {new.incoming} does not say who goes out")
            return
        self._slots[side][new.incoming] = slot
        shown = f"{new.incoming} (for {new.outgoing})" if new.outgoing in self._active else new.incoming
        key = self._book.keys[new.incoming]
        kind, role = self._habits.kinds.get(key), self._players[side][slot].role
        if role != "keeper":
            role = _role(slot, kind)
        player = RealPlayer(name=shown, role=role, bowls=None if role == "keeper" else kind)
        self._substitutions.append(
            Substitution(innings=place.innings, at=place.at, team=side, place=slot, player=player)
        )
        self.keys.append(key)
        where = f"innings[{place.innings - 1}].overs[{over}]"
        self._book.notes.append(f"{where}: {new.incoming} came in for {new.outgoing}")

    def retire(self, place: MatchPlace, ball: SheetDelivery, team: int) -> None:
        """Retire batters who were relieved before a delivery."""
        for change in ball.replacements.role:
            gone = self._slots[team].get(change.outgoing or "") if change.role == "batter" else None
            if gone is not None and place.at:
                hurt = RealWicket(at=place.at - 1, kind="retired hurt", out=gone)
                self._wickets[place.innings].append(hurt)

    def bowl(self, place: MatchPlace, over: int, ball: SheetDelivery, team: int) -> bool:
        """Add a delivery; returns whether everyone who takes part is in an eleven."""
        self._active |= {ball.batter, ball.non_striker, ball.bowler}
        batting, bowling = self._slots[team], self._slots[1 - team]
        people = [batting.get(ball.batter), batting.get(ball.non_striker), bowling.get(ball.bowler)]
        slots = [slot for slot in people if slot is not None]
        if len(slots) < len(people):
            self._stop_at(place, "a player takes part who is not in the eleven")
            return False
        given = ball.extras
        row = [over, *slots, ball.runs.batter, given.wides, given.noballs, given.byes, given.legbyes,
               given.penalty, int(ball.runs.non_boundary)]  # fmt: skip
        while len(row) > 4 and not row[-1]:
            row.pop()
        self._rows[place.innings].append(row)
        for wicket in ball.wickets:
            fielder, out = (
                wicket.fielders[0].name if wicket.fielders else None,
                batting.get(wicket.player_out),
            )
            if out is None:
                self._stop_at(place, f"{wicket.player_out} is out without being in the eleven")
                continue
            self._wickets[place.innings].append(
                RealWicket(
                    at=place.at,
                    kind=DISMISSALS.get(wicket.kind, wicket.kind),  # type: ignore[arg-type]  # checked when read
                    out=out,
                    fielder=bowling.get(fielder or ""),
                )
            )
        return True

    def record(self) -> RealMatch:
        """Return the record of all deliveries so far."""
        info = self._book.file.info
        innings = [
            RealInnings(
                batting=info.teams.index(one.team), balls=self._rows[at], wickets=self._wickets[at],
                absent=min(9, len(one.absent_hurt)), before=one.penalty_runs.pre, after=one.penalty_runs.post,
            )
            for at, one in enumerate(self._book.innings, 1)
        ]  # fmt: skip
        return RealMatch(
            title=f"{info.teams[0]} v {info.teams[1]}"[:120], date=info.dates[0], venue=info.venue,
            teams=list(info.teams), elevens=self._players, overs=self._book.overs,
            toss=info.teams.index(info.toss.winner), elected=info.toss.decision, innings=innings,
            result=_result(info.outcome), substitutions=self._substitutions[:10], stop=self._stop,
        )  # fmt: skip

    def _stop_at(self, place: MatchPlace, why: str) -> None:
        """Let the record end here, unless it ends before."""
        if self._stop is None or (self._stop.innings, self._stop.at) > place:
            self._stop = Stop(innings=place.innings, at=place.at, why=why[:300])


def _in_order(book: Scorebook, team: int, habits: Habits) -> list[str]:
    """Return an eleven in the order in which it batted, then by habit."""
    eleven, order = book.elevens[team], list[str]()
    for _, _, ball, batting in book.deliveries():
        if batting == team:
            order += [one for one in (ball.batter, ball.non_striker) if one not in order and one in eleven]
    rest = [one for one in eleven if one not in order]
    return order + sorted(rest, key=lambda one: habits.places.get(book.keys[one], 10.0))


def _players(book: Scorebook, eleven: list[str], habits: Habits, bowled: set[str]) -> list[RealPlayer]:
    able = [name for name in eleven if name not in bowled] or eleven[:1]
    keeper = max(able, key=lambda name: habits.keeping.get(book.keys[name], (0, 0)))
    kinds = [None if name == keeper else habits.kinds.get(book.keys[name]) for name in eleven]
    return [
        RealPlayer(name=name, role="keeper" if name == keeper else _role(slot, kind), bowls=kind)
        for slot, (name, kind) in enumerate(zip(eleven, kinds, strict=True))
    ]


def _role(slot: int, kind: BowlingKind | None) -> Role:
    return "batter" if kind is None else "bowler" if slot >= 7 else "all-rounder"


def _result(outcome: SheetOutcome) -> str:
    method = f" ({outcome.method})" if outcome.method else ""
    if outcome.winner is None:
        over = outcome.eliminator or outcome.bowl_out
        return f"Match tied; {over} won the decider" if over else (outcome.result or "no result").capitalize()
    for unit, margin in (("run", outcome.by.runs), ("wicket", outcome.by.wickets)):
        if margin is not None:
            return f"{outcome.winner} won by {margin} {unit}{'' if margin == 1 else 's'}{method}"
    return f"{outcome.winner} won{method}"
