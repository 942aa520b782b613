"""Captains without a model: named styles, weaker ones, and a random one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import Evening
from spectator.environments.cricket.captaincy.reasons import (
    STEEP_RATE,
    TOSS_FIELD_SHARE,
    FirstTask,
    batter_reason,
    batting_reason,
    better_first,
    bowler_reason,
    bowling_reason,
    field_reason,
    hurried,
    plan_reason,
    play_reason,
    toss_reason,
)
from spectator.observations import Observation
from spectator.policies.policy import (
    Decision,
    Preset,
    RandomPolicy,
    ScriptedPolicy,
    generator_snapshot,
    restore_generator,
)

LEFT_OUT: Final = 0.3
"""Probability of omitting an optional argument."""


class RandomCaptain(RandomPolicy):
    """Draws a legal tool and lawful arguments."""

    def arguments(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Draw lawful arguments, all different, leaving some to their defaults."""
        properties: Mapping[str, Any] = schema.get("properties", {})
        arguments: dict[str, str | float] = {}
        for name, rule in properties.items():
            if self._random.random() < LEFT_OUT:
                continue
            drawn = self._drawn(rule)
            if drawn is not None and drawn not in arguments.values():
                arguments[name] = drawn
        return arguments

    def _drawn(self, schema: Mapping[str, Any]) -> str | float | None:
        """Draw a value of a schema; ``None`` for texts and lists."""
        if "enum" in schema:
            choice: str = self._random.choice(schema["enum"])
            return choice
        if schema.get("type") == "number":
            return round(self._random.uniform(schema["minimum"], schema["maximum"]), 2)
        return None


RANDOM: Final = Preset(
    "random", "Wild Card", "Draws any legal tool, and its arguments too.", "random", RandomCaptain
)


SEGMENTS: Final = ("powerplay", "middle", "death")
Levels = tuple[float, float, float]

STANDARD_FIELD: Final = "standard"


@dataclass(frozen=True, slots=True)
class Style:
    """The way a scripted captain plays.

    Args:
        summary: A sentence on how it plays.
        batting: Aggression in powerplay, middle and death.
        bowling: Attack, likewise.
        fields: Preset fields, likewise; one that is not lawful yet is replaced by the standard field.
        plans_balls: Whether it plans deliveries and strokes for the situation.
        declares: Whether it declares a match plan.
        weighs_toss: Whether it elects by format and evening, instead of as often as real sides do.
    """

    name: str
    label: str
    summary: str
    batting: Levels = (0.5, 0.5, 0.5)
    bowling: Levels = (0.5, 0.5, 0.5)
    fields: tuple[str, str, str] = ("standard", "standard", "standard")
    spin_first: bool = False
    plans_balls: bool = False
    declares: bool = True
    weighs_toss: bool = True


STYLES: Final[tuple[Style, ...]] = (
    Style("heuristic", "Old Pro", "Plays the percentages: every situation as the best sides do on average."),
    Style(
        "aggressive", "Gambler", "Hits from the first ball and hunts wickets with catchers in.",
        batting=(0.64, 0.62, 0.68), bowling=(0.62, 0.6, 0.55), fields=("attacking", "standard", "standard"),
    ),
    Style(
        "anchor", "Anchor", "Keeps wickets for the end and then spends them.",
        batting=(0.4, 0.44, 0.62), bowling=(0.45, 0.45, 0.5),
    ),
    Style(
        "defensive", "Miser", "Spreads the field and waits for the batters' mistakes.",
        batting=(0.45, 0.45, 0.5), bowling=(0.36, 0.34, 0.4), fields=("standard", "defensive", "death"),
    ),
    Style(
        "spin_first", "Spin Doctor", "Opens with spin and keeps a slip for it.",
        batting=(0.5, 0.5, 0.55), bowling=(0.55, 0.58, 0.5), fields=("standard", "spin", "standard"),
        spin_first=True,
    ),
    Style(
        "tactician", "Tactician", "Plans deliveries and strokes for the situation, ball by ball.",
        plans_balls=True,
    ),
)  # fmt: skip
"""Named styles, the default first."""

