"""What the trained captain sees: an observation as a short text, with players named by slots.

Players of the side that bats are ``b1`` to ``b11``, those of the fielding side ``f1`` to ``f11``, by their
place in the natural order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.environments.cricket.ball.vocabulary import LENGTHS, LINES

KINDS: Final[Mapping[str, str]] = {
    "right-arm pace": "pace",
    "left-arm pace": "left-arm pace",
    "off spin": "off spin",
    "leg spin": "leg spin",
    "slow left-arm orthodox": "left-arm spin",
    "left-arm wrist spin": "wrist spin",
}
"""How the captain calls each bowling style; players without one are part-timers."""

PART_TIME: Final = "part-time spin"
PACKED: Final = ("packed off side", "packed leg side")
"""The two fields that are no presets, as the planner sets them."""

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
    """One observation, read.

    Args:
        view: The observation's content.
        legal: Names of the legal tools, the one that goes on with the game first.

    Attributes:
        role: What is decided: ``plan``, ``toss``, ``elect``, ``openers``, ``batter``, ``bowl`` or ``bat``.
        slots: The slot of each player, by name.
        names: The name of each player, by slot.
        batters: Cards of the two who are in, by slot, the striker first.
        bowlers: Cards of those who may be given the ball, by slot; empty where somebody has it.
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
            told = {self.slots[one["name"]]: one for one in choices["bowlers"]}
            able = {slot: self._fielding[slot] for slot in told if "bowls" in self._fielding[slot]}
            self.bowlers = able or {slot: self._fielding[slot] for slot in told}
            self.figures = told
        elif (bowler := view.get("bowler")) is not None:
            self.figures = {self.slots[bowler["name"]]: bowler}

    @property
    def bowling(self) -> str | None:
        """Slot of the bowler who has the ball; ``None`` where nobody has."""
        bowler = self.view.get("bowler")
        return None if bowler is None or self.bowlers else self.slots[bowler["name"]]

    def bowler_card(self, slot: str) -> Mapping[str, Any]:
        """The card of a player of the fielding side."""
        card: Mapping[str, Any] = self._fielding[slot]
        return card

    def tired(self, slot: str) -> float:
        """The load of a bowler."""
        load: float = (self.view.get("tired") or {}).get(self.names[slot], 0.0)
        return load

    def waiting(self) -> list[str]:
        """Slots of the batters who may come in, in their natural order."""
        return [self.slots[name] for name in self.view["choices"]["batters"]]

    def shown_names(self) -> dict[str, str]:
        """What each slot is called in a sentence: the surname, or the whole name where two share it."""
        surnames = [name.partition(" ")[2] or name for name in self.names.values()]
        return {
            slot: surname if surnames.count(surname) == 1 else name
            for (slot, name), surname in zip(self.names.items(), surnames, strict=True)
        }

    def text(self) -> str:
        """The situation as the model reads it."""
        view, role = self.view, self.role
        pitch = f"{view['conditions']['pitch']} {view['conditions']['evening']}"
        overs = view["format"]["overs"]
        if role in ("plan", "toss", "elect"):
            return f"{role} {overs} {pitch}\n>"
        score = view["score"]
        place = f"over {score['balls'] // 6 + 1} ball {score['balls'] % 6} left {score['balls_left']}"
        above = " super" if view["super_over"] else ""
        standing = f"inn {view['innings']} score {score['runs']} {score['wickets']}"
        if view.get("target") is not None:
            standing += f" need {view['need']}"
        asked = "openers" if role == "batter" else role  # the model knows no other word for it
        lines = [f"{asked}{above} {view['segment']} {overs} {place}", standing]
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
        """The field that is set, as the captain calls it."""
        field = self.view["field"]
        if field["preset"] != "custom":
            return str(field["preset"]).replace("_", " ")
        first = field["fielders"][0]["name"]
        men = {man["name"] for man in field["fielders"]}
        if {"slip", "extra cover", "sweeper cover"} <= men and first == "slip":
            return PACKED[0]
        if {"short midwicket", "deep midwicket", "deep square leg"} <= men and first == "point":
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
                met = [_LENGTH_MARKS[length] + _LINE_MARKS[line] for length, line in end["faced"]]
                line += " saw " + " ".join(met)
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
                slot for slot, man in self._fielding.items() if "bowls" in man and man["name"] not in done
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
        card, told = self._fielding[slot], self.figures.get(slot)
        line = f"{slot} {kind_of(card)} {_hundredths(card.get('bowl_runs', 1.15))}"
        line += f" {_hundredths(card.get('bowl_wickets', 0.75))}"
        if card.get("bowl_form"):
            line += f" fm {_hundredths(card['bowl_form'])}"
        if load := self.tired(slot):
            line += f" tired {round(10 * load)}"
        if told is not None:
            line += f" {told['runs']} {told['wickets']} left {told['overs_left']}"
        return line


def kind_of(card: Mapping[str, Any]) -> str:
    """How the captain calls the bowling of a player."""
    return KINDS.get(card.get("bowls", ""), PART_TIME)


def _hundredths(value: float) -> str:
    return str(round(100 * value))


def _batting_card(card: Mapping[str, Any]) -> str:
    told = {"sp": "bat_spin", "sh": "bat_short", "lg": "bat_leg"}
    if card.get("bat_form"):
        told["fm"] = "bat_form"
    hand = "L" if card["bats"] == "left" else "R"
    traits = " ".join(f"{mark} {_hundredths(card[trait])}" for mark, trait in told.items())
    return f"{hand} {_hundredths(card['bat_runs'])} {_hundredths(card['bat_out'])} {traits}"
