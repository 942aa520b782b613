"""The reasons that scripted captains give for their decisions, the toss included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from spectator.environments.cricket.ball.grounds import Evening
from spectator.environments.cricket.captaincy.lookahead import outlook_on

FirstTask = Literal["bat", "field"]
"""What the winner of a toss may elect to do first."""

TOSS_FIELD_SHARE: Final = 0.70
"""Share of toss winners who field first in real matches (innings_summary.json)."""

SHORT_OVERS: Final = 5
"""Overs per innings up to which chasing is better, on any evening."""
LONG_OVERS: Final = 20
"""Overs per innings up to which neither choice is better on an even evening; in longer ones batting is."""

_BY_EVENING: Final[dict[Evening, FirstTask]] = {"dew": "field", "wearing": "bat"}


def better_first(overs: int, evening: Evening) -> FirstTask | None:
    """Return the election that wins more between equal captains; ``None`` if equal.

    Measured by simulation (docs/cricket-game.md, the toss).

    >>> better_first(5, "wearing"), better_first(20, "wearing"), better_first(20, "even")
    ('field', 'bat', None)
    """
    if overs <= SHORT_OVERS:
        return "field"
    if evening == "even":
        return "bat" if overs > LONG_OVERS else None
    return _BY_EVENING[evening]


HURRIED: Final = 1.1
"""Ratio of runs needed to the usual runs to come from which the batting side has no time to wait."""
EASY: Final = 0.7
"""The ratio up to which the batting side needs no risk."""
STEEP_RATE: Final = 12.0
"""Required runs per over that leave no time in any format."""


def pressure(view: Mapping[str, Any]) -> float | None:
    """Return the ratio of runs needed to usual runs; ``None`` without a target.

    The usual runs are those of an average side with as many balls and wickets left, in such a match.
    """
    need, score = view.get("need"), view["score"]
    if not need or not score["balls_left"]:
        return None
    return float(need) / max(1.0, outlook_on(view).runs_to_come(score["balls"], score["wickets"]))


def hurried(view: Mapping[str, Any]) -> bool:
    """Check whether the batting side must hit now."""
    return (pressure(view) or 0.0) >= HURRIED or (view.get("required_rate") or 0.0) >= STEEP_RATE


def plan_reason(summary: str) -> str:
    """Return the reason for a match plan."""
    return f"The plan: {summary[0].lower()}{summary[1:]}"


def toss_reason(elect: str, overs: int | None = None, evening: str = "") -> str:
    """Return the reason to bat or field, by innings length and evening if given."""
    if overs is not None and overs <= SHORT_OVERS:
        return "If the coin falls our way we field: in so short a match it pays to know the target."
    if evening == "dew":
        return "If the coin falls our way we field: dew will make it easier to bat later on."
    if evening == "wearing":
        return "If the coin falls our way we bat: this pitch will wear."
    if overs is not None and overs > LONG_OVERS:
        return "If the coin falls our way we bat: over so many overs a chase is the harder half."
    if elect == "field":
        return "If the coin falls our way we chase: a known target is the better half of the bargain."
    return "If the coin falls our way we bat: runs on the board, and the pressure is theirs."


def batter_reason(view: Mapping[str, Any], name: str, partner: str | None = None) -> str:
    """Return the reason for this batter, or this opening pair."""
    if partner is not None:
        return f"{name} and {partner} open, as they always do."
    score = view["score"]
    return f"{score['runs']} for {score['wickets']}: {name} is next in the order, no reason to shuffle it."


def bowler_reason(view: Mapping[str, Any], name: str) -> str:
    """Return the reason for this bowler."""
    bowler = next(choice for choice in view["choices"]["bowlers"] if choice["name"] == name)
    over = view["score"]["balls"] // 6 + 1
    figures = "" if bowler["overs"] == "0.0" else f", {bowler['wickets']} for {bowler['runs']} so far"
    return f"Over {over} to {name}, {bowler['kind']}{figures}: {_bowler_why(view, bowler)}."


def _bowler_why(view: Mapping[str, Any], bowler: Mapping[str, Any]) -> str:
    pace, segment, overs = "pace" in bowler["kind"], view["segment"], int(bowler["overs"].split(".")[0])
    if "occasional" in bowler["kind"]:
        return "an over has to be found somewhere"
    if bowler["wickets"] >= 2:
        return "wickets have come from this arm"
    if overs and bowler["runs"] <= 6 * overs:
        return "hard to get away"
    if segment == "death":
        return "pace for the end" if pace else "slower through the air, let them fetch it"
    if segment == "powerplay":
        return "hard and straight while two are out" if pace else "take the pace off while two are out"
    return "a change of pace through the middle" if pace else "spin through the middle"


def field_reason(view: Mapping[str, Any], preset: str) -> str:
    """Return the reason for this field."""
    words, segment = preset.replace("_", " "), view["segment"]
    part = {"powerplay": "the powerplay", "middle": "the middle overs", "death": "the last overs"}[segment]
    return f"{words.capitalize()} field for {part}, {view['outside_limit']} may be out."


def batting_reason(view: Mapping[str, Any], aggression: float, said: str = "") -> str:
    """Return the reason for this batting intent, in other words than ``said`` before."""
    return f"{_situation(view)}: {_fresh(_batting_words(view, aggression), view, said)} from here."


def bowling_reason(view: Mapping[str, Any], attack: float, said: str = "") -> str:
    """Return the reason for this bowling intent, in other words than ``said`` before."""
    return f"{_situation(view)}: {_fresh(_bowling_words(view, attack), view, said)} from here."


def play_reason(view: Mapping[str, Any], level: float, *, batting: bool, said: str = "") -> str:
    """Return the reason for an intent on a ball, in other words than ``said`` before."""
    if view["free_hit"]:
        return _fresh(_FREE_HIT[batting], view, said)
    word = _fresh(_batting_words(view, level) if batting else _bowling_words(view, level), view, said)
    striker = view["striker"]
    if striker["balls"] == 0:
        return f"First ball to {striker['name']}: {word}."
    if view.get("need"):
        who = "" if batting else "they need "
        return f"{who}{view['need']} from {view['score']['balls_left']}: {word}.".capitalize()
    if batting:
        settled = "is still getting started" if striker["balls"] < 8 else "is set"
        return f"{striker['name']} {settled}: {word}."
    return f"{striker['name']} on {striker['runs']} from {striker['balls']}: {word}."


def _situation(view: Mapping[str, Any]) -> str:
    score = view["score"]
    at = f"{score['runs']} for {score['wickets']}"
    if view.get("need"):
        return f"{at}, {view['need']} wanted from {score['balls_left']}"
    return f"{at} after {score['overs']}, {view['segment']}" if score["balls"] else "A fresh innings"


def _fresh(words: tuple[str, ...], view: Mapping[str, Any], said: str) -> str:
    """Return one of ``words`` not in ``said``, starting later with every ball."""
    score = view["score"]
    first = (score["runs"] + score["balls"]) % len(words)
    turned = (*words[first:], *words[:first])
    return next((word for word in turned if word.lower() not in said.lower()), turned[0])


_FREE_HIT: Final = {
    True: (
        "Free hit: nothing to lose but the ball.",
        "A free hit: swing, nobody can catch us out of it.",
        "Free hit, so the only mistake is to leave it.",
    ),
    False: (
        "Free hit against us: make it hard to get under.",
        "Free hit: keep it out of the arc and give away no more than one.",
        "They swing for nothing now, so bowl where there is no leverage.",
    ),
}


def _batting_words(view: Mapping[str, Any], level: float) -> tuple[str, ...]:
    asked, hard = pressure(view), level >= 0.6
    if hurried(view):
        return _HURRIED_HARD if hard else _HURRIED
    if asked is not None and asked <= EASY:
        return _EASY_HARD if hard else _EASY
    if hard:
        return _HARD
    if level <= 0.45:
        return _CAREFUL_CHASE if asked is not None else _CAREFUL
    return _DEATH if view["segment"] == "death" else _USUAL


def _bowling_words(view: Mapping[str, Any], level: float) -> tuple[str, ...]:
    asked = pressure(view)
    if hurried(view):
        return _AHEAD_HARD if level >= 0.58 else _AHEAD
    if asked is not None and asked <= EASY:
        return _BEHIND_HARD if level >= 0.5 else _BEHIND
    if level >= 0.58:
        return _ATTACK
    return _SAVE if level <= 0.42 else _PATIENT


_HURRIED_HARD: Final = (
    "swing, only boundaries keep up", "ones and twos are no use now, hit through the line",
    "the rope or nothing",
)  # fmt: skip
_HURRIED: Final = (
    "the rate will not wait, hit what can be hit", "a boundary an over at least, and run hard",
    "no time to look at it, take it on",
)  # fmt: skip
_EASY_HARD: Final = (
    "finish it early", "get it done while it is easy", "no need to take it to the end, put it away",
)  # fmt: skip
_EASY: Final = (
    "no risk needed, knock it off", "singles win this, so take them", "let them take the risks, we need none",
)  # fmt: skip
_HARD: Final = (
    "go hard, a wicket is a price we pay", "take the bowling on, whoever is bowling",
    "hit through the ring while we can",
)  # fmt: skip
_CAREFUL_CHASE: Final = (
    "keep wickets, one big over will do", "stay in it, the rate can wait an over",
    "no wicket now, then the chase is on",
)  # fmt: skip
_CAREFUL: Final = (
    "wickets first, the bad ball will come", "build it, the end is when we spend",
    "play it late and along the ground",
)  # fmt: skip
_DEATH: Final = (
    "swing as a side must at the end", "few balls left, make each of them count",
    "clear the front leg and hit",
)  # fmt: skip
_USUAL: Final = (
    "take what the ball offers", "rotate, and put the loose one away", "play the ball and not the bowler",
    "a run a ball and whatever comes beside",
)  # fmt: skip
_AHEAD_HARD: Final = (
    "attack and be done with it", "they must swing, so give them something to miss",
    "a wicket now settles it",
)  # fmt: skip
_AHEAD: Final = (
    "no boundaries and it is ours", "make them hit it a long way", "every dot ball hurts them more",
)  # fmt: skip
_BEHIND_HARD: Final = (
    "only wickets win this", "dots are no use now, go for the stumps", "it is wickets or nothing",
)  # fmt: skip
_BEHIND: Final = (
    "make them earn the last runs", "give them singles and nothing else", "drag it out, something may happen",
)  # fmt: skip
_ATTACK: Final = (
    "attack, a wicket changes it", "go for the edge and the stumps", "pay a few runs for a wicket",
)  # fmt: skip
_SAVE: Final = (
    "no boundaries, let the rate climb", "dry them up", "nothing to hit, and the mistake comes",
)  # fmt: skip
_PATIENT: Final = (
    "line, length and patience", "keep it there and make them play", "ask the same question again",
    "hit the pitch and wait",
)  # fmt: skip
"""Phrases for each state of a match; there are several, so that a captain does not repeat itself."""
