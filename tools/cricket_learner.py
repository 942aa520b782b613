"""Learn cricket with a small policy gradient that gives orders by the over, and plot the curve.

``nice -n 5 python -m tools.cricket_learner --cpu-seconds 600 --marks 4 --page`` learns in this process,
prints the value of its decisions on fresh seeds, and with ``--page`` writes the curve to docs/cricket-
learner.svg and docs/reports/cricket-learner.md. One process, numpy only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.captaincy.captains import STYLES, StyledCaptain
from spectator.environments.cricket.captaincy.lookahead import fields, placed, striker_boundaries
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.match.engine import VARIED
from spectator.environments.cricket.match.field import PRESET_NAMES
from spectator.environments.world import derive_seed
from spectator.observations import Observation
from tools.collider_validation.drawing import Chart, Layer, draw
from tools.cricket_policy import CHOICES, FIELDS, Choice, Decided, Learner
from tools.cricket_sight import PLAYER, SITUATION, Vector, batters_at_crease, candidates, situation

BATCH: Final = 12
"""Matches per step."""

FRESH_FROM, TRAINING_FROM = 700_000, 800_000
"""First seeds of the measurement and of the training."""

ASK: Final = {"new_batter": True, "boundary": True, "wicket": True}
"""Events after which it is asked again before an over ends."""

ROOT: Final = Path(__file__).parent.parent / "docs" / "reports"


class Captain:
    """The learner in a captain's seat for one match.

    Args:
        learner: The policy.
        usual: The captain that decides at the toss.
        best: Whether to take the likeliest choices instead of drawing.
    """

    def __init__(self, learner: Learner, usual: StyledCaptain, *, best: bool) -> None:
        self._learner, self._usual, self._best = learner, usual, best
        self.choices: list[Choice] = []

    def act(self, observation: Observation) -> Mapping[str, Any]:
        """Decide, and keep the choices made."""
        self.choices = []
        view, legal = observation.content, observation.legal_actions[0]
        if legal["tool"] == "bowl_over":
            orders = self._bowl(view, legal["arguments"]["properties"])
        elif legal["tool"] == "play_over":
            orders = self._bat(view)
        elif legal["tool"] == "select_batter":
            names = view["choices"]["batters"]
            orders = {"batter": self._player("batter", view, names)}
            if view["phase"] == "openers":
                rest = [name for name in names if name != orders["batter"]]
                orders["partner"] = self._player("batter", view, rest)
        else:
            return self._usual.choose(observation).action
        return {"tool": legal["tool"], "arguments": orders}

    def _bowl(self, view: Mapping[str, Any], offered: Mapping[str, Any]) -> dict[str, Any]:
        orders: dict[str, Any] = {"ask": ASK}
        if "bowler" in offered:
            first, names = view["choices"]["usual"], offered["bowler"]["enum"]
            orders["bowler"] = self._player(
                "bowler", view, [first, *(name for name in names if name != first)]
            )
        seen = situation(view, batters_at_crease(view), orders.get("bowler"))
        known = fields(view["outside_limit"], striker_boundaries(view))
        own = iter(FIELDS[len(PRESET_NAMES) :])
        named = {next(own) if one.preset == "custom" else one.preset: one for one in known}
        orders |= placed(named[self._value("field", seen, [FIELDS.index(name) for name in named])])
        for name in ("attack", "length", "line", "pace"):
            orders[name] = self._value(name, seen)
        return orders

    def _bat(self, view: Mapping[str, Any]) -> dict[str, Any]:
        pair = batters_at_crease(view)
        intents = {name: self._value("aggression", situation(view, [name])) for name in pair}
        orders: dict[str, Any] = {
            "ask": ASK,
            "by_batter": [{"batter": name, "aggression": level} for name, level in intents.items()],
            "shot": self._value("shot", situation(view, pair)),
        }
        if view["choices"]["batters"]:
            orders["next_batters"] = [self._player("batter", view, view["choices"]["batters"])]
        return orders

    def _value(self, name: str, seen: Vector, open_to: Sequence[int] | None = None) -> Any:
        values = CHOICES[name]
        places = range(len(values)) if open_to is None else open_to
        choice = self._learner.choose(name, seen, places, best=self._best)
        self.choices.append(choice)
        return values[places[choice.place]]

    def _player(self, role: str, view: Mapping[str, Any], names: Sequence[str]) -> str:
        seen = candidates(view, names, bowling=role == "bowler")
        choice = self._learner.choose(role, seen, range(len(names)), best=self._best)
        self.choices.append(choice)
        return names[choice.place]


def match_of(
    learner: Learner | None, seed: int, *, best: bool = False, reward: str = "decision_value", overs: int = 5
) -> tuple[float, list[Decided]]:
    """Play a match against the heuristic captain.

    Args:
        learner: Captain of the home side; ``None`` for the heuristic captain.
        seed: Seed of the match.
        best: Whether the learner takes its likeliest choices.
        reward: The reward option.
        overs: Overs of an innings.

    Returns:
        The score, and the choices with their rewards until the next choice.
    """
    world = CricketEnvironment()
    asked = {"max_overs": overs, "decisions": "over", "reward": reward, **VARIED}
    options = WORLD.options_type.model_validate(asked).model_dump(mode="json")
    seats = {side: StyledCaptain(STYLES[0], derive_seed(seed, "policy", side)) for side in ("home", "away")}
    captain = None if learner is None else Captain(learner, seats["home"], best=best)
    observation = world.reset(seed=seed, episode_id="learner", options=options)
    decided: list[Decided] = []
    waiting: list[Choice] = []
    total, since, balls = 0.0, 0.0, 0
    while not observation.done:
        if captain is not None and observation.actor == "home":
            decided.append(Decided(waiting, since, balls))
            action, since, balls = captain.act(observation), 0.0, 0
            waiting = captain.choices
        else:
            action = seats[observation.actor or "away"].choose(observation).action
        observation = world.step(action)
        balls += sum(fact.type == "cricket.ball_bowled" for fact in world.facts())
        since += observation.reward
        total += observation.reward
    return total, [*decided, Decided(waiting, since, balls)]


@dataclass(frozen=True, slots=True)
class LearningPlan:
    """Length of the training, and of its measurements.

    Args:
        budget_s: Processor time to learn.
        marks: Measurements after the one at the start.
        fresh: Seeds of a measurement.
        sharp: Seeds of a measurement from ``sharp_from_s`` seconds on.
        sharp_from_s: Time from which the rise is measured.
        matches: Matches at the end for the share won.
    """

    budget_s: float
    marks: int
    fresh: int
    sharp: int
    sharp_from_s: float = 300.0
    matches: int = 600


@dataclass(frozen=True, slots=True)
class Mark:
    """The learner after some matches.

    Args:
        matches: Matches learnt from.
        cpu_s: Processor time of learning, without measurements.
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
        return half(self.values)


