"""The match as text for a language model: guide, fixed facts, scorecard in lines.

The guide and the squads come first and never change; each line of the scorecard is sent when it changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.environments.cricket.ball.situation import LENGTHS, LINES
from spectator.environments.cricket.captaincy.arguments import TOOLS, argument_schema
from spectator.environments.cricket.grading import QUALITY_SHARE, RESULT_SHARE
from spectator.environments.cricket.match.captain_state import CALLS_A_TURN, FREE_CALLS
from spectator.environments.cricket.match.engine import DEATH_SHARE
from spectator.environments.cricket.match.field import BOUNDARY_M, PITCH_M, PRESETS, RING_M
from spectator.observations import LegalAction, Observation
from spectator.policies.prompts import Rendering

_LENGTH_MARKS: Final = dict(zip(LENGTHS, "TYFGBS", strict=True))
_LINE_MARKS: Final = dict(zip(LINES, "wosl", strict=True))
_MARKS: Final = ", ".join(
    f"{mark} {word}" for marks in (_LENGTH_MARKS, _LINE_MARKS) for word, mark in marks.items()
)

_PRESETS: Final = "; ".join(f"{name} = {', '.join(positions)}" for name, positions in PRESETS.items())

GUIDE: Final = f"""\
RULES. A limited-overs match: one innings a side, ten wickets, the powerplay first, then the middle and the
death overs (the last {DEATH_SHARE:.0%} of the balls). No bowler bowls two overs in a row or more than their
allowance. In the powerplay at most 2 fielders stand outside the ring, later at most 5 (`field` says how
many). A tie goes to a super over unless the match is played without.

WHAT COUNTS. `reward` in the first message says what you are rewarded with.
- score: {RESULT_SHARE} x result (win 1, tie 0.5, loss 0) + {QUALITY_SHARE} x quality (runs made and
conceded against par). Plans, changes of plan and refused calls are counted and weigh
nothing.
- result: the result alone. - decision_value: for each decision, your chance of winning over all outcomes of
the ball less that of the usual decision; luck does not enter.

WHAT DECISIONS DO. On average over all situations no length, stroke, field or intent gains anything, and what
no side would do loses much. What fits this batter, bowler, pitch, score and field gains.
- aggression (batting) and attack (bowling), 0 to 1: 0.5 is what real sides do at this score, over and
number of wickets. Aggression above it: more runs and more wickets lost; below: fewer of both. Attack above
it: more wickets and more runs conceded; below: fewer of both.
- delivery: length, line and pace, held until the over ends. A batter who has faced a length or line often
in the last six balls plays the next one better (a good length and the stumps excepted).
- shot: one ball only. A shot goes to its sectors; it gains where the field is open there and the batter is
good at it.
- field: nine fielders beside bowler and keeper, held until changed, `standard` again when an innings
begins. `standard` is what real sides set and is neutral. Fielders inside the ring ({RING_M:g} m) save
singles, outside it they save boundaries, close catchers (slip, gully) take edges and leave gaps behind
them; where nobody stands, balls run to the rope. Presets: {_PRESETS}. Presets with too many outside the ring
are not lawful in the powerplay. x, y: metres from the striker's stumps, x to the off side, y towards the
bowler (whose stumps are at y = {PITCH_M}); the boundary is {BOUNDARY_M:g} m from the middle unless
`boundary` says otherwise.
- batters lose 3 % of their runs for each place away from their own in the order.
- pitch: green helps pace, dry helps spin (7 %). Evening: dew makes the second innings easier, most of all
against spin, wearing harder (4 %). In a powerplay hit out at spin rather than at pace (30 %).

CALLS. One call goes on with the game in each situation: call_toss, select_batter, select_bowler,
bowl_delivery, play_delivery, or orders for an over or session. set_strategy, set_bowling_strategy,
set_field, plan_delivery, plan_shot, reflect_after_ball and analyze_situation: {FREE_CALLS} an over are
free, more count as charged; set_field and plan_shot once a ball; at most {CALLS_A_TURN} calls before one that
goes on. A strategy holds until changed. A plan declared before your first ball binds at once, later from
the next over. analyze_situation gives par so far, runs ahead of par, the projected total, chances, and the
overs that bowlers have left.

