"""Training examples: situations with the teacher's sentence and its uncertainty.

The teacher is the planner's own lookahead, with the value of each of its options.

Usage: python -m spectator.environments.cricket.recipe.examples FIRST_SEED SECONDS WORDS.json OUT.npz
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.ball.situation import LINES, PLANNED_LENGTHS, SHOTS, DeliveryPlan
from spectator.environments.cricket.captaincy.lookahead import (
    INTENTS,
    MIN_CALL_GAIN,
    SeenBall,
    balls_covered,
    best_order,
    category_values,
    fields,
    mean_value,
    repeated,
    situation_of,
    striker_boundaries,
)
from spectator.environments.cricket.captaincy.planner import OversAhead, PlannerCaptain
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.match.engine import VARIED
from spectator.environments.cricket.match.field import legal_presets
from spectator.environments.cricket.trained.network import Tokenizer, vocabulary, words_of
from spectator.environments.cricket.trained.perception import PACKED, Sight
from spectator.environments.cricket.trained.speech import ORDER_PARTS, SpokenOrder, WordChoice, calls_of
from spectator.environments.world import derive_seed
from spectator.observations import Observation
from spectator.policies.policy import ScriptedPolicy

SHARPNESS: Final = 0.004
"""Loss, as a share of a boundary's value, that makes an option e times less likely."""

Gains = Mapping[Any, float]
"""Value of each option to the side that decides, in shares of a boundary."""


Intent = Literal["attack", "aggression"]


class _RecordingPlanner(PlannerCaptain):
    """A planner that keeps the costs of the remaining overs."""

    last: OversAhead | None = None

    def overs_ahead(self, view: Mapping[str, Any]) -> OversAhead:
        self.last = super().overs_ahead(view)
        return self.last


