"""The trained captain's view of an observation as a short text, with true reasons.

Players of the batting side are ``b1`` to ``b11`` and those of the fielding side ``f1`` to ``f11``, by their
place in the natural order. A reason is a clause with a weight for the strength of its fact. A captain may
give only these clauses, so it cannot say anything false; tests check them independently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Any, Final

from spectator.environments.cricket.ball.situation import LENGTHS, LINES, SHOTS

KINDS: Final[Mapping[str, str]] = {
    "right-arm pace": "pace",
    "left-arm pace": "left-arm pace",
    "off spin": "off spin",
    "leg spin": "leg spin",
    "slow left-arm orthodox": "left-arm spin",
    "left-arm wrist spin": "wrist spin",
}
"""The captain's word for each bowling style; players without a style are part-timers."""

PART_TIME: Final = "part-time spin"
PACKED: Final = ("packed off side", "packed leg side")
"""The two fields that are not presets, as the planner sets them."""

_LENGTH_MARKS: Final = dict(zip(LENGTHS, "TYFGBS", strict=True))
_LINE_MARKS: Final = dict(zip(LINES, "wosl", strict=True))
_ROLES: Final[Mapping[str, str]] = {
    "toss": "toss",
    "elect": "elect",
    "openers": "openers",
    "batter": "batter",
    "bowler": "bowl",
    "bowl": "bowl",
    "bowling_plan": "bowl",
    "bat": "bat",
    "batting_plan": "bat",
}
_TO_COME: Final = 2
_EDGE: Final = 5
_RECENT: Final = 6


