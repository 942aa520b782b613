"""A learner's curve at cricket: a small policy-gradient learner that gives orders by the over.

``nice -n 10 python -m benchmarks.cricket_learner --cpu-seconds 400 --marks 8 --page`` learns in this process,
prints the value of its decisions on seeds that it never learnt from, and with ``--page`` writes the curve to
docs/cricket-learner.svg and docs/cricket-learner.md. One process, numpy only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.cricket_policy import (
    BATTING,
    BOWLING,
    CHOICES,
    FEATURES,
    PLAYER,
    Choice,
    Learner,
    Told,
    Vector,
    candidates,
    features,
)
from spectator.environments.cricket import WORLD
from spectator.environments.cricket.captaincy.captains import STYLES, StyledCaptain
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.match.field import PRESET_NAMES
from spectator.environments.seeds import derive_seed
from spectator.observations import Observation
from tools.collider_validation.drawing import Chart, Layer, draw

BATCH: Final = 12
"""Matches between two steps."""

FRESH_FROM, TRAINING_FROM = 700_000, 800_000
"""First seed of the measurement, and of the matches that are learnt from."""

ROOT: Final = Path(__file__).parent.parent / "docs"


class Captain:
    """The learner in a captain's seat for one match.

    Args:
        learner: Who decides.
        usual: Who decides at the toss.
        best: Whether it takes the likeliest choices instead of drawing.
    """

    def __init__(self, learner: Learner, usual: StyledCaptain, *, best: bool) -> None:
        self._learner, self._usual, self._best = learner, usual, best
        self.choices: list[Choice] = []

    def act(self, observation: Observation) -> Mapping[str, Any]:
        """Decide, and keep the gradients of what was chosen."""
        self.choices = []
        view, legal = observation.content, observation.legal_actions[0]
        seen = features(view) if view.get("score") else np.zeros(FEATURES)
        orders: dict[str, Any] = {}
        if legal["tool"] == "bowl_over":
            offered = legal["arguments"]["properties"]
            if "bowler" in offered:
                first, names = view["choices"]["usual"], offered["bowler"]["enum"]
                ordered = [first, *(name for name in names if name != first)]
                orders["bowler"] = self._player("bowler", view, ordered)
            seen = features(view, orders.get("bowler"))
            lawful = [PRESET_NAMES.index(name) for name in offered["preset"]["enum"]]
            for name in BOWLING:
                orders[name] = self._value(name, seen, lawful if name == "preset" else None)
        elif legal["tool"] == "play_over":
            orders = {name: self._value(name, seen) for name in BATTING}
            if view["choices"]["batters"]:
                orders["next_batters"] = [self._player("batter", view, view["choices"]["batters"])]
        elif legal["tool"] == "select_batter":
            names = view["choices"]["batters"]
            orders["batter"] = self._player("batter", view, names)
            if view["phase"] == "openers":
                rest = [name for name in names if name != orders["batter"]]
                orders["partner"] = self._player("batter", view, rest)
        else:
            return self._usual.choose(observation).action
        return {"tool": legal["tool"], "arguments": orders}

    def _value(self, name: str, seen: Vector, open_to: Sequence[int] | None = None) -> Any:
        values = CHOICES[name]
        places = range(len(values)) if open_to is None else open_to
        place, gradient = self._learner.choose(name, seen, places, best=self._best)
        self.choices.append(Choice(name, gradient))
        return values[place]

    def _player(self, role: str, view: Mapping[str, Any], names: Sequence[str]) -> str:
        seen = candidates(view, names, bowling=role == "bowler")
        place, gradient = self._learner.choose(role, seen, range(len(names)), best=self._best)
        self.choices.append(Choice(role, gradient, seen[place]))
        return names[place]


def match_of(
    learner: Learner | None, seed: int, *, best: bool = False, reward: str = "decision_value", overs: int = 5
) -> tuple[float, list[Told]]:
    """Play a match against the heuristic captain.

    Args:
        learner: Who captains home; the heuristic captain too when left out.
        seed: Of the match.
        best: Whether the learner takes its likeliest choices.
        reward: The reward that is asked for.
        overs: Overs of an innings.

    Returns:
        The score, and what was chosen with what each choice brought until the next.
    """
    world = CricketEnvironment()
    asked = {"max_overs": overs, "decisions": "over", "reward": reward}
    options = WORLD.options_type.model_validate(asked).model_dump(mode="json")
    seats = {side: StyledCaptain(STYLES[0], derive_seed(seed, "policy", side)) for side in ("home", "away")}
    captain = None if learner is None else Captain(learner, seats["home"], best=best)
    observation = world.reset(seed=seed, episode_id="learner", options=options)
    told: list[Told] = []
    waiting: list[Choice] = []
    total = since = 0.0
    while not observation.done:
        if captain is not None and observation.actor == "home":
            told.append((waiting, since))
            action, since = captain.act(observation), 0.0
            waiting = captain.choices
        else:
            action = seats[observation.actor or "away"].choose(observation).action
        observation = world.step(action)
        world.facts()
        since += observation.reward
        total += observation.reward
    return total, [*told, (waiting, since)]


@dataclass(frozen=True, slots=True)
class Mark:
    """The learner after some matches.

    Args:
        matches: How many it learnt from.
        cpu_s: Processor time that took, measurement left out.
        values: Decision values of its likeliest choices on fresh seeds, hundredths of a win a match.
    """

    matches: int
    cpu_s: float
    values: Sequence[float]

    @property
    def mean(self) -> float:
        """Mean of the values."""
        return float(np.mean(self.values))

    @property
    def error(self) -> float:
        """Half of its 95 % interval."""
        return 1.96 * float(np.std(self.values, ddof=1)) / float(np.sqrt(len(self.values)))


def learn(learner: Learner, fresh: Sequence[int], budget_s: float, every_s: float) -> Iterator[Mark]:
    """Learn for ``budget_s`` seconds of processor time; a mark at the start and every ``every_s``."""
    used, matches, due = 0.0, 0, 0.0
    while True:
        if used >= due:
            best = matches > 0  # all choices are as likely at the start
            yield Mark(matches, used, [100.0 * match_of(learner, seed, best=best)[0] for seed in fresh])
            due += every_s
        if used >= budget_s:
            return
        began, told = time.process_time(), []
        for _ in range(BATCH):
            told += match_of(learner, TRAINING_FROM + matches)[1]
            matches += 1
        learner.learn(told)
        used += time.process_time() - began


def table_of(marks: Sequence[Mark]) -> list[str]:
    """Rows of the curve."""
    rows = [
        "| matches learnt from | processor time | decision value, hundredths of a win a match |",
        "|---|---|---|",
    ]
    return rows + [
        f"| {mark.matches:,} | {mark.cpu_s:.0f} s | {mark.mean:+.2f} ± {mark.error:.2f} |" for mark in marks
    ]


def chart_of(marks: Sequence[Mark]) -> str:
    """The curve as SVG."""
    points = [(mark.cpu_s, mark.mean) for mark in marks]
    last = max(1.0, marks[-1].cpu_s)
    layers = [
        Layer("heuristic", [(0.0, 0.0), (last, 0.0)], "line", "#c77700", dash="6 4"),
        Layer("learner", points, "line"),
        Layer("", points, "points", errors=[mark.error for mark in marks]),
    ]
    title = "A policy-gradient learner at cricket, orders by the over"
    return draw(Chart(title, "processor time, s", "decision value, hundredths of a win a match", layers))


WORDS = """# A learner at cricket

