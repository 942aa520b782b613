"""The ledger of a match: what commentary may say of a ball, from the events so far.

The ledger is part of the viewers' state, of bounded size, and begins again with each innings. :func:`noted`
folds one event into it. Commentary makes no judgement of its own: it reads the :data:`facts` of the last ball
and the :func:`grade` of the chase, and takes its phrases in turn by ``counts``.

A hat-trick is three wickets credited to a bowler with consecutive valid balls, across overs. A run out is not
the bowler's and ends the sequence; a wide or no-ball neither counts nor ends it, except that a stumping off a
wide counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import as_faced
from spectator.environments.cricket.match.field import CLOSE_M, POSITIONS, is_outside, zone_of
from spectator.environments.cricket.show.summary import outlook
from spectator.events import Event

Data = Mapping[str, Any]
Entry = dict[str, Any]

ASKED_FOR: Final = 0.7
"""Intent from which a captain has asked for runs or wickets; 0.5 is what real sides do."""
ASKED_FOR_CARE: Final = 0.3
SHORT_M: Final = 63.0
"""Maximum distance in metres of a boundary that is called short."""
WELL_SET: Final = 25
STAND: Final = 30
LATE_BALLS: Final = 60
"""Balls left in a chase from which dot balls are weighed against the runs needed."""
LONG_WAIT: Final = 18
"""Balls without a boundary that are mentioned when one comes."""
SWING, SURE = 0.1, 3.0
"""Minimum change of the chance to win that is a turning point, and the same in standard errors."""

LOFTED: Final = frozenset(
    ("slog", "loft straight", "loft cover", "pull", "hook", "sweep", "scoop", "upper cut", "cut")
)


def grade(need: int | None, left: int, wickets: int, chance: float = 0.5, super_over: bool = False) -> str:
    """Return how a chase is going; every judgement of commentary depends on it.

    Args:
        need: Runs still needed; ``None`` outside a chase.
        left: Valid balls left.
        wickets: Wickets lost.
        chance: The chance of average sides to win from here, by the outlook of the match.

    Returns:
        Empty outside a chase, else ``won``, ``done`` (the innings ended short), ``easy``, ``ahead``,
        ``level``, ``behind``, ``long`` (a win would be a surprise), ``no-ball`` (possible only with a no-ball
        or wide) or ``over`` (out of reach).

    >>> grade(19, 6, 3, 0.1), grade(71, 78, 0, 0.97), grade(38, 1, 3), grade(7, 1, 3)
    ('long', 'easy', 'over', 'no-ball')
    """
    if need is None:
        return ""
    if need <= 0:
        return "won"
    if not left or wickets >= (2 if super_over else 10):
        return "done"
    if need > 6 * left:
        return "no-ball" if need <= 6 * left + 6 else "over"
    rate = 6.0 * need / left
    if super_over:
        return "long" if rate > 24.0 else "behind" if rate > 15.0 else "level"
    if rate >= 18.0 or (rate >= 14.0 and left >= 30) or chance <= 0.08:
        return "long" if rate > 6.0 else "behind"
    if rate >= 13.0 or chance <= 0.3:
        return "behind"
    if (chance >= 0.9 and rate <= 9.0) or (rate <= 6.0 and wickets <= 5 and left <= 36):
        return "easy"
    return "ahead" if chance >= 0.7 and rate <= 10.5 else "level"


def _graded(world: Data, data: Data) -> str:
    need, left, score, super_over = (
        data["need"],
        data["balls_left"],
        data["score"],
        bool(world.get("super_over")),
    )
    chance = 0.5
    if need and left and not super_over and score["wickets"] < 10:
        chance = outlook(world).chance(score["balls"], score["wickets"], score["runs"], data["target"])
    return grade(need, left, score["wickets"], chance, super_over)


def call_of(data: Data) -> str:
    """Return the kind of call that a ball gets: a key of the tables of phrases."""
    if data["dismissal"]:
        return f"out {_dismissal(data)}"
    if data["wides"]:
        return f"wide {_wide(data)}"
    if data["byes"] or data["legbyes"]:
        return "byes" if data["byes"] else "legbyes"
    if not data["bat"]:
        return f"dot {_dot(data)}"
    if data["boundary"]:
        return "overthrows" if data["ran"] else "six" if data["bat"] == 6 else "four"
    return {1: "one", 2: "two", 3: "three"}.get(data["bat"], "more")


def _dismissal(data: Data) -> str:
    kind: str = data["dismissal"]
    if kind == "stumped" and data["wides"]:
        return "stumped wide"
    if kind == "run out":
        return "run out alone" if not data["fielder"] else "run out again" if data["ran"] else kind
    if kind != "caught":
        return kind
    if data["position"] == "keeper":
        return "caught behind"
    x, y = POSITIONS.get(data["position"] or "", (0.0, 20.0))
    if is_outside(x, y):
        return "caught lofted" if data["shot"] in LOFTED else "caught deep"
    return "caught close" if x * x + y * y < CLOSE_M**2 and y < 0 else "caught ring"


def _wide(data: Data) -> str:
    if data["boundary"]:
        return "four"
    if data["wides"] > 1:
        return "run"
    if data["line"] in ("leg", "wide outside off"):
        return "leg" if data["line"] == "leg" else "off"
    return "high" if data["length"] == "short" else "plain"


def _dot(data: Data) -> str:
    contact = data["contact"]
    if data["zone"] is not None:
        return "blocked" if data["shot"] == "defend" else "fielded"
    if contact == "padded":
        return "padded"
    if data["line"] not in ("outside off", "wide outside off"):
        return "plain"
    if contact == "missed":
        return "beaten" if data["shot"] == "defend" else "swung"
    return "left" if contact == "left" else "plain"


def noted(ledger: Data, world: Data, event: Event) -> Entry | None:
    """Return the ledger after ``event``; ``None`` if the event does not change it.

    Args:
        ledger: The ledger before; empty at first.
        world: The world's part of the viewers' state before the event.
    """
    data, kind = event.data, event.type.removeprefix("cricket.")
    if kind == "innings_started" or (kind == "position_set" and data["now"] is not None):
        return {"counts": {}, "rows": {}, "waited": 0, "dots": 0, "boundaries": 0}
    if kind == "ball_bowled":
        return _ball(ledger, world, data)
    if kind == "over_started":
        over = {"balls": 0, "wickets": 0, "aggression": 0.0, "attack": 0.0}
        return {**ledger, "over": over, "field_described": False}
    if kind == "field_set":
        before = world.get("field", {}).get("fielders", {}).values()
        moves = [] if ledger.get("field_described") else moved(before, data["fielders"])
        entry = {**ledger, "moves": moves, "field_described": bool(moves) or ledger.get("field_described")}
        return _counted(entry, ["field"] if moves else [])
    if kind == "forecast":
        swing = _swing(world, data)
        return _counted({**ledger, "swing": swing or None}, ["swing"] if swing else [])
    if kind == "over_completed":
        found = dict(_after_over(ledger, world, data))
        return _counted({**ledger, "answer": found}, ["over", *found])
    keys = {
        "bowler_selected": "bowler", "batter_selected": "batter",
        "milestone_reached": f"milestone {data.get('kind')}",
    }  # fmt: skip
    return _counted(ledger, [keys[kind]]) if kind in keys else None


def _counted(ledger: Data, keys: list[str]) -> Entry:
    counts = dict(ledger.get("counts", {}))
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return {**ledger, "counts": counts}


def _ball(ledger: Data, world: Data, data: Data) -> Entry:
    valid = not data["wides"] and not data["noball"]
    bowlers = data["dismissal"] not in (None, "run out")
    number = f"{data['bowler_line']['number']:02d}"
    rows = dict(ledger.get("rows", {}))
    before = rows.get(number, 0)
    rows[number] = before + 1 if bowlers else 0 if valid else before
    hit = data["kind"] in ("four", "six")
    over = ledger.get("over") or {"balls": 0, "wickets": 0, "aggression": 0.0, "attack": 0.0}
    now = {
        **ledger,
        "rows": {bowler: row for bowler, row in rows.items() if row},
        "dots": ledger.get("dots", 0) + 1 if data["kind"] == "dot" else 0,
        "boundaries": ledger.get("boundaries", 0) + 1 if hit else 0,
        "waited": 0 if hit else ledger.get("waited", 0) + valid,
        "last": data["mark"],
        "stand": data["partnership"],
        "grade": _graded(world, data),
        "over": {
            "balls": over["balls"] + 1,
            "wickets": over["wickets"] + bool(data["dismissal"]),
            "aggression": over["aggression"] + data["intents"]["aggression"],
            "attack": over["attack"] + data["intents"]["attack"],
        },
    }
    now["facts"] = dict(_facts(ledger, now, world, data, before, rows[number]))
    keys = [call_of(data), f"pitch {data['length']}, {data['line']}", f"shot {data['shot']}"]
    keys += [f"to {data['zone']}"] * (data["zone"] is not None)
    now["answer"] = dict(_after_wicket(now, data)) if data["dismissal"] else {}
    return _counted(now, [*keys, *("noball",) * data["noball"], *now["facts"], *now["answer"]])


def _facts(
    before: Data, now: Data, world: Data, data: Data, row_before: int, row: int
) -> Iterator[tuple[str, int | str]]:
    """Yield what is remarkable about a ball, with the figure or word that it needs."""
    intents, bowler = data["intents"], data["bowler_line"]
    more = data["balls_left"] > 0 and data["score"]["wickets"] < 10 and now["grade"] not in ("won", "done")
    valid = not data["wides"] and not data["noball"]
    if row > row_before and row >= 3:
        yield "hat-trick" if row == 3 else "wickets in a row", row
    if row > row_before and row == 2 and more and (bowler["left"] or data["ball"] < 6):
        yield "on a hat-trick", row
    if row_before >= 2 and valid and row == 0:
        yield "no hat-trick", row_before
    if now["grade"] in ("over", "no-ball") and before.get("grade") != now["grade"]:
        yield "out of reach" if now["grade"] == "over" else "only a no-ball", data["need"]
    if now["grade"] == "won":
        yield "won", data["balls_left"]
    elif now["grade"] == "done":
        yield "tied" if data["need"] == 1 else "short", data["need"]
    elif data["kind"] == "wicket":
        yield from _of_a_wicket(before, now, data)
    elif data["kind"] in ("four", "six"):
        yield from _of_a_boundary(before, now, world, data)
    elif data["kind"] == "dot":
        yield from _of_a_dot(now, data)
    elif data["kind"] == "run":
        if data["striker_line"]["runs"] == data["bat"] > 0:
            yield "off the mark", 1
        if intents["aggression"] <= ASKED_FOR_CARE and data["bat"] == 1:
            yield "care", 1


def _of_a_wicket(before: Data, now: Data, data: Data) -> Iterator[tuple[str, int | str]]:
    bowlers = data["dismissal"] != "run out"
    if now["over"]["wickets"] > 1:
        yield "wickets in the over", now["over"]["wickets"]
    if bowlers and before.get("last") in ("4", "6") and data["delivery"] > 1 and not data["noball"]:
        yield "answered", {"4": "four", "6": "six"}[before["last"]]
    line = data["striker_line"] if data["out"] == data["striker"] else data["non_striker_line"]
    if line["name"] == data["out"] and line["runs"] == 0:
        yield ("first ball" if line["balls"] == 1 else "duck"), line["balls"]
    stand = before.get("stand", {}).get("runs", 0) + data["runs"]
    if stand >= STAND:
        yield "stand broken", stand
    if bowlers and data["intents"]["length"] == data["length"]:
        yield "plan worked", data["length"]
    if bowlers and 2 <= data["bowler_line"]["wickets"] < 10:
        yield "another wicket", data["bowler_line"]["wickets"]


def _of_a_boundary(before: Data, now: Data, world: Data, data: Data) -> Iterator[tuple[str, int | str]]:
    run, intents = now["boundaries"], data["intents"]
    if run >= 3:
        yield "boundaries in a row", run
    elif run == 2 and before.get("last") == data["mark"]:
        yield f"two {'sixes' if data['bat'] == 6 else 'fours'}", run
    planned = intents["length"]
    if planned and planned != data["length"] and data["length"] == "full toss":
        yield "plan missed", planned
    ground = world.get("ground")
    if ground and data["kind"] == "six" and data["zone"]:
        left = data["striker"] in ground["left_handers"]
        metres = as_faced(tuple(ground["boundaries"]), data["over"] % 2, left)[data["zone"] - 1]
        if metres <= SHORT_M:
            yield "short side", round(metres)
    if data["kind"] == "six" and 2 <= data["striker_line"]["sixes"] < 10:
        yield "another six", data["striker_line"]["sixes"]
    if before.get("dots", 0) >= 4:
        yield "dots ended", before["dots"]
    if before.get("waited", 0) >= LONG_WAIT:
        yield "long wait", before["waited"]
    if intents["aggression"] >= ASKED_FOR:
        yield "hitting worked", data["bat"]
    if intents["attack"] >= ASKED_FOR:
        yield "attack cost", data["bat"]


def _of_a_dot(now: Data, data: Data) -> Iterator[tuple[str, int | str]]:
    run, over = now["dots"], now["over"]["balls"]
    if run >= 5 and over == 5 == data["ball"]:
        yield "maiden near", run
    if run >= 3:
        tight = now["grade"] in ("level", "behind") and data["balls_left"] <= LATE_BALLS
        yield "dots in a chase" if tight else "dots", run
    asked = data["intents"]["aggression"] >= ASKED_FOR
    if asked and data["contact"] == "missed" and data["shot"] != "defend":
        yield "big miss", 1


Answer = int | list[Any]
GRADED: Final = {
    "easy": "chase easy", "ahead": "chase level", "level": "chase level", "behind": "chase behind",
    "long": "chase behind", "over": "lost", "no-ball": "no-ball",
}  # fmt: skip
"""The answer to a wicket, by the grade of the chase."""
EXPENSIVE, CHEAP = 14, 3
OVER_SWING: Final = 0.05
"""Minimum change of the chance to win in an over that is mentioned."""
KEPT: Final = 0.1
"""Difference from the neutral intent up to which an over counts as neither careful nor bold."""


def _after_wicket(now: Data, data: Data) -> Iterator[tuple[str, Answer]]:
    """Yield what the second commentator may answer to a wicket."""
    bowlers, intents = data["dismissal"] != "run out", data["intents"]
    if "hat-trick" in now["facts"]:
        yield "wicket hat-trick", 3
    if data["score"]["wickets"] >= 10:
        yield "wicket last", 10
    chase = GRADED.get(now["grade"])
    if chase:
        yield f"wicket {chase}", 1
    if bowlers and intents["attack"] >= ASKED_FOR:
        yield "wicket attack", 1
    if bowlers and intents["aggression"] >= ASKED_FOR:
        yield "wicket hitting", 1
    line = data["striker_line"] if data["out"] == data["striker"] else data["non_striker_line"]
    if line["runs"] >= WELL_SET:
        yield "wicket set", 1
    if not line["runs"]:
        yield "wicket duck", 1
    yield "wicket", 1


def _after_over(ledger: Data, world: Data, data: Data) -> Iterator[tuple[str, Answer]]:
    """Yield what the second commentator may answer to an over; nothing at an innings' end."""
    need, left, found = data["need"], data["balls_left"], ledger.get("grade", "")
    if not left or data["score"]["wickets"] >= 10 or found in ("won", "done"):
        return
    if data["wickets"] > 1:
        yield "over wickets", data["wickets"]
    swing = _over_swing(world, data)
    if swing:
        yield "over swing", swing
    if ledger.get("rows", {}).get(f"{data['bowler']['number']:02d}") == 2 and data["bowler"]["left"]:
        yield "over hat-trick", 2
    if found in ("over", "no-ball"):
        yield ("over lost" if found == "over" else "over no-ball"), need
    if data["maiden"]:
        short = world["format"]["overs"] <= 20 and found not in ("over", "no-ball", "easy")
        yield ("over maiden short" if short else "over maiden"), 1
    if data["runs"] >= EXPENSIVE and need is None:
        yield "over dear", data["runs"]
    elif data["runs"] >= EXPENSIVE and data["runs"] * (left + 6) > 6 * (need + data["runs"]):
        yield "over dear chase", data["runs"]
    yield from _plan_against_deed(ledger, world, data)
    current = 6.0 * data["score"]["runs"] / data["score"]["balls"]
    required = 6.0 * need / left if need is not None else 0.0
    if found == "long" or (found == "behind" and required - current >= 1.5):
        yield f"over {found}", need
    if data["runs"] <= CHEAP and not data["maiden"] and found in ("", "level", "behind"):
        yield "over cheap", data["runs"]
    if found == "easy" or (found == "ahead" and left <= 0.75 * world["format"]["balls"]):
        yield f"over {found}", need
    if world.get("partnership", {}).get("runs", 0) >= STAND:
        yield "over stand", world["partnership"]["runs"]
    best = max((world.get("batters") or {}).values(), key=lambda line: line["runs"], default=None)
    if best and best["runs"] >= WELL_SET and found not in ("over", "no-ball"):
        yield "over set", [best["name"], best["runs"], best["balls"]]
    if found == "level":
        yield "over level", need
    wickets, bowled = data["score"]["wickets"], data["score"]["balls"]
    if need is None and not world.get("super_over"):
        if wickets >= 3 and 15 * wickets >= bowled and 2 * bowled <= world["format"]["balls"]:
            yield "over trouble", wickets
        if bowled >= 12:
            yield "over rate", data["score"]["runs"]
    yield "figures", 1