class Sight:
    """One observation, parsed.

    Args:
        legal: Names of the legal tools, the one that advances the game first.

    Attributes:
        role: The decision: ``plan``, ``toss``, ``elect``, ``openers``, ``batter``, ``bowl`` or ``bat``.
        slots: The slot of each player, by name.
        names: The name of each player, by slot.
        batters: Cards of the two batters in, by slot, the striker first.
        bowlers: Cards of players who may get the ball, by slot; empty within an over.
        figures: Figures of the possible bowlers or of the current one, by slot.
    """

    def __init__(self, view: Mapping[str, Any], legal: Sequence[str]) -> None:
        self.view = view
        self.legal = legal
        self.role = "plan" if "set_match_plan" in legal else _ROLES[view["phase"]]
        batting = view.get("batting") or view["side"]
        fielding = "away" if batting == "home" else "home"
        self._batting = {f"b{card['order']}": card for card in view["squads"][batting]["players"]}
        self._fielding = {f"f{card['order']}": card for card in view["squads"][fielding]["players"]}
        cards = {**self._batting, **self._fielding}
        self.names = {slot: card["name"] for slot, card in cards.items()}
        self.slots = {name: slot for slot, name in self.names.items()}
        ends = [view.get("striker"), view.get("non_striker")]
        if view["phase"] == "bat":  # one ball: the other batter has no part in it
            ends = ends[:1]
        self.batters = {
            self.slots[end["name"]]: self._batting[self.slots[end["name"]]] for end in ends if end
        }
        self.bowlers: dict[str, Mapping[str, Any]] = {}
        self.figures: dict[str, Mapping[str, Any]] = {}
        choices = view.get("choices") or {}
        if self.role == "bowl" and "bowlers" in choices:
            figures = {self.slots[one["name"]]: one for one in choices["bowlers"]}
            able = {slot: self._fielding[slot] for slot in figures if "bowls" in self._fielding[slot]}
            self.bowlers = able or {slot: self._fielding[slot] for slot in figures}
            self.figures = figures
        elif (bowler := view.get("bowler")) is not None:
            self.figures = {self.slots[bowler["name"]]: bowler}

    @property
    def bowling(self) -> str | None:
        """Slot of the current bowler; ``None`` without one."""
        bowler = self.view.get("bowler")
        return None if bowler is None or self.bowlers else self.slots[bowler["name"]]

    def bowler_card(self, slot: str) -> Mapping[str, Any]:
        """Return the card of a player of the fielding side."""
        card: Mapping[str, Any] = self._fielding[slot]
        return card

    def tired(self, slot: str) -> float:
        """Return the load of a bowler."""
        load: float = (self.view.get("tired") or {}).get(self.names[slot], 0.0)
        return load

    def waiting(self) -> list[str]:
        """Return the slots of the batters who may come in, in their natural order."""
        return [self.slots[name] for name in self.view["choices"]["batters"]]

    def shown_names(self) -> dict[str, str]:
        """Return each slot's name in a sentence: surname, or full name if ambiguous."""
        surnames = [name.partition(" ")[2] or name for name in self.names.values()]
        return {
            slot: surname if surnames.count(surname) == 1 else name
            for (slot, name), surname in zip(self.names.items(), surnames, strict=True)
        }

    def text(self) -> str:
        """Return the situation as the model reads it."""
        view, role = self.view, self.role
        pitch = f"{view['conditions']['pitch']} {view['conditions']['evening']}"
        overs = view["format"]["overs"]
        if role in ("plan", "toss", "elect"):
            return f"{role} {overs} {pitch}\n>"
        score = view["score"]
        place = f"over {score['balls'] // 6 + 1} ball {score['balls'] % 6} left {score['balls_left']}"
        above = " super" if view["super_over"] else ""
        state = f"inn {view['innings']} score {score['runs']} {score['wickets']}"
        if view.get("target") is not None:
            state += f" need {view['need']}"
        word = "openers" if role == "batter" else role  # the model has no other word for it
        lines = [f"{word}{above} {view['segment']} {overs} {place}", state]
        if role in ("openers", "batter"):
            return "\n".join([*lines, "may " + " ".join(self.waiting()[:4])]) + "\n>"
        edge = view.get("squad_difference")
        home = view["side"] == "home"
        ahead = "" if edge is None else f" edge {round((edge if home else -edge) / _EDGE)}"
        lines.append(f"pitch {pitch}{ahead}")
        if view.get("ground"):
            lines.append("rope " + " ".join(str(round(metres)) for metres in view["ground"]["now"].values()))
        lines += self._people()
        lines.append(
            f"field {self.field} out {view['outside_limit']}" + (" free" if view["free_hit"] else "")
        )
        if view.get("recent"):
            lines.append("last " + " ".join(mark.replace("·", ".") for mark in view["recent"][-_RECENT:]))
        return "\n".join(lines) + "\n>"

    @property
    def field(self) -> str:
        """The current field, in the captain's words."""
        field = self.view["field"]
        if field["preset"] != "custom":
            return str(field["preset"]).replace("_", " ")
        first = field["fielders"][0]["name"]
        names = {one["name"] for one in field["fielders"]}
        if {"slip", "extra cover", "sweeper cover"} <= names and first == "slip":
            return PACKED[0]
        if {"short midwicket", "deep midwicket", "deep square leg"} <= names and first == "point":
            return PACKED[1]
        return "own"

    def _people(self) -> list[str]:
        view, lines = self.view, []
        for tag, end in (("on", view["striker"]), ("non", view["non_striker"])):
            if end is None:
                continue
            slot = self.slots[end["name"]]
            line = f"{tag} {slot} {_batting_card(self._batting[slot])} made {end['runs']} {end['balls']}"
            if end["faced"]:
                faced = [_LENGTH_MARKS[length] + _LINE_MARKS[line] for length, line in end["faced"]]
                line += " saw " + " ".join(faced)
            lines.append(line)
        if self.role == "bowl":
            rest = [slot for slot in self._batting if slot not in self.batters][view["score"]["wickets"] :]
            lines += [f"then {slot} {_batting_card(self._batting[slot])}" for slot in rest[:_TO_COME]]
        if self.bowling is not None:
            lines.append(f"ball {self._bowling_line(self.bowling)}")
        elif self.role == "bat":
            card = (view.get("card") or {}).get("bowling", ())
            done = {one["name"] for one in card if not one["overs_left"]}
            able = [
                slot for slot, one in self._fielding.items() if "bowls" in one and one["name"] not in done
            ]
            lines.append("rivals " + " ".join(f"{slot} {kind_of(self._fielding[slot])}" for slot in able))
        if self.bowlers:
            lines += [f"may {self._bowling_line(slot)}" for slot in self.bowlers]
            lines.append(f"usual {self.slots[view['choices']['usual']]}")
            card = (view.get("card") or {}).get("bowling", ())
            resting = [self.slots[one["name"]] for one in card if one["overs_left"] > 0]
            lines += [f"rests {self._bowling_line(slot)}" for slot in resting if slot not in self.figures]
        return lines

    def _bowling_line(self, slot: str) -> str:
        card, figures = self._fielding[slot], self.figures.get(slot)
        line = f"{slot} {kind_of(card)} {_hundredths(card.get('bowl_runs', 1.15))}"
        line += f" {_hundredths(card.get('bowl_wickets', 0.75))}"
        if card.get("bowl_form"):
            line += f" fm {_hundredths(card['bowl_form'])}"
        if load := self.tired(slot):
            line += f" tired {round(10 * load)}"
        if figures is not None:
            line += f" {figures['runs']} {figures['wickets']} left {figures['overs_left']}"
        return line


