"""Import a user's own match files, keep them as packs, and price the overs of a real match.

The collection is one JSON file in the data folder, which belongs to the user: records of real matches with
ratings from all files of the import. Each match is an evaluation pack of the cricket world.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from spectator.environments.cricket.analyst import FUTURES_OF_A_CHOICE, weigh_choice
from spectator.environments.cricket.ball.outcomes import BallTracker, BowledBall
from spectator.environments.cricket.ball.plan_effects import PlanEffects
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.tables import NO_BALL, WICKET, WIDE
from spectator.environments.cricket.cricsheet import CricsheetError, Scorebook, read_scorebook
from spectator.environments.cricket.forecast.monte_carlo import wins
from spectator.environments.cricket.forecast.state import spin_shares
from spectator.environments.cricket.laws import BOWLERS_DISMISSALS, Side, format_of
from spectator.environments.cricket.match.engine import Match, load_model
from spectator.environments.cricket.match.forecasts import read_state
from spectator.environments.cricket.match.game import Game
from spectator.environments.cricket.ratings import Duel, Rating, Ratings, rate
from spectator.environments.cricket.real_match_record import (
    ATTRIBUTION,
    MatchPlace,
    OverPrice,
    RealMatch,
    RealPlayer,
    RecordError,
    Stop,
    side_of,
)
from spectator.environments.cricket.real_matches import new_match, replay
from spectator.environments.cricket.scorebook_compiler import Compiled, compile_record, habits_of
from spectator.environments.world import Pack, derive_seed
from spectator.errors import ConfigurationError

COLLECTION: Final = "cricket-matches.json"
"""Name of the collection in the data folder."""
OFF_THE_BAT: Final = (0, 1, 2, 3, 4, 6)
"""Runs off the bat of the first categories of balls."""
KEPT: Final = 200
"""Matches of a folder that are kept as packs: the latest; all files count for the ratings."""


@dataclass(slots=True)
class Imported:
    """A match that can be played on."""

    key: str
    record: RealMatch
    profile: str
    level: float
    notes: list[str]


@dataclass(slots=True)
class MatchImport:
    """What became of the files.

    Args:
        kept: Matches that are packs now, latest first.
        counted: Number of matches that count for the ratings.
        refused: Path and sentence of each file that could not be used.
    """

    kept: list[Imported] = field(default_factory=list)
    counted: int = 0
    refused: list[tuple[Path, str]] = field(default_factory=list)
    ratings: Ratings = field(default_factory=Ratings)


def match_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files, and the JSON files of the folders, each once, in order."""
    found: dict[Path, None] = {}
    for path in paths:
        found |= dict.fromkeys(sorted(path.rglob("*.json")) if path.is_dir() else [path])
    yield from found


def import_matches(
    paths: Sequence[Path], *, keep: int = KEPT, advanced: Callable[[], None] = lambda: None
) -> MatchImport:
    """Read match files, rate everyone in them, and return the matches that can be played on.

    Args:
        keep: Matches to keep.
        advanced: Called after each file, in each of two readings.
    """
    report, found = MatchImport(), dict[str, tuple[Path, str]]()

    def first_reading() -> Iterator[Scorebook]:
        for path in match_files(paths):
            try:
                book = read_scorebook(path.read_bytes(), path.stem)
                if book.key in found:
                    raise CricsheetError(f"{found[book.key][0]} has the same name; rename one of them")
                found[book.key] = path, book.file.info.dates[0]
                yield book
            except CricsheetError as error:
                report.refused.append((path, str(error)))
            except OSError as error:
                report.refused.append((path, f"cannot be read: {error.strerror}"))
            advanced()

    habits = habits_of(first_reading(), spin_shares())
    report.counted = len(found)
    latest = sorted(found, key=lambda key: (found[key][1], key), reverse=True)[:keep]
    kept: dict[str, tuple[Scorebook, Compiled]] = {}
    duels, grounds, seasons = list[Duel](), list[str](), list[str]()
    for number, (key, (path, _)) in enumerate(found.items()):  # again, so that memory holds one at a time
        book = read_scorebook(path.read_bytes(), path.stem)
        one = compile_record(book, habits)
        broken = _collect(number, one, load_model("women" if book.women else "men", "all"), duels)
        if broken is not None and broken.place is not None:
            stop = Stop(innings=broken.place.innings, at=broken.place.at, why=str(broken)[:300])
            record = one.record.model_copy(update={"stop": _first(one.record.stop, stop)})
            one = Compiled(record, one.people, one.substitutes)
        grounds.append(book.venue)
        seasons.append(book.season)
        if key in latest:
            kept[key] = book, one
        advanced()
    report.ratings = rate(duels, grounds, seasons)
    report.kept = [_finished(*kept[key], report.ratings) for key in latest]
    return report