def half(values: Sequence[float] | Vector) -> float:
    """Return half of the 95 % interval of a mean."""
    return 1.96 * float(np.std(values, ddof=1)) / float(np.sqrt(len(values)))


def learn(learner: Learner, plan: LearningPlan) -> Iterator[Mark]:
    """Learn; yields a mark at the start and whenever one is due."""
    used, matches, due = 0.0, 0, 0.0
    while True:
        if used >= due:
            seeds = range(FRESH_FROM, FRESH_FROM + (plan.sharp if used >= plan.sharp_from_s else plan.fresh))
            best = matches > 0  # all choices are as likely at the start
            yield Mark(matches, used, [100.0 * match_of(learner, seed, best=best)[0] for seed in seeds])
            due += plan.budget_s / plan.marks
        if used >= plan.budget_s:
            return
        began, decided = time.process_time(), []
        for _ in range(BATCH):
            decided += match_of(learner, TRAINING_FROM + matches)[1]
            matches += 1
        learner.learn(decided)
        used += time.process_time() - began


def rises(marks: Sequence[Mark], since_s: float) -> list[tuple[Mark, Mark, float, float]]:
    """Return how far each later mark is above the first after ``since_s``, seed by seed.

    Both marks play the same matches, so that the luck of the seeds cancels.

    Returns:
        The first mark, the later one, the mean of the differences and half its 95 % interval.
    """
    late = [mark for mark in marks if mark.cpu_s >= since_s]
    found = []
    for mark in late[1:]:
        by = np.subtract(mark.values, late[0].values)
        found.append((late[0], mark, float(by.mean()), half(by)))
    return found


def table_of(marks: Sequence[Mark]) -> list[str]:
    """Return the rows of the curve."""
    rows = [
        "| matches learnt from | processor time | decision value, hundredths of a win a match | seeds |",
        "|---|---|---|---|",
    ]
    return rows + [
        f"| {one.matches:,} | {one.cpu_s:.0f} s | {one.mean:+.2f} ± {one.error:.2f} | {len(one.values)} |"
        for one in marks
    ]


def rises_of(marks: Sequence[Mark], since_s: float) -> list[str]:
    """Return lines on what was still learnt after some time."""
    rows = [
        f"- {first.cpu_s:.0f} s to {last.cpu_s:.0f} s: {by:+.2f} ± {error:.2f}"
        for first, last, by, error in rises(marks, since_s)
    ]
    if not rows:
        return []
    head = f"Rise after {since_s:.0f} s, by the differences on the same {len(marks[-1].values)} fresh seeds:"
    by, error = rises(marks, since_s)[-1][2:]
    verdict = "It still climbs." if by > error else "That it still climbs at the last mark is not shown."
    return ["", head, "", *rows, "", verdict]


def chart_of(marks: Sequence[Mark]) -> str:
    """Return the curve as SVG."""
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

