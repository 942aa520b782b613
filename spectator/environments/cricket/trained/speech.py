"""The trained captain's sentences, token by token, and the calls of an order.

An order is one sentence: a series of choices, each with a true reason. Only the tokens of legal choices and
of true clauses can follow; if only one token can follow, the model is not asked.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from spectator.environments.cricket.ball.situation import SHOTS
from spectator.environments.cricket.captaincy.lookahead import fields, placed, striker_boundaries
from spectator.environments.cricket.match.field import legal_presets
from spectator.environments.cricket.trained import perception
from spectator.environments.cricket.trained.network import NOTHING, Tokenizer
from spectator.environments.cricket.trained.perception import PACKED, Sight, kind_of

Order = dict[str, Any]
"""The chosen value of each part of an order."""

LENGTH_WORDS: Final[Mapping[str, str]] = {
    "yorker": "yorkers",
    "full": "full",
    "good": "good length",
    "back of a length": "back of a length",
    "short": "short",
}
LINE_WORDS: Final[Mapping[str, str]] = {
    "wide outside off": "wide outside off",
    "outside off": "outside off",
    "stumps": "straight",
    "leg": "leg side",
}
ATTACK_WORDS: Final[Mapping[float, str]] = {
    0.3: "shut the runs off at 0.3",
    0.4: "hold them at 0.4",
    0.6: "press at 0.6",
    0.7: "hunt wickets at 0.7",
}
LEVEL_WORDS: Final[Mapping[float, str]] = {
    0.3: "blocks at 0.3",
    0.4: "waits at 0.4",
    0.5: "plays at 0.5",
    0.6: "hits at 0.6",
    0.7: "swings at 0.7",
}
"""Words for a batter's level; their verbs start with different words."""
USUAL_STROKES: Final = "usual strokes"
ORDER_PARTS: Final = frozenset({"elect", "by", "length", "line", "field", "attack", "shot", "level"})
"""Parts with an effect; the other parts are only words."""


class Option(NamedTuple):
    """One possible continuation of a sentence.

    Args:
        value: Its meaning as the value of a part.
        weight: Relative probability that a good captain says it; equal for parts with an effect.
    """

    text: str
    value: Any = None
    weight: float = 1.0


class WordChoice(NamedTuple):
    """A point at which a sentence can continue in several ways.

    Args:
        part: The part chosen: one of :data:`ORDER_PARTS`, ``why`` or ``word``.
        options: At least one option; none is a prefix of another.
        about: The batter of a level or the length of a line; otherwise empty.
    """

    part: str
    options: Sequence[Option]
    about: str = ""


Sentence = Generator[WordChoice, Option, Order]
"""Yields each choice in turn and returns the order."""


def sentence(sight: Sight) -> Sentence:
    """Return the sentence of the current decision."""
    if sight.role == "bowl":
        return _bowl(sight)
    if sight.role == "bat":
        return _bat(sight)
    return _other(sight)


def _other(sight: Sight) -> Sentence:
    role, view = sight.role, sight.view
    if role == "plan":
        yield from _word(
            "Play each situation as it asks, at 0.5 throughout.",
            "No fixed plan: 0.5 throughout, and look for what fits.",
            "Begin at 0.5 in every phase and read the match from there.",
        )
        return {"plan": 0.5}
    if role in ("toss", "elect"):
        yield from _word(
            *(("Heads;", "We call heads;") if role == "toss" else ("Toss won;", "The coin is ours;"))
        )
        elect = yield WordChoice("elect", [Option(" field first", "field"), Option(" bat first", "bat")])
        dew, wears = (view["conditions"]["evening"] == name for name in ("dew", "wearing"))
        if elect.value == "field":
            why = [" to know what to chase.", " and chase.", *([" as dew will help a chase."] if dew else [])]
        else:
            why = [
                " to put runs on the board.",
                " and defend.",
                *([" as the pitch will wear."] if wears else []),
            ]
        yield from _word(*why)
        return {"elect": elect.value}
    slots = sight.waiting()
    if role == "openers":
        yield from _word(f"Innings {view['innings']}:", f"To begin innings {view['innings']}:")
        yield from _word(f" {slots[0]} and {slots[1]} open, in the natural order.")
        return {"in": slots[:2]}
    yield from _word(*_heads(sight))
    yield from _word(f" {slots[0]} is in, in the natural order.")
    return {"in": slots[:1]}