def kind_of(card: Mapping[str, Any]) -> str:
    """Return the captain's word for a player's bowling."""
    return KINDS.get(card.get("bowls", ""), PART_TIME)


def _hundredths(value: float) -> str:
    return str(round(100 * value))


def _batting_card(card: Mapping[str, Any]) -> str:
    marks = {"sp": "bat_spin", "sh": "bat_short", "lg": "bat_leg"}
    if card.get("bat_form"):
        marks["fm"] = "bat_form"
    hand = "L" if card["bats"] == "left" else "R"
    traits = " ".join(f"{mark} {_hundredths(card[trait])}" for mark, trait in marks.items())
    return f"{hand} {_hundredths(card['bat_runs'])} {_hundredths(card['bat_out'])} {traits}"


Clauses = list[tuple[str, float]]
"""Clauses with their weights."""

TRAIT: Final = 0.04
"""Minimum log ratio at which a trait is mentioned."""
FORM: Final = 0.05
ROPE_M: Final = 2.0
"""Minimum difference in metres at which a boundary's distance is mentioned."""
NEW_BALLS: Final = 6
SET_BALLS: Final = 12
STAND: Final = 20
STEEP: Final = 8.0

_SPIN: Final = "spin"


def for_bowler(sight: Sight, slot: str) -> Clauses:
    """Return reasons to give the over to this bowler."""
    card, view, found = sight.bowler_card(slot), sight.view, list[tuple[str, float]]()
    others = [sight.bowler_card(one) for one in sight.bowlers if one != slot]
    spins, part = "spin" in kind_of(card), kind_of(card) == PART_TIME
    if not part:
        kind = "spin" if spins else "pace"
        found += _of_batters(sight, "bat_spin", -1 if spins else 1, f"weaker against {kind}")
        if spins and view["conditions"]["pitch"] == "dry":
            found.append(("the dry pitch takes spin", 1.5))
        if not spins and view["conditions"]["pitch"] == "green":
            found.append(("the green pitch helps pace", 1.5))
        if not spins and view["conditions"]["evening"] == "dew" and view["innings"] % 2 == 0:
            found.append(("the dew is against spin", 1.2))
    if others:
        saves = min(one.get("bowl_runs", 1.15) for one in others) - card.get("bowl_runs", 1.15)
        takes = card.get("bowl_wickets", 0.75) - max(one.get("bowl_wickets", 0.75) for one in others)
        if saves > 0:
            found.append(("no other choice concedes less", 0.6 + 10 * saves))
        if takes > 0:
            found.append(("no other choice takes more wickets", 0.5 + 8 * takes))
    if card.get("bowl_form", 0.0) >= FORM:
        found.append((f"{slot} is in form", 10 * card["bowl_form"]))
    loads = [sight.tired(one) for one in sight.bowlers]
    if not sight.tired(slot) and any(loads):
        found.append((f"{slot} is fresh", 0.6))
    figures = sight.figures[slot]
    if figures["overs"] != "0.0":
        found.append(
            (f"{slot} has {figures['wickets']} for {figures['runs']}", 0.5 + 0.4 * figures["wickets"])
        )
    if sight.slots[view["choices"]["usual"]] == slot:
        found.append(("that is the usual choice", 0.3))
    return found


