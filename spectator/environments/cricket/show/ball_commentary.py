"""The commentary of one ball: the call, and asides on its significance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import as_faced
from spectator.environments.cricket.match.event_data import number_word, plural, surname
from spectator.environments.cricket.match.field import CLOSE_M, POSITIONS, is_outside
from spectator.environments.cricket.show import phrases
from spectator.environments.cricket.show.phrases import PhrasePicker

Data = Mapping[str, Any]

ASKED_FOR_RUNS: Final = 0.7
"""Aggression from which the captain counts as having asked for boundaries; 0.5 is what real sides do."""

SHORT_M: Final = 63.0
"""Maximum distance in metres of a boundary that is called short."""

ASKED_FOR_CARE: Final = 0.3
WELL_SET: Final = 25

_ORDINALS: Final = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def aside(data: Data, state: Data, picker: PhrasePicker) -> str:
    """Return a space and a sentence about the ball; empty without anything new."""
    world = state["world"]
    for options, facts in _asides(data, world["over"]["marks"], world.get("ground")):
        fresh = [option for option in options if picker.is_new(option)]
        if fresh:
            said = picker.pick(fresh, "aside").format(**facts)
            return f" {said[0].upper()}{said[1:]}"
    return ""


Aside = tuple[tuple[str, ...], dict[str, str]]


def _asides(data: Data, marks: list[str], ground: Data | None) -> Iterator[Aside]:
    """Yield true statements about the ball, the most interesting first."""
    kind = data["kind"]
    if kind == "wicket":
        yield from _of_a_wicket(data, marks)
    elif kind in ("six", "four"):
        if ground:
            yield from _of_the_ground(data, ground)
        yield from _of_a_boundary(data, marks)
    elif kind == "dot":
        yield from _of_a_dot(data, marks)
    elif kind == "run":
        yield from _of_a_run(data)


def _of_the_ground(data: Data, ground: Data) -> Iterator[Aside]:
    """Yield asides on a six over a short boundary."""
    if data["kind"] != "six" or not data["zone"]:
        return
    faced = as_faced(tuple(ground["boundaries"]), data["over"] % 2, data["striker"] in ground["left_handers"])
    metres = faced[data["zone"] - 1]
    if metres <= SHORT_M:
        words = ("Over the short boundary, {metres} metres.", "It is only {metres} metres on that side.")
        yield words, {"metres": f"{metres:.0f}"}


def _of_a_wicket(data: Data, marks: list[str]) -> Iterator[Aside]:
    out, bowler = surname(data["out"]), surname(data["bowler"])
    names = {"out": out, "bowler": bowler}
    bowlers_wicket = data["dismissal"] != "run out"
    if marks[-2:] == ["W", "W"]:
        yield ("Two in two balls!", "And that is two wickets in two balls!"), names
    if bowlers_wicket and marks[-2:-1] in (["6"], ["4"]) and not data["noball"]:
        went = {"6": "six", "4": "four"}[marks[-2]]
        yield (
            (
                "The ball before went for {went}: {bowler} has the last word.",
                "{went} and out: {bowler} answers back.",
            ),
            names | {"went": went},
        )
    batter = data["striker_line"] if data["out"] == data["striker"] else data["non_striker_line"]
    if batter["name"] == data["out"]:
        if batter["runs"] == 0 and batter["balls"] == 1:
            yield ("First ball!", "Gone first ball."), names
        elif batter["runs"] == 0:
            yield ("Out without scoring.", "A duck."), names
        elif batter["runs"] >= WELL_SET:
            yield (
                ("That is the big one: {out} had {runs}.", "{runs} by {out}, and it ends there."),
                names | {"runs": str(batter["runs"])},
            )
    wickets = data["bowler_line"]["wickets"]
    if bowlers_wicket and 2 <= wickets < len(_ORDINALS):
        yield (
            ("That is a {nth} for {bowler}.", "A {nth} wicket for {bowler}."),
            names | {"nth": _ORDINALS[wickets]},
        )
    if bowlers_wicket and data["intents"]["aggression"] >= ASKED_FOR_RUNS:
        yield (
            ("They had been told to go for it, and that is the price.", "That is what attacking costs."),
            names,
        )
    if bowlers_wicket and data["intents"]["attack"] >= ASKED_FOR_RUNS:
        yield ("They went looking for a wicket, and here it is.", "Attack was the plan, and it works."), names


def _of_a_boundary(data: Data, marks: list[str]) -> Iterator[Aside]:
    striker, bowler = surname(data["striker"]), surname(data["bowler"])
    names = {"striker": striker, "bowler": bowler}
    run = _run_of(marks, {"4", "6"})
    if run >= 3:
        yield (
            ("That is {count} boundaries in a row!", "{count} in a row to the rope or over it!"),
            names | {"count": number_word(run)},
        )
    if run == 2 and marks[-2:] == ["6", "6"]:
        yield ("Back-to-back sixes!", "Two sixes running!"), names
    if run == 2 and marks[-2:] == ["4", "4"]:
        yield ("Back-to-back fours.", "Two fours running."), names
    sixes = data["striker_line"]["sixes"]
    if data["kind"] == "six" and 2 <= sixes < len(_ORDINALS):
        yield (
            ("That is a {nth} six for {striker}.", "{striker}'s {nth} six."),
            names | {"nth": _ORDINALS[sixes]},
        )
    if _run_of(marks[:-1], {"·"}) >= 2:
        yield ("The pressure is off.", "That breaks the shackles."), names
    if data["intents"]["aggression"] >= ASKED_FOR_RUNS:
        yield ("Just what the captain asked for.", "They were told to attack, and they do."), names
    if data["intents"]["attack"] >= ASKED_FOR_RUNS:
        yield ("The price of an attacking plan.", "{bowler} went for the wicket and pays."), names


def _of_a_dot(data: Data, marks: list[str]) -> Iterator[Aside]:
    run = _run_of(marks, {"·"})
    names = {"bowler": surname(data["bowler"]), "count": number_word(run)}
    if run == len(marks) == 5:
        yield ("One more for a maiden.", "A maiden is one ball away."), names
    if run >= 3 and data["need"] is not None and data["need"] > 0:
        yield (
            (
                "That is {count} dots in a row, and they cannot afford many.",
                "{count} dots running in a chase.",
            ),
            names,
        )
    if run >= 3:
        yield ("That is {count} dots in a row.", "{bowler} has tied them down: {count} dots running."), names
    if (
        data["intents"]["aggression"] >= ASKED_FOR_RUNS
        and data["contact"] == "missed"
        and data["shot"] != "defend"
    ):
        yield ("A big swing and nothing on it.", "All that intent, and only air."), names


def _of_a_run(data: Data) -> Iterator[Aside]:
    striker = data["striker_line"]
    if data["bat"] and striker["runs"] == data["bat"]:
        yield ("{striker} is off the mark.", "Off the mark."), {"striker": surname(data["striker"])}
    if data["intents"]["aggression"] <= ASKED_FOR_CARE and data["bat"] == 1:
        yield ("No risks for now.", "Safety first is the order."), {}


def _run_of(marks: list[str], kinds: set[str]) -> int:
    """Return how many of the last marks are of ``kinds``."""
    count = 0
    for mark in reversed(marks):
        if mark not in kinds:
            break
        count += 1
    return count


CLOSE_FINISH_BALLS: Final = 12
"""Balls left in a chase from which every line ends with the equation."""

_LOFTED: Final = frozenset(
    ("slog", "loft straight", "loft cover", "pull", "hook", "sweep", "scoop", "upper cut", "cut")
)
_MORE: Final = re.compile(r"\b(?:one|two|runs\}|One) more\b")

_SENTENCE: Final = re.compile(r"(?<=[^.][.!?] )[a-z]")


def call_ball(data: Data, state: Data, picker: PhrasePicker) -> str:
    """Return the written line of a ball: players, call, significance and equation."""
    opening = f"{surname(data['bowler'])} to {surname(data['striker'])}"
    if data["free_hit"]:
        opening = f"Free hit. {opening}"
    said = _ball_text(data, picker) + aside(data, state, picker)
    return f"{opening}: {_sentences(said)}{_tail(data)}"


def radio_ball(data: Data, state: Data, picker: PhrasePicker) -> str:
    """Return the spoken line of a ball: shorter, since the next ball comes soon."""
    if data["dismissal"]:
        said = f"{_ball_text(data, picker)}{aside(data, state, picker)} {score_words(data['score'])}."
    elif data["kind"] in ("six", "four"):
        said = f"{surname(data['striker'])}: {_ball_text(data, picker)}{aside(data, state, picker)}"
    else:
        options = phrases.ON_AIR.get(_result(data), phrases.ON_AIR_OTHER)
        runs = data["runs"] if data["extra_kind"] else data["bat"]
        said = picker.pick(_applicable(options, data), "air").format(
            striker=surname(data["striker"]), bowler=surname(data["bowler"]), runs=number_word(runs)
        )
    return f"{said[0].upper()}{_sentences(said[1:])}{_tail(data)}"


def score_words(score: Data) -> str:
    """Return a score in words, such as ``45 for 3``."""
    return f"{score['runs']} for {score['wickets']}"


def _result(data: Data) -> str:
    kind: str | None = data["extra_kind"]
    if kind is not None:
        return kind
    return {0: "dot", 1: "single"}.get(data["bat"], "runs")


def _sentences(text: str) -> str:
    """Capitalise the starts of sentences except the first."""
    return _SENTENCE.sub(lambda found: found[0].upper(), text)


def _tail(data: Data) -> str:
    if data["need"] is None or data["need"] <= 0 or not 0 < data["balls_left"] <= CLOSE_FINISH_BALLS:
        return ""
    left = data["balls_left"]
    return f" {data['need']} needed from {'the last ball' if left == 1 else left}."


def _ball_text(data: Data, picker: PhrasePicker) -> str:
    if data["dismissal"]:
        return _dismissal(data, picker)
    if data["wides"]:
        return _wide(data, picker)
    if data["byes"]:
        text = picker.pick(phrases.BYES, "byes").format(runs=plural(data["byes"], "bye"))
    elif data["legbyes"]:
        text = picker.pick(phrases.LEG_BYES, "legbyes").format(runs=plural(data["legbyes"], "leg-bye"))
    else:
        text = _scored(data, picker) if data["bat"] else _dot(data, picker)
    if data["noball"]:
        call = picker.pick(phrases.NO_BALL, "call")
        coming = picker.pick(phrases.FREE_HIT_NEXT, "next") if data["free_hit_next"] else ""
        return f"{call} {text} {coming}".rstrip()
    return text


def _scored(data: Data, picker: PhrasePicker) -> str:
    bat = data["bat"]
    if data["boundary"]:
        found = phrases.OVERTHROWS if data["ran"] else _boundary(data)
    else:
        found = {1: phrases.ONE, 2: phrases.TWO, 3: phrases.THREE}.get(bat, phrases.MORE)
    return _fill(_applicable(found, data), data, picker)


def _boundary(data: Data) -> tuple[str, ...]:
    """Return phrases for a four or a six, some for clean strokes or repeats only."""
    middled, line = data["contact"] == "middled", data["striker_line"]
    if data["bat"] == 6:
        again = phrases.SIX_AGAIN if line["sixes"] > 1 else ()
        return (*phrases.SIX, *(phrases.SIX_CLEAN if middled else ()), *again)
    again = phrases.FOUR_AGAIN if line["fours"] > 1 else ()
    return (*phrases.FOUR, *(phrases.FOUR_CLEAN if middled else ()), *again)


def _applicable(options: Sequence[str], data: Data) -> Sequence[str]:
    """Drop phrases about more runs if the side or the striker had none before."""
    first = data["score"]["runs"] == data["runs"]
    own_first = data["striker_line"]["runs"] == data["bat"]
    return [
        option
        for option in options
        if not ((first and _MORE.search(option)) or (own_first and "more to {striker}" in option))
    ]


def _fill(found: Sequence[str], data: Data, picker: PhrasePicker) -> str:
    zone = data["zone"]
    return picker.pick(found, "told").format(
        ball=_delivery(data, picker),
        stroke=_stroke(data, picker),
        where=picker.pick(phrases.WHERE[zone - 1], "where") if zone else "away",
        over=phrases.OVER[zone - 1] if zone else "over the rope",
        runs=number_word(data["bat"]),
    )


def _stroke(data: Data, picker: PhrasePicker) -> str:
    """Return a word for the stroke that fits the ball's length."""
    shot, length = data["shot"], data["length"]
    if data["contact"] == "edged":
        inside = data["zone"] in (1, 2)
        edges = phrases.TOP_EDGED if data["aerial"] else phrases.INSIDE_EDGED if inside else phrases.EDGED
        return picker.pick(edges, "stroke")
    usual = phrases.STROKES.get(shot, ("played",))
    if length in ("short", "back of a length"):
        usual = phrases.BACK_FOOT.get(shot, usual)
    elif length in ("full", "yorker"):
        usual = phrases.FRONT_FOOT.get(shot, usual)
    return picker.pick(usual, "stroke")