class Teacher:
    """The teacher of one side through a match."""

    def __init__(self, seed: int) -> None:
        self.planner = _RecordingPlanner(seed)
        self._gains: dict[tuple[str, Any], Gains] = {}
        self._sure: dict[str, Any] = {}

    def look(self, observation: Observation, sight: Sight) -> dict[str, Any]:
        """Value a decision for :meth:`weights`, and return the planner's action."""
        self.planner.last = None
        decision = self.planner.choose(observation)
        self._gains, self._sure = {}, {}
        arguments = decision.action["arguments"]
        if sight.role in ("toss", "elect"):
            self._sure["elect"] = arguments["elect"]
        elif sight.role == "bowl":
            name = arguments.get("bowler")
            if sight.bowlers:
                slot = sight.slots.get(name, "")
                slot = slot if slot in sight.bowlers else next(iter(sight.bowlers))
                name = sight.names[slot]
                self._gains["by", ""] = self._look_at_bowlers(sight, slot)
            self._look_at_bowling(sight.view, name)
        elif sight.role == "bat":
            self._look_at_batting(sight)
        return dict(decision.action)

    def weights(self, choice: WordChoice) -> list[float]:
        """Return the probability weight of each option of an order's part."""
        values = [option.value for option in choice.options]
        if choice.part in self._sure:
            return [float(one == self._sure[choice.part]) for one in values]
        gains = self._gains[choice.part, choice.about]
        best = max(gains.values())
        return [math.exp((gains.get(one, -1e9) - best) / SHARPNESS) for one in values]

    def _look_at_bowlers(self, sight: Sight, chosen: str) -> Gains:
        """Value giving the next over to each bowler, followed by the best order of overs."""
        ahead = self.planner.last
        if ahead is None or not ahead.costs:
            return {chosen: 0.0}
        gains = {}
        for at, name in enumerate(ahead.names):
            slot = sight.slots[name]
            if slot not in sight.bowlers or at == ahead.resting:
                continue
            left = [rest - (one == at) for one, rest in enumerate(ahead.left)]
            order = [at, *best_order(ahead.costs[1:], left, at)]
            if len(order) == len(ahead.costs):
                gains[slot] = -sum(row[by] for row, by in zip(ahead.costs, order, strict=True))
        worth = _worth([situation_of(sight.view)])
        gains = {slot: gain / worth for slot, gain in gains.items()}
        return gains | {chosen: max(gains.values(), default=0.0) + MIN_CALL_GAIN}

    def _look_at_bowling(self, view: Mapping[str, Any], bowler: str) -> None:
        balls = balls_covered(view, [bowler])
        worth = _worth(balls)
        plans: dict[tuple[str | None, str | None], list[SeenBall]] = {(None, None): balls}
        for length in (None, *PLANNED_LENGTHS):
            for line in (None, *LINES):
                if length or line:
                    plans[length, line] = [repeated(ball, DeliveryPlan(length, line)) for ball in balls]
        gains = {plan: -mean_value(bowled) / worth for plan, bowled in plans.items()}
        gains[None, None] += MIN_CALL_GAIN
        lengths = (None, *PLANNED_LENGTHS)
        self._gains["length", ""] = {one: max(gains[one, line] for line in (None, *LINES)) for one in lengths}
        for length in lengths:
            self._gains["line", length or ""] = {line: gains[length, line] for line in (None, *LINES)}
        balls = plans[max(gains, key=lambda plan: gains[plan])]
        limit = view["outside_limit"]
        names = [*(name.replace("_", " ") for name in legal_presets(limit)), *PACKED]
        shapes = dict(zip(names, (one.shape for one in fields(limit, striker_boundaries(view))), strict=True))
        found = {
            name: -mean_value([replace(ball, field=shape) for ball in balls]) / worth
            for name, shape in shapes.items()
        }
        found["standard"] += MIN_CALL_GAIN
        self._gains["field", ""] = found
        best = max(found, key=lambda name: found[name])
        balls = [replace(ball, field=shapes[best]) for ball in balls]
        self._gains["attack", ""] = _levels(balls, "attack", -1.0 / worth)

    def _look_at_batting(self, sight: Sight) -> None:
        view = sight.view
        bowler = [] if view["bowler"] is None else [view["bowler"]["name"]]
        shape = situation_of(view).field
        balls = [replace(ball, field=shape) for ball in balls_covered(view, bowler)]
        worth = _worth(balls)
        by_shot = {shot: [replace(ball, shot=shot) for ball in balls] for shot in (None, *SHOTS)}
        gains = {shot: mean_value(played) / worth for shot, played in by_shot.items()}
        gains[None] += MIN_CALL_GAIN
        self._gains["shot", ""] = gains
        balls = by_shot[max(gains, key=lambda shot: gains[shot])]
        for slot in sight.batters:
            own = [ball for ball in balls if ball.striker.name == sight.names[slot]]
            self._gains["level", slot] = _levels(own, "aggression", 1.0 / worth)


def _at_level(ball: SeenBall, intent: Intent, level: float) -> SeenBall:
    return replace(ball, attack=level) if intent == "attack" else replace(ball, aggression=level)


def _levels(balls: Sequence[SeenBall], intent: Intent, factor: float) -> Gains:
    gains = {
        level: factor * mean_value([_at_level(ball, intent, level) for ball in balls]) for level in INTENTS
    }
    gains[0.5] += MIN_CALL_GAIN
    return gains


def _worth(balls: Sequence[SeenBall]) -> float:
    """Return the value of a boundary in this situation."""
    worth = category_values(balls[0])
    return max(1e-6, float(worth[4] - worth[0]))


OTHERS: Final = (
    "heuristic", "aggressive", "anchor", "defensive", "spin_first", "tactician", "match_ups", "blocker",
    "random",
)  # fmt: skip
"""Captains that share matches with the teacher, so that it meets every kind of situation."""
NOISE: Final = (0.0, 0.0, 0.15, 0.3)
"""Shares of orders that are replaced by random ones."""


@dataclass
class Example:
    """One sentence to learn.

    Args:
        ids: Tokens of the situation, then of the sentence.
        begins: Index of the sentence's first token.
        allowed: Tokens allowed at each of them.
        acts: Whether each choice has an effect or is only words.
    """

    seed: int
    ids: list[int]
    begins: int
    at: list[int] = field(default_factory=list)
    allowed: list[list[int]] = field(default_factory=list)
    shares: list[list[float]] = field(default_factory=list)
    acts: list[bool] = field(default_factory=list)