CRICSHEET: Final = Style(
    "cricsheet", "Average Side", "Acts as real sides did in the same situation; declares nothing.",
    declares=False, weighs_toss=False,
)  # fmt: skip


@dataclass(slots=True)
class StyledCaptain(ScriptedPolicy):
    """A captain of one style.

    Args:
        seed: Seed of its own generator, for the toss.
    """

    style: Style
    seed: int
    _random: random.Random = field(init=False)
    _said: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def choose(self, observation: Observation) -> Decision:
        """Return the decision for an observation."""
        view = observation.content
        legal = [action["tool"] for action in observation.legal_actions]
        if self.style.declares and "set_match_plan" in legal:
            return self._declare()
        tool, arguments, reason = _BY_PHASE[view["phase"]](self, view, legal)
        if tool not in legal:
            tool, arguments = legal[0], {}
        self._said = reason
        return Decision({"tool": tool, "arguments": arguments}, "heuristic", reason)

    def snapshot(self) -> Any:
        """Return the state of its generator and its last reason."""
        return [generator_snapshot(self._random), self._said]

    def restore(self, snapshot: Any) -> None:
        """Continue from a snapshot."""
        generator, self._said = snapshot
        restore_generator(self._random, generator)

    def elect(self, overs: int, evening: Evening) -> tuple[str, str]:
        """Return what to call at the toss and what to do first."""
        call = "heads" if self._random.random() < 0.5 else "tails"
        usual: FirstTask = "field" if self._random.random() < TOSS_FIELD_SHARE else "bat"
        better = better_first(overs, evening) if self.style.weighs_toss else None
        return call, better or usual

    def _declare(self) -> Decision:
        style = self.style
        plan: dict[str, Any] = {
            f"batting_{part}": level for part, level in zip(SEGMENTS, style.batting, strict=True)
        }
        plan |= {f"bowling_{part}": level for part, level in zip(SEGMENTS, style.bowling, strict=True)}
        plan["summary"] = style.summary
        return Decision(
            {"tool": "set_match_plan", "arguments": plan}, "heuristic", plan_reason(style.summary)
        )

    def _toss(self, view: Mapping[str, Any], legal: list[str]) -> ToolChoice:
        overs, evening = view["format"]["overs"], view["conditions"]["evening"]
        call, elect = self.elect(overs, evening)
        why = toss_reason(elect, overs, evening) if self.style.weighs_toss else toss_reason(elect)
        return "call_toss", {"call": call, "elect": elect}, why

    def _select_batter(self, view: Mapping[str, Any], legal: list[str]) -> ToolChoice:
        names = view["choices"]["batters"]
        if view["phase"] == "openers":
            return "select_batter", {"batter": names[0], "partner": names[1]}, batter_reason(view, *names[:2])
        return "select_batter", {"batter": names[0]}, batter_reason(view, names[0])

    def _select_bowler(self, view: Mapping[str, Any], legal: list[str]) -> ToolChoice:
        choices = view["choices"]
        name = choices["usual"]
        if self.style.spin_first and view["score"]["balls"] < 12:
            spinners = [
                bowler["name"] for bowler in choices["bowlers"]
                if "pace" not in bowler["kind"] and "occasional" not in bowler["kind"]
            ]  # fmt: skip
            name = spinners[0] if spinners else name
        return "select_bowler", {"bowler": name}, bowler_reason(view, name)

    def _bowl(self, view: Mapping[str, Any], legal: list[str]) -> ToolChoice:
        part = SEGMENTS.index(view["segment"])
        own = view["you"]
        preset = self.style.fields[part]
        if preset == "spin" and "pace" in view["bowler"]["kind"]:
            preset = STANDARD_FIELD
        if preset != view["field"]["preset"] and "set_field" in legal:
            return "set_field", {"preset": preset}, field_reason(view, preset)
        attack = self.style.bowling[part]
        if attack != own["attack"]:
            return "set_bowling_strategy", {"attack": attack}, bowling_reason(view, attack, self._said)
        if self.style.plans_balls and own["delivery"] is None and own["free_calls"]:
            planned = _delivery_for(view)
            if planned is not None:
                return "plan_delivery", planned[0], planned[1]
        return "bowl_delivery", {}, play_reason(view, attack, batting=False, said=self._said)

    def _order_bowling(self, view: Mapping[str, Any], legal: list[str]) -> ToolChoice:
        """Order an over or a session: the style's usual bowlers, field and attack."""
        part = SEGMENTS.index(view["segment"])
        attack, preset = self.style.bowling[part], self.style.fields[part]
        orders: dict[str, Any] = {"attack": attack}
        bowler, reason = view["bowler"], bowling_reason(view, attack, self._said)
        if "usual" in view["choices"]:
            _, chosen, reason = self._select_bowler(view, legal)
            orders |= chosen if legal[0] == "bowl_over" else {"bowlers": [chosen["bowler"]]}
            bowler = next(one for one in view["choices"]["bowlers"] if one["name"] == chosen["bowler"])
        pace = "pace" in bowler["kind"]
        orders["preset"] = STANDARD_FIELD if preset == "spin" and pace else preset
        if self.style.plans_balls and view["segment"] == "death" and pace:
            orders |= {"length": "yorker", "line": "stumps"}
        return legal[0], orders, reason

    def _order_batting(self, view: Mapping[str, Any], legal: list[str]) -> ToolChoice:
        """Order batting at the style's intent; ask again if the rate gets too steep."""
        aggression = self._aggression(view)
        orders: dict[str, Any] = {"aggression": aggression}
        if aggression < 0.5 and view.get("need"):
            orders["ask"] = {"rate_above": STEEP_RATE}
        return legal[0], orders, batting_reason(view, aggression, self._said)

    def _bat(self, view: Mapping[str, Any], legal: list[str]) -> ToolChoice:
        aggression = self._aggression(view)
        own = view["you"]
        if aggression != own["aggression"]:
            return "set_strategy", {"aggression": aggression}, batting_reason(view, aggression, self._said)
        if self.style.plans_balls and own["shot"] is None:
            planned = _shot_for(view)
            if planned is not None:
                return "plan_shot", planned[0], planned[1]
        return "play_delivery", {}, play_reason(view, aggression, batting=True, said=self._said)

    def _aggression(self, view: Mapping[str, Any]) -> float:
        """Return the style's intent; if hurried, at least 0.5 until the over ends."""
        wanted = self.style.batting[SEGMENTS.index(view["segment"])]
        if wanted >= 0.5:
            return wanted
        raised = view["you"]["aggression"] == 0.5 and view["score"]["balls"] % 6 != 0
        return 0.5 if raised or hurried(view) else wanted