def _over_swing(world: Data, data: Data) -> list[Any]:
    """Return side, chance before and chance after an over that changed it; else empty."""
    chances = world.get("chances", {}).get(str(data["innings"]), {})
    earlier = [
        key for key in sorted(chances) if not chances[key].get("at", "").startswith(f"{data['over'] - 1}.")
    ]
    if not earlier or max(chances) == earlier[-1]:
        return []
    was, now = chances[earlier[-1]]["home"], chances[max(chances)]["home"]
    if abs(now - was) < OVER_SWING:
        return []
    side, was, now = ("home", was, now) if now > was else ("away", 1 - was, 1 - now)
    return [side, round(100 * was), round(100 * now)]


def _plan_against_deed(ledger: Data, world: Data, data: Data) -> Iterator[tuple[str, Answer]]:
    """Yield an over batted against the side's declared plan."""
    planned = world.get("last_ball", {}).get("planned", {}).get("batting")
    over = ledger.get("over", {})
    if planned is None or not over.get("balls") or ledger.get("grade") in ("over", "no-ball", "easy"):
        return
    mean = over["aggression"] / over["balls"]
    if planned >= ASKED_FOR and mean <= 0.5 - KEPT:
        yield "over attack unmet", 1
    if planned <= ASKED_FOR_CARE and mean >= 0.5 + KEPT:
        yield "over care unmet", 1


