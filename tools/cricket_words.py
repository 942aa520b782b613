"""Check cricket's commentary and stated reasons against the facts of whole matches.

``python -m tools.cricket_words --matches 500`` plays matches between the scripted captains, reads every line
and every reason, and prints each false note with its count, or 0 if there is none.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.ball.situation import SHOTS
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.world import derive_seed
from spectator.episodes.view import FEED_LENGTH
from spectator.events import Event
from spectator.json_values import apply_patch
from spectator.policies.policy import ScriptedPolicy
from tools.cricket_book import Book
from tools.cricket_lines import faults

Data = Mapping[str, Any]

SENT_TO: Final[Mapping[str, frozenset[int]]] = {
    **{shot: frozenset(zones) for shot, zones in SHOTS.items()},
    "defend": frozenset((3, 4, 5, 6)),
    "push": frozenset((3, 4, 5, 6)),
    "drive": frozenset((4, 5, 6)),
    "cut": frozenset((6, 7, 8)),
    "late cut": frozenset((7, 8)),
    "guide": frozenset((7, 8)),
    "pull": frozenset((2, 3, 4)),
    "sweep": frozenset((1, 2, 3)),
    "slog": frozenset((2, 3, 4)),
    "loft cover": frozenset((6, 7)),
    "scoop": frozenset((1, 8)),
    "work": frozenset((2, 3)),
}
"""Sectors a middled ball can go to, by stroke: its targets and their neighbours."""

AT_THE_PADS: Final = frozenset(("flick", "glance"))
"""Strokes for straight balls or on leg."""
WITH_ROOM: Final = frozenset(("cut", "late cut", "upper cut"))
"""Strokes for balls not on leg."""
FULL: Final = frozenset(("full toss", "yorker", "full", "good"))

STYLES: Final = ("heuristic", "aggressive", "anchor", "defensive", "spin_first", "tactician")


def odd_pairs(ball: Data) -> Iterator[str]:
    """Yield contradictions among stroke, direction, line and length of a ball that was hit."""
    shot, zone, line = ball["shot"], ball["zone"], ball["line"]
    if zone is None or shot == "none" or ball["legbyes"] or ball["contact"] == "edged":
        return
    if shot == ball["intents"]["shot"]:  # ordered by the captain, whatever the ball
        return
    if zone not in SENT_TO[shot]:
        yield f"a {shot} to sector {zone}"
    if shot in AT_THE_PADS and line in ("outside off", "wide outside off"):
        yield f"a {shot} from {line}"
    if shot in WITH_ROOM and line == "leg":
        yield f"a {shot} from {line}"
    if shot in ("pull", "hook", "upper cut") and ball["length"] in FULL:
        yield f"a {shot} off a {ball['length']} ball"
    if shot in ("sweep", "reverse sweep") and "pace" in ball["bowler_line"]["kind"]:
        yield f"a {shot} off pace"
    if line == "leg" and zone >= 6 and ball["bat"]:
        yield f"from leg to sector {zone}"


class Reader:
    """Reads the lines of one match and its captains' reasons.

    Attributes:
        notes: False notes, counted.
        counted: Lines, reasons, balls hit, unplanned yorkers, and sixes off them.
    """

    def __init__(self) -> None:
        self.notes: Counter[str] = Counter()
        self.counted: Counter[str] = Counter()
        self._state: dict[str, Any] = {"world": {}, "decisions": {}, "feed": {}}
        self._book = Book()
        self._bowled: set[tuple[str, str]] = set()
        self._number = 0
        self._said: dict[str, str] = {}

    def reason(self, actor: str, reason: str) -> None:
        """Take a stated reason."""
        self.counted["reasons"] += 1
        if reason and reason == self._said.get(actor):
            self.notes["a captain repeats himself"] += 1
        self._said[actor] = reason

    def fact(self, kind: str, data: Data) -> None:
        """Take a fact, fold it, and read what is said of it."""
        self._number += 1
        event = Event("words", "e", self._number, "2026-01-01T00:00:00.000Z", 0, kind, dict(data))
        patch = WORLD.projection(self._state, event)
        self._state = {**self._state, "world": apply_patch(self._state["world"], patch)}
        self._book.take(kind, data)
        if kind == "cricket.ball_bowled":
            self._ball(data)
        feed = dict(self._state["feed"])
        for line in WORLD.commentator(event, self._state):
            self.counted["lines"] += 1
            said = {"text": line.text, "radio": line.radio or "", "reply": line.reply or ""}
            feed[f"{len(feed) + self._number * 4:08d}"] = said
            for part, text in said.items():
                self.notes.update(self._read(kind, data, text, part == "reply"))
        self._state = {**self._state, "feed": {key: feed[key] for key in sorted(feed)[-FEED_LENGTH:]}}
        if kind == "cricket.over_completed":
            self._bowled.add((data["side"], data["bowler"]["name"]))

    def _ball(self, ball: Data) -> None:
        self.counted["balls hit"] += ball["zone"] is not None
        self.notes.update(odd_pairs(ball))
        if ball["length"] == "yorker" and ball["intents"]["length"] is None:
            self.counted["unplanned yorkers"] += 1
            self.counted["sixes off them"] += ball["bat"] == 6

    def _read(self, kind: str, data: Data, text: str, answer: bool) -> Iterator[str]:
        yield from faults(self._book, text, answer=answer) if text else ()
        if kind == "cricket.bowler_selected" and "first over" in text.lower():
            other = "away" if data["side"] == "home" else "home"
            if (other, data["bowler"]["name"]) in self._bowled or self._state["world"].get("super_over"):
                yield "a first over that was none"


def read_match(seed: int, home: str, away: str, **given: Any) -> Reader:
    """Play a match between two scripted captains and read it.

    Args:
        seed: Of the match.
        home: Name of the home captain.
        away: Name of the away captain.
        given: Options of the match.
    """
    world, reader = CricketEnvironment(), Reader()
    options = WORLD.options_type.model_validate(given).model_dump(mode="json")
    names = {"home": home, "away": away}
    seats = {
        side: WORLD.opponents[name].build(derive_seed(seed, "policy", side)) for side, name in names.items()
    }
    observation = world.reset(seed=seed, episode_id="words", options=options)
    while True:
        for fact in world.facts():
            reader.fact(fact.type, fact.data)
        if observation.done:
            return reader
        policy = seats[observation.actor or ""]
        assert isinstance(policy, ScriptedPolicy)
        decision = policy.choose(observation)
        reader.reason(observation.actor or "", decision.reasoning)
        observation = world.step(decision.action)


def read_matches(count: int, progress: Callable[[int], None] = lambda number: None) -> Reader:
    """Read so many matches of all scripted captains and lengths, super overs among them.

    Args:
        count: How many.
        progress: Told the number of each match read.
    """
    whole = Reader()
    for seed in range(count):
        home, away = STYLES[seed % len(STYLES)], STYLES[(seed // len(STYLES) + seed + 1) % len(STYLES)]
        given: dict[str, Any] = {"max_overs": (5, 2, 10, 3)[seed % 4]}
        if seed % 10 == 9:
            given = {"start": "super_over"}
        read = read_match(seed, home, away, **given)
        whole.notes.update(read.notes)
        whole.counted.update(read.counted)
        progress(seed)
    return whole


def main() -> None:
    """Read and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, default=500)
    asked = parser.parse_args()
    read = read_matches(asked.matches)
    print(
        f"{asked.matches} matches: " + ", ".join(f"{count:,} {what}" for what, count in read.counted.items())
    )
    for note, count in read.notes.most_common():
        print(f"{count:6d} {note}")
    print(f"{read.notes.total()} false notes")
    sys.exit(1 if read.notes else 0)


if __name__ == "__main__":
    main()