A policy gradient over {parameters:,} weights: a softmax for each part of the orders (intent of each batter,
stroke, field, length, line, pace) over {situation} numbers of the situation, and one for who bowls and who
comes in over {player} numbers of each player. Among them is what suits the batters who are in
(`bat_spin`, `bat_short`, `bat_leg`), pitch, form and tiredness, and how far the rope is in each sector: what
does not fit is paid for ([cricket-game.md](../cricket-game.md)).
It starts from a tool-user's prior, lawful calls with arguments drawn evenly: every stroke, length, line and
pace, every preset and a field crowded on either side. It wants to be asked again after a boundary, at a
wicket and when a new batter comes in.
It plays five-over matches of the pack `varied` (drawn grounds and form, tired bowlers, uneven squads) against
`heuristic` with `decisions=over` and `reward=decision_value`, and learns from what each decision brought
until the next. A critic, least squares on all that it has played, says what each of the choices made together
is worth a ball; the policy climbs along the exact gradient of what the critic says and, by REINFORCE, along
that of what the critic missed. To keep a choice open is worth something to it, so that what is nearly as good
goes on being tried, and its steps grow shorter with their number. {batch} matches a step, one process, numpy
only. Its settings were chosen on seeds from 1,700,000 on, none of which is played here.

Measured on seeds that it never learnt from, the same ones at every mark, with its likeliest choices by the
mean of its last weights (drawn ones at the start) and a 95 % interval; `heuristic` is 0 by definition of the
value. The clock is processor time of learning alone, on a machine with other work on it: an idle one plays
more matches a second. Written by `{command}`.

![Learning curve](cricket-learner.svg)
"""


def page_of(learner: Learner, marks: Sequence[Mark], plan: LearningPlan, shares: str) -> str:
    """Return the page of the curve."""
    command = (
        "OPENBLAS_NUM_THREADS=1 nice -n 5 python -m tools.cricket_learner "
        f"--cpu-seconds {plan.budget_s:g} --marks {plan.marks} --fresh {plan.fresh} --sharp {plan.sharp} "
        f"--matches {plan.matches} --seed {learner.seed} --page"
    )
    words = WORDS.format(
        parameters=sum(one.size for one in learner.weights.values()),
        situation=SITUATION,
        player=PLAYER,
        batch=BATCH,
        command=command,
    )
    return "\n".join([words, *table_of(marks), *rises_of(marks, plan.sharp_from_s), "", shares, ""])


def write(learner: Learner, marks: Sequence[Mark], plan: LearningPlan, shares: str) -> None:
    """Write the curve and its page."""
    (ROOT / "cricket-learner.svg").write_text(chart_of(marks), encoding="utf-8")
    (ROOT / "cricket-learner.md").write_text(page_of(learner, marks, plan, shares), encoding="utf-8")


def won(learner: Learner | None, seeds: Sequence[int]) -> tuple[float, float]:
    """Return the share of wins against the heuristic captain from the home seat.

    Returns:
        The share, and half of its 95 % interval.
    """
    results = [match_of(learner, seed, best=True, reward="result")[0] for seed in seeds]
    return float(np.mean(results)), 1.96 * float(np.std(results, ddof=1)) / len(results) ** 0.5


def main() -> None:
    """Learn, print, and write the page if ``--page`` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu-seconds", type=float, default=600.0, help="processor time to learn")
    parser.add_argument("--marks", type=int, default=6, help="measurements on the way")
    parser.add_argument("--fresh", type=int, default=60, help="seeds of a measurement")
    parser.add_argument("--sharp", type=int, default=400, help="seeds of a measurement after five minutes")
    parser.add_argument("--matches", type=int, default=600, help="matches for the share won at the end")
    parser.add_argument("--seed", type=int, default=1, help="seed of all draws")
    parser.add_argument("--page", action="store_true", help="write the curve and its page")
    asked = parser.parse_args()
    plan = LearningPlan(asked.cpu_seconds, asked.marks, asked.fresh, asked.sharp, matches=asked.matches)
    learner, marks = Learner(asked.seed), []
    for mark in learn(learner, plan):
        marks.append(mark)
        print(f"{mark.matches:6d} {mark.cpu_s:6.0f} s {mark.mean:+.2f} ± {mark.error:.2f}", flush=True)
        if asked.page:
            write(learner, marks, plan, "")
    seeds = range(FRESH_FROM, FRESH_FROM + plan.matches)
    ours, usual = won(learner, seeds), won(None, seeds)
    shares = (
        f"Against `heuristic` from the home seat it wins {100 * ours[0]:.1f} ± {100 * ours[1]:.1f} % of "
        f"{plan.matches} matches; `heuristic` itself wins {100 * usual[0]:.1f} ± {100 * usual[1]:.1f} %."
    )
    print("\n".join([*table_of(marks), *rises_of(marks, plan.sharp_from_s), "", shares]))
    if asked.page:
        write(learner, marks, plan, shares)


if __name__ == "__main__":
    main()