ToolChoice = tuple[str, dict[str, Any], str]
"""Name of a tool, its arguments, and the reason."""

_BY_PHASE: Final[dict[str, Callable[[StyledCaptain, Mapping[str, Any], list[str]], ToolChoice]]] = {
    "toss": StyledCaptain._toss,
    "elect": StyledCaptain._toss,
    "openers": StyledCaptain._select_batter,
    "batter": StyledCaptain._select_batter,
    "bowler": StyledCaptain._select_bowler,
    "bowl": StyledCaptain._bowl,
    "bat": StyledCaptain._bat,
    "bowling_plan": StyledCaptain._order_bowling,
    "batting_plan": StyledCaptain._order_batting,
}


def _delivery_for(view: Mapping[str, Any]) -> tuple[dict[str, str], str] | None:
    """Return a plan for the over and its reason, if one fits.

    It plans yorkers at the death, a good length at new batters and slower balls at set ones.
    """
    striker = view["striker"]
    pace = "pace" in view["bowler"]["kind"]
    if view["segment"] == "death" and pace:
        return {
            "length": "yorker",
            "line": "stumps",
        }, "Death overs: yorkers at the stumps give nothing to swing at."
    if striker["balls"] < 6:
        return {
            "length": "good",
            "line": "outside off",
        }, f"{striker['name']} is new: a good length outside off stump."
    if striker["balls"] >= 20 and pace:
        return {
            "length": "back of a length",
            "pace": "slower",
        }, f"{striker['name']} is set: take the pace off."
    return None


