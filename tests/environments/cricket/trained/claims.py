"""Check a captain's reason: each clause is compared with the observation.

It shares no code with what makes the sentences; it parses them by their forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from spectator.environments.cricket.ball.situation import SECTORS, SHOTS

View = Mapping[str, Any]
Test = Callable[["Statement", "re.Match[str]"], bool]


class Statement:
    """A decision with the observation against which its reason is checked.

    Args:
        view: Content of the observation.
        action: The action.
    """

    def __init__(self, view: View, action: Mapping[str, Any]) -> None:
        self.view, self.arguments = view, action["arguments"]
        self.tool = action["tool"]
        self.cards: dict[str, Mapping[str, Any]] = {}
        self.of_side: dict[str, str] = {}
        for side in ("home", "away"):
            for card in view["squads"][side]["players"]:
                for name in (card["name"], card["name"].partition(" ")[2]):
                    self.cards[name], self.of_side[name] = card, side
        self.bowler = ""

    def ends(self, name: str) -> Mapping[str, Any] | None:
        """Return the figures of a batter at the crease."""
        ends = (self.view["striker"], self.view["non_striker"])
        return next((end for end in ends if end and end["name"] == self.cards[name]["name"]), None)

    def all_of(self, names: str, holds: Callable[[Mapping[str, Any]], bool]) -> bool:
        """Check a condition for each named batter, who all must be at the crease."""
        found = names.split(" and ")
        return all(
            name in self.cards and self.ends(name) is not None and holds(self.cards[name]) for name in found
        )

    def choices(self) -> list[Mapping[str, Any]]:
        """Return the cards of regular bowlers who may get the ball."""
        cards = [self.cards[one["name"]] for one in self.view["choices"]["bowlers"]]
        return [card for card in cards if "bowls" in card] or cards

    def rope(self) -> list[float]:
        """Return the boundary by sector, from the striker's view."""
        ground = self.view.get("ground")
        return [] if not ground else [ground["now"][sector] for sector in SECTORS]

    def packed(self) -> str:
        """Return the side on which the field is packed, if any."""
        names = {one["name"] for one in self.view["field"]["fielders"]}
        if self.view["field"]["preset"] != "custom":
            return ""
        return (
            "off"
            if {"slip", "extra cover"} <= names
            else "leg"
            if {"short midwicket", "deep midwicket"} <= names
            else ""
        )


def _is(arguments: Mapping[str, Any], **wanted: Any) -> bool:
    return all(arguments.get(name) == value for name, value in wanted.items())


_SPIN_SIGN: Final = {"spin": 1, "pace": -1}
_SIDE_SIGN: Final = {"leg": 1, "off": -1}
_PLAYER: Final = r"[A-Z][\w'. -]*?"
_WHO: Final = rf"(?P<who>{_PLAYER}(?: and {_PLAYER})?)"


def _rate(said: Statement, match: re.Match[str]) -> bool:
    rate, ours = said.view.get("required_rate"), said.view["side"] == said.view["batting"]
    return rate is not None and rate > int(match["n"]) and (match["side"] == "we") == ours


def _saves(said: Statement, match: re.Match[str]) -> bool:
    own = said.cards[said.bowler].get("bowl_runs", 1.15)
    return all(own <= card.get("bowl_runs", 1.15) for card in said.choices())


def _takes(said: Statement, match: re.Match[str]) -> bool:
    own = said.cards[said.bowler].get("bowl_wickets", 0.75)
    return all(own >= card.get("bowl_wickets", 0.75) for card in said.choices())


def _spins(said: Statement) -> bool:
    return "pace" not in said.cards[said.bowler].get("bowls", "off spin")


def _longer(said: Statement, match: re.Match[str]) -> bool:
    rope = said.rope()
    sign = 1 if match["side"] == "leg" else -1
    return bool(rope) and sign * (sum(rope[:4]) - sum(rope[4:])) > 0


def _nearest(said: Statement, match: re.Match[str]) -> bool:
    rope = said.rope()
    return bool(rope) and round(min(rope[at - 1] for at in SHOTS[said.arguments["shot"]])) == int(match["n"])


