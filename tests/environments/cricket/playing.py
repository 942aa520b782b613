"""Whole matches for tests: played by named captains, with everything that was seen and said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.world import derive_seed
from spectator.episodes.view import FEED_LENGTH
from spectator.events import Event, Fact
from spectator.json_values import apply_patch
from spectator.narration.commentary import Line
from spectator.observations import Observation
from spectator.policies.policy import ScriptedPolicy

Chooser = Callable[[Observation], Mapping[str, Any]]


SCRIPTED = tuple(name for name, one in WORLD.opponents.items() if one.source != "model" and not one.mirrors)
"""The opponents that decide at once, by name."""


def options(**given: Any) -> dict[str, Any]:
    """Options with their defaults."""
    return WORLD.options_type.model_validate(given).model_dump(mode="json")


def begin(seed: int = 1, **given: Any) -> tuple[CricketEnvironment, Observation]:
    """A new match."""
    environment = CricketEnvironment()
    return environment, environment.reset(seed=seed, episode_id="test", options=options(**given))


def captain(name: str, seed: int) -> ScriptedPolicy:
    """One of the world's captains or opponents."""
    policy = {**WORLD.captains, **WORLD.opponents}[name].build(seed)
    assert isinstance(policy, ScriptedPolicy)
    return policy


@dataclass
class Told:
    """A match as it was seen."""

    environment: CricketEnvironment
    observations: list[Observation] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    _state: dict[str, Any] = field(default_factory=lambda: {"world": {}, "decisions": {}, "feed": {}})
    _lines: list[tuple[Event, Line]] = field(default_factory=list)
    _followed: int = 0

    @property
    def state(self) -> dict[str, Any]:
        """What viewers see of it now."""
        self._follow()
        return self._state

    @property
    def lines(self) -> list[tuple[Event, Line]]:
        """What was said of it, each line with its event."""
        self._follow()
        return self._lines

    @property
    def last(self) -> Observation:
        """What was seen at the end."""
        return self.observations[-1]

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """The data of all facts of a kind."""
        return [fact.data for fact in self.facts if fact.type == f"cricket.{kind}"]

    def note(self, observation: Observation) -> None:
        """Keep what a step brought."""
        self.observations.append(observation)
        self.facts += self.environment.facts()

    def _follow(self) -> None:
        """Fold and comment what happened since; most tests look at neither, and it takes most of the time."""
        while self._followed < len(self.facts):
            fact = self.facts[self._followed]
            self._followed += 1
            event = Event("test", "e", self._followed, "2026-01-01T00:00:00.000Z", 0, fact.type, fact.data)
            patch = WORLD.projection(self._state, event)
            self._state = {**self._state, "world": apply_patch(self._state["world"], patch)}
            self._say(event)

    def _say(self, event: Event) -> None:
        feed = self._state["feed"]
        for line in WORLD.commentator(event, self._state):
            self._lines.append((event, line))
            said = {"text": line.text, "radio": line.radio or "", "reply": line.reply or ""}
            feed = {**feed, f"{len(self._lines):06d}": said}
        self._state = {**self._state, "feed": {key: feed[key] for key in sorted(feed)[-FEED_LENGTH:]}}


def play(
    seed: int = 1, home: str | Chooser = "heuristic", away: str | Chooser = "heuristic", **given: Any
) -> Told:
    """Play a match to its end.

    Args:
        seed: Its seed; captains derive theirs from it.
        home: Name of the home captain, or a function from observations to actions.
        away: The same for the away captain.
        given: Options.
    """
    environment, observation = begin(seed, **given)
    told = Told(environment)
    named = {**WORLD.captains, **WORLD.opponents}
    labels = {"home": home, "away": away}
    seats = {side: {"label": named[one].label} for side, one in labels.items() if isinstance(one, str)}
    told.state["episode"] = {"options": options(**given), "seats": seats}
    told.note(observation)
    choosers = {
        "home": _chooser(home, derive_seed(seed, "policy", "home")),
        "away": _chooser(away, derive_seed(seed, "policy", "away")),
    }
    while not observation.done:
        assert observation.actor is not None
        observation = environment.step(choosers[observation.actor](observation))
        told.note(observation)
    return told


def last_of(seed: int, home: str | Chooser, away: str | Chooser = "heuristic", **given: Any) -> Observation:
    """The last observation of a match that nobody watches."""
    environment, observation = begin(seed, **given)
    who: dict[str, str | Chooser] = {"home": home, "away": away}
    choosers = {side: _chooser(captain, derive_seed(seed, "policy", side)) for side, captain in who.items()}
    while not observation.done:
        assert observation.actor is not None
        observation = environment.step(choosers[observation.actor](observation))
        environment.facts()
    return observation


def _chooser(who: str | Chooser, seed: int) -> Chooser:
    if not isinstance(who, str):
        return who
    policy = captain(who, seed)
    return lambda observation: policy.choose(observation).action


def advance(
    environment: CricketEnvironment, observation: Observation, until: Callable[[Observation], bool]
) -> Observation:
    """Go on with every first legal tool and no arguments until something holds."""
    while not until(observation):
        assert not observation.done, "it never came to that"
        observation = environment.step({"tool": observation.legal_actions[0]["tool"]})
    return observation


def tools_of(observation: Observation) -> list[str]:
    """Names of the legal tools."""
    return [legal["tool"] for legal in observation.legal_actions]
