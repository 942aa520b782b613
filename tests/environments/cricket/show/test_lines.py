"""Every line of whole matches, read against a scorebook of raw events, and that the reader finds errors."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

from spectator.environments.cricket.show.phrases import table
from tests.environments.cricket.playing import play
from tests.environments.cricket.show.staged import BOWLERS, Staged
from tools.cricket_book import Book
from tools.cricket_lines import faults, in_figures, surname

MATCHES: tuple[tuple[int, str, str, dict[str, Any]], ...] = (
    (1, "heuristic", "heuristic", {"max_overs": 20}),
    (2, "aggressive", "defensive", {"max_overs": 20, "profile": "women"}),
    (5, "anchor", "spin_first", {"max_overs": 20}),
    (11, "tactician", "match_ups", {"max_overs": 20, "ground": "drawn"}),
    (12, "random", "blocker", {"max_overs": 20}),
    (3, "planner", "tactician", {"max_overs": 5}),
    (4, "heuristic", "random", {"max_overs": 5, "forecast_futures": 64}),
    (9, "aggressive", "aggressive", {"max_overs": 5, "profile": "women"}),
    (6, "heuristic", "heuristic", {"max_overs": 50}),
    (7, "tactician", "heuristic", {"start": "chase"}),
    (8, "random", "random", {"max_overs": 10}),
    (1, "heuristic", "heuristic", {"start": "super_over"}),
)


class Said(NamedTuple):
    """A line and the events that it may be read against."""

    match: int
    kind: str
    data: Any
    innings: int
    part: str
    text: str
    faults: list[str]
    broken: dict[str, list[bool]]


def others(book: Book, names: set[str], data: Any) -> list[str]:
    """Surnames of players who have no part in an event."""
    part = str(data)
    return sorted({surname(name) for name in names if surname(name) not in part})


SAMPLED = 0.15
"""Share of the lines that are also read with errors in them."""

PLACES = (
    ("through midwicket", "through the covers"),
    ("through the covers", "through midwicket"),
    ("towards third", "towards long-on"),
    ("towards long-off", "towards fine leg"),
    ("over midwicket", "over extra cover"),
    ("over long-on", "over point"),
    ("past point", "into the leg side"),
)
LENGTHS = (
    ("good length, ", "short, "),
    ("back of a length", "yorker"),
    ("short, ", "full, "),
    ("full, ", "good length, "),
    ("full toss, ", "yorker, "),
    ("on a length, ", "banged in, "),
    ("pitched up, ", "back of a length, "),
)
LINES = (
    ("outside off", "on the pads"),
    ("on the stumps", "outside off"),
    ("on leg stump", "outside off"),
    ("on the pads", "on the stumps"),
    ("in the channel", "on leg stump"),
)
STROKES = (
    ("driven", "pulled"),
    ("pulled", "driven"),
    ("flicked", "cut"),
    ("whipped", "slashed"),
    ("punched", "swept"),
    ("cut hard", "swept hard"),
    ("guided", "hooked"),
    ("worked across the line", "pushed"),
    ("clipped", "eased"),
)
RESULTS = (
    ("FOUR", "SIX"),
    ("SIX", "FOUR"),
    ("no run", "1 run"),
    ("for a single", "for a couple"),
    ("fielded", "for a single"),
    (" OUT", " not troubled"),
    ("an easy 1", "an easy 2"),
    ("just the 1", "they run 3"),
)
OPPOSITE = (
    ("in their hands", "in trouble"),
    ("could go either way", "cannot be done"),
    ("Nothing in it", "It is over as a contest"),
    ("ahead of it", "a long way off"),
    ("will do", "is not possible"),
    ("needed from", "cannot be done: needed from"),
    ("something special", "nothing special: it is in their hands"),
    ("on course", "in trouble"),
    ("not possible", "on course"),
    ("a lot", "well placed"),
    ("in trouble", "well placed"),
    ("the better of it", "it, and it should not matter yet"),
    ("wins it, with", "is not possible, with"),
    (" from ", " cannot be done from "),
)


def mutants(
    text: str, strangers: list[str], known: set[str], rng: random.Random
) -> Iterator[tuple[str, str]]:
    """Yield lines made wrong in a figure, a name, a judgement, a stroke or another kind of word."""
    figures = list(re.finditer(r"\d+", text))
    for found in figures:
        for step in (1, -1, 7):
            if int(found[0]) + step >= 0:
                yield "figure", text[: found.start()] + str(int(found[0]) + step) + text[found.end() :]
    for name in known:
        if name in text and strangers:
            yield "name", re.sub(rf"\b{re.escape(name)}\b", rng.choice(strangers), text, count=1)
    call = ": " in text
    for kind, swaps, wanted in (
        ("place", PLACES, True),
        ("length", LENGTHS, call),
        ("line", LINES, call),
        ("stroke", STROKES, True),
        ("result", RESULTS, call),
    ):
        for right, wrong in swaps:
            if wanted and re.search(rf"(?<!\w){re.escape(right)}(?!\w| toss)", text):
                yield kind, text.replace(right, wrong, 1)
    for right, wrong in OPPOSITE[:-1]:
        if right in text:
            yield "judgement", text.replace(right, wrong, 1)


MISSED: list[tuple[str, str]] = []


@cache
def said() -> list[Said]:
    """All lines of all matches, with the reader's faults, and what it makes of lines made wrong."""
    found = []
    for number, (seed, home, away, given) in enumerate(MATCHES):
        told, book, rng = play(seed, home, away, **given), Book(), random.Random(number)
        names = {
            one
            for fact in told.facts
            if fact.type == "cricket.ball_bowled"
            for one in (fact.data["striker"], fact.data["bowler"])
        }
        book.players |= names
        lines = iter(told.lines)
        line = next(lines, None)
        innings = 1
        for at, fact in enumerate(told.facts, 1):
            book.take(fact.type, fact.data)
            innings = (
                fact.data.get("innings", innings) if isinstance(fact.data.get("innings"), int) else innings
            )
            while line is not None and line[0].seq == at:
                for part in ("text", "radio", "reply"):
                    text = getattr(line[1], part)
                    if text:
                        answer = part == "reply"
                        broken: dict[str, list[bool]] = defaultdict(list)
                        checked = fact.type[8:] in (
                            "ball_bowled",
                            "over_completed",
                            "bowler_selected",
                            "wicket_fell",
                            "innings_ended",
                        )
                        figures = in_figures(text) if part == "radio" else text
                        if checked and rng.random() < SAMPLED:
                            known = {surname(name) for name in names}
                            for kind, wrong in mutants(figures, others(book, names, fact.data), known, rng):
                                if wrong != figures:
                                    broken[kind].append(bool(faults(book, wrong, answer=answer)))
                                    MISSED.extend([(kind, wrong)] if not broken[kind][-1] else [])
                        found.append(
                            Said(
                                number,
                                fact.type[8:],
                                fact.data,
                                innings,
                                part,
                                text,
                                faults(book, text, answer=answer),
                                broken,
                            )
                        )
                line = next(lines, None)
    return found