def _delivery(data: Data, picker: PhrasePicker) -> str:
    """Return what was bowled, ending in a comma; empty one time in four."""
    said = picker.number(4, "say")
    if said == 3:
        return ""
    words = phrases.LENGTHS[data["length"]]
    if "pace" not in data["bowler_line"]["kind"]:
        words = phrases.SPIN_LENGTHS.get(data["length"], words)
    length = picker.pick(words, "length")
    if said == 2 or not _line_fits(data):
        return f"{length}, "
    return f"{length}, {picker.pick(phrases.LINES[data['line']], 'line')}, "


def _line_fits(data: Data) -> bool:
    """Check whether the line is worth saying: it must not contradict the direction."""
    zone, line = data["zone"], data["line"]
    if zone in (1, 2):
        return line in ("stumps", "leg")
    return not (zone == 3 and line == "wide outside off") and not (zone in (7, 8) and line == "leg")


def _dot(data: Data, picker: PhrasePicker) -> str:
    off_stump, contact = data["line"] in ("outside off", "wide outside off"), data["contact"]
    if data["zone"] is not None:
        return _fill(phrases.DOT_DEFENDED if data["shot"] == "defend" else phrases.DOT_PLAYED, data, picker)
    if contact == "missed" and off_stump:
        swung = () if data["shot"] == "defend" else phrases.DOT_SWUNG
        return _fill((*phrases.DOT_MISSED_WIDE, *swung), data, picker)
    return _fill(phrases.DOT_LEFT if contact == "left" and off_stump else phrases.DOT_PLAIN, data, picker)