def for_ball(sight: Sight, length: str | None, line: str | None) -> Clauses:
    """Return reasons for this delivery plan."""
    found = list[tuple[str, float]]()
    if length in ("short", "back of a length"):
        found += _of_batters(sight, "bat_short", -1, "weaker against the short ball")
    if length in ("full", "yorker"):
        found += _of_batters(sight, "bat_short", 1, "strong against the short ball")
    if length == "yorker" and sight.view["segment"] == "death":
        found.append(("these are the death overs", 0.8))
    if line == "leg":
        found += _of_batters(sight, "bat_leg", -1, "weaker on the leg side")
    if line in ("outside off", "wide outside off"):
        found += _of_batters(sight, "bat_leg", 1, "weaker on the off side")
    leg, off = _rope_by_side(sight)
    if line == "leg" and leg > off + ROPE_M:
        found.append(("the rope is longer on the leg side", (leg - off) / 6))
    if line in ("outside off", "wide outside off") and off > leg + ROPE_M:
        found.append(("the rope is longer on the off side", (off - leg) / 6))
    return found + _new(sight)


def for_field(sight: Sight, field: str) -> Clauses:
    """Return reasons for this field."""
    if field in (PACKED[0], "off side"):
        return _of_batters(sight, "bat_leg", -1, "stronger on the off side")
    if field in (PACKED[1], "leg side"):
        return _of_batters(sight, "bat_leg", 1, "stronger on the leg side")
    if field == "attacking":
        return _new(sight) + _stand(sight)
    if field in ("defensive", "death", "balanced"):
        found = _steep(sight, "they")
        if sight.view["segment"] == "death":
            found.append(("these are the death overs", 0.8))
        return found
    return []


def for_attack(sight: Sight, level: float) -> Clauses:
    """Return reasons for this level of attack."""
    if level > 0.5:
        return (
            _stand(sight)
            + _new(sight)
            + _of_cards(sight, lambda card: card["bat_out"] >= 1.08, "gets out easily")
        )
    return (
        _steep(sight, "they")
        + _set(sight)
        + _of_cards(sight, lambda card: card["bat_runs"] >= 1.05, "scores fast")
        + _of_cards(sight, lambda card: card["bat_out"] <= 0.92, "is hard to get out")
    )


def for_shot(sight: Sight, shot: str) -> Clauses:
    """Return reasons for both batters to look for this stroke."""
    found = list[tuple[str, float]]()
    sectors = [sector - 1 for sector in SHOTS[shot]]
    if sight.view.get("ground"):
        rope = list(sight.view["ground"]["now"].values())
        nearest = min(rope[sector] for sector in sectors)
        if nearest <= min(rope) + 1 and max(rope) - min(rope) >= 2 * ROPE_M:
            found.append((f"the rope is only {round(nearest)} there", (max(rope) - nearest) / 6))
    legs = 2 * sum(sector < 4 for sector in sectors)
    if legs != len(sectors):
        side = "leg" if legs > len(sectors) else "off"
        found += _of_batters(sight, "bat_leg", 1 if side == "leg" else -1, f"stronger on the {side} side")
        if sight.field == (PACKED[0] if side == "leg" else PACKED[1]):
            found.append(("the field is packed on the other side", 2.0))
    return found


