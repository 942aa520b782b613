"""Commentary asides: what a ball means, what it follows, and whether a captain asked for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import as_faced
from spectator.environments.cricket.match.descriptions import number_word, surname
from spectator.environments.cricket.show.phrase_choice import PhrasePicker

Data = Mapping[str, Any]

ASKED_FOR_RUNS: Final = 0.7
"""Aggression from which a captain has asked for boundaries; 0.5 is what real sides do."""

SHORT_M: Final = 63.0
"""Up to so many metres a boundary is called short."""

ASKED_FOR_CARE: Final = 0.3
WELL_SET: Final = 25
DEAR_OVER: Final = 15

_ORDINALS: Final = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def aside(data: Data, state: Data, picker: PhrasePicker) -> str:
    """A sentence about the ball, beginning with a space; empty when there is nothing new to say."""
    world = state["world"]
    for options, facts in _asides(data, world["over"]["marks"], world.get("ground")):
        fresh = [option for option in options if picker.is_new(option)]
        if fresh:
            said = picker.pick(fresh, "aside").format(**facts)
            return f" {said[0].upper()}{said[1:]}"
    return ""


Aside = tuple[tuple[str, ...], dict[str, str]]


def _asides(data: Data, marks: list[str], ground: Data | None) -> Iterator[Aside]:
    """What could be said, the most worth saying first; each is true of the ball."""
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
    """A six over a boundary that is short, on a ground that is told."""
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
    mine = data["dismissal"] != "run out"
    if marks[-2:] == ["W", "W"]:
        yield ("Two in two balls!", "And that is two wickets in two balls!"), names
    if mine and marks[-2:-1] in (["6"], ["4"]) and not data["noball"]:
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
    if mine and 2 <= wickets < len(_ORDINALS):
        yield (
            ("That is a {nth} for {bowler}.", "A {nth} wicket for {bowler}."),
            names | {"nth": _ORDINALS[wickets]},
        )
    if mine and data["intents"]["aggression"] >= ASKED_FOR_RUNS:
        yield (
            ("They had been told to go for it, and that is the price.", "That is what attacking costs."),
            names,
        )
    if mine and data["intents"]["attack"] >= ASKED_FOR_RUNS:
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
    """How many of the last marks are of ``kinds``."""
    count = 0
    for mark in reversed(marks):
        if mark not in kinds:
            break
        count += 1
    return count