def options_of_match(rng: random.Random) -> dict[str, Any]:
    """Draw a training match's options: mostly five overs, all circumstances."""
    overs = rng.choices((5, 20, 10, rng.randint(1, 20)), (0.68, 0.14, 0.1, 0.08))[0]
    options: dict[str, Any] = {"max_overs": overs, "decisions": "over", "reward": "result"}
    options["profile"] = rng.choices(("men", "women", "associates"), (0.6, 0.35, 0.05))[0]
    if rng.random() < 0.6:
        options |= VARIED
    else:
        options |= {name: value for name, value in VARIED.items() if rng.random() < 0.5}
    if rng.random() < 0.15:
        options["start"] = rng.choice(("chase", "defend", "death", "collapse", "super_over"))
    return plain_options(options)


def plain_options(options: dict[str, Any]) -> dict[str, Any]:
    """Complete the options of a match."""
    return WORLD.options_type.model_validate(options).model_dump(mode="json")


def scripted(name: str, seed: int) -> ScriptedPolicy:
    """Build a scripted captain of the catalogue."""
    captain = WORLD.captains[name].build(seed)
    assert isinstance(captain, ScriptedPolicy)
    return captain


def play_match(seed: int, shown: Callable[[Observation, Sight, Teacher], None]) -> None:
    """Play a match and pass each decision to ``shown``, with its teacher."""
    rng = random.Random(derive_seed(seed, "captain", "examples"))
    world = CricketEnvironment()
    observation = world.reset(seed=seed, episode_id="examples", options=options_of_match(rng))
    teachers = {side: Teacher(derive_seed(seed, "policy", side)) for side in ("home", "away")}
    names = {side: "" if rng.random() < 0.5 else rng.choice(OTHERS) for side in teachers}
    others = {side: scripted(name, derive_seed(seed, "other", side)) for side, name in names.items() if name}
    noise = rng.choice(NOISE)
    while not observation.done:
        side = observation.actor or ""
        sight = Sight(observation.content, [one["tool"] for one in observation.legal_actions])
        action: Mapping[str, Any] = teachers[side].look(observation, sight)
        shown(observation, sight, teachers[side])
        if side in others:
            action = others[side].choose(observation).action
        if sight.role in ("bowl", "bat") and rng.random() < noise:
            action = _at_random(sight, rng)
        following = world.step(action)
        if following.refused:
            following = world.step(teachers[side].look(observation, sight))
        world.facts()
        observation = following


def _at_random(sight: Sight, rng: random.Random) -> dict[str, Any]:
    speech = SpokenOrder(sight, _GrowingVocabulary())
    while speech.allowed:
        speech.take(rng.choice(speech.allowed))
    tool, arguments = calls_of(sight, speech.order or {})[-1]
    return {"tool": tool, "arguments": arguments}


class _GrowingVocabulary(Tokenizer):
    """A tokenizer that adds every word it meets."""

    def __init__(self) -> None:
        super().__init__(["<?>"])

    def encode(self, text: str) -> list[int]:
        self.learn(words_of(text))
        return super().encode(text)


def words_of_play(matches: int, seed: int) -> list[str]:
    """Return the vocabulary: every word of this many matches with random orders."""
    growing, rng = _GrowingVocabulary(), random.Random(seed)
    for number in range(matches):
        world = CricketEnvironment()
        options = options_of_match(rng) | ({} if number % 4 else {"decisions": "ball"})
        observation = world.reset(
            seed=derive_seed(seed, "words", number), episode_id="words", options=options
        )
        while not observation.done:
            sight = Sight(observation.content, [one["tool"] for one in observation.legal_actions])
            growing.encode(sight.text())
            speech = SpokenOrder(sight, growing)
            while speech.allowed:
                speech.take(rng.choice(speech.allowed))
            tool, arguments = calls_of(sight, speech.order or {})[-1]
            observation = world.step({"tool": tool, "arguments": arguments})
            world.facts()
    return vocabulary(growing.words[1:])