def for_level(sight: Sight, slot: str, level: float) -> Clauses:
    """Return reasons for this batter's level of aggression."""
    card, found = sight.batters[slot], list[tuple[str, float]]()
    ends = [end for end in (sight.view["striker"], sight.view["non_striker"]) if end]
    now = next(end for end in ends if sight.slots[end["name"]] == slot)
    kind = None if sight.bowling is None else kind_of(sight.bowler_card(sight.bowling))
    against = None if kind is None else "spin" if _SPIN in kind else "pace"
    better = card["bat_spin"] * (1 if against == "spin" else -1)
    if level > 0.5:
        if card.get("bat_form", 0.0) >= FORM:
            found.append((f"{slot} is in form", 12 * card["bat_form"]))
        if card["bat_runs"] >= 1.05:
            found.append((f"{slot} scores fast", 12 * (card["bat_runs"] - 1)))
        if card["bat_out"] <= 0.92:
            found.append((f"{slot} is hard to get out", 10 * (1 - card["bat_out"])))
        if against and better >= TRAIT:
            found.append((f"{slot} is strong against {against}", 10 * better))
        if now["balls"] >= SET_BALLS:
            found.append((f"{slot} is set on {now['runs']}", 0.9))
        return found + _steep(sight, "we") + _in_hand(sight, at_least=6)
    if level < 0.5:
        if card.get("bat_form", 0.0) <= -FORM:
            found.append((f"{slot} is out of form", -12 * card["bat_form"]))
        if card["bat_runs"] <= 0.95:
            found.append((f"{slot} scores slowly", 12 * (1 - card["bat_runs"])))
        if card["bat_out"] >= 1.08:
            found.append((f"{slot} gets out easily", 10 * (card["bat_out"] - 1)))
        if against and better <= -TRAIT:
            found.append((f"{slot} is weaker against {against}", -10 * better))
        if now["balls"] < NEW_BALLS:
            found.append((f"{slot} has faced only {now['balls']}", 0.5))
        return found + _in_hand(sight, at_most=3)
    return found


def _of_batters(sight: Sight, trait: str, sign: int, words: str) -> Clauses:
    """Return the clause that batters in have a trait, naming all who do."""
    who = {slot: sign * card[trait] for slot, card in sight.batters.items() if sign * card[trait] >= TRAIT}
    return (
        [(f"{_joined(who)} {'are' if len(who) > 1 else 'is'} {words}", 10 * sum(who.values()))] if who else []
    )


def _of_cards(sight: Sight, holds: Callable[[Mapping[str, Any]], bool], words: str) -> Clauses:
    return [(f"{slot} {words}", 0.7) for slot, card in sight.batters.items() if holds(card)]


def _joined(slots: Iterable[str]) -> str:
    return " and ".join(slots)


def _new(sight: Sight) -> Clauses:
    ends = [end for end in (sight.view["striker"], sight.view["non_striker"]) if end]
    return [
        (f"{sight.slots[end['name']]} has faced only {end['balls']}", 0.5 + 0.1 * (NEW_BALLS - end["balls"]))
        for end in ends
        if end["balls"] < NEW_BALLS and sight.view["score"]["balls"] >= NEW_BALLS
    ]


def _set(sight: Sight) -> Clauses:
    ends = [end for end in (sight.view["striker"], sight.view["non_striker"]) if end]
    return [
        (f"{sight.slots[end['name']]} is set on {end['runs']}", 0.4 + end["runs"] / 40)
        for end in ends
        if end["balls"] >= SET_BALLS
    ]


def _stand(sight: Sight) -> Clauses:
    stand = sight.view["partnership"]
    return [(f"the stand is worth {stand}", 0.5 + stand / 50)] if stand >= STAND else []


def _steep(sight: Sight, side: str) -> Clauses:
    rate = sight.view.get("required_rate")
    if not rate or rate <= STEEP:
        return []
    return [(f"{side} need more than {min(36, ceil(rate) - 1)} an over", 0.3 + (rate - STEEP) / 4)]


def _in_hand(sight: Sight, at_least: int = 0, at_most: int = 10) -> Clauses:
    left = (2 if sight.view["super_over"] else 10) - sight.view["score"]["wickets"]
    if not at_least <= left <= at_most:
        return []
    words = f"{left} wicket is in hand" if left == 1 else f"{left} wickets are in hand"
    return [(words, 0.4 + 0.1 * left if at_least else 1.2 - 0.2 * left)]


def _rope_by_side(sight: Sight) -> tuple[float, float]:
    """Return the mean boundary distance on the striker's leg and off side."""
    if not sight.view.get("ground"):
        return 0.0, 0.0
    rope = list(sight.view["ground"]["now"].values())
    return sum(rope[:4]) / 4, sum(rope[4:]) / 4