def _figures(said: Statement, match: re.Match[str]) -> bool:
    figures = next(
        one for one in said.view["choices"]["bowlers"] if one["name"] == said.cards[match["who"]]["name"]
    )
    return (figures["wickets"], figures["runs"]) == (int(match["n"]), int(match["m"]))


def _form(said: Statement, match: re.Match[str]) -> bool:
    part = "bowl_form" if said.tool.startswith(("bowl", "select_bowler")) else "bat_form"
    form = said.cards[match["who"]].get(part, 0.0)
    return bool(form >= 0.05 if match["way"] == "in" else form <= -0.05)


def _fresh(said: Statement, match: re.Match[str]) -> bool:
    tired = said.view.get("tired") or {}
    return not tired.get(said.cards[match["who"]]["name"]) and any(tired.values())


def _of_batters(trait: str, sign: Callable[[re.Match[str]], int]) -> Test:
    def test(said: Statement, match: re.Match[str]) -> bool:
        direction = sign(match) * (-1 if match["how"] == "weaker" else 1)
        return said.all_of(match["who"], lambda card: direction * card[trait] >= 0.04)

    return test


def _card(holds: Callable[[Mapping[str, Any]], bool]) -> Test:
    return lambda said, match: said.all_of(match["who"], holds)


CLAUSES: Final[Mapping[str, Test]] = {
    rf"{_WHO} (?:is|are) (?P<how>weaker|strong) against (?P<kind>spin|pace)":
        _of_batters("bat_spin", lambda match: _SPIN_SIGN[match["kind"]]),
    rf"{_WHO} (?:is|are) (?P<how>weaker|strong) against the short ball":
        _of_batters("bat_short", lambda match: 1),
    rf"{_WHO} (?:is|are) (?P<how>weaker|stronger) on the (?P<side>leg|off) side":
        _of_batters("bat_leg", lambda match: _SIDE_SIGN[match["side"]]),
    "the dry pitch takes spin": lambda said, _: said.view["conditions"]["pitch"] == "dry" and _spins(said),
    "the green pitch helps pace":
        lambda said, _: said.view["conditions"]["pitch"] == "green" and not _spins(said),
    "the dew is against spin":
        lambda said, _: said.view["conditions"]["evening"] == "dew" and said.view["innings"] % 2 == 0
        and not _spins(said),
    "no other choice concedes less": _saves,
    "no other choice takes more wickets": _takes,
    rf"(?P<who>{_PLAYER}) is (?P<way>in|out of) form": _form,
    rf"(?P<who>{_PLAYER}) is fresh": _fresh,
    rf"(?P<who>{_PLAYER}) has (?P<n>\d+) for (?P<m>\d+)": _figures,
    "that is the usual choice":
        lambda said, _: said.view["choices"]["usual"] == said.cards[said.bowler]["name"],
    "these are the death overs": lambda said, _: said.view["segment"] == "death",
    "the rope is longer on the (?P<side>leg|off) side": _longer,
    r"the rope is only (?P<n>\d+) there": _nearest,
    rf"(?P<who>{_PLAYER}) has faced only (?P<n>\d+)":
        lambda said, match: (said.ends(match["who"]) or {}).get("balls") == int(match["n"]) < 6,
    rf"(?P<who>{_PLAYER}) is set on (?P<n>\d+)":
        lambda said, match: (end := said.ends(match["who"])) is not None
        and end["runs"] == int(match["n"]) and end["balls"] >= 12,
    r"the stand is worth (?P<n>\d+)": lambda said, match: said.view["partnership"] == int(match["n"]),
    r"(?P<n>\d+) wickets? (?:is|are) in hand":
        lambda said, match: int(match["n"])
        == (2 if said.view["super_over"] else 10) - said.view["score"]["wickets"],
    r"(?P<side>we|they) need more than (?P<n>\d+) an over": _rate,
    rf"(?P<who>{_PLAYER}) scores fast": _card(lambda card: card["bat_runs"] >= 1.05),
    rf"(?P<who>{_PLAYER}) scores slowly": _card(lambda card: card["bat_runs"] <= 0.95),
    rf"(?P<who>{_PLAYER}) is hard to get out": _card(lambda card: card["bat_out"] <= 0.92),
    rf"(?P<who>{_PLAYER}) gets out easily": _card(lambda card: card["bat_out"] >= 1.08),
    "the field is packed on the other side":
        lambda said, _: said.packed() == ("off" if max(SHOTS[said.arguments["shot"]]) <= 4 else "leg"),
    "dew will help a chase": lambda said, _: said.view["conditions"]["evening"] == "dew",
    "the pitch will wear": lambda said, _: said.view["conditions"]["evening"] == "wearing",
}  # fmt: skip
"""The forms of reasons, with the test of their truth."""