READING. The deliveries that a batter `faced`, oldest first, are two letters each: {_MARKS}. Overs 4.3 =
four overs and three balls. Rates are runs an over. Batters: runs (balls faced). Bowlers:
overs-maidens-runs-wickets, then the overs that they may still begin. Marks of balls: . no run, 1 to 6 runs, W
wicket, wd wide, nb no-ball, b bye, lb leg bye. `projected` is what average sides would make of the
innings, `stand` the runs of this partnership; on a free hit only a run out is possible. Squads, each
figure a ratio or log ratio against the average player of the same job: runs = runs a ball faced (above 1 is
better), out = dismissals a ball faced (below 1 is better); spin, short, leg = how much more are made off
spin than pace, off short balls than full ones, on the leg side than the off side (log ratio, 0 as usual,
+0.1 is about 10 % more); bowling: runs conceded a ball (below 1 is better), wickets a ball (above 1 is
better). (k) keeper. `tired bowlers`: 1 more for each over bowled, 0.4 less for each rested (both times 20 /
overs in longer matches); each 1 costs 6 % runs.
All but the keeper may bowl; who has no style bowls occasional off spin, and badly. The rival's plans are
hidden; the field is seen."""
"""The description of the game for a model, the same in every match."""


def opening(observation: Observation) -> str:
    """Return what never changes in a match: format, conditions and both squads."""
    seen = observation.content
    overs, conditions = seen["format"], seen.get("conditions") or {}
    heads = [
        f"{overs['overs']} overs a side{_level(overs)}, powerplay {overs['powerplay_balls']} balls, "
        f"{overs['bowler_overs']} overs a bowler (one of five more, where overs do not divide by five).",
        f"Pitch {conditions.get('pitch', 'even')}, evening {conditions.get('evening', 'even')}.",
    ]
    heads += _circumstances(seen)
    rules = seen.get("rules") or {}
    if rules:
        heads.append(", ".join(f"{name}: {value}" for name, value in rules.items()))
    for side, squad in seen["squads"].items():
        heads.append(f"{side}: {squad['name']} ({squad['short']}); runs out spin short leg | bowling")
        heads += [_player(card) for card in squad["players"]]
    return "\n".join(heads)


def _level(format: Mapping[str, Any]) -> str:
    """Return profile and scoring level; empty for an old observation, which names neither."""
    if "profile" not in format:
        return ""
    return f", {format['profile']}, scoring level {format['level']:.0f} (a mean first innings of 20 overs)"


def _circumstances(seen: Mapping[str, Any]) -> list[str]:
    """Return lines on optional features of an episode: ground, uneven squads, form."""
    found = []
    if ground := seen.get("ground"):
        found.append(f"Ground {ground['name']}, metres to the boundary for a right-hander at the first end:")
        found.append(f"{_metres(ground['metres'])}. 10 m nearer: half as many sixes again there.")
    if (difference := seen.get("squad_difference")) is not None:
        found.append(f"The home squad is the stronger by {difference:g} Elo points.")
    if any("bat_form" in card for squad in seen["squads"].values() for card in squad["players"]):
        found.append("form: log ratio of runs today (bowlers: runs saved), 0 as usual, above 0 is better.")
    return found


def _metres(sectors: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {metres:g}" for name, metres in sectors.items())


def _player(card: Mapping[str, Any]) -> str:
    hand = "L" if card["bats"] == "left" else "R"
    keeper = " (k)" if card["role"] == "keeper" else ""
    traits = " ".join(_signed(card[name]) for name in ("bat_spin", "bat_short", "bat_leg"))
    line = f"{card['order']} {card['name']}{keeper} {hand} {card['bat_runs']} {card['bat_out']} {traits}"
    if "bowls" in card:
        line += f" | {card['bowls']} {card['bowl_runs']} {card['bowl_wickets']}"
    forms = [
        f"{name.partition('_')[0]} form {_signed(card[name])}"
        for name in ("bat_form", "bowl_form")
        if name in card
    ]
    return f"{line}; {', '.join(forms)}" if forms else line


def _signed(ratio: float) -> str:
    return f"{ratio:+g}" if ratio else "0"


def lines(observation: Observation) -> dict[str, str]:
    """Return the situation, without legal actions, as named lines of text.

    Unused lines are empty.
    """
    seen = observation.content
    shown = {"decide": f"{seen['phase']}: {_task(seen)}{_choices(seen.get('choices') or {}, seen['phase'])}"}
    if seen.get("score") is not None:
        shown |= _state(seen)
        shown |= _card(seen)
        shown["field"] = _field(seen)
        if ground := seen.get("ground"):
            shown["boundary"] = f"as the striker sees it now, metres: {_metres(ground['now'])}"
        if (tired := seen.get("tired")) is not None:
            loads = ", ".join(f"{name} {load:g}" for name, load in tired.items())
            shown["tired bowlers"] = loads or "nobody"
    shown |= _own(seen.get("you") or {})
    shown["result"] = seen.get("result") or ""
    return shown


def _task(seen: Mapping[str, Any]) -> str:
    """Return the task without names of members that are not shown as such."""
    return (
        str(seen["task"])
        .replace("in `choices.overs` ", "listed here ")
        .replace("`choices.overs`", "these overs")
    )


def _state(seen: Mapping[str, Any]) -> dict[str, str]:
    score, side = seen["score"], seen["batting"]
    whose = "you bat" if side == seen.get("side") else "you bowl"
    words = [f"{seen['squads'][side]['short']} {score['runs']}/{score['wickets']} after {score['overs']}"]
    words.append(f"{score['balls_left']} balls left, stand {seen['partnership']}")
    if seen.get("run_rate") is not None:
        words.append(f"rate {seen['run_rate']}")
    if seen.get("target") is not None:
        words.append(f"target {seen['target']}, need {seen['need']}, required rate {seen['required_rate']}")
    elif seen.get("projected") is not None:
        words.append(f"projected {seen['projected']}")
    if seen.get("free_hit"):
        words.append("FREE HIT")
    over, format = "super over, " if seen["super_over"] else "", seen["format"]
    kind = f", {format['profile']}, level {format['level']:.0f}" if "profile" in format else ""
    return {
        "innings": f"{over}{seen['innings']}, {whose}, {seen['segment']}; {format['overs']} overs{kind}",
        "score": ", ".join(words),
        "striker": _batter(seen.get("striker"), faced=True),
        "non-striker": _batter(seen.get("non_striker"), faced=False),
        "bowler": _bowler(seen.get("bowler"), (seen.get("card") or {}).get("maidens", 0)),
        "last ball": _last_ball(seen.get("last_ball")),
        "last balls": " ".join(seen.get("recent") or ()).replace("·", "."),
    }


def _batter(batter: Mapping[str, Any] | None, *, faced: bool) -> str:
    if batter is None:
        return "nobody"
    text = f"{batter['name']} {batter['runs']} ({batter['balls']})"
    if faced and batter["faced"]:
        marks = [_LENGTH_MARKS[length] + _LINE_MARKS[line] for length, line in batter["faced"]]
        text += f" faced {' '.join(marks)}"
    return text


def _bowler(bowler: Mapping[str, Any] | None, maidens: int = 0) -> str:
    if bowler is None:
        return "nobody"
    figures = f"{bowler['overs']}-{bowler.get('maidens', maidens)}-{bowler['runs']}-{bowler['wickets']}"
    left = f", {bowler['overs_left']} left" if "overs_left" in bowler else ""
    return f"{bowler['name']} {figures}{left}"


def _last_ball(ball: Mapping[str, Any] | None) -> str:
    if ball is None:
        return ""
    where = ", ".join(ball[part] for part in ("length", "line", "zone") if ball[part])
    return f"{ball['at']} {ball['words']} ({where})"


def _card(seen: Mapping[str, Any]) -> dict[str, str]:
    card = seen.get("card") or {}
    shown = {
        "out": "; ".join(map(_dismissed, card.get("out", ()))) or "nobody",
        "bowled so far": "; ".join(map(_bowler, card.get("bowling", ()))) or "nobody else",
        "extras": ", ".join(
            f"{runs} {kind}" for kind, runs in card.get("extras", {}).items() if kind != "total"
        ),
    }
    for number, innings in enumerate(card.get("earlier", ()), 1):
        stayed = [f"{one['name']} {one['runs']}* ({one['balls']})" for one in innings["not_out"]]
        batters = "; ".join([*map(_dismissed, innings["out"]), *stayed])
        bowlers = "; ".join(map(_bowler, innings["bowling"]))
        shown[f"innings {number}"] = (
            f"{seen['squads'][innings['batting']]['short']} {innings['runs']}/{innings['wickets']} in "
            f"{innings['overs']}: {batters}; bowling {bowlers}"
        )
    return shown


def _dismissed(line: Mapping[str, Any]) -> str:
    fell = f", at {line['score']} in {line['at']}" if line["score"] is not None else ""
    return f"{line['name']} {line['runs']} ({line['balls']}) {line['how']}{fell}"


def _field(seen: Mapping[str, Any]) -> str:
    field = seen["field"]
    places = ", ".join(f"{one['name']} ({one['x']:g}, {one['y']:g})" for one in field["fielders"])
    return f"{field.get('preset') or 'own'}, at most {seen['outside_limit']} outside the ring: {places}"


def _own(you: Mapping[str, Any]) -> dict[str, str]:
    if not you:
        return {}
    plan, delivery = you["plan"], you["delivery"] or {}
    held = [f"aggression {you['aggression']:g}", f"attack {you['attack']:g}"]
    if you["shot"] or you["shot_aggression"] is not None:
        held.append(f"next shot {you['shot'] or 'as the batter likes'} at {you['shot_aggression']}")
    if any(delivery.values()):
        held.append("delivery " + ", ".join(word for word in delivery.values() if word))
    if you.get("field_frozen"):
        held.append("the field must stay")
    shown = {
        "your plan": "none" if plan is None else _plan(plan),
        "your orders": ", ".join(held),
        "your calls": f"{you['free_calls']} free left this over, {you['charged_calls']} charged",
        "your notes": " / ".join(you["notes"]),
        "analysis": "" if not you["analysis"] else _analysis(you["analysis"]),
    }
    if "asked" in you:
        shown["asked because"] = you["asked"]
        shown["balls since you decided"] = "; ".join(you["since"])
    return shown


def _plan(plan: Mapping[str, Any]) -> str:
    parts = [
        role + " " + "/".join(f"{plan[f'{role}_{part}']:g}" for part in ("powerplay", "middle", "death"))
        for role in ("batting", "bowling")
    ]
    if plan["death_bowlers"]:
        parts.append(f"death bowlers {', '.join(plan['death_bowlers'])}")
    return "; ".join([*parts, plan["summary"]] if plan["summary"] else parts) + " (powerplay/middle/death)"


def _analysis(analysis: Mapping[str, Any]) -> str:
    figures = {name: value for name, value in analysis.items() if name != "bowlers_left"}
    words = [f"{name.replace('_', ' ')} {value}" for name, value in figures.items()]
    left = [f"{one['name']} {one['overs']}" for one in analysis["bowlers_left"]]
    return ", ".join([*words, f"overs left: {', '.join(left)}"])


def _choices(choices: Mapping[str, Any], phase: str) -> str:
    """Return what legal actions omit: the overs of orders, and the usual choice."""
    text = ""
    if "overs" in choices:
        text += f" Overs {', '.join(map(str, choices['overs']))}."
    if phase == "batting_plan":
        text += f" To come: {', '.join(choices['batters'])}."
    return text + (f" Usual: {choices['usual']}." if "usual" in choices else "")


def render_prompt(observation: Observation) -> str:
    """Return an observation as text: fixed facts, then non-empty scorecard lines.

    Args:
        observation: An observation of :class:`.environment.CricketEnvironment`.
    """
    text = "\n".join(f"{name}: {line}" for name, line in lines(observation).items() if line)
    side = f"You are {observation.content['side']}.\n\n" if observation.content.get("side") else ""
    return f"{opening(observation)}\n\n{side}{text}"


_BY_BALL: Final = ("select_bowler", "bowl_delivery", "plan_delivery", "set_bowling_strategy", "set_field",
                   "play_delivery", "plan_shot", "set_strategy")  # fmt: skip
_ORDERS: Final = {"over": ("bowl_over", "play_over"), "session": ("bowl_session", "play_session")}


EVERY_TOOL: Final[Sequence[LegalAction]] = [
    LegalAction(tool=name, arguments=argument_schema(name)) for name in TOOLS
]
"""Every tool of every match, with the widest schema of its arguments."""


def actions(observation: Observation) -> Sequence[LegalAction]:
    """Return every tool that may become legal in this match, with the widest schemas."""
    decisions = (observation.content.get("rules") or {}).get("decisions", "ball")
    other = {name for names in (_BY_BALL, *_ORDERS.values()) for name in names}
    mine = set(_ORDERS.get(decisions, _BY_BALL))
    return [tool for tool in EVERY_TOOL if tool["tool"] in mine or tool["tool"] not in other]


BRIEF: Final = """\
You captain a cricket side and want to win. aggression (batting) and attack (bowling) go from 0 to 1; 0.5 is
usual. More aggression: more runs, more wickets lost. More attack: more wickets, more runs conceded. Wickets
in hand and few balls left: raise aggression. The action that bowls, plays or selects moves the game on."""
"""The game in a few sentences, for small models."""

BRIEF_LINES: Final = (
    "decide", "innings", "score", "striker", "bowler", "your plan", "your orders", "your calls", "last ball",
    "bowled so far",
)  # fmt: skip
"""Lines that small models see, most important first."""

RENDERING: Final = Rendering(
    guide=GUIDE,
    opening=opening,
    lines=lines,
    actions=actions,
    in_full=frozenset({"last balls"}),
    brief=BRIEF,
    brief_lines=BRIEF_LINES,
)
"""How a match is rendered for a language model."""