REINFORCE over {parameters:,} weights: a softmax for each part of the orders (intent, stroke, field, length,
line, pace) over {features} numbers of the situation, and one for who bowls and who comes in over {player}
numbers of each player. Among them is what suits the two batters who are in (`bat_spin`, `bat_short`,
`bat_leg`) and the pitch: what does not fit them is paid for ([cricket-game.md](cricket-game.md)), and a
learner that does not see them came to +0.5 in 210 s. It starts from a tool-user's prior: lawful calls with
arguments drawn evenly. It plays five-over matches against `heuristic` with `decisions=over` and
`reward=decision_value`, and learns from what each decision brought until the next, less the running mean
and, for orders, less what the player named in them is worth; {batch} matches a step, one process, numpy only.
Measured on {fresh} seeds that it never learnt from, with its likeliest choices (drawn ones at the start) and
a 95 % interval; `heuristic` is 0 by definition of the value. Written by
`nice -n 10 python -m benchmarks.cricket_learner --cpu-seconds {seconds:g} --marks {marks} --page`.

![Learning curve](cricket-learner.svg)
"""


def won(learner: Learner | None, seeds: Sequence[int]) -> tuple[float, float]:
    """Share of matches won against the heuristic captain from the home seat, and half its 95 % interval."""
    results = [match_of(learner, seed, best=True, reward="result")[0] for seed in seeds]
    return float(np.mean(results)), 1.96 * float(np.std(results, ddof=1)) / len(results) ** 0.5


def main() -> None:
    """Learn, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu-seconds", type=float, default=400.0, help="processor time to learn")
    parser.add_argument("--marks", type=int, default=8, help="measurements on the way")
    parser.add_argument("--fresh", type=int, default=60, help="seeds that it is measured on")
    parser.add_argument("--matches", type=int, default=600, help="matches for the share won at the end")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    parser.add_argument("--page", action="store_true", help="write the curve and its page")
    asked = parser.parse_args()
    learner, marks = Learner(asked.seed), []
    fresh = range(FRESH_FROM, FRESH_FROM + asked.fresh)
    for mark in learn(learner, fresh, asked.cpu_seconds, asked.cpu_seconds / asked.marks):
        marks.append(mark)
        print(f"{mark.matches:6d} {mark.cpu_s:6.0f} s {mark.mean:+.2f} ± {mark.error:.2f}", flush=True)
    seeds = range(FRESH_FROM, FRESH_FROM + asked.matches)
    ours, usual = won(learner, seeds), won(None, seeds)
    shares = (
        f"Against `heuristic` from the home seat it wins {100 * ours[0]:.1f} ± {100 * ours[1]:.1f} % of "
        f"{asked.matches} matches; `heuristic` itself wins {100 * usual[0]:.1f} ± {100 * usual[1]:.1f} %."
    )
    print("\n".join([*table_of(marks), "", shares]))
    if asked.page:
        words = WORDS.format(
            parameters=sum(one.size for one in learner.weights.values()), features=FEATURES, player=PLAYER,
            batch=BATCH, fresh=asked.fresh, seconds=asked.cpu_seconds, marks=asked.marks,
        )  # fmt: skip
        (ROOT / "cricket-learner.svg").write_text(chart_of(marks), encoding="utf-8")
        page = "\n".join([words, *table_of(marks), "", shares, ""])
        (ROOT / "cricket-learner.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
