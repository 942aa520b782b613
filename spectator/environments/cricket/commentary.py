"""Owns the commentary: what is said about a match, drawn from its events alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spectator.environments.base import derive_seed
from spectator.environments.cricket import phrases
from spectator.environments.cricket.field import CLOSE_M, POSITIONS, is_outside
from spectator.environments.cricket.words import number_word, plural
from spectator.events import Event
from spectator.narration.base import Line

Data = Mapping[str, Any]

MAX_LINE: Final = 300
CLOSE_FINISH_BALLS: Final = 12
"""Balls left of a chase from which every line ends with the equation."""

_SENTENCE: Final = re.compile(r"(?<=[^.][.!?] )[a-z]")

_BIG: Final = {"six": 1, "four": 1, "wicket": 0}


def comment(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    """Lines about ``event``; the same event always has the same lines."""
    speak = _LINES.get(event.type)
    return () if speak is None else speak(event.data, state)


def _pick(options: Sequence[str], data: Data, *salt: str) -> str:
    """One of ``options`` by the event's own data, equal in every process."""
    score = data.get("score")
    facts = (
        data.get("innings", 0),
        data.get("at", ""),
        data.get("delivery", 0),
        str(data.get("striker", "")),
    )
    total = score["runs"] if isinstance(score, Mapping) else 0
    return options[derive_seed(total, *facts, *salt) % len(options)]


def _surname(name: str) -> str:
    return name.partition(" ")[2] or name


