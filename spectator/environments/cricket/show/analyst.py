"""What the second commentator answers: after each over and each wicket, what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spectator.environments.cricket.match.descriptions import number_word, plural, surname
from spectator.environments.cricket.show.phrase_choice import PhrasePicker

Data = Mapping[str, Any]
Answer = tuple[tuple[str, ...], dict[str, object]]
"""Ways to say a thing, and what fills their slots."""

ASKED_FOR_MUCH: Final = 0.7
"""Level from which a captain has asked for runs or wickets; 0.5 is what real sides do."""
SCORED: Final = 25
"""Runs from which a dismissed batter's score is worth a word."""
SWING: Final = 0.05
"""Least change of the chance to win in an over that is told."""
DEAR, CHEAP = 14, 3
STAND: Final = 30
AHEAD, BEHIND = -1.0, 1.5
"""Runs an over by which a chase is ahead or behind."""


def after_wicket(data: Data, state: Data) -> str:
    """The answer to a wicket.

    Args:
        data: Data of the ``cricket.ball_bowled`` that took it.
        state: What viewers see after it.
    """
    return _said(_of_wicket(data, state["world"]), data, state)


def after_over(data: Data, state: Data) -> str:
    """The answer to the end of an over; empty at the end of an innings, where there is more to say.

    Args:
        data: Data of ``cricket.over_completed``.
        state: What viewers see after it.
    """
    won = data["need"] is not None and data["need"] <= 0
    if won or not data["balls_left"] or data["score"]["wickets"] >= 10:
        return ""
    return _said(_of_over(data, state["world"]), data, state)


def _said(answers: Iterator[Answer], data: Data, state: Data) -> str:
    """The first answer that has a phrase not used lately; the last of them where all were."""
    picker = PhrasePicker(data, state, told=("reply",))
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
                "He was told to go for it. {runs} from {balls}, and out.",
                "Hitting out was the order: it has cost them {out}.",
            ),
            facts,
        )
    if line["runs"] >= SCORED:
        yield (
            (
                "He had {runs} from {balls}: that is the one they wanted.",
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
    if data["runs"] >= DEAR:
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
    """What the over did to the chance to win, where that was simulated."""
    told = world.get("chances", {}).get(str(data["innings"]), {})
    before = [key for key in sorted(told) if not told[key].get("at", "").startswith(f"{data['over'] - 1}.")]
    if not before or max(told) == before[-1]:
        return
    was, now = told[before[-1]]["home"], told[max(told)]["home"]
    if abs(now - was) < SWING:
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
