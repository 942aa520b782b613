"""The commentary of a match, drawn from its events and the viewers' state."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spectator.environments.cricket.match.descriptions import plural
from spectator.environments.cricket.show import phrases
from spectator.environments.cricket.show.analyst import after_over, after_wicket
from spectator.environments.cricket.show.calls import call_ball, radio_ball, score_words
from spectator.environments.cricket.show.circumstances import before_the_toss
from spectator.environments.cricket.show.phrase_choice import PhrasePicker
from spectator.events import Event
from spectator.narration.base import Line

Data = Mapping[str, Any]

MAX_LINE: Final = 300

SWING: Final = 0.1
"""Least change of the chance to win that is called a turning point, however sure it is."""
SURE: Final = 3.0
"""Standard errors of the change, from both forecasts' own, that it must exceed besides."""

_BIG: Final = {"six": 1, "four": 1, "wicket": 0}
_ROUND: Final = {50: "fifty", 100: "a hundred", 150: "a hundred and fifty", 200: "two hundred"}


def comment(event: Event, state: Data) -> Sequence[Line]:
    """Lines about ``event``; the same event in the same state always has the same lines."""
    speak = _LINES.get(event.type)
    return () if speak is None else speak(event.data, state)


def _line(text: str, *, radio: str | None = None, reply: str = "", **marks: Any) -> Line:
    return Line(_cut(text), radio=None if radio is None else _cut(radio), reply=_cut(reply) or None, **marks)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…"


def _ball(data: Data, state: Data) -> Sequence[Line]:
    picker = PhrasePicker(data, state)
    label = "OUT" if data["dismissal"] else data["mark"]
    text, radio = call_ball(data, state, picker), radio_ball(data, state, picker)
    reply = after_wicket(data, state) if data["dismissal"] else ""
    lines = [
        _line(text, radio=radio, reply=reply, priority=_BIG.get(data["kind"], 3), label=label, at=data["at"])
    ]
    if data["powerplay"] and not data["powerplay_next"] and data["balls_left"]:
        over = f"The powerplay is over: {score_words(data['score'])}."
        lines.append(_line(over, priority=2, at=data["at"]))
    return lines


def _team(state: Data, side: str) -> str:
    name: str = state["world"]["teams"][side]["name"]
    return name


def _arranged(data: Data, state: Data) -> Sequence[Line]:
    return [_line(words, priority=2, label="before") for words in before_the_toss(data)]


def _toss(data: Data, state: Data) -> Sequence[Line]:
    did = "bat first" if data["elected"] == "bat" else "field first"
    return [_line(f"{data['team']} win the toss and will {did}.", priority=2, label="toss")]


def _innings_started(data: Data, state: Data) -> Sequence[Line]:
    team = data["team"]
    overs = plural(data["overs"], "over")
    if data["super_over"]:
        chase = f", {data['target']} to win" if data["target"] else ""
        return [_line(f"Super over: {team} bat{chase}.", priority=1, label="start")]
    if data["target"]:
        rate = f"{6 * data['target'] / data['balls']:.1f}"
        text = f"{team} need {data['target']} from {overs}, {rate} an over."
        return [_line(text, priority=1, label="start")]
    return [_line(f"{team} bat first: {overs} to come.", priority=1, label="start")]


def _position(data: Data, state: Data) -> Sequence[Line]:
    now = data["now"]
    if now is None:
        made = [f"{_team(state, side)} made {score_words(score)}" for side, score in data["scores"].items()]
        return [_line(f"{', '.join(made)}.", priority=1, label="start")]
    overs = now["score"]["overs"].removesuffix(".0")
    text = f"We join it with {_team(state, now['batting'])} {score_words(now['score'])} after {overs} overs."
    return [_line(text, priority=1, label="start")]


def _super_over(data: Data, state: Data) -> Sequence[Line]:
    which = "" if data["number"] == 1 else " another"
    return [_line(f"All square! It goes to{which or ' a'} super over.", priority=0, label="tie")]


def _batter(data: Data, state: Data) -> Sequence[Line]:
    number = data["player"]["number"]
    if number == 1:
        return ()
    if number == 2:
        return [_line(f"{data['striker']} will face, {data['non_striker']} at the other end.")]
    side = state["world"]["score"][data["side"]]
    picker = PhrasePicker({"innings": data["innings"], "at": str(number)}, state)
    text = picker.pick(phrases.COMES_IN, data["player"]["name"]).format(
        name=data["player"]["name"], hand=data["bats"], score=f"{side['runs']} for {data['wickets']}"
    )
    return [_line(text)]


def _bowler(data: Data, state: Data) -> Sequence[Line]:
    line = data["bowler"]
    picker = PhrasePicker({"innings": data["innings"], "at": str(data["over"])}, state)
    overs = state["world"]["scorecards"][str(data["innings"])]["overs"]
    if overs.get(str(data["over"] - 1), {}).get("bowler") == line["name"]:
        return ()
    if line["balls"] == 0:
        new = phrases.SUPER_OVER_BOWLER if state["world"].get("super_over") else phrases.NEW_BOWLER
        text = picker.pick(new, line["name"]).format(name=line["name"], kind=line["kind"])
        return [_line(text)]
    figures = f"{line['wickets']} for {line['runs']} from {line['overs'].removesuffix('.0')}"
    return [_line(picker.pick(phrases.BACK_BOWLER, line["name"]).format(name=line["name"], figures=figures))]


