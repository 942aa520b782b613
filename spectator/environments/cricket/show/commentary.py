"""The commentary of a match, from its events and the viewers' state.

A second commentator answers after each over and each wicket. Before the toss it describes the ground, the
stronger side and players in form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import USUAL_BOUNDARY_M
from spectator.environments.cricket.match.event_data import number_word, plural, surname
from spectator.environments.cricket.people import FORM_SD
from spectator.environments.cricket.show import phrases
from spectator.environments.cricket.show.ball_commentary import call_ball, radio_ball, score_words
from spectator.environments.cricket.show.phrases import PhrasePicker
from spectator.events import Event
from spectator.narration.commentary import Line

Data = Mapping[str, Any]

UNEQUAL_SIDES_M: Final = 8.0
"""Difference in metres from which one side of a ground is called shorter."""
UNEQUAL: Final = 25.0
"""Difference in Elo points from which a side is called stronger."""
NOTABLE_FORM: Final = 1.5 * FORM_SD
EVEN_MATCHED: Final = "On paper there is nothing between them."


def before_the_toss(data: Data) -> Iterator[str]:
    """Yield sentences about the unusual circumstances of a match.

    Args:
        data: Data of ``cricket.match_arranged``.
    """
    if "ground" in data:
        yield ground_words(data["ground"]["boundaries"])
    if "squad_difference" in data:
        yield _strength(data, data["squad_difference"])
    for side in ("home", "away"):
        words = _form(data["form"][side]) if "form" in data else ""
        if words:
            yield f"{data[side]['name']}: {words}."


def ground_words(boundaries: list[float]) -> str:
    """Describe the distance of the rope in a sentence.

    Args:
        boundaries: Metres by sector, from the view of a right-hander at the first end.

    >>> ground_words([64, 60, 60, 66, 72, 78, 78, 72])
    'The boundary is 60 metres on one side and 78 on the other; the ends change that every over.'
    """
    one, other = (sum(boundaries[at : at + 2]) / 2.0 for at in (1, 5))
    straight = (boundaries[3] + boundaries[4]) / 2.0
    if abs(one - other) >= UNEQUAL_SIDES_M:
        near, far = sorted((one, other))
        sides = f"{near:.0f} metres on one side and {far:.0f} on the other"
        return f"The boundary is {sides}; the ends change that every over."
    square = (one + other) / 2.0
    small, big = max(square, straight) < USUAL_BOUNDARY_M, min(square, straight) > USUAL_BOUNDARY_M
    size = "A small ground" if small else "A big ground" if big else "The boundary"
    return f"{size}: {square:.0f} metres square of the wicket, {straight:.0f} straight."


def _strength(data: Data, difference: float) -> str:
    if abs(difference) < UNEQUAL:
        return EVEN_MATCHED
    stronger = data["home" if difference > 0 else "away"]["name"]
    return f"{stronger} have the stronger squad, by {abs(difference):.0f} rating points."


def _form(players: list[Data]) -> str:
    """Name the players in and out of form; empty without any."""
    in_form = [one for one in players if _main_form(one) >= NOTABLE_FORM]
    out = [one for one in players if _main_form(one) <= -NOTABLE_FORM]
    parts = [
        f"{', '.join(surname(one['name']) for one in found[:3])} {words}"
        for found, words in ((in_form, "in form"), (out, "out of form"))
        if found
    ]
    return "; ".join(parts)


def _main_form(player: Data) -> float:
    """Return the form in the player's main job: a bowler's as a bowler."""
    return float(player["bat"] if player["bowl"] is None else player["bowl"])


Answer = tuple[tuple[str, ...], dict[str, object]]
"""Alternative phrases for a statement, and the values of their slots."""

ASKED_FOR_MUCH: Final = 0.7
"""Level from which a captain counts as having asked for runs or wickets; 0.5 is what real sides do."""
SCORED: Final = 25
"""Runs from which a dismissed batter's score is mentioned."""
ANSWERED_SWING: Final = 0.05
"""Minimum change of the chance to win in an over that is mentioned."""
EXPENSIVE, CHEAP = 14, 3
STAND: Final = 30
AHEAD, BEHIND = -1.0, 1.5
"""Difference between required and current rate, in runs per over, from which a chase is ahead or behind."""


