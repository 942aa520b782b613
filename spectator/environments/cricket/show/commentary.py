"""The commentary of a match, from its events and the viewers' state.

A second commentator answers after each over and each wicket. Before the toss it describes the ground, the
stronger side and players in form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import USUAL_BOUNDARY_M
from spectator.environments.cricket.match.event_data import number_word, plural, surname
from spectator.environments.cricket.people import FORM_SD
from spectator.environments.cricket.show.ball_commentary import (
    call_ball,
    picker,
    radio_ball,
    score_words,
    sentences,
)
from spectator.environments.cricket.show.phrases import STATES, table
from spectator.environments.cricket.show.spoken import number_in_words, spoken
from spectator.events import Event
from spectator.narration.commentary import Line
from spectator.text import clean_text

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


def answer(data: Data, state: Data) -> str:
    """Return the second commentator's answer to a wicket or an over.

    Args:
        data: Data of ``cricket.ball_bowled`` with a wicket, or of ``cricket.over_completed``.

    Returns:
        Empty if the ledger has nothing to answer, as at an innings' end.
    """
    found = state["world"].get("ledger", {}).get("answer", {})
    chosen = picker(state)
    for key, options in table("answers").items():
        if key not in found or (key in STATES and chosen.number(key) % 2):
            continue
        last = key in ("figures", "wicket")
        phrase = chosen.pick(key, options) if last else chosen.offer(key, options)
        if phrase is not None:
            said = phrase.format_map(_slots(data, state, found[key]))
            return said[:1].upper() + said[1:]
    return ""


def _slots(data: Data, state: Data, n: Any) -> dict[str, object]:
    """Return the values of an answer's slots; ``n`` is the ledger's figure for it."""
    world, score, left = state["world"], data["score"], data["balls_left"]
    bowler = data["bowler_line"] if "bowler_line" in data else data["bowler"]
    overs, need = bowler["overs"].removesuffix(".0"), data["need"]
    profile = world["format"].get("profile", "men")
    he = "she" if profile == "women" else "he"
    stand = world.get("partnership") or {"runs": 0, "balls": 0}
    hand = (2 if world.get("super_over") else 10) - score["wickets"]
    line: Data = {"name": "", "runs": 0, "balls": 0}
    if data.get("out"):
        line = data["striker_line"] if data["out"] == data["striker"] else data["non_striker_line"]
    first, second, third = n if isinstance(n, list) else ("", 0, 0)
    return {
        "he": he, "He": he.capitalize(),
        "batting": world["teams"][world["batting"]]["name"],
        "bowling": world["teams"][world["bowling"]]["name"],
        "bowler": surname(bowler["name"]),
        "figures": f"{number_word(bowler['wickets']) if bowler['wickets'] else 'none'} for {bowler['runs']}"
        f" from {overs} over{'' if overs == '1' else 's'}",
        "conceded": plural(bowler["runs"], "run"),
        "runs": line["runs"] if data.get("out") else plural(data["runs"], "run"),
        "balls": plural(line["balls"], "ball"),
        "out": surname(line["name"]),
        "score": score_words(score), "total": score["runs"],
        "down": f"{score['wickets']} down for {score['runs']}",
        "n": number_word(n) if isinstance(n, int) else second,
        "batter": surname(first), "faced": plural(third, "ball"),
        "need": need, "left": plural(left, "ball"), "hand": plural(hand, "wicket"),
        "required": f"{6.0 * need / left:.1f}" if need is not None and left else "",
        "current": f"{6.0 * score['runs'] / score['balls']:.1f}" if score["balls"] else "",
        "stand": stand["runs"], "stand_balls": plural(stand["balls"], "ball"),
        "side": world["teams"].get(first, {}).get("name", ""), "was": second, "now": third,
    }  # fmt: skip


MAX_LINE: Final = 300
MAX_CAPTAIN: Final = 80
"""Most characters of a captain's name: those of any label, because a part of a hidden name is not masked."""