def _wide(data: Data, picker: PhrasePicker) -> str:
    if data["boundary"]:
        return picker.pick(phrases.WIDES_FOUR, "wide")
    if data["wides"] > 1:
        return picker.pick(phrases.WIDES_RUN, "wide").format(runs=number_word(data["wides"]))
    if data["line"] == "leg":
        return picker.pick(phrases.WIDE_LEG, "wide")
    if data["line"] == "wide outside off":
        spin = "pace" not in data["bowler_line"]["kind"]
        return picker.pick((*phrases.WIDE_OFF, *(phrases.WIDE_OFF_SPIN if spin else ())), "wide")
    if data["length"] == "short":
        return picker.pick(phrases.WIDE_HIGH, "wide")
    return picker.pick(phrases.WIDE_PLAIN, "wide")


def _dismissal(data: Data, picker: PhrasePicker) -> str:
    kind = data["dismissal"]
    fielder = surname(data["fielder"] or "")
    text = picker.pick(_dismissal_phrases(data, kind), "out").format(
        out=surname(data["out"]),
        fielder=fielder,
        position=data["position"] or "",
        bowler=surname(data["bowler"]),
        kind=kind,
    )
    call = "No-ball! " if data["noball"] else "Wide. " if data["wides"] and kind != "stumped" else ""
    made = data["runs"] - (1 if call else 0)
    if kind == "run out" and made > 0:
        text += f" {plural(made, 'run')} to the total."
    return call + text


