"""A learner's curve at cricket: a small policy-gradient learner that gives orders by the over.

``nice -n 10 python -m benchmarks.cricket_learner --cpu-seconds 300 --page`` learns in this process, prints
the value of its decisions on seeds that it never learnt from, and with ``--page`` writes the curve to
docs/cricket-learner.svg and docs/cricket-learner.md. One process, numpy only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.base import derive_seed
from spectator.environments.cricket import WORLD
from spectator.environments.cricket.ball.vocabulary import LINES, PACES, PLANNED_LENGTHS, SHOTS
from spectator.environments.cricket.captaincy.captains import STYLES, StyledCaptain
from spectator.environments.cricket.captaincy.reasons import pressure
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.match.field import PRESET_NAMES
from spectator.observations import Observation
from tools.collider_validation.drawing import Chart, Layer, draw

Vector = NDArray[np.float64]

LEVELS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "aggression": LEVELS,
    "shot": (None, *SHOTS),
    "attack": LEVELS,
    "preset": PRESET_NAMES,
    "length": (None, *PLANNED_LENGTHS),
    "line": (None, *LINES),
    "pace": (None, *PACES),
}
"""What it chooses of each part of its orders, as a tool-user would before it knows the game: evenly."""

BATTING: Final = ("aggression", "shot")
BOWLING: Final = ("attack", "preset", "length", "line", "pace")
FEATURES: Final = 9
PLAYER: Final = 5
"""Numbers that it sees of a situation, and of a player to choose."""

BATCH: Final = 12
RATE: Final = 0.06
"""Matches between two steps, and the length of a step (Adam)."""

FRESH_FROM, TRAINING_FROM = 700_000, 800_000
"""First seed of the measurement, and of the matches that are learnt from."""

ROOT: Final = Path(__file__).parent.parent / "docs"


def features(view: Mapping[str, Any]) -> Vector:
    """What the learner sees of a situation: the part, wickets, balls, the chase, and who is at the ends."""
    score, striker, bowler = view["score"], view["striker"], view["bowler"]
    asked = pressure(view)
    return np.array([
        1.0, view["segment"] == "middle", view["segment"] == "death", score["wickets"] / 5.0,
        score["balls_left"] / (score["balls"] + score["balls_left"]), asked is not None,
        0.0 if asked is None else float(np.clip(asked - 1.0, -1.0, 1.0)),
        0.0 if striker is None else min(striker["balls"], 20) / 20.0,
        bowler is not None and "pace" in bowler["kind"],
    ], dtype=np.float64)  # fmt: skip


def candidates(view: Mapping[str, Any], names: Sequence[str], *, bowling: bool) -> Vector:
    """What it sees of players to choose from, a row each, the one that the side would usually take first."""
    squad = {man["name"]: man for man in view["squads"][view["side"]]["players"]}
    rows = []
    for place, name in enumerate(names):
        man = squad[name]
        runs = man.get("bowl_runs", 1.3) if bowling else man["bat_runs"]
        wickets = man.get("bowl_wickets", 0.6) if bowling else man["bat_out"]
        spins = "pace" not in man.get("bowls", "off spin")
        rows.append(
            [place == 0, runs - 1.0, wickets - 1.0, spins * (view["segment"] == "middle"), place / 10.0]
        )
    return np.array(rows, dtype=np.float64)


@dataclass(slots=True)
class Learner:
    """A softmax over every choice, linear in what is seen; it climbs along the gradient of its rewards.

    Args:
        seed: Of what it draws.
    """

    seed: int
    weights: dict[str, Vector] = field(init=False)
    _source: np.random.Generator = field(init=False)
    _moments: dict[str, tuple[Vector, Vector]] = field(init=False)
    _baseline: dict[str, tuple[float, float]] = field(default_factory=dict)
    _steps: int = 0

    def __post_init__(self) -> None:
        self._source = np.random.default_rng(self.seed)
        self.weights = {name: np.zeros((len(values), FEATURES)) for name, values in CHOICES.items()}
        self.weights |= {"bowler": np.zeros((1, PLAYER)), "batter": np.zeros((1, PLAYER))}
        self._moments = {name: (np.zeros_like(one), np.zeros_like(one)) for name, one in self.weights.items()}

    def choose(self, name: str, seen: Vector, open_to: Sequence[int], *, best: bool) -> tuple[int, Vector]:
        """One of the values that are open, and the gradient of the logarithm of its probability.

        Args:
            name: A key of ``weights``.
            seen: The features, or of a player to choose a row for each.
            open_to: Which values may be chosen.
            best: Whether to take the likeliest instead of drawing.
        """
        weights = self.weights[name]
        scores = (weights @ seen)[list(open_to)] if seen.ndim == 1 else seen @ weights[0]
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        place = int(chances.argmax()) if best else int(self._source.choice(len(chances), p=chances))
        gradient = np.zeros_like(weights)
        if seen.ndim == 1:
            push = -chances
            push[place] += 1.0
            gradient[list(open_to)] = push[:, None] * seen
        else:
            gradient[0] = seen[place] - chances @ seen
        return open_to[place], gradient

    def learn(self, told: Sequence[tuple[str, Vector, float]]) -> None:
        """Take a step along the gradients of choices, each weighed by what it brought beyond the usual."""
        sums = {name: np.zeros_like(one) for name, one in self.weights.items()}
        by_name: dict[str, list[float]] = {}
        for name, _, reward in told:
            by_name.setdefault(name, []).append(reward)
        for name, rewards in by_name.items():
            mean, spread = self._baseline.get(name, (float(np.mean(rewards)), float(np.std(rewards)) + 1e-6))
            self._baseline[name] = (
                0.9 * mean + 0.1 * float(np.mean(rewards)), 0.9 * spread + 0.1 * float(np.std(rewards))
            )  # fmt: skip
        for name, gradient, reward in told:
            mean, spread = self._baseline[name]
            sums[name] += gradient * float(np.clip((reward - mean) / (spread + 1e-6), -4.0, 4.0))
        self._steps += 1
        for name, total in sums.items():
            if name in by_name:
                self._climb(name, total / len(by_name[name]))

    def _climb(self, name: str, gradient: Vector) -> None:
        first, second = self._moments[name]
        first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
        self._moments[name] = first, second
        rise = first / (1.0 - 0.9**self._steps)
        size = np.sqrt(second / (1.0 - 0.99**self._steps)) + 1e-8
        self.weights[name] = self.weights[name] + RATE * rise / size


class Captain:
    """The learner in a captain's seat for one match.

    Args:
        learner: Who decides.
        usual: Who decides at the toss.
        best: Whether it takes the likeliest choices instead of drawing.
    """

    def __init__(self, learner: Learner, usual: StyledCaptain, *, best: bool) -> None:
        self._learner, self._usual, self._best = learner, usual, best
        self.choices: list[tuple[str, Vector]] = []

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
        self.choices.append((name, gradient))
        return values[place]

    def _player(self, role: str, view: Mapping[str, Any], names: Sequence[str]) -> str:
        seen = candidates(view, names, bowling=role == "bowler")
        place, gradient = self._learner.choose(role, seen, range(len(names)), best=self._best)
        self.choices.append((role, gradient))
        return names[place]


def match_of(
    learner: Learner | None, seed: int, *, best: bool = False, reward: str = "decision_value", overs: int = 5
) -> tuple[float, list[tuple[str, Vector, float]]]:
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
    told: list[tuple[str, Vector, float]] = []
    waiting: list[tuple[str, Vector]] = []
    total = since = 0.0
    while not observation.done:
        if captain is not None and observation.actor == "home":
            told += [(name, gradient, since) for name, gradient in waiting]
            action, since = captain.act(observation), 0.0
            waiting = captain.choices
        else:
            action = seats[observation.actor or "away"].choose(observation).action
        observation = world.step(action)
        world.facts()
        since += observation.reward
        total += observation.reward
    return total, told + [(name, gradient, since) for name, gradient in waiting]


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
numbers of each player. It starts from a tool-user's prior: lawful calls with arguments drawn evenly. It plays
five-over matches against `heuristic` with `decisions=over` and `reward=decision_value`, and learns from what
each decision brought until the next, less the running mean; {batch} matches a step, one process, numpy only.
Measured on {fresh} seeds that it never learnt from, with its likeliest choices (drawn ones at the start) and
a 95 % interval; `heuristic` is 0 by definition of the value. Written by
`nice -n 10 python -m benchmarks.cricket_learner --cpu-seconds {seconds:g} --page`.

![Learning curve](cricket-learner.svg)
"""


def won(learner: Learner | None, seeds: Sequence[int]) -> tuple[float, float]:
    """Share of matches won against the heuristic captain from the home seat, and half its 95 % interval."""
    results = [match_of(learner, seed, best=True, reward="result")[0] for seed in seeds]
    return float(np.mean(results)), 1.96 * float(np.std(results, ddof=1)) / len(results) ** 0.5


def main() -> None:
    """Learn, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu-seconds", type=float, default=300.0, help="processor time to learn")
    parser.add_argument("--marks", type=int, default=10, help="measurements on the way")
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
            batch=BATCH, fresh=asked.fresh, seconds=asked.cpu_seconds,
        )  # fmt: skip
        (ROOT / "cricket-learner.svg").write_text(chart_of(marks), encoding="utf-8")
        page = "\n".join([words, *table_of(marks), "", shares, ""])
        (ROOT / "cricket-learner.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