def test_no_line_of_twelve_matches_contradicts_the_scorebook() -> None:
    assert len(said()) > 5_000
    assert [(one.text, one.faults) for one in said() if one.faults] == []


def test_the_reader_notices_nearly_every_line_made_wrong() -> None:
    noticed: dict[str, list[bool]] = defaultdict(list)
    for one in said():
        for kind, found in one.broken.items():
            noticed[kind] += found
    shares = {kind: (sum(found) / len(found), len(found)) for kind, found in noticed.items()}
    assert set(shares) == {"figure", "name", "place", "length", "line", "stroke", "result", "judgement"}
    total = [found for each in noticed.values() for found in each]
    assert len(total) > 4_000
    assert sum(total) / len(total) >= 0.95, (shares, MISSED[:40])
    assert all(share >= 0.95 for share, count in shares.values() if count > 20), (shares, MISSED[:40])


@cache
def templates(name: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The templates of a table with their fixed parts, the one with most fixed text first."""
    flat: list[str] = []
    for found in table(name).values():
        for options in found.values() if isinstance(found, dict) else [found]:
            flat += [options] if isinstance(options, str) else options
    parts = {one: tuple(part.lower() for part in re.split(r"\{\w+\}", one) if part.strip()) for one in flat}
    return tuple(sorted(parts.items(), key=lambda one: (-sum(map(len, one[1])), one[0])))


def template_of(text: str, name: str) -> str | None:
    """The template with the most fixed text that fits; ``None`` for the scorer's words only."""
    for template, parts in templates(name):
        place = 0
        for part in parts:
            place = text.lower().find(part, place)
            if place < 0:
                break
            place += len(part)
        else:
            return template
    return None


def test_no_phrase_comes_more_than_three_times_in_an_innings_of_twenty_overs() -> None:
    counts: Counter[tuple[int, int, str, str]] = Counter()
    for one in said():
        if MATCHES[one.match][3].get("max_overs") != 20:
            continue
        tables = []
        if one.kind == "ball_bowled" and not one.text.startswith("The powerplay"):
            tables = {"text": ["written", "remarks", "deliveries"], "radio": ["air"], "reply": ["answers"]}[
                one.part
            ]
        elif one.part == "reply":
            tables = ["answers"]
        elif one.kind in ("bowler_selected", "batter_selected", "field_set"):
            tables = ["lines"]
        elif one.kind == "over_completed" and one.part == "radio":
            tables = ["lines"]
        for name in tables:
            if name == "air" and one.data["dismissal"]:
                continue
            called = one.text.partition(": ")[2] if name in ("written", "deliveries") else one.text
            called = called.replace("very full", "a spinner's yorker")
            found = template_of(called, name)
            if found is not None and found not in SCORERS:
                counts[one.match, one.innings, name, found] += 1
    assert len(counts) > 1_000
    assert {phrase: count for phrase, count in counts.items() if count > 3} == {}


SCORERS = {"{to}, no run.", "No run.", "{team}: {moves}."}
"""The scorer's words, which captions keep once their phrases are used up."""


def staged_chase(need: int, left: int, lost: int = 2) -> Staged:
    """A chase one dot ball before ``need`` from ``left``."""
    staged = Staged(target=300, left=left + 1, runs=300 - need)
    staged.wickets = staged.book.wickets = lost
    staged.over(BOWLERS[0])
    staged.ball()
    return staged


@pytest.mark.parametrize(
    ("need", "left", "text"),
    [
        (19, 6, "They are ahead of it: 19.0 an over will do."),
        (17, 7, "The pressure is off."),
        (60, 30, "60 from 31 balls."),
        (38, 1, "38 needed from 1 ball."),
        (20, 60, "20 from 60 balls: it needs something special."),
        (20, 60, "20 from 60 balls cannot be done."),
        (100, 60, "100 from 60 balls: Lakeshire have this in their hands."),
        (100, 60, "9.0 an over wins it, with 8 wickets in hand."),
        (100, 60, "They are ahead of it: 10.0 an over will do."),
        (50, 40, "That is four dots in a row, with 50 still to get."),
        (50, 40, "Lakeshire will take 14 runs an over all day."),
        (50, 40, "Nothing in it: 50 from 41 balls."),
        (50, 40, "They cannot afford many."),
        (50, 40, "Lakeshire try a field of their own."),
        (50, 40, "The batsman waits."),
        (50, 40, "Two in two, and Morrow is on a hat-trick."),
        (50, 40, "A hat-trick for Morrow!"),
        (50, 40, "Fifty for three."),
        (50, 40, "Back-to-back sixes!"),
        (50, 40, "That wins it. And that wins it."),
    ],
)
def test_the_reader_refuses_what_the_scorebook_contradicts(need: int, left: int, text: str) -> None:
    assert faults(staged_chase(need, left).book, text, answer=True)


@pytest.mark.parametrize(
    ("ball", "text"),
    [
        ({"length": "short"}, "Morrow to Arden: banged in short, in the channel, defended."),
        ({"length": "yorker"}, "Morrow to Arden: right in the blockhole, dug out towards cover, no run."),
        ({"length": "short", "shot": "push"}, "Morrow to Arden: pushed towards cover, no run."),
        ({"length": "short", "shot": "push"}, "Morrow to Arden: eased towards cover, no run."),
        (
            {"shot": "pull", "zone": 4, "length": "short"},
            "Morrow to Arden: pulled down the ground on the leg side.",
        ),
        ({"shot": "defend", "zone": 4}, "Morrow to Arden: dabbed down the ground on the leg side, no run."),
        ({"shot": "drive"}, "Morrow to Arden: driven into the off side for FOUR."),
        ({"shot": "drive"}, "Morrow to Arden: driven through midwicket, no run."),
        ({"shot": "drive"}, "Morrow to Bosk: driven into the off side, no run."),
        ({"shot": "drive"}, "Nevin to Arden: driven into the off side, no run."),
        ({"shot": "drive"}, "Morrow to Arden: edged into the off side, 1 run."),
        (
            {"dismissal": "bowled", "line": "stumps"},
            "Morrow to Arden: OUT! Bosk is beaten and the stumps are broken. OUT!",
        ),
        ({"dismissal": "bowled", "line": "stumps"}, "Morrow to Arden: no run."),
    ],
)
def test_the_reader_refuses_strokes_lengths_and_names_that_do_not_agree(
    ball: dict[str, Any], text: str
) -> None:
    staged = Staged()
    staged.book.players |= set(BOWLERS)
    staged.over(BOWLERS[0])
    staged.ball(**{"zone": 6, **ball})
    assert faults(staged.book, text)
