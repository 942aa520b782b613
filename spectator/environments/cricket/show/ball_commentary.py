"""The commentary of one ball, from the ball and the ledger: a caption to read and a line to speak."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from spectator.environments.cricket.match.event_data import number_word, plural, surname
from spectator.environments.cricket.show.ledger import call_of
from spectator.environments.cricket.show.phrases import PhrasePicker, table

Data = Mapping[str, Any]

CLOSE_FINISH_BALLS: Final = 12
"""Balls left in a chase from which every line ends with the equation."""

ORDINALS: Final = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
PLANS: Final = {
    "yorker": "the yorker", "full": "a full length", "good": "a good length",
    "back of a length": "back of a length", "short": "the short ball",
}  # fmt: skip
"""What a captain asked a bowler for, in words."""

_SENTENCE: Final = re.compile(r"(?<=[^.][.!?] )[a-z]")


def picker(state: Data) -> PhrasePicker:
    """Return the picker of the innings in progress."""
    world = state["world"]
    team = world.get("teams", {}).get(world.get("batting"), {}).get("name", "")
    balls = world.get("format", {}).get("balls", 0)
    return PhrasePicker(world.get("ledger", {}), balls, team, world.get("innings", 0))


def call_ball(data: Data, state: Data) -> str:
    """Return the caption of a ball: players, call, remark and equation."""
    chosen = picker(state)
    opening = f"{surname(data['bowler'])} to {surname(data['striker'])}"
    if data["free_hit"]:
        opening = f"Free hit. {opening}"
    text = _filled(_written(data, chosen), data, chosen)
    if data["noball"]:
        coming = chosen.pick("noball", table("lines")["free_hit_next"]) if data["free_hit_next"] else ""
        text = f"{chosen.pick('noball', table('lines')['no_ball'], 'call')} {text} {coming}".rstrip()
    return f"{opening}: {sentences(text)}{remark(data, state, chosen)}{equation(data, state)}"


def radio_ball(data: Data, state: Data) -> str:
    """Return the spoken line of a ball: shorter, since the next ball comes soon."""
    chosen = picker(state)
    if data["dismissal"]:
        said = _filled(_written(data, chosen), data, chosen)
        said = f"{said}{remark(data, state, chosen)} {score_words(data['score'])}."
    else:
        said = _filled(_spoken(data, chosen), data, chosen)
        if data["kind"] in ("six", "four") or "hat-trick" in " ".join(state["world"]["ledger"]["facts"]):
            said += remark(data, state, chosen)
    text = f"{sentences(said)}{equation(data, state, aloud=True)}"
    return text[0].upper() + text[1:]


def remark(data: Data, state: Data, chosen: PhrasePicker) -> str:
    """Return a space and a sentence on what the ledger finds remarkable; often empty."""
    facts = state["world"].get("ledger", {}).get("facts", {})
    for fact, options in table("remarks").items():
        if fact not in facts:
            continue
        phrase = chosen.offer(fact, options)
        if phrase is None or (fact == "won" and state["world"].get("super_over")):
            continue
        n = facts[fact]
        said = phrase.format(
            n=PLANS.get(n, n) if isinstance(n, str) else number_word(n),
            nth=ORDINALS[n] if isinstance(n, int) and n < len(ORDINALS) else "",
            need=data["need"],
            out=surname(data["out"] or ""),
            striker=surname(data["striker"]),
            bowler=surname(data["bowler"]),
        )
        return f" {said[0].upper()}{said[1:]}"
    return ""


def score_words(score: Data) -> str:
    """Return a score in words, such as ``45 for 3``."""
    return f"{score['runs']} for {score['wickets']}"


def equation(data: Data, state: Data, *, aloud: bool = False) -> str:
    """Return the equation of a chase near its end, after a space; else empty."""
    need, left = data["need"], data["balls_left"]
    found = state["world"].get("ledger", {}).get("grade", "")
    if found in ("", "won", "done") or left > CLOSE_FINISH_BALLS:
        return ""
    balls = ("the last ball" if left == 1 else str(left)) if aloud else plural(left, "ball")
    if found == "over":
        return f" {need} from {balls}: not possible."
    return f" {need} needed from {balls}."


def sentences(text: str) -> str:
    """Capitalise the starts of sentences except the first."""
    return _SENTENCE.sub(lambda found: found[0].upper(), text)


def _written(data: Data, chosen: PhrasePicker) -> str:
    call = call_of(data)
    phrase = chosen.offer(call, table("written").get(call, ()))
    if phrase == "{ball}{stroke} {where}, FOUR more." and data["striker_line"]["fours"] < 2:
        phrase = None
    if phrase is None:
        phrase = table("scored").get(call) or table("scored").get(call.partition(" ")[0], table("scored")[""])
    if not data["dismissal"]:
        return phrase
    before = "No-ball! " if data["noball"] else "Wide. " if data["wides"] and "stumped" not in call else ""
    runs = data["runs"] - bool(data["wides"] or data["noball"])
    made = f" {plural(runs, 'run')} to the total." if "run out" in call and runs > 0 else ""
    return before + phrase + made


def _spoken(data: Data, chosen: PhrasePicker) -> str:
    call = call_of(data)
    if data["noball"] and data["kind"] not in ("six", "four"):
        return chosen.pick("noball", table("air")["noball"], "air")
    first = call.partition(" ")[0]
    options = table("air").get(call) or table("air")[first]
    phrase = chosen.offer(call, options, "air") or table("air_plain").get(first, table("air_plain")[""])
    if phrase.startswith("Six more") and data["striker_line"]["sixes"] < 2:
        phrase = table("air_plain")["six"]
    return f"No-ball! {phrase}" if data["noball"] else phrase


def _filled(phrase: str, data: Data, chosen: PhrasePicker) -> str:
    zone, call = data["zone"], call_of(data)
    words = table("places")["towards" if call.startswith("dot") else "where"][zone - 1] if zone else ("away",)
    facts = {
        "ball": _delivery(data, chosen),
        "stroke": _stroke(data, chosen),
        "where": chosen.pick(f"to {zone}", words),
        "over": table("places")["over"][zone - 1] if zone else "over the rope",
        "runs": _runs(data, call),
        "striker": surname(data["striker"]),
        "bowler": surname(data["bowler"]),
        "out": surname(data["out"] or ""),
        "fielder": surname(data["fielder"] or ""),
        "position": data["position"] or "",
        "kind": data["dismissal"] or "",
    }
    hit = "{ball}{stroke} {where}".format_map(facts)
    return phrase.format_map({**facts, "hit": hit, "to": hit})


def _runs(data: Data, call: str) -> str:
    if call in ("byes", "legbyes"):
        return plural(data[call], "bye" if call == "byes" else "leg-bye")
    return str(data["runs"] if data["extra_kind"] else data["bat"])


def _stroke(data: Data, chosen: PhrasePicker) -> str:
    """Return a word for the stroke that fits the ball's length and direction."""
    shot, zone = data["shot"], data["zone"]
    key = f"shot {shot}"
    if data["contact"] == "edged":
        edge = "top" if data["aerial"] else "inside" if zone in (1, 2) else ""
        return chosen.pick(key, table("edges")[edge])
    length = {"full toss": "t"}.get(data["length"], data["length"][0])
    for lengths, zones, words in table("strokes").get(shot, ()):
        if length in (lengths or length) and str(zone) in (zones or str(zone)):
            return chosen.pick(key, words)
    return "played"


def _delivery(data: Data, chosen: PhrasePicker) -> str:
    """Return what was bowled, ending in a comma; empty one time in three or once used up."""
    key = f"pitch {data['length']}, {data['line']}"
    options, number = table("deliveries")[data["length"]][data["line"]], chosen.number(key)
    words = chosen.offer(key, options)
    if words is None or (data["zone"] is not None and (number + number // len(options)) % 3 == 2):
        return ""
    if "pace" not in data["bowler_line"]["kind"]:
        for pace, spin in table("spin").items():
            words = words.replace(pace, spin)
    return "" if _contradicts(data) else f"{words}, "


def _contradicts(data: Data) -> bool:
    """Check whether the line is better left out, as the ball went another way."""
    zone, line = data["zone"], data["line"]
    if zone in (1, 2):
        return line not in ("stumps", "leg")
    return (zone == 3 and line == "wide outside off") or (zone in (7, 8) and line == "leg")