def _first(known: Stop | None, found: Stop) -> Stop:
    return found if known is None or (found.innings, found.at) < (known.innings, known.at) else known


def _collect(number: int, one: Compiled, model: BallModel, duels: list[Duel]) -> RecordError | None:
    """Add a match's duels with what was expected of each; return why it ends early, if so."""
    record, slots = one.record, [list(people) for people in one.people]
    waiting = list(zip(record.substitutions, one.substitutes, strict=False))
    match = new_match(record, MatchPlace(1, 0), model, random.Random(0))
    met: dict[tuple[str, str], list[float]] = {}
    broken: RecordError | None = None
    try:
        for ball in replay(match, record):
            while waiting and (waiting[0][0].innings, waiting[0][0].at) <= ball.place:
                sub, key = waiting.pop(0)
                slots[sub.team][sub.place] = key
            team = record.innings[ball.place.innings - 1].batting
            ball.situation.effect = 0.0
            chances = model.weights(ball.situation)
            sums = met.setdefault((slots[team][ball.row[1]], slots[1 - team][ball.row[3]]), [0.0] * 7)
            for at, value in enumerate(
                (
                    sum(runs * chances[category] for category, runs in enumerate(OFF_THE_BAT)),
                    chances[WICKET],
                    chances[WIDE] + chances[NO_BALL],
                    ball.ball.bat,
                    ball.ball.dismissal in BOWLERS_DISMISSALS,
                    not ball.ball.valid,
                    1,
                )
            ):
                sums[at] += value
    except RecordError as error:
        broken = error
    for (batter, bowler), (runs, out, extras, *counts) in met.items():
        duels.append(Duel(number, batter, bowler, runs, out, extras, *map(int, counts)))
    return broken