HAT_TRICK_BALL: Final = "{name} is back, on a hat-trick: {figures} so far."
FEW_MOVES: Final = 3
"""Moves of fielders up to which each is named."""

_BIG: Final = {"six": 1, "four": 1, "wicket": 0}
_ROUND: Final = {50: "fifty", 100: "a hundred", 150: "a hundred and fifty", 200: "two hundred"}


def comment(event: Event, state: Data) -> Sequence[Line]:
    """Return the lines about ``event``, always the same for the same state."""
    speak = _LINES.get(event.type)
    return () if speak is None else speak(event.data, state)


def _line(text: str, *, radio: str | None = None, reply: str = "", **marks: Any) -> Line:
    said = None if radio is None else _cut(spoken(radio))
    said = said and said[0].upper() + said[1:]
    return Line(_cut(text), radio=said, reply=_cut(reply) or None, **marks)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…"


def _ball(data: Data, state: Data) -> Sequence[Line]:
    label = "OUT" if data["dismissal"] else data["mark"]
    text, radio = call_ball(data, state), radio_ball(data, state)
    reply = answer(data, state) if data["dismissal"] else ""
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


def _captain(state: Data, side: str) -> str:
    """Return the name of the captain in a seat.

    It is empty if the viewers' state has none, and in what a fork took over, which others may have played.
    """
    episode = state.get("episode", {})
    if "parent" in episode and episode["turn"] <= episode["parent"]["turn"]:
        return ""
    seat = episode.get("seats", {}).get(side, {})
    name = clean_text(str(seat.get("label", "")), MAX_CAPTAIN).strip()
    name = name if name.isprintable() else " ".join(name.split())
    return name[:1].lower() + name[1:] if seat.get("source") == "human" else name


def _captained(state: Data, side: str) -> str:
    """Return a side's team and its captain, as the start of a sentence."""
    team, captain = _team(state, side), _captain(state, side)
    return f"{team}, captained by {captain}," if captain else team


def _arranged(data: Data, state: Data) -> Sequence[Line]:
    return [_line(words, priority=2, label="before") for words in before_the_toss(data)]


def _toss(data: Data, state: Data) -> Sequence[Line]:
    did = "bat first" if data["elected"] == "bat" else "field first"
    team = _captained(state, data["winner"])
    return [_line(f"{team} win the toss and will {did}.", priority=2, label="toss")]


def _innings_started(data: Data, state: Data) -> Sequence[Line]:
    team = _captained(state, data["batting"])
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
    text = picker(state).pick("batter", table("lines")["comes_in"])
    score = f"{side['runs']} for {data['wickets']}"
    return [_line(text.format(name=data["player"]["name"], hand=data["bats"], score=score))]


def _bowler(data: Data, state: Data) -> Sequence[Line]:
    line, world, chosen = data["bowler"], state["world"], picker(state)
    if line["balls"] == 0:
        new = table("lines")["super_over_bowler" if world.get("super_over") else "new_bowler"]
        return [_line(chosen.pick("bowler", new).format(name=line["name"], kind=line["kind"]))]
    figures = f"{line['wickets']} for {line['runs']} from {line['overs'].removesuffix('.0')}"
    if world.get("ledger", {}).get("rows", {}).get(f"{line['number']:02d}") == 2:
        return [_line(HAT_TRICK_BALL.format(name=line["name"], figures=figures))]
    overs = world["scorecards"][str(data["innings"])]["overs"]
    if overs.get(str(data["over"] - 1), {}).get("bowler") == line["name"]:
        return ()
    back = chosen.pick("bowler", table("lines")["back_bowler"], "back")
    return [_line(back.format(name=line["name"], figures=figures))]


def _wicket(data: Data, state: Data) -> Sequence[Line]:
    player = data["player"]
    fours = f" {player['fours']}x4" if player["fours"] else ""
    sixes = f" {player['sixes']}x6" if player["sixes"] else ""
    text = f"{player['name']} {data['how_out']} {player['runs']} ({player['balls']}b{fours}{sixes})."
    return [_line(f"{text} {data['score']} for {data['wicket']}.", priority=2, label="W", at=data["at"])]