def _bowl(sight: Sight) -> Sentence:
    yield from _word(*_heads(sight))
    order: Order = {}
    if sight.bowlers:
        by = yield WordChoice(
            "by", [Option(f" {slot}, {kind_of(card)}", slot) for slot, card in sight.bowlers.items()]
        )
        order["by"] = by.value
        yield from _why(perception.for_bowler(sight, by.value))
    else:
        yield from _word(f" {sight.bowling} bowls on", f" {sight.bowling} stays on")
    length = yield WordChoice(
        "length", [Option(NOTHING), *(Option(f"; {words}", value) for value, words in LENGTH_WORDS.items())]
    )
    mark = "," if length.value else ";"
    line = yield WordChoice(
        "line",
        [Option(NOTHING), *(Option(f"{mark} {words}", value) for value, words in LINE_WORDS.items())],
        length.value or "",
    )
    order |= {"length": length.value, "line": line.value}
    if length.value or line.value:
        yield from _why(perception.for_ball(sight, length.value, line.value))
    if not sight.view["free_hit"]:
        presets = [name.replace("_", " ") for name in legal_presets(sight.view["outside_limit"])]
        named = [name for name in presets if name != "standard"]
        field = yield WordChoice(
            "field",
            [Option(NOTHING, "standard"), *(Option(f"; {_field_words(name)}", name) for name in named)],
        )
        order["field"] = field.value
        if field.value != "standard":
            yield from _why(perception.for_field(sight, field.value))
    attack = yield WordChoice(
        "attack",
        [Option(NOTHING, 0.5), *(Option(f"; {words}", level) for level, words in ATTACK_WORDS.items())],
    )
    order["attack"] = attack.value
    if attack.value != 0.5:
        yield from _why(perception.for_attack(sight, attack.value))
    yield from _word(".")
    return order


def _bat(sight: Sight) -> Sentence:
    yield from _word(*_heads(sight))
    shot = yield WordChoice(
        "shot", [Option(f" {USUAL_STROKES}"), *(Option(f" the {name}", name) for name in SHOTS)]
    )
    if shot.value:
        yield from _why(perception.for_shot(sight, shot.value))
    levels: dict[str, float] = {}
    for slot in sight.batters:
        level = yield WordChoice(
            "level", [Option(f"; {slot} {words}", value) for value, words in LEVEL_WORDS.items()], slot
        )
        levels[slot] = level.value
        yield from _why(perception.for_level(sight, slot, level.value))
    yield from _word(".")
    return {"shot": shot.value, "levels": levels}


def _field_words(name: str) -> str:
    return name if name in PACKED else f"{name} field"


def _word(*texts: str) -> Generator[WordChoice, Option, None]:
    yield WordChoice("word", [Option(text) for text in texts])


def _why(clauses: perception.Clauses) -> Generator[WordChoice, Option, None]:
    """Offer one of the clauses, or nothing."""
    said = [Option(f" {link} {text}", text, weight) for text, weight in clauses for link in ("as", "since")]
    yield WordChoice("why", [*said, Option(NOTHING, None, 0.2)])


def _heads(sight: Sight) -> list[str]:
    """Return ways to describe the state of the match from the observation."""
    view, score = sight.view, sight.view["score"]
    left, runs, wickets = score["balls_left"], score["runs"], score["wickets"]
    need, ours = view.get("need"), sight.role != "bowl"
    we, balls = ("We" if ours else "They"), f"{left} ball{'s' * (left != 1)}"
    who = "we" if ours else "they"
    if need is None:
        heads = [
            f"{we} are {runs} for {wickets} with {balls} left:",
            f"At {runs} for {wickets}, {balls} to come:",
            f"With {balls} left {who} are {runs} for {wickets}:",
            f"Still {balls} left at {runs} for {wickets}:",
        ]
    else:
        heads = [
            f"{we} need {need} off {balls}, {wickets} down:",
            f"With {wickets} down {who} want {need} from {balls}:",
            f"Still {need} to get off {balls}, {wickets} down:",
            f"From {balls} {who} must make {need}, {wickets} down:",
        ]
    if view["super_over"]:
        return [f"Super over {(view['innings'] - 1) // 2}, {head[0].lower()}{head[1:]}" for head in heads]
    return heads


