"""Owns the observation in words: what a language model is told before it decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spectator.observations import Observation

RULES = (
    "You captain a cricket side. Answer with one tool call as JSON: "
    '{"tool": name, "arguments": {...}}. Every argument may be left out.'
)


def render_prompt(observation: Observation) -> str:
    """The observation as a prompt, about 2,000 to 4,000 characters.

    Args:
        observation: One of this world's, with an actor who must decide.

    Returns:
        What is to be decided, the situation, this captain's own plans, the squads, and the legal tools with
        the ranges of their arguments. Nothing of the rival's plans.
    """
    view = observation.content
    parts = [
        RULES,
        f"Now: {view['task']}",
        *_refused(observation),
        *_situation(view),
        *_own(view),
        *_choices(view),
    ]
    parts += [_squad(side, squad, view["side"]) for side, squad in view["squads"].items()]
    tools = [_tool(legal["tool"], legal["arguments"]) for legal in observation.legal_actions]
    return "\n".join([*parts, "Legal tools:", *tools])


def _refused(observation: Observation) -> list[str]:
    if observation.refused is None:
        return []
    return [f"Your last call was refused ({observation.refused.rule}): {observation.refused.message}"]


def _situation(view: Mapping[str, Any]) -> list[str]:
    form = view["format"]
    lines = [
        f"Match: {form['overs']} overs a side, {form['powerplay_balls']} balls of powerplay, "
        f"{form['bowler_overs']} over(s) a bowler. You lead the {view['side']} side."
    ]
    if "score" not in view:
        return lines
    score, role = view["score"], "bat" if view["batting"] == view["side"] else "field"
    chase = f", {view['need']} needed at {view['required_rate']}" if view.get("need") is not None else ""
    name = "super over" if view["super_over"] else f"innings {view['innings']}"
    badges = "".join(
        f" {badge.replace('_', ' ').upper()}." for badge in ("powerplay", "free_hit") if view[badge]
    )
    lines.append(
        f"{name.capitalize()}, you {role}: {score['runs']} for {score['wickets']} after {score['overs']} "
        f"overs, {score['balls_left']} balls left{chase}.{badges}"
    )
    if view.get("projected") is not None:
        lines.append(f"Projected total: {view['projected']}.")
    for end in ("striker", "non_striker"):
        batter = view[end]
        if batter:
            where, made = end.replace("_", "-").capitalize(), f"{batter['runs']} ({batter['balls']})"
            lines.append(f"{where}: {batter['name']} {made}, {batter['bats']}-handed.")
    bowler = view["bowler"]
    if bowler:
        figures = f"{bowler['wickets']} for {bowler['runs']} from {bowler['overs']}"
        lines.append(
            f"Bowler: {bowler['name']}, {bowler['kind']}, {figures}, {bowler['overs_left']} over(s) left."
        )
    places = ", ".join(man["name"] for man in view["field"]["fielders"])
    lines.append(
        f"Field ({view['field']['preset']}, at most {view['outside_limit']} outside the ring): {places}."
    )
    if view["recent"]:
        lines.append("Last balls: " + " ".join(view["recent"]) + ".")
    if view.get("last_ball"):
        lines.append(f"Last ball: {view['last_ball']['words']}.")
    return lines


def _own(view: Mapping[str, Any]) -> list[str]:
    own = view["you"]
    if not own:
        return []
    plan = json.dumps(own["plan"], ensure_ascii=False) if own["plan"] else "none declared"
    lines = [
        f"Your match plan: {plan}.",
        f"Your strategy: batting aggression {own['aggression']}, bowling attack {own['attack']} "
        f"(0.5 = as real sides do). Free overhead calls left this over: {own['free_calls']}.",
    ]
    planned = [what for what in ("delivery", "shot", "analysis") if own[what]]
    lines += [f"Your {what}: {json.dumps(own[what], ensure_ascii=False)}." for what in planned]
    if own["notes"]:
        lines.append("Your notes: " + " | ".join(own["notes"]))
    return lines


def _choices(view: Mapping[str, Any]) -> list[str]:
    choices = view.get("choices")
    return [f"Choices: {json.dumps(choices, ensure_ascii=False)}"] if choices else []


def _squad(side: str, squad: Mapping[str, Any], own: str | None) -> str:
    people = [_person(player) for player in squad["players"]]
    whose = "Your side" if side == own else "Their side"
    return (
        f"{whose}, {squad['name']} (ratios to the average of the job: runs/dismissals batting, "
        f"runs/wickets bowling): {'; '.join(people)}."
    )


def _person(player: Mapping[str, Any]) -> str:
    bowls = f", {player['bowls']} {player['bowl_runs']}/{player['bowl_wickets']}" if "bowls" in player else ""
    return f"{player['name']} ({player['role']}, {player['bat_runs']}/{player['bat_out']}{bowls})"


def _tool(name: str, schema: Mapping[str, Any]) -> str:
    arguments = ", ".join(_argument(key, field) for key, field in schema["properties"].items())
    return f"- {name}({arguments}): {schema.get('description', '')}"


def _argument(key: str, field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return f"{key}: {' | '.join(map(str, field['enum']))}"
    if "minimum" in field:
        return f"{key}: {field['minimum']:g}..{field['maximum']:g}"
    return f"{key}: {field.get('type', 'any')}"