def after_wicket(data: Data, state: Data) -> str:
    """Return the second commentator's answer to a wicket.

    Args:
        data: Data of the ``cricket.ball_bowled`` that took it.
    """
    return _said(_of_wicket(data, state["world"]), data, state)


def after_over(data: Data, state: Data) -> str:
    """Return the second commentator's answer to an over; empty at an innings' end.

    Args:
        data: Data of ``cricket.over_completed``.
    """
    won = data["need"] is not None and data["need"] <= 0
    if won or not data["balls_left"] or data["score"]["wickets"] >= 10:
        return ""
    return _said(_of_over(data, state["world"]), data, state)


def _said(answers: Iterator[Answer], data: Data, state: Data) -> str:
    """Return the first answer with a phrase not used recently, or the last one."""
    picker = PhrasePicker(data, state, members=("reply",))
    said = ""
    for options, facts in answers:
        phrase = picker.pick(options, "analyst")
        said = phrase.format(**facts)
        if picker.is_new(phrase):
            break
    return said[:1].upper() + said[1:]


def _of_wicket(data: Data, world: Data) -> Iterator[Answer]:
    line = data["striker_line"] if data["out"] == data["striker"] else data["non_striker_line"]
    facts: dict[str, object] = {
        "out": surname(data["out"]),
        "bowler": surname(data["bowler"]),
        "runs": line["runs"],
        "balls": plural(line["balls"], "ball"),
        "down": f"{data['score']['wickets']} down for {data['score']['runs']}",
        "batting": world["teams"][world["batting"]]["name"],
        "bowling": world["teams"][world["bowling"]]["name"],
    }
    taken, intents = data["dismissal"] != "run out", data["intents"]
    if world["over"]["marks"].count("W") == 2:
        yield ("Two in the over now. {batting} are {down}.", "That is a second one this over: {down}."), facts
    if taken and intents["attack"] >= ASKED_FOR_MUCH:
        yield (
            (
                "{bowling} had set everything on a wicket, and they have it.",
                "That is what the attack was for: {out} gone for {runs}.",
                "They gave up runs to look for that one. {down}.",
            ),
            facts,
        )
    if taken and intents["aggression"] >= ASKED_FOR_MUCH:
        yield (
            (
                "{batting} asked for big hitting, and this is its price.",
                "{out} was told to go for it. {runs} from {balls}, and out.",
                "Hitting out was the order: it has cost them {out}.",
            ),
            facts,
        )
    if line["runs"] >= SCORED:
        yield (
            (
                "{out} had {runs} from {balls}: that is the one they wanted.",
                "{runs} from {balls} for {out}, and {bowling} can breathe again.",
            ),
            facts,
        )
    if data["need"] is not None and data["need"] > 0 and data["balls_left"]:
        chase = {"need": data["need"], "left": plural(data["balls_left"], "ball")}
        yield (
            ("It is {need} from {left} now, {down}.", "{down}, and still {need} to get from {left}."),
            facts | chase,
        )
    yield (
        (
            "{out} goes for {runs} from {balls}. {batting} are {down}.",
            "So {batting} are {down}, and {out} had {runs}.",
            "{runs} from {balls} was all that {out} made: {down}.",
        ),
        facts,
    )