def _dismissal_phrases(data: Data, kind: str) -> Sequence[str]:
    if kind == "caught":
        return _catch_phrases(data["position"], data["shot"])
    if kind == "stumped":
        return phrases.STUMPED_WIDE if data["wides"] else phrases.STUMPED
    if kind == "run out":
        if not data["fielder"]:
            return phrases.RUN_OUT_NO_FIELDER
        return phrases.RUN_OUT_AGAIN if data["ran"] else phrases.RUN_OUT
    return {
        "bowled": phrases.BOWLED,
        "lbw": phrases.LBW,
        "hit wicket": phrases.HIT_WICKET,
        "caught and bowled": phrases.CAUGHT_AND_BOWLED,
    }.get(kind, phrases.OTHER_OUT)


def _catch_phrases(position: str | None, shot: str) -> Sequence[str]:
    if position == "keeper":
        return phrases.CAUGHT_BEHIND
    place = POSITIONS.get(position or "")
    if place is None:
        return phrases.CAUGHT_RING
    x, y = place
    if is_outside(x, y):
        return (*phrases.CAUGHT_DEEP, *(phrases.CAUGHT_LOFTED if shot in _LOFTED else ()))
    return phrases.CAUGHT_CLOSE if x * x + y * y < CLOSE_M**2 and y < 0 else phrases.CAUGHT_RING