def taught(seed: int, sight: Sight, teacher: Teacher, tokenizer: Tokenizer, rng: random.Random) -> Example:
    """Return the teacher's sentence for a situation."""
    speech = SpokenOrder(sight, tokenizer)
    prompt = tokenizer.encode(sight.text())
    example = Example(seed, prompt, len(prompt))
    while speech.allowed:
        choice = speech.choice
        acts = choice.part in ORDER_PARTS
        wanted = teacher.weights(choice) if acts else [option.weight for option in choice.options]
        shares = speech.weights(dict(enumerate(wanted)))
        example.at.append(len(prompt) + len(speech.ids))
        example.allowed.append(list(speech.allowed))
        example.shares.append(shares)
        example.acts.append(acts)
        if acts:
            taken = max(range(len(shares)), key=lambda one: shares[one])
        else:
            taken = rng.choices(range(len(shares)), shares)[0] if sum(shares) else 0
        speech.take(speech.allowed[taken])
    example.ids = prompt + speech.ids
    return example


EASY_EXAMPLE_SHARE: Final = 0.3
"""Share of tosses, plans and openers that are kept, since they are all alike."""


def examples_of(seed: int, tokenizer: Tokenizer) -> list[Example]:
    """Return the examples of one match."""
    rng, found = random.Random(derive_seed(seed, "captain", "sentences")), list[Example]()

    def shown(observation: Observation, sight: Sight, teacher: Teacher) -> None:
        if sight.role in ("bowl", "bat") or rng.random() < EASY_EXAMPLE_SHARE:
            found.append(taught(seed, sight, teacher, tokenizer, rng))

    play_match(seed, shown)
    return found


def save(examples: Sequence[Example], path: Path) -> None:
    """Write examples as flat arrays."""
    ids = [one for example in examples for one in example.ids]
    places = [one for example in examples for one in example.at]
    allowed = [one for example in examples for place in example.allowed for one in place]
    shares = [one for example in examples for place in example.shares for one in place]
    partial = path.with_name(f".{path.name}")
    np.savez_compressed(
        partial,
        seed=np.array([example.seed for example in examples], np.int64),
        length=np.array([len(example.ids) for example in examples], np.int32),
        begins=np.array([example.begins for example in examples], np.int32),
        choices=np.array([len(example.at) for example in examples], np.int32),
        options=np.array([len(place) for example in examples for place in example.allowed], np.int32),
        acts=np.array([act for example in examples for act in example.acts], np.uint8),
        ids=np.array(ids, np.uint16),
        at=np.array(places, np.uint16),
        allowed=np.array(allowed, np.uint16),
        shares=np.array(shares, np.float16),
    )
    partial.rename(path)


def load(path: Path) -> Iterator[Example]:
    """Read the examples of a file."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    ends = np.cumsum(arrays["length"])
    last = np.cumsum(arrays["choices"])
    stops = np.concatenate([[0], np.cumsum(arrays["options"])])
    for number, end in enumerate(ends):
        begin = last[number] - arrays["choices"][number]
        places = range(begin, last[number])
        yield Example(
            int(arrays["seed"][number]),
            arrays["ids"][end - arrays["length"][number] : end],
            int(arrays["begins"][number]),
            arrays["at"][begin : last[number]],
            [arrays["allowed"][stops[place] : stops[place + 1]] for place in places],
            [arrays["shares"][stops[place] : stops[place + 1]] for place in places],
            arrays["acts"][begin : last[number]],
        )


def main(arguments: Sequence[str]) -> None:
    """Write examples for a number of seconds, in files of about 5,000."""
    first, seconds, words, out = int(arguments[0]), float(arguments[1]), Path(arguments[2]), arguments[3]
    tokenizer, start = Tokenizer(json.loads(words.read_text())), time.monotonic()
    seed, part, found = first, 0, list[Example]()
    while time.monotonic() - start < seconds:
        found += examples_of(seed, tokenizer)
        seed += 1
        if len(found) >= 5000:
            save(found, Path(out.format(part)))
            found, part = [], part + 1
    if found:
        save(found, Path(out.format(part)))


if __name__ == "__main__":
    main(sys.argv[1:])