def _shot_for(view: Mapping[str, Any]) -> tuple[dict[str, Any], str] | None:
    """Return a stroke for a free hit or the last ball of a chase; otherwise ``None``."""
    if view["free_hit"]:
        return {
            "shot": "loft straight",
            "aggression": 0.9,
        }, "Free hit: swing, nothing but a run out can cost the wicket."
    if view.get("need") and view["score"]["balls_left"] == 1 and view["need"] > 3:
        return {
            "shot": "slog",
            "aggression": 1.0,
        }, f"{view['need']} off the last ball: only the rope will do."
    return None


def _preset(style: Style, kind: type[StyledCaptain] = StyledCaptain) -> Preset:
    return Preset(style.name, style.label, style.summary, "heuristic", partial(kind, style))


CAPTAINS: Final[dict[str, Preset]] = {style.name: _preset(style) for style in STYLES} | {RANDOM.name: RANDOM}
_SELF: Final = replace(
    CAPTAINS["heuristic"],
    name="self",
    label="Itself",
    summary="The home side's captain captains both sides.",
    mirrors=True,
)
OPPONENTS: Final[dict[str, Preset]] = {**CAPTAINS, "cricsheet": _preset(CRICSHEET), "self": _SELF}


BLOCKER: Final = Style(
    "blocker", "Stonewaller", "Guards the wicket from the first ball to the last, whatever is needed.",
    batting=(0.3, 0.3, 0.3),
)  # fmt: skip
NOVICE: Final = replace(
    BLOCKER,
    name="novice",
    label="Novice",
    summary="Hardly lifts the bat, and lets everybody bowl in turn, whoever is in.",
    batting=(0.15, 0.15, 0.15),
)


class UnbendingCaptain(StyledCaptain):
    """A styled captain that keeps its tempo at any required rate.

    Args:
        seed: Seed of its own generator, for the toss.
    """

    def _aggression(self, view: Mapping[str, Any]) -> float:
        """Return the style's intent, hurried or not."""
        return self.style.batting[SEGMENTS.index(view["segment"])]


class NoviceCaptain(UnbendingCaptain):
    """An unbending captain that shares the bowling equally.

    The bowler with the fewest overs bowls next, in the order of the cards.
    """

    def choose(self, observation: Observation) -> Decision:
        """Return the decision for an observation."""
        decision, view = super().choose(observation), observation.content
        given = decision.action["arguments"]
        if "bowler" not in given and "bowlers" not in given:
            return decision
        name = _in_turn(view)
        arguments = given | ({"bowler": name} if "bowler" in given else {"bowlers": [name]})
        return Decision({**decision.action, "arguments": arguments}, "heuristic", f"It is {name}'s turn.")


def _in_turn(view: Mapping[str, Any]) -> str:
    """Return the eligible bowler with the fewest overs, preferring regular bowlers."""
    able = view["choices"]["bowlers"]
    own = [one for one in able if "occasional" not in one["kind"]] or able
    return str(min(own, key=lambda one: float(one["overs"]))["name"])


WEAKER: Final = {
    style.name: _preset(style, kind) for style, kind in ((NOVICE, NoviceCaptain), (BLOCKER, UnbendingCaptain))
}
"""Presets by name, the weakest first."""