def _swing(world: Data, data: Data) -> Entry:
    """Return the side, and its chances before and after, of a turning point; else empty."""
    chances = world.get("chances", {}).get(str(data["innings"]), {})
    before = [chances[key] for key in sorted(chances) if int(key) < data["delivery"]]
    if not before or not data["futures"]:
        return {}
    change = data["home"] - before[-1]["home"]
    if abs(change) < max(SWING, SURE * math.hypot(before[-1].get("se", 0.0), data["se"])):
        return {}
    was, now = before[-1]["home"], data["home"]
    if change < 0:
        was, now = 1.0 - was, 1.0 - now
    return {"side": "home" if change > 0 else "away", "was": round(100 * was), "now": round(100 * now)}


NEAR_M: Final = 9.0
"""Distance within which a place has the name of a standard position."""
_SIDES: Final = (
    "fine leg", "square leg", "midwicket", "long-on", "long-off", "cover", "point", "third",
)  # fmt: skip


def place_name(x: float, y: float) -> str:
    """Return the name of the position at a point, seen from the striker.

    >>> place_name(3.0, -13.0), place_name(-40.0, 40.0), place_name(10.0, 12.0)
    ('slip', 'deep midwicket', 'short mid-off')
    """
    name, (px, py) = min(POSITIONS.items(), key=lambda one: math.hypot(one[1][0] - x, one[1][1] - y))
    reach = NEAR_M if math.hypot(px, py) > 20 else 4.0
    if is_outside(px, py) and is_outside(x, y):
        reach = 20.0
    if math.hypot(px - x, py - y) <= reach:
        return name
    side = _SIDES[zone_of(x, y) - 1]
    return f"deep {side}" if is_outside(x, y) else f"short {side.replace('long-', 'mid-')}"


def moved(old: Any, new: Any) -> list[list[str]]:
    """Return the fielders who moved: the names of the positions left and taken.

    Args:
        old: Fielders before, each with ``x`` and ``y``.
        new: Fielders after.
    """
    was, now = ([(one["x"], one["y"]) for one in side] for side in (old, new))
    for spot in list(was):
        same = next((other for other in now if math.dist(spot, other) < 3.0), None)
        if same is not None:
            was.remove(spot)
            now.remove(same)
    moves = []
    while was and now:
        one, other = min(((a, b) for a in was for b in now), key=lambda pair: math.dist(*pair))
        was.remove(one)
        now.remove(other)
        names = place_name(*one), place_name(*other)
        if names[0] != names[1]:
            moves.append([*names, _way(one, other)])
    return sorted(moves, key=lambda move: move[2] == "across")


def _way(one: tuple[float, float], other: tuple[float, float]) -> str:
    """Return ``out``, ``in`` or ``across``: how a fielder moved."""
    was, now = is_outside(*one), is_outside(*other)
    if was != now:
        return "out" if now else "in"
    close = math.hypot(*one) < CLOSE_M, math.hypot(*other) < CLOSE_M
    return "across" if close[0] == close[1] else "in" if close[1] else "out"