_KINDS: Final = {
    "pace": "right-arm pace", "left-arm pace": "left-arm pace", "off spin": "off spin",
    "leg spin": "leg spin",
    "left-arm spin": "slow left-arm orthodox", "wrist spin": "left-arm wrist spin", "part-time spin": None,
}  # fmt: skip


def _bowls(said: Statement, match: re.Match[str]) -> bool:
    said.bowler = match["who"]
    named = said.arguments.get("bowler") or (said.arguments.get("bowlers") or [None])[0]
    card = said.cards[match["who"]]
    return card["name"] == named and card.get("bowls") == _KINDS[match["kind"]]


def _bowls_on(said: Statement, match: re.Match[str]) -> bool:
    said.bowler = match["who"]
    return bool(said.view["bowler"]["name"] == said.cards[match["who"]]["name"])


def _field(said: Statement, match: re.Match[str]) -> bool:
    return bool(said.arguments.get("preset") == match["name"].replace(" ", "_"))


def _own_field(said: Statement, match: re.Match[str]) -> bool:
    first = (said.arguments.get("fielders") or [{"name": ""}])[0]["name"]
    return bool(first == {"off": "slip", "leg": "point"}[match["side"]])


def _level(said: Statement, match: re.Match[str]) -> bool:
    own = {one["batter"]: one["aggression"] for one in said.arguments.get("by_batter", ())}
    name, verbs = said.cards[match["who"]]["name"], ("blocks", "waits", "plays", "hits", "swings")
    level = own.get(name, said.arguments.get("aggression"))
    return (
        level == float(match["n"]) == (3 + verbs.index(match["verb"])) / 10
        and said.ends(match["who"]) is not None
    )


_LENGTHS: Final = {
    "yorkers": "yorker",
    "full": "full",
    "good length": "good",
    "back of a length": "back of a length",
    "short": "short",
}
_LINES: Final = {
    "wide outside off": "wide outside off",
    "outside off": "outside off",
    "straight": "stumps",
    "leg side": "leg",
}
_BALL: Final = (
    rf"(?P<length>{'|'.join(_LENGTHS)})(?:, (?P<line>{'|'.join(_LINES)}))?|(?P<alone>{'|'.join(_LINES)})"
)


def _ball(said: Statement, match: re.Match[str]) -> bool:
    line = match["line"] or match["alone"]
    length = match["length"]
    return _is(
        said.arguments, length=_LENGTHS[length] if length else None, line=_LINES[line] if line else None
    )


def _attack(said: Statement, match: re.Match[str]) -> bool:
    levels = {"shut the runs off": 0.3, "hold them": 0.4, "press": 0.6, "hunt wickets": 0.7}
    return bool(said.arguments.get("attack") == float(match["n"]) == levels[match["how"]])


STATEMENTS: Final[Mapping[str, Test]] = {
    rf"(?P<who>{_PLAYER}), (?P<kind>{'|'.join(_KINDS)})": _bowls,
    rf"(?P<who>{_PLAYER}) (?:bowls|stays) on": _bowls_on,
    _BALL: _ball,
    r"(?P<name>attacking|ring|balanced|defensive|death|spin|leg side|off side) field": _field,
    r"packed (?P<side>off|leg) side": _own_field,
    r"(?P<how>shut the runs off|hold them|press|hunt wickets) at (?P<n>0\.\d)": _attack,
    "usual strokes": lambda said, _: not said.arguments.get("shot"),
    rf"the (?P<shot>{'|'.join(SHOTS)})": lambda said, match: said.arguments.get("shot") == match["shot"],
    rf"(?P<who>{_PLAYER}) (?P<verb>blocks|waits|plays|hits|swings) at (?P<n>0\.\d)": _level,
    rf"(?P<who>{_PLAYER}) is in, in the natural order":
        lambda said, match: said.cards[match["who"]]["name"]
        == said.arguments["batter"] == said.view["choices"]["batters"][0],
    rf"(?P<who>{_PLAYER}) and (?P<with>{_PLAYER}) open, in the natural order":
        lambda said, match: [said.cards[match[one]]["name"] for one in ("who", "with")]
        == [said.arguments["batter"], said.arguments["partner"]] == said.view["choices"]["batters"][:2],
}  # fmt: skip
"""The forms of statements about an order, with the test that they match it."""