def _finished(book: Scorebook, one: Compiled, ratings: Ratings) -> Imported:
    """Return a match with its ratings and its scoring level."""
    record = one.record
    elevens = [
        [_rated(player, ratings.of(key)) for player, key in zip(eleven, keys, strict=True)]
        for eleven, keys in zip(record.elevens, one.people, strict=True)
    ]
    substitutions = [
        sub.model_copy(update={"player": _rated(sub.player, ratings.of(key))})
        for sub, key in zip(record.substitutions, one.substitutes, strict=False)
    ]
    profile = "women" if book.women else "men"
    totals = load_model(profile, "all").tables.levels["totals"]
    level = totals[len(totals) // 2] * ratings.scoring(book.venue, book.season)
    notes = book.notes if record.stop is None else [*book.notes, _stopped(record.stop)]
    return Imported(
        book.key,
        record.model_copy(update={"elevens": elevens, "substitutions": substitutions}),
        profile,
        round(min(totals[-1] - 1.0, max(totals[0] + 1.0, level)), 1),
        notes,
    )


def _stopped(stop: Stop) -> str:
    return f"playable up to delivery {stop.at} of innings {stop.innings}: {stop.why}"


def _rated(player: RealPlayer, rating: Rating) -> RealPlayer:
    ratios = ("bat_runs", "bat_out", "bowl_runs", "bowl_wickets", "bowl_extras")
    return player.model_copy(update={name: round(getattr(rating, name), 3) for name in ratios})


def save_matches(folder: Path, matches: Sequence[Imported]) -> Path:
    """Add matches to the collection of a data folder, replacing those of the same name."""
    path = folder / COLLECTION
    kept = _read(path)
    for one in matches:
        record = one.record.model_dump(mode="json", exclude_defaults=True)
        kept[one.key] = {"profile": one.profile, "level": one.level, "record": record}
    folder.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    whole = {"version": 1, "attribution": ATTRIBUTION, "matches": kept}
    fresh.write_text(json.dumps(whole, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    os.replace(fresh, path)
    return path


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        matches: dict[str, Any] = whole["matches"]
        if whole["version"] != 1 or not all(
            isinstance(one["record"], dict) and {"profile", "level"} <= one.keys() for one in matches.values()
        ):
            raise ValueError("an unknown version")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f"{path} is not a collection of imported matches; delete it and import again"
        ) from error
    return matches


def imported_packs(folder: Path) -> dict[str, Pack]:
    """Return the packs of the matches imported into a data folder.

    Raises:
        ConfigurationError: The collection cannot be read.
    """
    packs: dict[str, Pack] = {}
    for key, one in _read(folder / COLLECTION).items():
        record = one["record"]
        digest = hashlib.sha256(json.dumps(one, sort_keys=True).encode()).hexdigest()[:8]
        summary = (
            f"{record.get('title')}, {record.get('venue')}, {record.get('date')}: {record.get('result')}."
        )
        options = {
            "max_overs": record.get("overs"),
            "profile": one["profile"],
            "level": one["level"],
            "real_match": record,
        }
        packs[key] = Pack(key, digest, f"Play on a real match: {summary}", options)
    return packs


HOW_PRICED: Final = (
    "Before each over, the fielding side's chance to win with the bowler who bowled it and with the best, "
    "everything else as real sides play it: Cricsheet records neither fields nor plans. Luck is the chance "
    "after the over minus the chance before it; fields, plans and strokes are in it."
)


def price_overs(record: RealMatch, profile: str, level: str | float) -> Iterator[OverPrice]:
    """Price every over of a real match by the same alternatives as a captain's calls.

    Args:
        profile: Profile of the ball model.
        level: Its scoring level.
    """
    model = load_model(profile, level)
    for number, played in enumerate(record.innings, 1):
        end = MatchPlace(number, len(played.balls))
        match = new_match(record, end, model, random.Random(0))
        game = Game(
            format_of(record.overs), match.teams, model, random.Random(0), caller="home", super_over=True
        )
        game.match = match
        yield from _priced(game, record, end, number)


def _priced(game: Game, record: RealMatch, end: MatchPlace, number: int) -> Iterator[OverPrice]:
    match = game.playing
    tracker = BallTracker(PlanEffects(game.model.tables))
    side = side_of(1 - record.innings[number - 1].batting, 0)
    before: dict[str, Any] | None = None
    try:
        for ball in replay(match, record, end):
            innings = match.current
            if ball.place.innings == number and not innings.over_deliveries:
                at = before_over(match)
                if before is not None:
                    yield _closed(before, at, game, side)
                before = _weighed(at, game, side, innings.bowler or 0)
            track = (0.0, 0.0, 0.0, 0.0), (0, 0, 0, ball.category)
            game.reading.observe(ball.place.innings, BowledBall(ball.ball, ball.situation, *track, tracker))
    except RecordError:
        return  # the world cannot follow the rest; what it could is priced
    if before is not None:
        match.settle_result()
        yield _closed(before, match, game, side)


def before_over(match: Match) -> Match:
    """Return a copy of a match at the first ball of an over, before its bowler was chosen."""
    twin = match.copy()
    innings, bowler = twin.current, twin.current.bowler
    if bowler is not None:
        line = innings.bowling[bowler]
        line.overs_begun -= 1
        if not line.overs_begun:
            del innings.bowling[bowler]
        innings.bowler, innings.over_bowlers = None, []
        innings.over_starters.pop()
    return twin


def _weighed(at: Match, game: Game, side: Side, bowler: int) -> dict[str, Any] | None:
    team, innings = at.teams[side], at.current
    playing = game.match
    game.match = at
    seed = derive_seed(0, "over", at.number, innings.balls) % 2**32
    found = weigh_choice(game, side, "select_bowler", {"bowler": team.named(bowler)}, seed)
    game.match = playing
    if found is None:
        return None
    weighed, chosen = found
    best = max(weighed.calls, key=lambda one: float(np.mean(one.outcomes)))
    difference = np.asarray(best.outcomes) - np.asarray(chosen.outcomes)
    return {
        "innings": at.number,
        "over": innings.balls // 6 + 1,
        "bowler": team.named(bowler),
        "runs": innings.runs,
        "wickets": innings.wickets,
        "before": round(float(np.mean(chosen.outcomes)), 4),
        "best_bowler": best.given["bowler"],
        "best": round(float(np.mean(best.outcomes)), 4),
        "error": round(float(np.std(difference)) / math.sqrt(len(difference)), 4),
    }


def _closed(before: Mapping[str, Any], after: Match, game: Game, side: Side) -> OverPrice:
    """Return a price with what the over brought."""
    innings = after.innings[before["innings"] - 1]
    if after.result is not None:
        winner = after.result.winner
        chance = 0.5 if winner is None else float(winner == side)
    else:
        at = after
        if innings.closed:
            at = after.copy()
            at.rng = random.Random(0)
            at.close_innings()
        state = read_state(at, game.reading)
        seed = derive_seed(0, "after", before["innings"], before["over"]) % 2**32
        won = 0.5 if state is None else float(np.mean(wins(state, FUTURES_OF_A_CHOICE, seed, game.model)))
        chance = won if at.batting_side == side else 1.0 - won
    gained = {name: getattr(innings, name) - before[name] for name in ("runs", "wickets")}
    return OverPrice(**{**before, **gained, "after": round(chance, 4)})