@dataclass
class SpokenOrder:
    """One sentence while it is spoken, token by token.

    Attributes:
        ids: All tokens spoken.
        allowed: Tokens that may follow; empty once the sentence is complete.
        choice: The current choice.
        order: The order, once the sentence is complete.
    """

    sight: Sight
    tokenizer: Tokenizer
    ids: list[int] = field(default_factory=list)
    allowed: list[int] = field(default_factory=list)
    order: Order | None = None

    def __post_init__(self) -> None:
        self._sentence = sentence(self.sight)
        self._open: list[tuple[Option, list[int]]] = []
        self._depth = 0
        self.choice = next(self._sentence)
        self._begin()

    def take(self, token: int) -> None:
        """Speak one of the allowed tokens, and all tokens that must follow it.

        Raises:
            ValueError: The token is not allowed here.
        """
        self._open = [(option, ids) for option, ids in self._open if ids[self._depth] == token]
        if not self._open:
            raise ValueError(f"{self.tokenizer.decode([token])!r} cannot follow here")
        self._say(token)
        self._go_on()

    def weights(self, wanted: Mapping[int, float]) -> list[float]:
        """Return each allowed token's share, option N having weight ``wanted[N]``."""
        shares = dict.fromkeys(self.allowed, 0.0)
        for option, ids in self._open:
            shares[ids[self._depth]] += wanted[self.choice.options.index(option)]
        total = sum(shares.values()) or 1.0
        return [share / total for share in shares.values()]

    @property
    def text(self) -> str:
        """The text so far, with players by slot."""
        return self.tokenizer.decode(number for number in self.ids).replace(NOTHING, "")

    def _say(self, token: int) -> None:
        self.ids.append(token)
        self._depth += 1

    def _begin(self) -> None:
        encoded = [(option, self.tokenizer.encode(option.text)) for option in self.choice.options]
        self._open = [(option, ids) for option, ids in encoded if 0 not in ids] or encoded
        self._depth = 0
        self._go_on()

    def _go_on(self) -> None:
        while True:
            if len(self._open) == 1 and self._depth == len(self._open[0][1]):
                try:
                    self.choice = self._sentence.send(self._open[0][0])
                except StopIteration as done:
                    self.order, self.allowed = done.value, []
                    return
                self._begin()
                return
            following = list(dict.fromkeys(ids[self._depth] for _, ids in self._open))
            if len(following) > 1:
                self.allowed = following
                return
            self._say(following[0])


ASK: Final = {"new_batter": True}
"""Condition to ask the captain before the over ends, as for the planner."""
PHASES: Final = ("powerplay", "middle", "death")

Call = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


def calls_of(sight: Sight, order: Order) -> list[Call]:
    """Return the calls that carry out an order; only the last is required."""
    role, legal = sight.role, sight.legal
    if role == "plan":
        return [
            (
                "set_match_plan",
                {f"{side}_{part}": order["plan"] for side in ("batting", "bowling") for part in PHASES},
            )
        ]
    if role in ("toss", "elect"):
        return [("call_toss", {"call": "heads", "elect": order["elect"]})]
    if role in ("openers", "batter"):
        named = [sight.names[slot] for slot in order["in"]]
        return [("select_batter", dict(zip(("batter", "partner"), named, strict=False)))]
    if legal[0] == "select_bowler":
        return [("select_bowler", {"bowler": sight.names[order["by"]]})]
    if legal[0] in ("bowl_over", "bowl_session"):
        return [(legal[0], _bowling(sight, order, session=legal[0] == "bowl_session"))]
    if legal[0] in ("play_over", "play_session"):
        return [(legal[0], _batting(sight, order))]
    return _ball_by_ball(sight, order)


def _bowling(sight: Sight, order: Order, *, session: bool) -> dict[str, Any]:
    arguments: dict[str, Any] = {"attack": order["attack"], "ask": dict(ASK)}
    if "by" in order:  # within an over the bowler is fixed
        name = sight.names[order["by"]]
        arguments |= {"bowlers": [name]} if session else {"bowler": name}
    return arguments | _planned(order) | _field(sight, order)


def _batting(sight: Sight, order: Order) -> dict[str, Any]:
    own = [
        {"batter": sight.names[slot], "aggression": level}
        for slot, level in order["levels"].items()
        if level != 0.5
    ]
    arguments: dict[str, Any] = {"aggression": 0.5, "ask": dict(ASK)}
    if order["shot"]:
        arguments["shot"] = order["shot"]
    return arguments | ({"by_batter": own} if own else {})


def _ball_by_ball(sight: Sight, order: Order) -> list[Call]:
    """Return the free changes before the ball, then the ball."""
    legal, own = sight.legal, sight.view["you"]
    if sight.role == "bat":
        level = next(iter(order["levels"].values()))
        wanted = {"shot": order["shot"], "aggression": level} if order["shot"] else {"aggression": level}
        usual = not order["shot"] and level == own["aggression"]
        changed: list[Call] = [] if usual else [("plan_shot", wanted)]
        last: Call = ("play_delivery", {})
    else:
        changed, last = [], ("bowl_delivery", {})
        if (planned := _planned(order)) and planned != {
            k: v for k, v in (own["delivery"] or {}).items() if v
        }:
            changed.append(("plan_delivery", planned))
        if order.get("field") not in (None, sight.field):
            changed.append(("set_field", _field(sight, order)))
        if order["attack"] != own["attack"]:
            changed.append(("set_bowling_strategy", {"attack": order["attack"]}))
    free = [call for call in changed if call[0] in legal][: max(0, min(1, own["free_calls"]))]
    return [*free, last]


def _planned(order: Order) -> dict[str, Any]:
    return {part: order[part] for part in ("length", "line") if order.get(part)}


def _field(sight: Sight, order: Order) -> dict[str, Any]:
    """Return the field as arguments; empty if it must stay."""
    name = order.get("field")
    if name is None:
        return {}
    if name in PACKED:
        return placed(
            fields(sight.view["outside_limit"], striker_boundaries(sight.view))[PACKED.index(name) - 2]
        )
    return {"preset": name.replace(" ", "_")}