def _of_over(data: Data, world: Data) -> Iterator[Answer]:
    bowler = data["bowler"]
    overs = bowler["overs"].removesuffix(".0")
    taken = number_word(bowler["wickets"]) if bowler["wickets"] else "none"
    facts: dict[str, object] = {
        "bowler": surname(bowler["name"]),
        "figures": f"{taken} for {bowler['runs']} from {overs} over{'' if overs == '1' else 's'}",
        "runs": plural(data["runs"], "run"),
        "batting": world["teams"][world["batting"]]["name"],
        "bowling": world["teams"][world["bowling"]]["name"],
        "wickets": number_word(data["wickets"]),
    }
    if data["wickets"] >= 2:
        yield (
            (
                "{wickets} wickets in it: that over belongs to {bowling}.",
                "An over with {wickets} wickets: {batting} have to start again.",
            ),
            facts,
        )
    yield from _of_chances(data, world)
    if data["maiden"]:
        yield ("Nothing off {bowler} at all. {figures}.", "A maiden in this game is worth a wicket."), facts
    if data["runs"] >= EXPENSIVE:
        yield (
            (
                "{runs} is a dear one: {bowler} now has {figures}.",
                "{batting} will take {runs} an over all day.",
            ),
            facts,
        )
    yield from _of_a_chase(world)
    if data["runs"] <= CHEAP:
        yield (
            ("Only {runs}: {bowler} gives them nothing to hit.", "{figures}: {bowler} is hard to get away."),
            facts,
        )
    stand = world["partnership"]
    if stand["runs"] >= STAND:
        yield (
            ("These two have put on {stand} from {balls}.", "The stand is worth {stand} now, from {balls}."),
            {"stand": stand["runs"], "balls": plural(stand["balls"], "ball")},
        )
    yield ("{bowler} has {figures}.", "{runs} from that one. {bowler}: {figures}."), facts


def _of_chances(data: Data, world: Data) -> Iterator[Answer]:
    """Yield what the over did to the chance to win, if there is a forecast."""
    chances = world.get("chances", {}).get(str(data["innings"]), {})
    earlier = f"{data['over'] - 1}."
    before = [key for key in sorted(chances) if not chances[key].get("at", "").startswith(earlier)]
    if not before or max(chances) == before[-1]:
        return
    was, now = chances[before[-1]]["home"], chances[max(chances)]["home"]
    if abs(now - was) < ANSWERED_SWING:
        return
    side = "home" if now > was else "away"
    was, now = (was, now) if side == "home" else (1 - was, 1 - now)
    yield (
        (
            "That over takes {team} from {was} % to {now} %, by simulation.",
            "{team} were at {was} % before that over. They are at {now} % now.",
        ),
        {"team": world["teams"][side]["name"], "was": round(100 * was), "now": round(100 * now)},
    )


def _of_a_chase(world: Data) -> Iterator[Answer]:
    equation = world.get("equation", {})
    current, required = equation.get("current"), equation.get("required")
    if current is None or required is None:
        return
    facts: dict[str, object] = {"current": f"{current:.1f}", "required": f"{required:.1f}"}
    if required - current >= BEHIND:
        yield (
            (
                "They have gone at {current} an over, and need {required} from here.",
                "{required} an over is asked for now. So far it has been {current}.",
            ),
            facts,
        )
    elif required - current <= AHEAD:
        yield (
            (
                "They are ahead of it: {required} an over will do.",
                "{required} an over wins it, and they have gone at {current}.",
            ),
            facts,
        )


MAX_LINE: Final = 300

SWING: Final = 0.1
"""Minimum change of the chance to win that is called a turning point."""
SURE: Final = 3.0
"""Minimum change in standard errors of both forecasts that is called a turning point."""

_BIG: Final = {"six": 1, "four": 1, "wicket": 0}
_ROUND: Final = {50: "fifty", 100: "a hundred", 150: "a hundred and fifty", 200: "two hundred"}


def comment(event: Event, state: Data) -> Sequence[Line]:
    """Return the lines about ``event``, always the same for the same state."""
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
    """Return a sentence on an innings' best batter and bowler, after a space."""
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
