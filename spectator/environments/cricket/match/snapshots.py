"""Snapshots of a game in progress: exact JSON from which play continues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spectator.environments.cricket.ball.grounds import MAX_BOUNDARY_M
from spectator.environments.cricket.ball.situation import SECTORS, DeliveryPlan, Effects
from spectator.environments.cricket.laws import SUPER_OVER, BatterLine, BowlerLine, Innings
from spectator.environments.cricket.match import event_data
from spectator.environments.cricket.match.captain_state import CaptainState
from spectator.environments.cricket.match.engine import Match
from spectator.environments.cricket.match.field import Field, custom_field, preset_field
from spectator.environments.cricket.match.game import Game
from spectator.events import Fact

_PLAIN_FIELDS = tuple(name for name in CaptainState.__slots__ if name not in ("delivery", "field"))
_WHOLE = {"seed", "episode_id", "options", "steps", "random", "game", "seats", "pending", "match"}
_GAME = ("cut", "toss_winner", "elected", "called", "bowler_ready", "recent", "this_over", "last_ball")


def public_state(game: Game | None) -> dict[str, Any]:
    """Return the public state, without the episode's id."""
    if game is None:
        nothing = {"phase": "toss", "actor": None, "done": False, "overs": 0, "toss": None}
        return {**nothing, "innings": [], "result": None}
    match = game.match
    innings = [] if match is None else [
        {"batting": side, "target": played.target, **event_data.score(played),
         "extras": event_data.extras(played), "closed": played.closed}
        for side, played in zip(match.batting, match.innings, strict=True)
    ]  # fmt: skip
    result = match.result if match is not None else None
    return {
        "phase": game.phase,
        "actor": game.actor,
        "done": result is not None or game.cut is not None,
        "overs": game.format.overs,
        "toss": {"winner": game.toss_winner, "elected": game.elected} if game.elected else None,
        "innings": innings,
        "result": None
        if result is None
        else result.words(game.teams[result.winner].name if result.winner else ""),
    }


def dump(game: Game, seed: int, episode_id: str, options: Mapping[str, Any], steps: int) -> bytes:
    """Return the whole game as JSON bytes."""
    version, internal, gauss = game.rng.getstate()
    whole = {
        "seed": seed,
        "episode_id": episode_id,
        "options": dict(options),
        "steps": steps,
        "random": [version, list(internal), gauss],
        "game": {name: getattr(game, name) for name in _GAME},
        "seats": {side: _dump_captain(captain) for side, captain in game.captains.items()},
        "account": None if game.account is None else game.account.dump(),
        "reading": game.reading.dump(),
        "pending": [[fact.type, fact.data] for fact in game.pending],
        "match": None if game.match is None else _dump_match(game.match),
    }
    return _encoded(whole)


def header(snapshot: bytes) -> dict[str, Any]:
    """Return the seed, episode id, options and steps of a snapshot.

    Raises:
        ValueError: The snapshot is not one of a cricket match.
    """
    loaded = json.loads(snapshot)
    if not isinstance(loaded, dict) or not _WHOLE <= loaded.keys():
        raise ValueError("not a snapshot of a cricket match")
    return {name: loaded[name] for name in ("seed", "episode_id", "options", "steps")}


def snapshot_for(snapshot: bytes, episode_id: str) -> bytes:
    """Return a snapshot with another episode's id."""
    return _encoded({**json.loads(snapshot), "episode_id": episode_id})


def _encoded(whole: Mapping[str, Any]) -> bytes:
    return json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def load(snapshot: bytes, game: Game) -> Game:
    """Load a snapshot into a fresh game of the same seed and options."""
    whole = json.loads(snapshot)
    for name in _GAME:
        setattr(game, name, whole["game"][name])
    game.captains = {side: _load_captain(captain) for side, captain in whole["seats"].items()}
    game.pending = [Fact(kind, data) for kind, data in whole["pending"]]
    if whole["match"] is not None:
        game.match = _load_match(whole["match"], game)
    if game.account is not None and whole["account"] is not None:
        game.account.load(whole["account"])
    if "reading" in whole:
        game.reading.load(whole["reading"])
    version, internal, gauss = whole["random"]
    game.rng.setstate((version, tuple(internal), gauss))
    return game


def _dump_captain(captain: CaptainState) -> dict[str, Any]:
    plan = captain.delivery
    return {
        **{name: getattr(captain, name) for name in _PLAIN_FIELDS},
        "delivery": None if plan is None else [plan.length, plan.line, plan.pace],
        "field": [
            captain.field.preset,
            captain.field.outside,
            [[one.name, one.x, one.y] for one in captain.field.fielders],
        ],
    }


def _load_captain(data: Mapping[str, Any]) -> CaptainState:
    plain = {name: data[name] for name in _PLAIN_FIELDS}
    plan = None if data["delivery"] is None else DeliveryPlan(*data["delivery"])
    return CaptainState(**plain, delivery=plan, field=_load_field(*data["field"]))


def _load_field(preset: str, outside: int, fielders: list[list[Any]]) -> Field:
    if preset == "custom":
        return custom_field([(name, x, y) for name, x, y in fielders], (MAX_BOUNDARY_M,) * len(SECTORS))
    return preset_field(preset, outside)


_LISTS_OF_TUPLES = ("fall", "overs")
_PLAIN_OF_INNINGS = sorted({*Innings.__slots__} - {"format", "batting", "bowling"})


def _dump_match(match: Match) -> dict[str, Any]:
    return {
        "effects": [match.effects.match, list(match.effects.innings)],
        "batting": match.batting,
        "seen": {str(player): list(pairs) for player, pairs in match.seen.items()},
        "innings": [_dump_innings(innings) for innings in match.innings],
    }


def _load_match(data: Mapping[str, Any], game: Game) -> Match:
    match = game.new_match(data["batting"][0])
    match.seen = {int(player): tuple(pairs) for player, pairs in data["seen"].items()}
    innings = [
        _load_innings(played, Innings(game.format if number < 2 else SUPER_OVER))
        for number, played in enumerate(data["innings"])
    ]
    match.restore(Effects(data["effects"][0], tuple(data["effects"][1])), data["batting"], innings)
    return match


def _dump_innings(innings: Innings) -> dict[str, Any]:
    return {
        **{name: getattr(innings, name) for name in _PLAIN_OF_INNINGS},
        "barred_batters": sorted(innings.barred_batters),
        "barred_bowlers": sorted(innings.barred_bowlers),
        "batting": [_dump_line(line) for line in innings.batting.values()],
        "bowling": [_dump_line(line) for line in innings.bowling.values()],
    }


def _dump_line(line: BatterLine | BowlerLine) -> dict[str, Any]:
    return {name: getattr(line, name) for name in sorted(line.__slots__)}


def _load_innings(data: Mapping[str, Any], innings: Innings) -> Innings:
    for name in (*_PLAIN_OF_INNINGS, "batting", "bowling"):
        value = data[name]
        if name in _LISTS_OF_TUPLES:
            value = [tuple(item) for item in value]
        elif name.startswith("barred"):
            value = frozenset(value)
        elif name in ("batting", "bowling"):
            value = {item["player"]: _load_line(name, item) for item in value}
        setattr(innings, name, value)
    return innings


def _load_line(card: str, data: Mapping[str, Any]) -> BatterLine | BowlerLine:
    return BatterLine(**data) if card == "batting" else BowlerLine(**data)