def _wicket(data: Data, state: Data) -> Sequence[Line]:
    player = data["player"]
    fours = f" {player['fours']}x4" if player["fours"] else ""
    sixes = f" {player['sixes']}x6" if player["sixes"] else ""
    text = f"{player['name']} {data['how_out']} {player['runs']} ({player['balls']}b{fours}{sixes})."
    return [_line(f"{text} {data['score']} for {data['wicket']}.", priority=2, label="W", at=data["at"])]


def _milestone(data: Data, state: Data) -> Sequence[Line]:
    name, value = data["name"], data["value"]
    if data["kind"] == "batter":
        text = (
            f"{_ROUND.get(value, str(value)).capitalize()} for {name}, off {plural(data['balls'], 'ball')}."
        )
        return [_line(text, priority=1, label=str(value))]
    if data["kind"] == "wickets":
        return [_line(f"Five wickets for {name}!", priority=1, label="5w")]
    if data["kind"] == "partnership":
        stand = _ROUND.get(value, str(value)).capitalize()
        text = f"{stand} partnership for {name}, off {plural(data['balls'], 'ball')}."
        return [_line(text, priority=2)]
    return [_line(f"{value} up for {name}.", priority=3)]


def _over(data: Data, state: Data) -> Sequence[Line]:
    bowler, score = data["bowler"], data["score"]
    made = "a maiden" if data["maiden"] else plural(data["runs"], "run")
    if data["wickets"]:
        wickets = plural(data["wickets"], "wicket")
        made = "a wicket maiden" if data["maiden"] and data["wickets"] == 1 else f"{made} and {wickets}"
    figures = f"{bowler['overs'].removesuffix('.0')}-{bowler['maidens']}-{bowler['runs']}-{bowler['wickets']}"
    text = f"End of over {data['over']}: {made}, {score_words(score)}. {bowler['name']} {figures}."
    radio = f"After {plural(data['over'], 'over')}, {score_words(score)}. {made.capitalize()} off it."
    chase = ""
    if data["need"] is not None and data["need"] > 0 and data["balls_left"]:
        chase = f" {data['need']} needed from {data['balls_left']}."
        text += f" {6 * data['need'] / data['balls_left']:.1f} an over from here."
    return [_line(text + chase, radio=radio + chase, reply=after_over(data, state), priority=2, label="end")]


def _innings_ended(data: Data, state: Data) -> Sequence[Line]:
    score = data["score"]
    reason = {"overs": "", "all out": " all out", "target": ""}[data["reason"]]
    total = f"{score['runs']}{reason}" if reason else score_words(score)
    overs = score["overs"].removesuffix(".0")
    text = f"{data['team']} {total} from {overs} over{'' if overs == '1' else 's'}."
    if not data["super_over"]:
        text += _pick_of(state["world"]["scorecards"][str(data["innings"])])
    return [_line(text, priority=1, label="innings")]


def _pick_of(card: Data) -> str:
    """The best bat and the best bowler of an innings, in a sentence that begins with a space."""
    best = max(card["batting"].values(), key=lambda line: (line["runs"], -line["balls"]))
    said = f" {best['name']} top-scored with {best['runs']} off {best['balls']}"
    takers = [line for line in card["bowling"].values() if line["wickets"]]
    if not takers:
        return f"{said}."
    taker = max(takers, key=lambda line: (line["wickets"], -line["runs"]))
    return f"{said}; {taker['name']} took {taker['wickets']} for {taker['runs']}."


def _match_ended(data: Data, state: Data) -> Sequence[Line]:
    return [_line(f"{data['result']}.", priority=0, label="result")]


def _field(data: Data, state: Data) -> Sequence[Line]:
    preset = data["preset"].replace("_", "-")
    what = "a field of their own" if preset == "custom" else f"the {preset} field"
    world = state["world"]
    picker = PhrasePicker({"innings": world.get("innings", 0), "score": world["score"][data["side"]]}, state)
    said = picker.pick(phrases.FIELD, preset).format(team=_team(state, data["side"]), field=what)
    return [_line(said[0].upper() + said[1:])]


def _forecast(data: Data, state: Data) -> Sequence[Line]:
    chances = state["world"].get("chances", {}).get(str(data["innings"]), {})
    now, *before = sorted(chances, reverse=True)[:2]
    if not before or not data["futures"] or int(now) != data["delivery"]:
        return ()
    swing = chances[now]["home"] - chances[before[0]]["home"]
    error = math.hypot(*(chances[key].get("se", 0.0) for key in (now, before[0])))
    if abs(swing) < max(SWING, SURE * error):
        return ()
    side = "home" if swing > 0 else "away"
    was, is_now = (
        chances[key]["home"] if side == "home" else 1 - chances[key]["home"] for key in (before[0], now)
    )
    picker = PhrasePicker({"innings": data["innings"], "delivery": data["delivery"]}, state)
    text = picker.pick(phrases.SWING).format(
        team=_team(state, side), before=round(100 * was), after=round(100 * is_now)
    )
    return [_line(text, radio=text.removesuffix(" (simulated).") + ".", priority=2, label="swing")]


_LINES: Final[dict[str, Callable[[Data, Data], Sequence[Line]]]] = {
    "cricket.match_arranged": _arranged,
    "cricket.toss_made": _toss,
    "cricket.position_set": _position,
    "cricket.innings_started": _innings_started,
    "cricket.super_over_started": _super_over,
    "cricket.batter_selected": _batter,
    "cricket.bowler_selected": _bowler,
    "cricket.field_set": _field,
    "cricket.ball_bowled": _ball,
    "cricket.forecast": _forecast,
    "cricket.wicket_fell": _wicket,
    "cricket.milestone_reached": _milestone,
    "cricket.over_completed": _over,
    "cricket.innings_ended": _innings_ended,
    "cricket.match_ended": _match_ended,
}