def _line(text: str, **marks: Any) -> Line:
    return Line(text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…", **marks)


def _ball(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    label = "OUT" if data["dismissal"] else data["mark"]
    opening = f"{_surname(data['bowler'])} to {_surname(data['striker'])}"
    if data["free_hit"]:
        opening = f"Free hit. {opening}"
    text = f"{opening}: {_sentences(_ball_text(data))}{_tail(data)}"
    lines = [_line(text, priority=_BIG.get(data["kind"], 3), label=label, at=data["at"])]
    if data["powerplay"] and not data["powerplay_next"] and data["balls_left"]:
        lines.append(_line(f"The powerplay is over: {_score(data['score'])}.", priority=2, at=data["at"]))
    return lines


def _sentences(text: str) -> str:
    """Capitals where sentences begin, the first aside."""
    return _SENTENCE.sub(lambda found: found[0].upper(), text)


def _tail(data: Data) -> str:
    if data["need"] is None or data["need"] <= 0 or not 0 < data["balls_left"] <= CLOSE_FINISH_BALLS:
        return ""
    left = data["balls_left"]
    return f" {data['need']} needed from {'the last ball' if left == 1 else left}."


def _ball_text(data: Data) -> str:
    if data["dismissal"]:
        return _dismissal(data)
    if data["wides"]:
        return _wide(data)
    text = _played(data)
    if data["noball"]:
        call = _pick(phrases.NO_BALL, data, "call")
        coming = _pick(phrases.FREE_HIT_NEXT, data, "next") if data["free_hit_next"] else ""
        return f"{call} {text} {coming}".rstrip()
    return text


def _played(data: Data) -> str:
    if data["byes"]:
        return _pick(phrases.BYES, data, "byes").format(runs=plural(data["byes"], "bye"))
    if data["legbyes"]:
        return _pick(phrases.LEG_BYES, data, "legbyes").format(runs=plural(data["legbyes"], "leg-bye"))
    if not data["bat"]:
        return _dot(data)
    return _scored(data)


def _scored(data: Data) -> str:
    bat = data["bat"]
    if data["boundary"]:
        found = phrases.OVERTHROWS if data["ran"] else phrases.SIX if bat == 6 else phrases.FOUR
    else:
        found = {1: phrases.ONE, 2: phrases.TWO, 3: phrases.THREE}.get(bat, phrases.MORE)
    return _told(found, data)


def _told(found: Sequence[str], data: Data) -> str:
    zone = data["zone"]
    return _pick(found, data, "told").format(
        ball=_delivery(data),
        stroke=_stroke(data),
        where=_pick(phrases.WHERE[zone - 1], data, "where") if zone else "away",
        over=phrases.OVER[zone - 1] if zone else "over the rope",
        runs=number_word(data["bat"]),
    )


def _stroke(data: Data) -> str:
    """A word for the stroke that the ball's length allows."""
    shot, length = data["shot"], data["length"]
    usual = phrases.STROKES.get(shot, ("played",))
    if length in ("short", "back of a length"):
        usual = phrases.BACK_FOOT.get(shot, usual)
    elif length in ("full", "yorker"):
        usual = phrases.FRONT_FOOT.get(shot, usual)
    return _pick(usual, data, "stroke")


def _delivery(data: Data) -> str:
    """What was bowled, ending in a comma; left unsaid one time in four."""
    said = derive_seed(data["delivery"], data["at"], data["innings"], "say") % 4
    if said == 3:
        return ""
    words = phrases.LENGTHS[data["length"]]
    if "pace" not in data["bowler_line"]["kind"]:
        words = phrases.SPIN_LENGTHS.get(data["length"], words)
    length = _pick(words, data, "length")
    if said == 2 or not _line_fits(data):
        return f"{length}, "
    return f"{length}, {_pick(phrases.LINES[data['line']], data, 'line')}, "


def _line_fits(data: Data) -> bool:
    """Whether the line is worth saying: not where it would sit oddly beside the direction."""
    zone, line = data["zone"], data["line"]
    if zone in (1, 2):
        return line in ("stumps", "leg")
    return not (zone == 3 and line == "wide outside off") and not (zone in (7, 8) and line == "leg")


def _dot(data: Data) -> str:
    off_stump, contact = data["line"] in ("outside off", "wide outside off"), data["contact"]
    if data["zone"] is not None:
        return _told(phrases.DOT_DEFENDED if data["shot"] == "defend" else phrases.DOT_PLAYED, data)
    if contact == "missed" and off_stump:
        return _told(phrases.DOT_MISSED_WIDE, data)
    return _told(phrases.DOT_LEFT if contact == "left" and off_stump else phrases.DOT_PLAIN, data)


def _wide(data: Data) -> str:
    if data["boundary"]:
        return _pick(phrases.WIDES_FOUR, data, "wide")
    if data["wides"] > 1:
        return _pick(phrases.WIDES_RUN, data, "wide").format(runs=number_word(data["wides"]))
    if data["line"] == "leg":
        return _pick(phrases.WIDE_LEG, data, "wide")
    if data["line"] == "wide outside off":
        return _pick(phrases.WIDE_OFF, data, "wide")
    if data["length"] == "short":
        return _pick(phrases.WIDE_HIGH, data, "wide")
    return _pick(phrases.WIDE_PLAIN, data, "wide")


def _dismissal(data: Data) -> str:
    kind = data["dismissal"]
    fielder = _surname(data["fielder"] or "")
    text = _pick(_dismissal_phrases(data, kind), data, "out").format(
        out=_surname(data["out"]),
        fielder=fielder,
        position=data["position"] or "",
        bowler=_surname(data["bowler"]),
        kind=kind,
    )
    call = "No-ball! " if data["noball"] else "Wide. " if data["wides"] and kind != "stumped" else ""
    made = data["runs"] - (1 if call else 0)
    if kind == "run out" and made > 0:
        text += f" {plural(made, 'run')} to the total."
    return call + text


def _dismissal_phrases(data: Data, kind: str) -> Sequence[str]:
    if kind == "caught":
        return _catch_phrases(data["position"])
    if kind == "stumped":
        return phrases.STUMPED_WIDE if data["wides"] else phrases.STUMPED
    if kind == "run out":
        if not data["fielder"]:
            return phrases.RUN_OUT_NOBODY
        return phrases.RUN_OUT_AGAIN if data["ran"] else phrases.RUN_OUT
    return {
        "bowled": phrases.BOWLED,
        "lbw": phrases.LBW,
        "hit wicket": phrases.HIT_WICKET,
        "caught and bowled": phrases.CAUGHT_AND_BOWLED,
    }.get(kind, phrases.OTHER_OUT)


def _catch_phrases(position: str | None) -> Sequence[str]:
    if position == "keeper":
        return phrases.CAUGHT_BEHIND
    place = POSITIONS.get(position or "")
    if place is None:
        return phrases.CAUGHT_RING
    x, y = place
    if is_outside(x, y):
        return phrases.CAUGHT_DEEP
    return phrases.CAUGHT_CLOSE if x * x + y * y < CLOSE_M**2 and y < 0 else phrases.CAUGHT_RING


def _score(score: Data) -> str:
    return f"{score['runs']} for {score['wickets']}"


def _team(state: Mapping[str, Any], side: str) -> str:
    name: str = state["world"]["teams"][side]["name"]
    return name


def _toss(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    did = "bat first" if data["elected"] == "bat" else "field first"
    return [_line(f"{data['team']} win the toss and will {did}.", priority=2, label="toss")]


def _innings_started(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    team = data["team"]
    overs = plural(data["overs"], "over")
    if data["super_over"]:
        chase = f", {data['target']} to win" if data["target"] else ""
        return [_line(f"Super over: {team} bat{chase}.", priority=1, label="start")]
    if data["target"]:
        return [_line(f"{team} need {data['target']} from {overs}.", priority=1, label="start")]
    return [_line(f"{team} bat first: {overs} to come.", priority=1, label="start")]


def _position(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    now = data["now"]
    if now is None:
        made = [f"{_team(state, side)} made {_score(score)}" for side, score in data["scores"].items()]
        return [_line(f"{', '.join(made)}.", priority=1, label="start")]
    overs = now["score"]["overs"].removesuffix(".0")
    text = f"We join it with {_team(state, now['batting'])} {_score(now['score'])} after {overs} overs."
    return [_line(text, priority=1, label="start")]


def _super_over(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    which = "" if data["number"] == 1 else " another"
    return [_line(f"All square! It goes to{which or ' a'} super over.", priority=0, label="tie")]


def _batter(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    number = data["player"]["number"]
    if number == 1:
        return ()
    if number == 2:
        return [_line(f"{data['striker']} will face, {data['non_striker']} at the other end.")]
    side = state["world"]["score"][data["side"]]
    text = _pick(
        phrases.COMES_IN, {"innings": data["innings"], "at": str(number)}, data["player"]["name"]
    ).format(name=data["player"]["name"], hand=data["bats"], score=f"{side['runs']} for {data['wickets']}")
    return [_line(text)]


def _bowler(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    line = data["bowler"]
    key = {"innings": data["innings"], "at": str(data["over"])}
    overs = state["world"]["scorecards"][str(data["innings"])]["overs"]
    if overs.get(str(data["over"] - 1), {}).get("bowler") == line["name"]:
        return ()
    if line["balls"] == 0:
        text = _pick(phrases.NEW_BOWLER, key, line["name"]).format(name=line["name"], kind=line["kind"])
        return [_line(text)]
    figures = f"{line['wickets']} for {line['runs']} from {line['overs'].removesuffix('.0')}"
    return [_line(_pick(phrases.BACK_BOWLER, key, line["name"]).format(name=line["name"], figures=figures))]


def _wicket(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    player = data["player"]
    fours = f" {player['fours']}x4" if player["fours"] else ""
    sixes = f" {player['sixes']}x6" if player["sixes"] else ""
    text = f"{player['name']} {data['how_out']} {player['runs']} ({player['balls']}b{fours}{sixes})."
    return [_line(f"{text} {data['score']} for {data['wicket']}.", priority=2, label="W", at=data["at"])]


def _milestone(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    name, value = data["name"], data["value"]
    if data["kind"] == "batter":
        text = (
            f"{_ROUND.get(value, str(value)).capitalize()} for {name}, off {plural(data['balls'], 'ball')}."
        )
        return [_line(text, priority=1, label=str(value))]
    if data["kind"] == "wickets":
        return [_line(f"Five wickets for {name}!", priority=1, label="5w")]
    if data["kind"] == "partnership":
        return [_line(f"{_ROUND.get(value, str(value)).capitalize()} partnership for {name}.", priority=2)]
    return [_line(f"{value} up for {name}.", priority=3)]


_ROUND: Final = {50: "fifty", 100: "a hundred", 150: "a hundred and fifty", 200: "two hundred"}


def _over(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    bowler = data["bowler"]
    made = "a maiden" if data["maiden"] else plural(data["runs"], "run")
    if data["wickets"]:
        wickets = plural(data["wickets"], "wicket")
        made = "a wicket maiden" if data["maiden"] and data["wickets"] == 1 else f"{made} and {wickets}"
    figures = f"{bowler['overs'].removesuffix('.0')}-{bowler['maidens']}-{bowler['runs']}-{bowler['wickets']}"
    text = f"End of over {data['over']}: {made}, {_score(data['score'])}. {bowler['name']} {figures}."
    if data["need"] is not None and data["need"] > 0 and data["balls_left"]:
        text += f" {data['need']} needed from {data['balls_left']}."
    return [_line(text, priority=2, label="end")]


def _innings_ended(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    score = data["score"]
    reason = {"overs": "", "all out": " all out", "target": ""}[data["reason"]]
    total = f"{score['runs']}{reason}" if reason else _score(score)
    overs = score["overs"].removesuffix(".0")
    text = f"{data['team']} {total} from {overs} over{'' if overs == '1' else 's'}."
    return [_line(text, priority=1, label="innings")]


def _match_ended(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    return [_line(f"{data['result']}.", priority=0, label="result")]


def _field(data: Data, state: Mapping[str, Any]) -> Sequence[Line]:
    preset = data["preset"].replace("_", "-")
    what = "a field of their own" if preset == "custom" else f"the {preset} field"
    return [_line(f"{_team(state, data['side'])} set {what}.")]


_LINES: Final[dict[str, Callable[[Data, Mapping[str, Any]], Sequence[Line]]]] = {
    "cricket.toss_made": _toss,
    "cricket.position_set": _position,
    "cricket.innings_started": _innings_started,
    "cricket.super_over_started": _super_over,
    "cricket.batter_selected": _batter,
    "cricket.bowler_selected": _bowler,
    "cricket.field_set": _field,
    "cricket.ball_bowled": _ball,
    "cricket.wicket_fell": _wicket,
    "cricket.milestone_reached": _milestone,
    "cricket.over_completed": _over,
    "cricket.innings_ended": _innings_ended,
    "cricket.match_ended": _match_ended,
}