HEADS: Final = (
    r"(?P<we>We|They) are (?P<r>\d+) for (?P<w>\d+) with (?P<l>\d+) balls? left",
    r"At (?P<r>\d+) for (?P<w>\d+), (?P<l>\d+) balls? to come",
    r"With (?P<l>\d+) balls? left (?P<we>we|they) are (?P<r>\d+) for (?P<w>\d+)",
    r"Still (?P<l>\d+) balls? left at (?P<r>\d+) for (?P<w>\d+)",
    r"(?P<we>We|They) need (?P<n>\d+) off (?P<l>\d+) balls?, (?P<w>\d+) down",
    r"With (?P<w>\d+) down (?P<we>we|they) want (?P<n>\d+) from (?P<l>\d+) balls?",
    r"Still (?P<n>\d+) to get off (?P<l>\d+) balls?, (?P<w>\d+) down",
    r"From (?P<l>\d+) balls? (?P<we>we|they) must make (?P<n>\d+), (?P<w>\d+) down",
)
_BEFORE_PLAY: Final = (
    r"Play each situation as it asks, at 0\.5 throughout\."
    r"|No fixed plan: 0\.5 throughout, and look for what fits\."
    r"|Begin at 0\.5 in every phase and read the match from there\."
)
_TOSS: Final = (
    r"(?:Heads|We call heads|Toss won|The coin is ours); (?P<elect>field|bat) first"
    r"(?: to know what to chase| and chase| to put runs on the board| and defend| as (?P<why>.*))?\."
)


def false_claims(view: View, action: Mapping[str, Any], reason: str) -> list[str]:
    """Return the parts of a reason that contradict the observation or the action.

    Args:
        view: Content of the observation.
        action: The action.
        reason: Its reason, with players by name.
    """
    said = Statement(view, action)
    if action["tool"] == "set_match_plan":
        return [] if re.fullmatch(_BEFORE_PLAY, reason) else [reason]
    if action["tool"] == "call_toss":
        match = re.fullmatch(_TOSS, reason)
        if match is None or match["elect"] != action["arguments"]["elect"]:
            return [reason]
        return _wrong(said, match["why"], CLAUSES) if match["why"] else []
    head, _, rest = reason.partition(": ")
    wrong = [] if _head_holds(view, head) else [head]
    for part in rest.removesuffix(".").split("; "):
        statement, _, why = re.sub(r" since ", " as ", part, count=1).partition(" as ")
        wrong += _wrong(said, statement, STATEMENTS)
        if why:
            wrong += _wrong(said, why, CLAUSES)
    return wrong


def _wrong(said: Statement, text: str, forms: Mapping[str, Test]) -> list[str]:
    for form, test in forms.items():
        if (match := re.fullmatch(form, text)) is not None:
            try:
                return [] if test(said, match) else [text]
            except (KeyError, StopIteration, ValueError):
                return [text]
    return [text]


def _head_holds(view: View, head: str) -> bool:
    if (match := re.fullmatch(r"(?:Innings|To begin innings) (\d+)", head)) is not None:
        return bool(int(match[1]) == view["innings"])
    if (match := re.fullmatch(r"Super over (\d+), (.*)", head)) is not None:
        if not view["super_over"] or int(match[1]) != (view["innings"] - 1) // 2:
            return False
        head = match[2][0].upper() + match[2][1:]
    facts = {
        "r": view["score"]["runs"],
        "w": view["score"]["wickets"],
        "l": view["score"]["balls_left"],
        "n": view.get("need"),
    }
    for form in HEADS:
        if (match := re.fullmatch(form, head)) is not None:
            found = match.groupdict()
            ours = view["side"] == view["batting"]
            if (we := found.pop("we", None)) is not None and (we.lower() == "we") != ours:
                return False
            return all(facts[name] == int(value) for name, value in found.items())
    return False