def _milestone(data: Data, state: Data) -> Sequence[Line]:
    kind, value = data["kind"], data["value"]
    written = picker(state).pick(f"milestone {kind}", table("milestones")[kind])
    balls = plural(data["balls"], "ball")
    texts = [
        written.format(n=n, name=data["name"], balls=balls)
        for n in (str(value), _ROUND.get(value, number_in_words(value)))
    ]
    priority = {"batter": 1, "wickets": 1, "partnership": 2}.get(kind, 3)
    label = {"batter": str(value), "wickets": "5w"}.get(kind)
    return [_line(texts[0], radio=texts[1][0].upper() + texts[1][1:], priority=priority, label=label)]


def _over(data: Data, state: Data) -> Sequence[Line]:
    bowler, score, left = data["bowler"], data["score"], data["balls_left"]
    made = "a maiden" if data["maiden"] else plural(data["runs"], "run")
    if data["wickets"]:
        wickets = plural(data["wickets"], "wicket")
        made = "a wicket maiden" if data["maiden"] and data["wickets"] == 1 else f"{made} and {wickets}"
    figures = f"{bowler['overs'].removesuffix('.0')}-{bowler['maidens']}-{bowler['runs']}-{bowler['wickets']}"
    text = f"End of over {data['over']}: {made}, {score_words(score)}. {bowler['name']} {figures}."
    radio = picker(state).pick("over", table("lines")["over_spoken"], "air")
    radio = radio.format(
        overs=plural(data["over"], "over"),
        score=score_words(score),
        made=made,
        bowler=surname(bowler["name"]),
    )
    found = state["world"].get("ledger", {}).get("grade")
    if found == "over":
        chase = f" {data['need']} from {plural(left, 'ball')}: not possible."
        text, radio = text + chase, radio + chase
    elif data["need"] is not None and data["need"] > 0 and left:
        text += f" {data['need']} needed from {plural(left, 'ball')}, {6 * data['need'] / left:.1f} an over."
        radio += f" {data['need']} needed from {plural(left, 'ball')}."
    radio = sentences(radio[0].upper() + radio[1:])
    return [_line(text, radio=radio, reply=answer(data, state), priority=2, label="end")]


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
    winner, result = data["winner"], data["result"]
    if winner is not None:
        result = result.replace(_team(state, winner), _captained(state, winner), 1)
    elif all(_captain(state, side) for side in ("home", "away")):
        result += f": {_captained(state, 'home')} and {_captained(state, 'away')} finish level"
    return [_line(f"{result}.", priority=0, label="result")]


def _field(data: Data, state: Data) -> Sequence[Line]:
    """Say who moved from where to where; nothing if everyone stays."""
    world, chosen = state["world"], picker(state)
    moves = world.get("ledger", {}).get("moves") or []
    if not moves:
        return ()
    verbs = {"out": "out to", "in": "in to", "across": "across to"}
    few = moves if len(moves) <= FEW_MOVES else moves[:2]
    words = ", ".join(f"{one} {verbs[how]} {other}" for one, other, how in few)
    options = table("lines")["field_moves" if few is moves else "field_changed"]
    phrase = chosen.offer("field", options) or "{team}: {moves}."
    more, team = number_word(len(moves) - len(few)), _team(state, data["side"])
    if few is not moves and (captain := _captain(state, data["side"])):
        team = f"{team} under {captain}"
    said = phrase.format(team=team, moves=words, more=more)
    return [_line(said[0].upper() + said[1:])]


def _forecast(data: Data, state: Data) -> Sequence[Line]:
    swing = state["world"].get("ledger", {}).get("swing")
    if not swing:
        return ()
    text = picker(state).pick("swing", table("lines")["swing"])
    text = text.format(team=_team(state, swing["side"]), before=swing["was"], after=swing["now"])
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
